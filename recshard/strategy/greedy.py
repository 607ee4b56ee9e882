"""The three greedy baselines of the RecShard paper: whole tables, sorted by a cost, to the least loaded device."""

from __future__ import annotations

from typing import Literal

import numpy as np

from recshard.errors import DoesNotFit
from recshard.placement import Placement
from recshard.problem import FloatArray, PlacementProblem
from recshard.shards import WHOLE, SplitRules
from recshard.strategy.bound import lower_bound_ms
from recshard.strategy.result import Solution, solution
from recshard.units import format_bytes

Cost = Literal["size", "lookup", "size-lookup"]
GREEDY_COSTS: dict[str, Cost] = {"size": "size", "lookup": "lookup", "size-lookup": "size-lookup"}


def greedy_cost(problem: PlacementProblem, cost: Cost) -> FloatArray:
    """Return each table's cost by the paper's formulas, shape (t,).

    `size` = rows × dim; `lookup` = pooling factor × dim; `size-lookup` = pooling factor × dim × log10(rows).
    The pooling factor here is lookups per sample, over all features of the table.
    """
    pooling = problem.accesses / problem.batch_size
    if cost == "size":
        return np.asarray(problem.rows * problem.dim, dtype=np.float64)
    lookup = pooling * problem.dim
    return lookup if cost == "lookup" else lookup * np.log10(problem.rows)


def place_greedily(problem: PlacementProblem, cost: Cost) -> Placement:
    """Return the baseline's placement.

    Tables go by falling cost to the device with the least cost so far whose fastest tier has room for the
    whole table; once no device has, to the least loaded one with room in the next tier.

    Raises:
        DoesNotFit: no tier of any device has room for a whole table; names it and the room there is.
    """
    costs = greedy_cost(problem, cost)
    left = problem.pool_capacity.copy()
    load = np.zeros(problem.devices)
    device = np.zeros(problem.tables, dtype=np.int64)
    rows = np.zeros((problem.tables, problem.tiers), dtype=np.int64)
    for j in np.argsort(-costs, kind="stable"):
        size = problem.table_bytes[j]
        for k in range(problem.tiers):
            room = left[problem.pool[:, k]]
            if (room >= size).any():
                d = int(np.argmin(np.where(room >= size, load, np.inf)))
                break
        else:
            raise DoesNotFit(
                f"the '{cost}' baseline keeps tables whole, and {{table}} needs {format_bytes(size)}, more than "
                f"any memory has left ({format_bytes(left.max())}); strategies that split tables may still fit",
                table=int(j),
            )
        device[j], rows[j, k] = d, problem.rows[j]
        left[problem.pool[d, k]] -= size
        load[d] += costs[j]
    return Placement(device, rows)


def greedy(problem: PlacementProblem, cost: Cost, rules: SplitRules = WHOLE) -> Solution:
    """Return the baseline's solution, with the proven bound beside it, of cut tables too where `rules` allow them.

    Raises:
        DoesNotFit: as `place_greedily`.
    """
    return solution(problem, place_greedily(problem, cost), lower_bound_ms(problem, rules), {})
