"""Dividing memory that several devices share, so that the slowest of them is as fast as possible.

A device's cost is convex and piecewise linear in the bytes that it may use, and water-filling gives its slope
(the shadow price). Kelley's cutting-plane method minimises the largest cost over all divisions of the pools: a
small linear programme gains one cut per device and round.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recshard.problem import FloatArray, IntArray, PlacementProblem
from recshard.strategy.waterfill import Slices, equal_slices, fractional_split

_ROUNDS = 60
_TOLERANCE = 1e-7


def best_slices(problem: PlacementProblem, device: IntArray) -> Slices:
    """Return the division of shared pools under which the bottleneck of an assignment is least.

    Args:
        device: device of each table, shape (t,).
    """
    slices = equal_slices(problem)
    users = problem.pool_users[problem.pool]
    shared = users > 1
    shared[:, -1] = False
    if not shared.any():
        return slices
    network = np.zeros(problem.devices)
    np.add.at(network, device, problem.network_ms[np.arange(problem.tables), device])
    capacity = problem.pool_capacity[problem.pool] / np.where(shared, users, 1)
    best, best_cost = capacity, np.inf
    cuts: list[tuple[FloatArray, FloatArray]] = []
    for _ in range(_ROUNDS):
        split = fractional_split(problem, device, capacity)
        cost = split.cost_ms + network
        if cost.max() < best_cost and not split.homeless.any():
            best, best_cost = capacity, float(cost.max())
        cuts.append((cost + (split.price * capacity * shared).sum(axis=1), split.price))
        capacity, bound = _next_division(problem, device, capacity, shared, cuts)
        if best_cost - bound <= _TOLERANCE * abs(best_cost):
            break
    sliced = slices.capacity.copy()
    sliced[slices.slot[:, :-1]] = best[:, :-1]
    return Slices(slices.slot, sliced)


def _next_division(
    problem: PlacementProblem,
    device: IntArray,
    capacity: FloatArray,
    shared: NDArray[np.bool_],
    cuts: list[tuple[FloatArray, FloatArray]],
) -> tuple[FloatArray, float]:
    """Return the division that is best by the cuts so far, and the largest cost that it promises.

    Variables: the bottleneck, one slice for each shared (device, tier), and each device's spill into the
    slowest tier, whose pools must hold it.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    devices = problem.devices
    where = np.argwhere(shared)
    n = len(where)
    held = np.bincount(device, weights=problem.table_bytes, minlength=devices)
    private = np.where(shared, 0.0, capacity)[:, :-1].sum(axis=1)
    unit = float(problem.pool_capacity.max())  # slices and spill in shares of the largest pool
    rows: list[tuple[int, int, float]] = []
    limit: list[float] = []
    for constant, price in cuts:
        for d in range(devices):
            rows.append((len(limit), 0, -1.0))
            for i, (owner, k) in enumerate(where):
                if owner == d and price[d, k]:
                    rows.append((len(limit), 1 + i, -price[d, k] * unit))
            limit.append(-constant[d])
    for p in np.unique(problem.pool[shared]):
        rows += [(len(limit), 1 + i, 1.0) for i, (d, k) in enumerate(where) if problem.pool[d, k] == p]
        limit.append(problem.pool_capacity[p] / unit)
    for d in range(devices):
        rows.append((len(limit), 1 + n + d, -1.0))
        rows += [(len(limit), 1 + i, -1.0) for i, (owner, _) in enumerate(where) if owner == d]
        limit.append((private[d] - held[d]) / unit)
    for p in np.unique(problem.pool[:, -1]):
        rows += [(len(limit), 1 + n + d, 1.0) for d in range(devices) if problem.pool[d, -1] == p]
        limit.append(problem.pool_capacity[p] / unit)
    row, column, value = zip(*rows, strict=True)
    matrix = coo_array((value, (row, column)), shape=(len(limit), 1 + n + devices)).tocsr()
    objective = np.zeros(1 + n + devices)
    objective[0] = 1.0
    solution = linprog(objective, A_ub=matrix, b_ub=limit, bounds=(0, None), method="highs")
    if solution.status != 0:  # the assignment fits nowhere, or numbers beyond the solver: keep what there is
        return capacity, np.inf
    divided = capacity.copy()
    divided[where[:, 0], where[:, 1]] = solution.x[1 : 1 + n] * unit
    # The solver's tolerance is absolute, and `unit` may be a far larger pool's.
    for p in np.unique(problem.pool[shared]):
        mine = shared & (problem.pool == p)
        divided[mine] *= min(1.0, problem.pool_capacity[p] / max(divided[mine].sum(), 1.0))
    return divided, float(solution.x[0])
