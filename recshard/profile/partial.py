"""Partial counts: what is known after a part of a trace, kept, sent and merged without loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recshard.profile.counted import Counted, Dense, InMemory
from recshard.profile.kernels import merge_pairs
from recshard.profile.lengths import Lengths
from recshard.profile.pairs import joined
from recshard.profile.spill import Run, SpillFolder, merge_groups


@dataclass(frozen=True)
class Partial:
    """Exact counts of a part of a trace.

    Attributes:
        samples: samples counted.
        features: how many samples have how many IDs, by feature.
        tables: the same for each table over all its features, in table order.
        counts: distinct raw IDs (rows, where IDs are rows) and their counts, a list for each table: an ID may
            stand in several of a table's parts.
    """

    samples: int
    features: dict[str, Lengths]
    tables: tuple[Lengths, ...]
    counts: tuple[tuple[Counted, ...], ...]

    def plus(self, other: Partial) -> Partial:
        """Return the counts of both parts; nothing is added up yet."""
        return Partial(
            self.samples + other.samples,
            {name: lengths.plus(other.features[name]) for name, lengths in self.features.items()},
            tuple(mine.plus(theirs) for mine, theirs in zip(self.tables, other.tables, strict=True)),
            tuple((*mine, *theirs) for mine, theirs in zip(self.counts, other.counts, strict=True)),
        )


def add_up(parts: tuple[Counted, ...], folder: Callable[[], SpillFolder]) -> Counted:
    """Return the parts of one table's counts as one, every ID once: in memory if all parts are, else on disk."""
    if len(parts) == 1:
        return parts[0]
    in_memory = [_pairs(part) for part in parts if not isinstance(part, Run)]
    if len(in_memory) == len(parts):
        while len(in_memory) > 1:
            pairs = [in_memory[k : k + 2] for k in range(0, len(in_memory), 2)]
            in_memory = [pair[0] if len(pair) == 1 else _sum(*pair) for pair in pairs]
        return in_memory[0]
    runs = [part if isinstance(part, Run) else folder().write(part.chunks()) for part in parts]
    return folder().write(merge_groups(runs, folder()))


def _pairs(counted: InMemory | Dense) -> InMemory:
    return counted if isinstance(counted, InMemory) else loaded(counted)


def loaded(counted: Counted) -> InMemory:
    """Return counts as IDs and counts in memory."""
    return InMemory(*joined(list(counted.chunks())))


def _sum(left: InMemory, right: InMemory) -> InMemory:
    return InMemory(*merge_pairs(*left.ordered(), *right.ordered()))
