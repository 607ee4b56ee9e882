"""Moves and exchanges of tables between two devices, judged on the common grid: the kernels of `search`.

A device's curve is the sum of its tables' curves. What a device would cost with other tables is found without
forming that sum: each tier's boundary is bisected on the grid, one addition a probe, starting from where it stands
now. Before that, every exchange is judged in constant time: access curves are concave, so a device's cost is at
least what it is with its thresholds held where they are, and that is a sum over tables (a Lagrangian bound). Only
exchanges that this leaves open are worth a bisection. No step depends on the number of tables or devices.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numba
import numpy as np

from recshard.problem import FloatArray, IntArray, PlacementProblem
from recshard.strategy.grid import Grid
from recshard.strategy.waterfill import Slices

NONE = cast(int, np.int64(-1))  # a literal of Python would have numba compile all that gets it once more
_GAIN = 1e-12  # of a device's cost: smaller gains are rounding
_MOST_BISECTED = 2_000  # exchanges of two devices that are worth the best of them
_STEEPEST = 600.0  # e to this is still a number


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
def ascending(values: FloatArray) -> IntArray:
    """Return the order of rising values: compiled once, here, for all kernels."""
    return np.argsort(values)


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
def _cost_with(a: Assignment, d: int, j: int, jj: int, i: int, ii: int, hint: IntArray) -> float:
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
def _floor(a: Assignment, d: int) -> float:
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
    a.cost[d] = _cost_with(a, d, NONE, NONE, NONE, NONE, a.hint[d])


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


@numba.njit(cache=True)
def pressure(cost: float, steepness: float, scale: float) -> float:
    """Return the weight of a device's cost in the potential: e^(steepness · (cost ÷ scale − 1)).

    Its sum over devices falls when the slowest gets faster and when all together get faster: the former brings
    costs together, the latter the prices of fast memory, and both are needed to come near the pooled bound.
    """
    return float(np.exp(min(steepness * (cost / scale - 1.0), _STEEPEST)))


@numba.njit(cache=True)
def _sets_of(a: Assignment, d: int, e: int, own: int, pairs: bool) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the sets of up to two tables of device `own` with their loads on `d` and `e`, the empty set first."""
    n = 0
    j = a.first[own]
    while j >= 0:
        n += 1
        j = a.following[j]
    total = 1 + n + (n * (n - 1) // 2 if pairs else 0)
    sets = np.full((total, 2), NONE, dtype=np.int64)
    on_d, on_e = np.zeros(total), np.zeros(total)
    filled = 1
    j = a.first[own]
    while j >= 0:
        sets[filled, 0] = j
        on_d[filled] = load_on(a, a.hint[d], d, j)
        on_e[filled] = load_on(a, a.hint[e], e, j)
        filled += 1
        j = a.following[j]
    if pairs:
        for x in range(1, n + 1):
            for y in range(x + 1, n + 1):
                sets[filled, 0], sets[filled, 1] = sets[x, 0], sets[y, 0]
                on_d[filled] = on_d[x] + on_d[y]
                on_e[filled] = on_e[x] + on_e[y]
                filled += 1
    return sets, on_d, on_e


@numba.njit(cache=True)
def _before(ordered: FloatArray, value: float) -> int:
    """Return the last position whose entry is below `value`, −1 if there is none."""
    low, high = -1, len(ordered)
    while high - low > 1:
        middle = (low + high) >> 1
        if ordered[middle] < value:
            low = middle
        else:
            high = middle
    return low


@numba.njit(cache=True)
def improve_pair(a: Assignment, d: int, e: int, steepness: float, scale: float, pairs: bool) -> bool:
    """Make the best exchange of up to one table each (`pairs`: two) between devices `d` and `e`, if any helps.

    Sets of `e` are sorted by load, so that those which leave both devices below the limit stand side by side.
    """
    mine, mine_d, mine_e = _sets_of(a, d, e, d, pairs)
    theirs, theirs_d, theirs_e = _sets_of(a, d, e, e, pairs)
    order = ascending(theirs_d)
    sorted_d = theirs_d[order]
    floor_d, floor_e = _floor(a, d), _floor(a, e)
    best = pressure(a.cost[d], steepness, scale) + pressure(a.cost[e], steepness, scale)
    best *= 1.0 - steepness * _GAIN
    limit = scale * (1.0 + np.log(best) / steepness)
    skew = 0.0  # by how much a set's loads on the two devices may differ
    for y in range(len(theirs)):
        skew = max(skew, theirs_e[y] - theirs_d[y])
    hint = np.empty(a.hint.shape[1], dtype=np.int64)
    best_x = best_y = NONE
    bisected = 0
    offset = a.counts[0] % len(mine)  # not always the same sets first, for there may be too many
    for shifted in range(len(mine)):
        if bisected > _MOST_BISECTED:
            break
        x = (shifted + offset) % len(mine)
        # What comes to d must leave it below the limit; what leaves e must bring e below it.
        most = limit - floor_d + mine_d[x]
        least = floor_e + mine_e[x] - limit
        position = _before(sorted_d, most)
        while position >= 0 and sorted_d[position] + skew > least:
            y = order[position]
            position -= 1
            a.counts[0] += 1
            if theirs_e[y] <= least or (x == 0 and y == 0):
                continue
            i, ii, j, jj = mine[x, 0], mine[x, 1], theirs[y, 0], theirs[y, 1]
            bisected += 1
            hint[:] = a.hint[e]
            there = pressure(_cost_with(a, e, i, ii, j, jj, hint), steepness, scale)
            if there >= best:
                continue
            hint[:] = a.hint[d]
            here = pressure(_cost_with(a, d, j, jj, i, ii, hint), steepness, scale)
            if here + there < best and fits(
                a, d, spill_with(a, d, j, jj, i, ii), e, spill_with(a, e, i, ii, j, jj)
            ):
                best, best_x, best_y = here + there, x, y
                limit = scale * (1.0 + np.log(best) / steepness)
                most = limit - floor_d + mine_d[x]
                least = floor_e + mine_e[x] - limit
    if best_x == NONE:
        return False
    for z in range(2):
        if mine[best_x, z] >= 0:
            put(a, mine[best_x, z], e)
        if theirs[best_y, z] >= 0:
            put(a, theirs[best_y, z], d)
    a.counts[1] += 1
    return True
