"""The state that `search` works on: which device holds each table, and every device's curve, kept up to date.

A device's curve is the sum of its tables' curves. What a device would cost with other tables is found without
forming that sum: each tier's boundary is bisected on the grid, one addition a probe, starting from where it stands
now. No step depends on the number of tables or devices.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numba
import numpy as np

from recshard.problem import FloatArray, IntArray, PlacementProblem
from recshard.strategy.grid import Grid
from recshard.strategy.waterfill import Slices

NONE = cast(int, np.int64(-1))  # a literal of Python would have numba compile all that gets it once more


class Assignment(NamedTuple):
    """Which device holds each table, and all that is kept up to date with it; kernels change it in place.

    Attributes:
        device: device of each table, shape (t,); −1 where it has none yet.
        first, following, previous: the tables of each device as linked lists, shapes (d,), (t,), (t,).
        size, traffic: sums of the tables' curves per device, shape (d, g).
        network: bytes per step through each device's network link, shape (d,).
        cost: ms of each device, shape (d,).
        hint: column of the grid where each tier but the slowest is full, shape (d, k − 1).
        spill: bytes of each device that only the slowest tier can hold, shape (d,).
        used: bytes used in each pool of the slowest tier, shape (p,).
        boundary: bytes that each device can hold in tiers 0 … k, without the slowest, shape (d, k − 1).
        slowness: ms per byte of traffic, shape (d, k).
        link: ms per byte through the network, shape (d,).
        table_size, table_traffic: the tables' curves, shape (t, g).
        table_network: bytes per step of each table through the network, shape (t,).
        threshold: least density of the rows up to each column, shape (g,).
        pool: pool of each device's slowest tier, shape (d,).
        capacity: bytes of each pool, shape (p,).
        counts: exchanges judged and exchanges made, shape (2,).
    """

    device: IntArray
    first: IntArray
    following: IntArray
    previous: IntArray
    size: FloatArray
    traffic: FloatArray
    network: FloatArray
    cost: FloatArray
    hint: IntArray
    spill: FloatArray
    used: FloatArray
    boundary: FloatArray
    slowness: FloatArray
    link: FloatArray
    table_size: FloatArray
    table_traffic: FloatArray
    table_network: FloatArray
    threshold: FloatArray
    pool: IntArray
    capacity: FloatArray
    counts: IntArray


def empty_assignment(problem: PlacementProblem, grid: Grid, slices: Slices) -> Assignment:
    """Return the assignment in which no table has a device yet."""
    devices, columns = problem.devices, grid.size.shape[1]
    return Assignment(
        device=np.full(problem.tables, NONE, dtype=np.int64),
        first=np.full(devices, NONE, dtype=np.int64),
        following=np.full(problem.tables, NONE, dtype=np.int64),
        previous=np.full(problem.tables, NONE, dtype=np.int64),
        size=np.zeros((devices, columns)),
        traffic=np.zeros((devices, columns)),
        network=np.zeros(devices),
        cost=np.zeros(devices),
        hint=np.full((devices, problem.tiers - 1), columns - 1, dtype=np.int64),
        spill=np.zeros(devices),
        used=np.zeros(len(problem.pool_capacity)),
        boundary=np.cumsum(slices.capacity[slices.slot[:, :-1]], axis=1),
        slowness=1e3 / problem.bandwidth,
        link=1e3 / problem.network_bandwidth,
        table_size=grid.size,
        table_traffic=grid.traffic,
        table_network=problem.network_bytes,
        threshold=grid.threshold,
        pool=problem.pool[:, -1].copy(),
        capacity=problem.pool_capacity,
        counts=np.zeros(2, dtype=np.int64),
    )


@numba.njit(cache=True)
def _at(curve: FloatArray, table_curve: FloatArray, d: int, j: int, jj: int, i: int, ii: int, g: int) -> float:
    value = float(curve[d, g])
    if j >= 0:
        value += table_curve[j, g]
    if jj >= 0:
        value += table_curve[jj, g]
    if i >= 0:
        value -= table_curve[i, g]
    if ii >= 0:
        value -= table_curve[ii, g]
    return value


@numba.njit(cache=True)
def cost_with(a: Assignment, d: int, j: int, jj: int, i: int, ii: int, hint: IntArray) -> float:
    """Return what device `d` would cost with tables `j` and `jj` more, `i` and `ii` less (−1: none).

    `hint` says where to look for each tier's boundary and learns where it was, shape (k − 1,).
    """
    # Per probe one element of up to five curves, near to one another from probe to probe.
    last = a.size.shape[1] - 1
    cost = 0.0
    below = 0.0  # traffic of the tiers faster than this one
    for k in range(a.slowness.shape[1]):
        if k < a.boundary.shape[1]:
            limit = a.boundary[d, k]
            low = min(hint[k], last - 1)
            step = 1
            if _at(a.size, a.table_size, d, j, jj, i, ii, low) <= limit:
                high = low + 1
                while high < last and _at(a.size, a.table_size, d, j, jj, i, ii, high) <= limit:
                    low = high
                    step *= 2
                    high = min(high + step, last)
            else:
                high = low
                low = max(high - 1, 0)
                while low > 0 and _at(a.size, a.table_size, d, j, jj, i, ii, low) > limit:
                    high = low
                    step *= 2
                    low = max(low - step, 0)
            while high - low > 1:
                middle = (low + high) >> 1
                if _at(a.size, a.table_size, d, j, jj, i, ii, middle) <= limit:
                    low = middle
                else:
                    high = middle
            hint[k] = low
            size = _at(a.size, a.table_size, d, j, jj, i, ii, low)
            covered = _at(a.traffic, a.table_traffic, d, j, jj, i, ii, low)
            width = _at(a.size, a.table_size, d, j, jj, i, ii, high) - size
            if width > 0:
                rise = _at(a.traffic, a.table_traffic, d, j, jj, i, ii, high) - covered
                covered += rise * min(1.0, max(0.0, limit - size) / width)
        else:
            covered = _at(a.traffic, a.table_traffic, d, j, jj, i, ii, last)
        cost += (covered - below) * a.slowness[d, k]
        below = covered
    crossing = float(a.network[d])
    if j >= 0:
        crossing += a.table_network[j]
    if jj >= 0:
        crossing += a.table_network[jj]
    if i >= 0:
        crossing -= a.table_network[i]
    if ii >= 0:
        crossing -= a.table_network[ii]
    return float(cost + crossing * a.link[d])


@numba.njit(cache=True)
def load_on(a: Assignment, hint: IntArray, d: int, j: int) -> float:
    """Return what table `j` adds to the cost of device `d` while thresholds stay where `hint` says."""
    tiers = a.slowness.shape[1]
    last = a.table_size.shape[1] - 1
    load = a.table_traffic[j, last] * a.slowness[d, tiers - 1] + a.table_network[j] * a.link[d]
    for k in range(tiers - 1):
        g = hint[k]
        kept = a.table_traffic[j, g] - a.threshold[g] * a.table_size[j, g]
        load -= (a.slowness[d, k + 1] - a.slowness[d, k]) * kept
    return float(load)


@numba.njit(cache=True)
def loads_on(a: Assignment, hint: IntArray, d: int) -> FloatArray:
    """Return `load_on` of every table, shape (t,)."""
    loads = np.empty(len(a.device))
    for j in range(len(loads)):
        loads[j] = load_on(a, hint, d, j)
    return loads


@numba.njit(cache=True)
def floor_of(a: Assignment, d: int) -> float:
    """Return the least that device `d` can cost by its thresholds: at most its cost, and linear in its tables."""
    tiers = a.slowness.shape[1]
    last = a.size.shape[1] - 1
    cost = a.traffic[d, last] * a.slowness[d, tiers - 1] + a.network[d] * a.link[d]
    for k in range(tiers - 1):
        g = a.hint[d, k]
        kept = a.traffic[d, g] + a.threshold[g] * (a.boundary[d, k] - a.size[d, g])
        cost -= (a.slowness[d, k + 1] - a.slowness[d, k]) * kept
    return float(cost)


@numba.njit(cache=True)
def spill_with(a: Assignment, d: int, j: int, jj: int, i: int, ii: int) -> float:
    held = _at(a.size, a.table_size, d, j, jj, i, ii, a.size.shape[1] - 1)
    fast = a.boundary[d, -1] if a.boundary.shape[1] else 0.0
    return max(0.0, held - fast)


@numba.njit(cache=True)
def fits(a: Assignment, d: int, spill_d: float, e: int, spill_e: float) -> bool:
    """Return whether the slowest tier would hold the spill of devices `d` and `e` (−1: only `d` changes)."""
    change_d = spill_d - a.spill[d]
    change_e = spill_e - a.spill[e] if e >= 0 else 0.0
    if e >= 0 and a.pool[d] != a.pool[e]:
        if change_e > 0 and a.used[a.pool[e]] + change_e > a.capacity[a.pool[e]]:
            return False
        change_e = 0.0
    change = change_d + change_e
    return bool(change <= 0 or a.used[a.pool[d]] + change <= a.capacity[a.pool[d]])


@numba.njit(cache=True)
def settle(a: Assignment, d: int) -> None:
    """Sum the curves of device `d` anew over its tables, so that rounding never adds up, and all that follows."""
    a.size[d] = 0.0
    a.traffic[d] = 0.0
    a.network[d] = 0.0
    j = a.first[d]
    while j >= 0:
        a.size[d] += a.table_size[j]
        a.traffic[d] += a.table_traffic[j]
        a.network[d] += a.table_network[j]
        j = a.following[j]
    _refresh(a, d)


@numba.njit(cache=True)
def _refresh(a: Assignment, d: int) -> None:
    spill = spill_with(a, d, NONE, NONE, NONE, NONE)
    a.used[a.pool[d]] += spill - a.spill[d]
    a.spill[d] = spill
    a.cost[d] = cost_with(a, d, NONE, NONE, NONE, NONE, a.hint[d])


@numba.njit(cache=True)
def _unlink(a: Assignment, j: int) -> None:
    before, after = a.previous[j], a.following[j]
    if before >= 0:
        a.following[before] = after
    else:
        a.first[a.device[j]] = after
    if after >= 0:
        a.previous[after] = before
    a.device[j] = NONE


@numba.njit(cache=True)
def _link(a: Assignment, j: int, d: int) -> None:
    after = a.first[d]
    a.first[d] = j
    a.previous[j] = NONE
    a.following[j] = after
    if after >= 0:
        a.previous[after] = j
    a.device[j] = d


@numba.njit(cache=True)
def put(a: Assignment, j: int, d: int) -> None:
    """Move table `j` to device `d` (from its device, if it has one); sums and costs follow."""
    origin = a.device[j]
    if origin == d:
        return
    if origin >= 0:
        _unlink(a, j)
        a.size[origin] -= a.table_size[j]
        a.traffic[origin] -= a.table_traffic[j]
        a.network[origin] -= a.table_network[j]
        _refresh(a, origin)
    _link(a, j, d)
    a.size[d] += a.table_size[j]
    a.traffic[d] += a.table_traffic[j]
    a.network[d] += a.table_network[j]
    _refresh(a, d)


@numba.njit(cache=True)
def set_devices(a: Assignment, device: IntArray) -> None:
    """Set every table's device at once."""
    a.first[:] = NONE
    a.device[:] = NONE
    for j in range(len(device)):
        _link(a, j, device[j])
    a.used[:] = 0.0
    a.spill[:] = 0.0
    for d in range(len(a.cost)):
        settle(a, d)
