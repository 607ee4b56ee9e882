"""How many IDs samples have: the exact distribution behind pooling factor and coverage."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from recshard.profile.kernels import all_equal, count_lengths
from recshard.trace.base import IntArray

_DENSE = 1 << 8


@dataclass(frozen=True, eq=False)
class Lengths:
    """The number of samples with each number of IDs.

    Attributes:
        length: the distinct numbers of IDs that samples have, rising, shape (k,); 0 where there are none.
        samples: how many samples have each, shape (k,).
    """

    length: IntArray
    samples: IntArray

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Lengths)
            and np.array_equal(self.length, other.length)
            and np.array_equal(self.samples, other.samples)
        )

    def __hash__(self) -> int:
        return hash((self.length.tobytes(), self.samples.tobytes()))

    @cached_property
    def all_samples(self) -> int:
        """Samples, those without an ID among them."""
        return int(self.samples.sum())

    @cached_property
    def present(self) -> int:
        """Samples that have any ID."""
        return int(self.samples[self.length > 0].sum())

    @cached_property
    def lookups(self) -> int:
        """IDs of all samples."""
        return int(np.dot(self.length, self.samples))

    @property
    def coverage(self) -> float:
        """Share of samples that have any ID."""
        return self.present / self.all_samples if self.all_samples else 0.0

    @property
    def pooling_factor(self) -> float:
        """IDs per sample that has any; 0 where none has."""
        return self.lookups / self.present if self.present else 0.0

    def percentile(self, share: float) -> int:
        """Return the number of IDs that `share` of the samples with any do not exceed; 0 where none has any."""
        some = self.length > 0
        if not self.present:
            return 0
        reached = np.cumsum(self.samples[some])
        wanted = math.ceil(Fraction(str(float(share))) * self.present)
        return int(self.length[some][np.searchsorted(reached, wanted)])

    def plus(self, other: Lengths) -> Lengths:
        """Return the distribution over the samples of both."""
        length, where = np.unique(np.concatenate([self.length, other.length]), return_inverse=True)
        samples = np.zeros(len(length), dtype=np.int64)
        np.add.at(samples, where, np.concatenate([self.samples, other.samples]))
        return Lengths(length, samples)


NO_LENGTHS = Lengths(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


class LengthCounter:
    """Counts numbers of IDs: small ones in an array, the others, which are few, by name."""

    def __init__(self) -> None:
        self._small = np.zeros(_DENSE, dtype=np.int64)
        self._large: Counter[int] = Counter()

    def add(self, lengths: IntArray) -> None:
        """Count samples that have `lengths` IDs, shape (samples,)."""
        if len(lengths) and all_equal(lengths) and lengths[0] < _DENSE:
            self._small[lengths[0]] += len(lengths)  # of a column with one ID a row, say
        elif count_lengths(lengths, self._small):
            self._large.update(lengths[lengths >= _DENSE].tolist())

    def result(self) -> Lengths:
        """Return the distribution so far."""
        small = np.flatnonzero(self._small)
        large = sorted(self._large)
        return Lengths(
            np.concatenate([small, np.array(large, dtype=np.int64)]),
            np.concatenate([self._small[small], np.array([self._large[n] for n in large], dtype=np.int64)]),
        )
