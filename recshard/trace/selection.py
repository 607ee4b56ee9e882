"""Part of a trace: samples by a Python slice, features by name."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recshard.errors import InputError, nearest
from recshard.tables import TableSet
from recshard.trace.base import DEFAULT_BATCH, Bag, Batch, Trace
from recshard.trace.concatenated import Concatenated, parts
from recshard.trace.hashing import sampled
from recshard.trace.rebatch import rebatch
from recshard.trace.synthetic import SyntheticTrace


@dataclass(frozen=True)
class _Chosen(ABC):
    """Some of the samples of a trace, chosen by their numbers."""

    trace: Trace

    @property
    def features(self) -> tuple[str, ...]:
        return self.trace.features

    def batches(self, batch_size: int = DEFAULT_BATCH) -> Iterator[Batch]:
        return rebatch(self._chunks(batch_size), batch_size)

    def _chunks(self, batch_size: int) -> Iterator[Batch]:
        begin = 0
        for batch in self.trace.batches(batch_size):
            kept = self._kept(begin, batch.samples)
            if kept is None:
                return
            begin += batch.samples
            if kept.any():
                yield _keep(batch, kept)

    @abstractmethod
    def _kept(self, begin: int, samples: int) -> NDArray[np.bool_] | None:
        """Return which samples from number `begin` on are chosen, shape (samples,); None where none will be."""


@dataclass(frozen=True)
class _Taken(_Chosen):
    samples: slice
    name: str

    def _kept(self, begin: int, samples: int) -> NDArray[np.bool_] | None:
        start, stop, step = self.samples.start or 0, self.samples.stop, self.samples.step or 1
        if stop is not None and begin >= stop:
            return None
        index = np.arange(begin, begin + samples)
        kept: NDArray[np.bool_] = (index >= start) & ((index - start) % step == 0)
        if stop is not None:
            kept &= index < stop
        return kept


def _keep(batch: Batch, kept: NDArray[np.bool_]) -> Batch:
    bags = {
        feature: Bag(bag.values[np.repeat(kept, bag.lengths)], bag.lengths[kept])
        for feature, bag in batch.bags.items()
    }
    return Batch(int(np.count_nonzero(kept)), bags)


def take(trace: Trace, samples: slice) -> Trace:
    """Return the samples of `trace` that a slice selects: `slice(0, None, 2)` is every other one from the first.

    Raises:
        InputError: a negative bound, or a step below 1.
    """
    for value in (samples.start, samples.stop):
        if value is not None and value < 0:
            raise InputError(f"samples: found {value}; accepted: sample numbers from 0")
    if samples.step is not None and samples.step < 1:
        raise InputError(f"samples: found a step of {samples.step}; accepted: 1 or more")
    if samples == slice(None):
        return trace
    text = ":".join("" if v is None else str(v) for v in (samples.start, samples.stop, samples.step))
    return _Taken(trace, samples, f"{trace.name}[{text.removesuffix(':')}]")


def parse_samples(text: str) -> slice:
    """Return the slice that text such as `"0::2"` or `":50000"` stands for.

    Raises:
        InputError: the text is no `START:STOP:STEP`.
    """
    match = re.fullmatch(r"(\d*):(\d*)(?::(\d*))?", text.strip())
    if match is None:
        raise InputError(
            f"samples: found '{text}'; accepted: START:STOP:STEP in whole numbers, each of which may be left out, "
            "such as ':50000' or '1::2'"
        )
    start, stop, step = (int(group) if group else None for group in match.groups())
    return slice(start, stop, step)


@dataclass(frozen=True)
class Sampled(_Chosen):
    """A random share of a trace's samples.

    Attributes:
        trace: the trace, or a part of a file.
        share: of samples that are chosen.
        seed: the user's, and the number of the file.
        first: number in its file of the trace's first sample.
    """

    share: float
    seed: tuple[int, int]
    first: int = 0

    @property
    def name(self) -> str:
        return self.trace.name

    def _kept(self, begin: int, samples: int) -> NDArray[np.bool_]:
        return sampled(self.first + begin, samples, self.share, self.seed)


def sample(trace: Trace, share: float, seed: int = 0) -> Trace:
    """Return about `share` of the samples of `trace`, chosen at random.

    Whether a sample is chosen depends on the seed, the number of its file in the list of files and its own number
    in the file, and on nothing else: whoever reads a part of these files chooses the same samples there.

    Raises:
        InputError: a share that is not above 0 and at most 1, or a negative seed.
    """
    if seed < 0:
        raise InputError(f"seed: found {seed}; accepted: whole numbers from 0")
    if not 0 < share <= 1:
        raise InputError(f"sample: found {share}; accepted: a share above 0 and at most 1, such as 0.01")
    if share == 1:
        return trace
    chosen = tuple(Sampled(part, share, (seed, number)) for number, part in enumerate(parts(trace)))
    return chosen[0] if len(chosen) == 1 else Concatenated(chosen)


def is_slice(trace: Trace) -> bool:
    """Whether `trace` has the samples of another that `take` counts from its start."""
    return isinstance(trace, _Taken) or (isinstance(trace, Sampled | _Selected) and is_slice(trace.trace))


def inside(trace: Trace) -> tuple[Trace, Callable[[int], int]] | None:
    """Return the trace that `trace` is a part of, and how many samples the part has of so many; else None."""
    if isinstance(trace, _Taken):
        return trace.trace, lambda samples: len(range(samples)[trace.samples])
    if isinstance(trace, Sampled):
        return trace.trace, lambda samples: round(trace.share * samples)
    if isinstance(trace, _Selected):
        return trace.trace, lambda samples: samples
    return None


def source_of(trace: Trace) -> Trace:
    """Return the trace that `trace` is a part of, of whatever kind the part is."""
    within = inside(trace)
    return trace if within is None else source_of(within[0])


def sampled_share(trace: Trace) -> float:
    """Return which share of the samples of its source a trace has, as far as `sample` chose them; otherwise 1."""
    first = parts(trace)[0]
    if isinstance(first, Sampled):
        return first.share * sampled_share(first.trace)
    return sampled_share(first.trace) if isinstance(first, _Taken | _Selected) else 1.0


@dataclass(frozen=True)
class _Selected:
    trace: Trace
    features: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.trace.name

    def batches(self, batch_size: int = DEFAULT_BATCH) -> Iterator[Batch]:
        for batch in self.trace.batches(batch_size):
            yield Batch(batch.samples, {feature: batch.bags[feature] for feature in self.features})


def select(trace: Trace, features: Sequence[str]) -> Trace:
    """Return `trace` with only the named features, in that order.

    Raises:
        InputError: the trace has no such feature; lists those it has.
    """
    for feature in features:
        if feature not in trace.features:
            raise InputError(
                f"{trace.name}: no column '{feature}'{nearest(feature, trace.features)}; present: "
                f"{', '.join(trace.features)}"
            )
    if tuple(features) == trace.features:
        return trace
    chosen = tuple(_Selected(part, tuple(features)) for part in parts(trace))
    return chosen[0] if len(chosen) == 1 else Concatenated(chosen)


def declared_tables(trace: Trace) -> TableSet | None:
    """Return the tables that a synthetic trace's recipe declares, of the features that are left; else None."""
    if isinstance(trace, SyntheticTrace):
        return trace.tables
    if isinstance(trace, _Taken | Sampled):
        return declared_tables(trace.trace)
    if isinstance(trace, _Selected):
        tables = declared_tables(trace.trace)
        if tables is not None:
            kept = tuple(table for table in tables.tables if table.features[0] in trace.features)
            return tables.with_tables(kept)
    return None
