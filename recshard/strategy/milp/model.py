"""What both MILP formulations share: the binary assignment, the pools, and the handle on the built model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recshard.problem import FloatArray, IntArray, PlacementProblem
from recshard.strategy.milp.symmetry import earlier_tables, traffic_rank
from recshard.strategy.solvers.linear import LinearModel, ModelBuilder


@dataclass(frozen=True)
class MilpModel:
    """A built model.

    Attributes:
        linear: its arrays.
        unit_ms: milliseconds that 1 of its objective C stands for.
        bottleneck: the column of C.
        on: columns of the binaries, 1 where table j stands on device d, shape (d, t).
        proves_bound: whether a bound on C is one on the exact problem.
    """

    linear: LinearModel
    unit_ms: float
    bottleneck: int
    on: IntArray
    proves_bound: bool


def assignment_columns(problem: PlacementProblem, builder: ModelBuilder) -> IntArray:
    """Add the binaries p_dj, each table on exactly one device; return their columns, shape (d, t).

    The symmetry of interchangeable devices is broken: a binary that no canonical assignment sets is held at 0.
    """
    allowed = earlier_tables(problem)[:, None] <= traffic_rank(problem)[None, :]
    on = builder.columns("p", allowed.shape, allowed.astype(np.float64), integer=True)
    builder.add(builder.rows((problem.tables,), 1.0, 1.0)[None, :], on, 1.0)
    return on


class Pools:
    """Held bytes ≤ capacity for every pool, each in a unit of its own: a solver's tolerances are absolute.

    A pool that holds the whole model cannot bind and gets no constraint.
    """

    def __init__(self, problem: PlacementProblem, builder: ModelBuilder) -> None:
        self._builder = builder
        capacity = problem.pool_capacity
        binds = capacity < float(problem.table_bytes.sum())
        self._row = np.full(len(capacity), -1)
        # One without capacity is measured in bytes of the largest table.
        self._unit = np.where(capacity > 0, capacity, float(problem.table_bytes.max()))
        for limit in (0.0, 1.0):
            mine = np.flatnonzero(binds & ((capacity > 0) == (limit > 0)))
            self._row[mine] = builder.rows((len(mine),), upper=limit)

    def hold(self, pool: IntArray, column: IntArray, size: FloatArray) -> None:
        """Add `size` bytes × `column` to what a pool holds; the arrays are broadcast against each other."""
        pool, column, size = np.broadcast_arrays(pool, column, size)
        kept = self._row[pool] >= 0
        self._builder.add(self._row[pool][kept], column[kept], (size / self._unit[pool])[kept])
