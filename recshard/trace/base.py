"""The one interface of every trace: named features, streamed in batches of samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]

DEFAULT_BATCH = 65536


@dataclass(frozen=True)
class Bag:
    """One feature's IDs over a batch.

    Attributes:
        values: raw IDs, sample after sample, int64, shape (lookups,); never negative.
        lengths: IDs of each sample, int64, shape (samples,); 0 where the feature is absent.
    """

    values: IntArray
    lengths: IntArray


@dataclass(frozen=True)
class Batch:
    """Consecutive samples of a trace: how many, and one `Bag` per feature."""

    samples: int
    bags: Mapping[str, Bag]


@runtime_checkable
class Trace(Protocol):
    """A source of samples that can be read from its start any number of times."""

    @property
    def name(self) -> str:
        """How messages name it, usually the path."""
        ...

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features, in order."""
        ...

    def batches(self, batch_size: int = DEFAULT_BATCH) -> Iterator[Batch]:
        """Yield batches of `batch_size` samples (the last may be smaller), in the trace's order.

        Raises:
            InputError: the source is missing or malformed; names file, row and field.
        """
        ...
