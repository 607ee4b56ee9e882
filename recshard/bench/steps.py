"""Steps: the batches that every contender looks up, consecutive samples of a trace that begins anew at its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count

import numpy as np

from recshard.errors import InputError
from recshard.tables import TableSet
from recshard.trace.base import DEFAULT_BATCH, Batch, IntArray, Trace
from recshard.trace.hashing import to_rows
from recshard.trace.rebatch import rebatch

Rows = Mapping[str, tuple[IntArray, IntArray]]


class Endless:
    """The batches of a trace without an end; an iterator, since how far it has got is what is asked of it.

    Attributes:
        passes: how often the trace was begun.
        taken: samples given so far.
    """

    def __init__(self, trace: Trace, batch_size: int) -> None:
        self.passes = self.taken = 0
        self._trace = trace
        self._batches = rebatch(self._chunks(batch_size), batch_size)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        batch = next(self._batches)
        self.taken += batch.samples
        return batch

    def _chunks(self, batch_size: int) -> Iterator[Batch]:
        for number in count():
            self.passes = number + 1
            samples = 0
            for batch in self._trace.batches(batch_size):
                samples += batch.samples
                yield batch
            if not samples:
                raise InputError(f"{self._trace.name}: the trace is empty; a bench needs at least one sample")


def rows_of(batch: Batch, tables: TableSet, source: str) -> Rows:
    """Return the rows of every feature of a batch, and how many each sample has.

    Raises:
        InputError: an ID outside of its table.
    """
    index = tables.table_index
    return {
        feature: (_own(to_rows(bag.values, tables.tables[index[feature]], feature, source)), _own(bag.lengths))
        for feature, bag in batch.bags.items()
        if feature in index
    }


def _own(array: IntArray) -> IntArray:
    """Return an array that torch may share: what is read from Parquet is not to be written."""
    return np.require(array, requirements="W")


@dataclass(frozen=True)
class Excerpt:
    """Some batches of a trace, as a trace."""

    name: str
    features: tuple[str, ...]
    chosen: Iterable[Batch]

    def batches(self, batch_size: int = DEFAULT_BATCH) -> Iterator[Batch]:
        return rebatch(self.chosen, batch_size)
