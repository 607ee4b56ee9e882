"""`user item item …` lines: one user and the bag of their items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recshard.errors import InputError
from recshard.trace.base import DEFAULT_BATCH, Bag, Batch
from recshard.trace.columns import Place, to_bag
from recshard.trace.lines import TextFile
from recshard.trace.rebatch import rebatch

_WAY_OUT = "lines are a user and their items, separated by blanks"


@dataclass(frozen=True)
class BagsTrace:
    """A file of bags: two features, the first with one ID a line, the second with all others.

    A line with a user alone is an empty bag; an empty line is a sample without either.
    """

    file: TextFile
    features: tuple[str, ...]
    encoding: str

    @property
    def name(self) -> str:
        return self.file.name

    def batches(self, batch_size: int = DEFAULT_BATCH) -> Iterator[Batch]:
        return rebatch(self._chunks(), batch_size)

    def _chunks(self) -> Iterator[Batch]:
        import pyarrow.compute as pc

        owner, items = self.features
        for first, lines in self.file.line_chunks(self.encoding):
            place = Place(self.name, first, "line", _WAY_OUT)
            # An empty line has no tokens; splitting would give it an empty one.
            trimmed = pc.utf8_trim_whitespace(lines)
            tokens = pc.utf8_split_whitespace(pc.if_else(pc.equal(trimmed, ""), None, trimmed))
            whole = to_bag(tokens, items, place)
            begin = np.cumsum(whole.lengths) - whole.lengths
            any_id = whole.lengths > 0
            is_owner = np.zeros(len(whole.values), dtype=bool)
            is_owner[begin[any_id]] = True
            yield Batch(
                len(whole.lengths),
                {
                    owner: Bag(whole.values[is_owner], any_id.astype(np.int64)),
                    items: Bag(whole.values[~is_owner], whole.lengths - any_id),
                },
            )


def open_bags(path: Path, names: tuple[str, ...], encoding: str) -> BagsTrace:
    """Return the trace in a file of bags; its features are `user` and `item` unless named.

    Raises:
        InputError: names that are not two.
    """
    if names and len(names) != 2:
        raise InputError(f"{path}: names: found {len(names)}; accepted: two, of the first ID and of the others")
    return BagsTrace(TextFile(path), names or ("user", "item"), encoding)
