"""Prices: what more memory would be worth, by the proven bound and for an assignment as it stands."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from recshard.placement import Placement
from recshard.problem import FloatArray, PlacementProblem
from recshard.shards import SplitRules, cut
from recshard.strategy.bound import lower_bound_ms
from recshard.strategy.waterfill import fractional_split


def memory_value_ms(problem: PlacementProblem, rules: SplitRules, tier: int, extra_bytes: float) -> float:
    """Return by how much the proven lower bound falls if every device has more memory, in ms, at least 0.

    Args:
        rules: which cuts are allowed.
        tier: which memory grows, 0 is the fastest.
        extra_bytes: by how many bytes a device; a pool that a node shares grows once for each of its devices.
    """
    capacity = problem.pool_capacity.copy()
    np.add.at(capacity, problem.pool[:, tier], extra_bytes)
    roomier = replace(problem, pool_capacity=capacity)
    return max(lower_bound_ms(problem, rules) - lower_bound_ms(roomier, rules), 0.0)


def shadow_prices(problem: PlacementProblem, placement: Placement) -> FloatArray:
    """Return the ms that each device would save per further byte of each of its tiers, shape (d, k).

    The assignment stays as it is. From a pool that devices share, each has what the others leave.
    """
    sharded = cut(problem, placement.shards)
    own = np.zeros((problem.devices, problem.tiers))
    np.add.at(own, placement.device, placement.rows * sharded.row_bytes[:, None])
    used = np.bincount(problem.pool.ravel(), weights=own.ravel(), minlength=len(problem.pool_capacity))
    capacity = own + (problem.pool_capacity - used)[problem.pool]
    # Half a byte more, so that memory that is exactly full while nothing waits for it has no price.
    return fractional_split(sharded, placement.device, capacity + 0.5).price
