"""Prices: what more memory would be worth, by the proven bound and for an assignment as it stands."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from recshard.placement import Placement
from recshard.problem import FloatArray, PlacementProblem
from recshard.shards import SplitRules, cut, most_shards, wider
from recshard.strategy.bound import Bound, lower_bound, lower_bound_ms
from recshard.strategy.bound.alone import alone_ms
from recshard.strategy.bound.curves import table_curves
from recshard.strategy.bound.kinds import find_kinds
from recshard.strategy.waterfill import fractional_split

NOTHING = 1e-4  # relative: bounds are maximised to less than that, and a plan as near to one is called optimal
FROM_FEW = ("one table", "pigeonhole")  # arguments that cutting tables weakens
_GB = 1e9
_UNITS = (1e9, 1e6, 1e3, 1.0)
_SAME = 1e-6  # relative: bounds that differ less are one


@dataclass(frozen=True)
class MemoryValue:
    """By how much the proven bound falls if every device has more of a memory.

    Attributes:
        tier: its tier, any but the slowest.
        more_bytes: by how much it grows on every device; a pool that devices share, once for each of them.
        saves_ms: the fall of the bound; 0 where that is no more than 0.01% of it.
    """

    tier: int
    more_bytes: float
    saves_ms: float


@dataclass(frozen=True)
class Cutting:
    """Cuts that lower a bound which few tables set.

    Attributes:
        rules: would have to be allowed.
        bound_ms: the bound would then be.
    """

    rules: SplitRules
    bound_ms: float


@dataclass(frozen=True)
class Prices:
    """What would make the plan better.

    Attributes:
        bound: the bound from which `memory` falls; a MILP may have proven more.
        memory: of every tier but the slowest.
        cutting: where few tables set the bound and may be cut (finer), else None.
        table: the table that sets the bound alone, where it is known, else None.
        per_gb_ms: ms that each device would save per GB (10⁹ bytes) of each tier, at the margin, its tables
            staying as they are and split at their best, shape (d, k).
    """

    bound: Bound
    memory: tuple[MemoryValue, ...]
    cutting: Cutting | None
    table: int | None
    per_gb_ms: FloatArray


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


def find_prices(problem: PlacementProblem, placement: Placement, rules: SplitRules) -> Prices:
    """Return what would make a placement better, and by how much.

    Args:
        rules: which cuts are allowed.
    """
    bound = lower_bound(problem, rules)
    memory = []
    for tier in range(problem.tiers - 1):
        more = unit_bytes(problem, tier)
        saves = memory_value_ms(problem, rules, tier, more)
        memory.append(MemoryValue(tier, more, saves if saves > NOTHING * bound.ms else 0.0))
    return Prices(
        bound=bound,
        memory=tuple(memory),
        cutting=_cutting(problem, rules, bound),
        table=_costliest_whole(problem, rules, bound),
        per_gb_ms=_GB * shadow_prices(problem, placement),
    )


def unit_bytes(problem: PlacementProblem, tier: int) -> float:
    """Return a GB, or where no device has as much of a tier, a MB, a KB or a byte: powers of a thousand."""
    pool = problem.pool[:, tier]
    largest = float((problem.pool_capacity[pool] / problem.pool_users[pool]).max())
    return next((unit for unit in _UNITS if unit <= largest), _GB)


def _cutting(problem: PlacementProblem, rules: SplitRules, bound: Bound) -> Cutting | None:
    """Return the first cuts beyond `rules`, from coarse to fine, that lower a bound which few tables set."""
    if bound.by not in FROM_FEW:
        return None
    for allowed in wider(rules):
        lowered = lower_bound_ms(problem, allowed)
        if lowered < bound.ms * (1 - _SAME):
            return Cutting(allowed, lowered)
    return None


def _costliest_whole(problem: PlacementProblem, rules: SplitRules, bound: Bound) -> int | None:
    """Return the table that sets the bound alone, where one does and may not be cut."""
    if bound.by != "one table":
        return None
    alone = alone_ms(problem, table_curves(problem), find_kinds(problem)).min(axis=1)
    alone[np.minimum(most_shards(problem, rules), problem.devices) > 1] = 0.0
    table = int(np.argmax(alone))
    return table if alone[table] >= bound.ms * (1 - _SAME) else None
