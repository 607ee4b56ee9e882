"""Lower bounds: what no placement can beat, proven on the exact frequency classes; the largest counts.

* `pooled`: devices of one kind are no faster than one device with all their memory together.
* `lagrangian`: the same for devices of several kinds, by weights on the devices and rents on the memories; for one
  kind where that can prove more.
* `one table`: none costs less than it does alone.
* `pigeonhole`: of more tables than devices, some must meet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recshard.problem import FloatArray, IntArray, PlacementProblem
from recshard.shards import WHOLE, SplitRules, most_shards
from recshard.strategy.bound.alone import (
    alone_ms,
    pigeonhole_bound_ms,
    single_table_bound_ms,
    widest_shard_bound_ms,
)
from recshard.strategy.bound.curves import Curves, table_curves
from recshard.strategy.bound.kinds import Kinds, device_kinds, find_kinds
from recshard.strategy.bound.lagrangian import lagrangian
from recshard.strategy.bound.maximise import first_point, maximise
from recshard.strategy.bound.pooled import pooled_bound_ms

__all__ = ["Bound", "device_kinds", "lower_bound", "lower_bound_ms"]


@dataclass(frozen=True)
class Bound:
    """A proven lower bound on the bottleneck.

    Attributes:
        ms: no placement costs less.
        by: the argument that proves it: `pooled`, `lagrangian`, `one table` or `pigeonhole`.
    """

    ms: float
    by: str


def lower_bound(problem: PlacementProblem, rules: SplitRules = WHOLE) -> Bound:
    """Return the largest bound on every placement that cuts no table into more shards than `rules` allow."""
    curves, kinds = table_curves(problem), find_kinds(problem)
    copies = np.minimum(most_shards(problem, rules), problem.devices)
    alone = alone_ms(problem, curves, kinds)
    whole = np.flatnonzero(copies == 1)
    all_memory = _all_memory_bound(problem, curves, kinds, copies)
    bounds = [
        all_memory,
        Bound(
            single_table_bound_ms(problem, curves, kinds, alone, copies, by_rows=rules.kind == "row"), "one table"
        ),
        Bound(pigeonhole_bound_ms(problem, curves, kinds, alone, whole), "pigeonhole"),
    ]
    if rules.kind == "column":
        bounds.append(Bound(widest_shard_bound_ms(problem, kinds, most_shards(problem, rules)), "one table"))
    return max(bounds, key=lambda bound: bound.ms)


def lower_bound_ms(problem: PlacementProblem, rules: SplitRules = WHOLE) -> float:
    """Return the largest proven lower bound on the bottleneck, in ms."""
    return lower_bound(problem, rules).ms


def _all_memory_bound(problem: PlacementProblem, curves: Curves, kinds: Kinds, copies: IntArray) -> Bound:
    """Return the bound from all tables and all memory together."""
    pooled = 0.0
    if len(kinds.devices) == 1:
        pooled, exact = pooled_bound_ms(problem, kinds, copies)
        if exact:
            return Bound(pooled, "pooled")
    function = lagrangian(problem, curves, kinds, copies)
    share: FloatArray = kinds.devices / kinds.slowness[:, 0]
    best, _ = maximise(function, first_point(problem, kinds, share / share.sum()))
    return Bound(best, "lagrangian") if best > pooled else Bound(pooled, "pooled")
