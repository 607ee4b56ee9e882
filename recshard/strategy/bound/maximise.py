"""Maximising a Lagrangian by cutting planes inside a box around the best point, which grows and shrinks.

Every evaluation bounds the function from above by a plane. A small linear programme maximises the least of the
planes within the box; the function's value there is a new bound and its slope a new plane (Kelley 1960; the box
as in a trust region). The programme stays in the solver, which goes on from its last basis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recshard.problem import FloatArray, PlacementProblem
from recshard.strategy.bound.kinds import Kinds
from recshard.strategy.bound.lagrangian import Lagrangian
from recshard.strategy.quiet import without_output

_ROUNDS = 200
_TOLERANCE = 2e-6


class _Planes:
    """The least of the planes so far, as a linear programme over the point (in its units) and that least value."""

    def __init__(self, unit: FloatArray, size: int) -> None:
        import highspy

        untyped: Any = highspy
        with without_output():
            self._highs = untyped.Highs()
        self._highs.silent()
        self._size = size
        self._columns = np.arange(size + 1, dtype=np.int32)
        for _ in range(size):
            self._highs.addVar(0.0, highspy.kHighsInf)
        self._highs.addVar(-highspy.kHighsInf, highspy.kHighsInf)
        self._highs.changeColCost(size, -1.0)
        self._highs.addRow(1.0, 1.0, len(unit), self._columns[: len(unit)], unit)
        self._infinity = highspy.kHighsInf
        self._optimal = highspy.HighsModelStatus.kOptimal

    def add(self, slope: FloatArray) -> None:
        """Add the plane slope · point."""
        self._highs.addRow(0.0, self._infinity, self._size + 1, self._columns, np.append(slope, -1.0))

    def highest(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, float] | None:
        """Return the point between `low` and `high` where the least plane is highest, and its height there."""
        self._highs.changeColsBounds(self._size, self._columns[:-1], low, high)
        self._highs.run()
        if self._highs.getModelStatus() != self._optimal:
            return None
        found = np.array(self._highs.getSolution().col_value)
        return found[:-1], float(found[-1])


def maximise(function: Lagrangian, start: FloatArray) -> tuple[float, FloatArray]:
    """Return the largest value found, in ms, and its point, shape (q + r,).

    Args:
        start: a point, see `Lagrangian.evaluate`.
    """
    weights = len(function.kinds.devices)
    best, slope = function.evaluate(start)
    if best <= 0:
        return best, start
    # All numbers of the programme are of order one.
    scale = best
    unit = np.maximum(start, np.where(np.arange(len(start)) < weights, 1e-3 / weights, 0.1 * best / len(start)))
    planes = _Planes(unit[:weights], len(start))
    planes.add(slope * unit / scale)
    point, radius = start / unit, 0.05
    for _ in range(_ROUNDS):
        found = planes.highest(np.maximum(point - radius, 0.0), point + radius)
        if found is None:
            break
        step = np.maximum(found[0], 0.0)
        step[:weights] /= step[:weights] @ unit[:weights]
        promised = found[1] * scale - best
        at_edge = bool((np.abs(step - point) > 0.99 * radius).any())
        if promised <= _TOLERANCE * best:
            if not at_edge:
                break
            radius *= 4
        value, slope = function.evaluate(step * unit)
        planes.add(slope * unit / scale)
        gained = value - best
        if gained > 0:
            best, point = value, step
        if gained > 0.5 * promised and at_edge:
            radius *= 2
        elif gained < -2 * promised:
            radius /= 2
    return best, point * unit


def first_point(problem: PlacementProblem, kinds: Kinds, share: FloatArray) -> FloatArray:
    """Return weights and the rents at which rows that may go anywhere would just fill the pools.

    Args:
        share: of weight of each kind of device, adding up to 1, shape (q,).
    """
    slope = (share / kinds.devices)[:, None] * kinds.slowness
    # The fastest user of each pool stands for it; densest rows into the fastest pools.
    fastest_first = np.argsort(slope, axis=None, kind="stable")
    pool, first = np.unique(kinds.pool.ravel()[fastest_first], return_index=True)
    slope = slope.ravel()[fastest_first[first]]
    order = np.argsort(slope, kind="stable")
    pool, slope = pool[order], slope[order]
    whole = (kinds.pools * kinds.pool_capacity)[pool]
    filled = np.cumsum((problem.class_rows * problem.row_bytes[problem.class_table])[problem.class_order])
    at = np.searchsorted(filled, np.cumsum(whole))
    density = np.append(problem.class_density[problem.class_order], 0.0)[at]
    rent = np.append(np.cumsum((density[:-1] * np.diff(slope))[::-1])[::-1], 0.0)
    point = np.concatenate([share, np.zeros(len(kinds.pools))])
    point[len(share) + pool] = rent * whole
    return point
