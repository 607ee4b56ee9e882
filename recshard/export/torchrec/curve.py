"""Cache curve: how many of a step's rows a cache of a table's hottest rows lacks, from frequency classes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from recshard.problem import FloatArray, IntArray, PlacementProblem

_STEPS = 1000


@dataclass(frozen=True)
class CacheCurve:
    """What a cache that holds the hottest rows of a table serves.

    FBGEMM looks a row up in its cache once a step, however often the batch has it; so does this curve count. A
    row of share p is among n accesses with probability 1 − (1 − p)ⁿ.

    Attributes:
        lookups: distinct rows expected in a step's batch over all devices.
        load_factor: share of the table's rows that the cache holds, from 0 to 1, shape (c,).
        miss_rate: share of the step's distinct rows that it lacks, from 1 to 0, shape (c,); in between, linear.
    """

    lookups: float
    load_factor: FloatArray
    miss_rate: FloatArray

    def expected_miss_rate(self, load_factor: float) -> float:
        """Return the share of a step's distinct rows outside a cache that holds this share of the rows."""
        return float(np.interp(load_factor, self.load_factor, self.miss_rate))

    @cached_property
    def cacheability(self) -> float:
        """Twice the area below the curve: 0 where one row has all accesses, 1 where all rows have equally many."""
        width = np.diff(self.load_factor)
        return float(np.dot(width, self.miss_rate[1:] + self.miss_rate[:-1]))

    def thinned(self) -> CacheCurve:
        """Return the curve at two thousand corners or so: nowhere below this one, above by 0.001 at most."""
        step = np.floor(self.miss_rate * _STEPS)
        keep = np.ones(len(step), dtype=bool)
        keep[1:-1] = (step[1:-1] != step[:-2]) | (step[1:-1] != step[2:])  # first and last of each step
        return CacheCurve(self.lookups, self.load_factor[keep], self.miss_rate[keep])


def cache_curve(rows: IntArray, share: FloatArray, accesses: float) -> CacheCurve:
    """Return the curve of one table.

    Args:
        rows: rows in each frequency class, hottest first, shape (c,).
        share: of the accesses, of one row of each, shape (c,).
        accesses: of the table per step.
    """
    with np.errstate(divide="ignore"):
        met = -np.expm1(accesses * np.log1p(-np.minimum(share, 1.0))) if accesses > 0 else np.zeros(len(rows))
    found = np.cumsum(rows * met)
    lookups = float(found[-1]) if len(found) else 0.0
    held = np.concatenate([[0], np.cumsum(rows)]).astype(np.float64)
    if lookups <= 0:
        return CacheCurve(0.0, np.array([0.0, 1.0]), np.array([1.0, 0.0]))
    missing = 1 - np.concatenate([[0.0], found / lookups])
    missing[-1] = 0.0
    return CacheCurve(lookups, held / held[-1], np.maximum(missing, 0.0))


def cache_curves(problem: PlacementProblem) -> tuple[CacheCurve, ...]:
    """Return the curve of every table."""
    start = problem.class_start
    return tuple(
        cache_curve(
            problem.class_rows[start[j] : start[j + 1]],
            problem.class_share[start[j] : start[j + 1]],
            float(problem.accesses[j]),
        )
        for j in range(problem.tables)
    )
