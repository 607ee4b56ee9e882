"""Lower bounds: what no placement can beat, proven on the exact frequency classes.

Three bounds, of which the largest counts:

* Equal devices: pool all their tiers, let no table use more fast memory than one device reaches, fill once,
  divide by the number of devices (design.md). Valid because the mean device cost never exceeds the bottleneck.
* Any devices: the same with weights. For weights w ≥ 0 that add up to 1 the bottleneck is at least Σ w_d ×
  cost_d, and that is at least the cost of placing rows freely into the pooled slots, a byte of traffic in tier
  k of device d at price w_d ÷ bandwidth. The best weights come from cutting planes; every step is a valid bound.
* One table: none can cost less than it does alone on the device that serves it best.
"""

from __future__ import annotations

import numba
import numpy as np

from recshard.problem import FloatArray, IntArray, PlacementProblem

_ROUNDS = 40
_TOLERANCE = 1e-6


def lower_bound_ms(problem: PlacementProblem) -> float:
    """Return the largest proven lower bound on the bottleneck, in ms."""
    kinds = device_kinds(problem)
    pooled = pooled_bound_ms(problem) if kinds.max() == 0 else weighted_bound_ms(problem, kinds)
    return max(pooled, single_table_bound_ms(problem))


def device_kinds(problem: PlacementProblem) -> IntArray:
    """Return a number for each device, the same for devices that nothing tells apart, shape (d,), from 0."""
    signature = np.column_stack(
        [
            problem.bandwidth,
            problem.pool_capacity[problem.pool],
            problem.pool_users[problem.pool],
            problem.network_bandwidth,
        ]
    )
    return np.unique(signature, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def single_table_bound_ms(problem: PlacementProblem) -> float:
    """Return the cost of the table that is costliest even alone on the device that serves it best."""
    kinds = device_kinds(problem)
    tables = problem.tables
    cheapest = np.full(tables, np.inf)
    for kind in range(kinds.max() + 1):
        d = int(np.flatnonzero(kinds == kind)[0])
        capacity = problem.pool_capacity[problem.pool[d]]
        boundary = np.cumsum(capacity)
        slowness = 1e3 / problem.bandwidth[d]
        alone = _each_alone(
            problem.class_start,
            (problem.class_rows * problem.row_bytes[problem.class_table]).astype(np.float64),
            problem.class_density,
            boundary,
            slowness,
        )
        cheapest = np.minimum(cheapest, alone + problem.network_ms[:, d])
    return float(cheapest.max()) if np.isfinite(cheapest).all() else 0.0


@numba.njit(cache=True)
def _each_alone(
    class_start: IntArray, class_bytes: FloatArray, density: FloatArray, boundary: FloatArray, slowness: FloatArray
) -> FloatArray:
    # One sequential pass over the classes, which are stored hottest first.
    cost = np.zeros(len(class_start) - 1)
    for j in range(len(cost)):
        k = 0
        filled = 0.0
        for c in range(class_start[j], class_start[j + 1]):
            remaining = class_bytes[c]
            while remaining > 0:
                if k == len(boundary):
                    # What finds no room is a matter of rounding or of a table too large: infinite cost.
                    cost[j] = np.inf
                    break
                taken = min(boundary[k] - filled, remaining)
                cost[j] += taken * density[c] * slowness[k]
                filled += taken
                remaining -= taken
                if filled >= boundary[k]:
                    k += 1
    return cost


def pooled_bound_ms(problem: PlacementProblem) -> float:
    """Return bound (1) for devices that are all alike, in ms."""
    reach = np.cumsum(problem.pool_capacity[problem.pool[0]])
    total = np.cumsum([problem.pool_capacity[np.unique(problem.pool[:, k])].sum() for k in range(problem.tiers)])
    class_bytes = (problem.class_rows * problem.row_bytes[problem.class_table]).astype(np.float64)
    traffic = class_bytes * problem.class_density
    slowness = 1e3 / problem.bandwidth[0]
    cost = float(traffic.sum() * slowness[-1])
    for k in range(problem.tiers - 1):
        covered = _covered(
            problem.class_order, class_bytes, problem.class_table, problem.class_density, total[k], reach[k]
        )
        cost -= covered * (slowness[k + 1] - slowness[k])
    return (cost + float(problem.network_ms[:, 0].sum())) / problem.devices


@numba.njit(cache=True)
def _covered(
    order: IntArray,
    class_bytes: FloatArray,
    class_table: IntArray,
    density: FloatArray,
    total: float,
    reach: float,
) -> float:
    """Return the traffic of the densest `total` bytes of which no table contributes more than `reach`."""
    # Densest first; one running sum per table stays in cache.
    used = np.zeros(class_table.max() + 1)
    covered = 0.0
    for c in order:
        table = class_table[c]
        taken = min(class_bytes[c], total, reach - used[table])
        if taken > 0:
            used[table] += taken
            total -= taken
            covered += taken * density[c]
            if total <= 0:
                break
    return covered


def weighted_bound_ms(problem: PlacementProblem, kinds: IntArray) -> float:
    """Return bound (1) generalised to unequal devices, in ms: the best found over weights of device kinds."""
    from scipy.optimize import linprog

    count = np.bincount(kinds)
    weight = 1.0 / (len(count) * count)  # of one device of each kind
    best = 0.0
    cuts: list[FloatArray] = []
    for _ in range(_ROUNDS):
        value, slope = _weighted(problem, kinds, weight)
        best = max(best, value)
        # The bound is concave and linear along rays, so it lies below slope · weight for every weight.
        cuts.append(slope)
        objective = np.concatenate([np.zeros(len(count)), [-1.0]])
        above = np.column_stack([-np.array(cuts), np.ones(len(cuts))])
        whole = np.concatenate([count, [0.0]])[None, :]
        step = linprog(objective, A_ub=above, b_ub=np.zeros(len(cuts)), A_eq=whole, b_eq=[1.0], method="highs")
        if step.status != 0 or -step.fun - best <= _TOLERANCE * best:
            break
        weight = np.maximum(step.x[:-1], 0.0)
        weight /= np.dot(weight, count)
    return best


def _weighted(problem: PlacementProblem, kinds: IntArray, weight: FloatArray) -> tuple[float, FloatArray]:
    """Return Σ w_d × cost_d of rows placed freely into pooled slots, and its slope per kind, shape (kinds,).

    A pool that devices share is one slot at the price of the device that reads it most cheaply.
    """
    price = weight[kinds][:, None] * 1e3 / problem.bandwidth
    # Readers of each pool, cheapest first: the first of a pool stands for it.
    cheapest_first = np.argsort(price, axis=None, kind="stable")
    _, first = np.unique(problem.pool.ravel()[cheapest_first], return_index=True)
    reader, tier = np.unravel_index(cheapest_first[first], price.shape)
    order = np.argsort(price[reader, tier], kind="stable")
    reader, tier = reader[order], tier[order]
    # Densest rows into the cheapest pools: cumulative traffic is read off where each pool is full.
    class_bytes = problem.class_rows * problem.row_bytes[problem.class_table]
    filled = np.concatenate([[0.0], np.cumsum(class_bytes[problem.class_order], dtype=np.float64)])
    read = np.concatenate([[0.0], np.cumsum((class_bytes * problem.class_density)[problem.class_order])])
    boundary = np.concatenate([[0.0], np.cumsum(problem.pool_capacity[problem.pool[reader, tier]])])
    traffic = np.diff(np.interp(boundary, filled, read))
    slope = np.zeros(len(weight))
    np.add.at(slope, kinds[reader], traffic * 1e3 / problem.bandwidth[reader, tier])
    network = np.argmin(weight[kinds] * problem.network_ms, axis=1)
    np.add.at(slope, kinds[network], problem.network_ms[np.arange(problem.tables), network])
    return float(np.dot(slope, weight)), slope
