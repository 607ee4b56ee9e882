"""A trace in memory, for tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from recshard.trace.base import DEFAULT_BATCH, Bag, Batch


@dataclass(frozen=True)
class MemoryTrace:
    """Samples given as lists: `{"item": [[1, 2], [], [3]]}` is one feature in three samples."""

    samples: Mapping[str, Sequence[Sequence[int]]]
    name: str = "memory"

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(self.samples)

    def batches(self, batch_size: int = DEFAULT_BATCH) -> Iterator[Batch]:
        count = len(next(iter(self.samples.values())))
        for begin in range(0, count, batch_size):
            bags = {}
            for feature, rows in self.samples.items():
                part = rows[begin : begin + batch_size]
                values = np.array([i for row in part for i in row], dtype=np.int64)
                bags[feature] = Bag(values, np.array([len(row) for row in part], dtype=np.int64))
            yield Batch(min(batch_size, count - begin), bags)
