"""Moves and swaps between devices, judged by bisection on the common grid: the kernels of `search`.

A device's curve is the sum of its tables' curves. What a device would cost with one table more and another less
is found without forming that sum: each tier's boundary is bisected on the grid, one addition a probe, so the
time of an evaluation depends on neither the number of tables nor of devices.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from recshard.problem import FloatArray, IntArray, PlacementProblem
from recshard.strategy.grid import Grid
from recshard.strategy.waterfill import equal_slices

_GAIN = 1e-9  # relative: smaller gains are rounding
_NONE = -1
_KICKS = 3


class Assignment(NamedTuple):
    """Which device holds each table, and all that is kept up to date with it; kernels change it in place.

    Attributes:
        device: device of each table, shape (t,); −1 where it has none yet.
        size, traffic: sums of the tables' curves per device, shape (d, g).
        network: ms of each device's network link, shape (d,).
        cost: ms of each device, shape (d,).
        spill: bytes of each device that only the slowest tier can hold, shape (d,).
        used: bytes used in each pool of the slowest tier, shape (p,).
        boundary: bytes that each device can hold in tiers 0 … k, without the slowest, shape (d, k − 1).
        slowness: ms per byte of traffic, shape (d, k).
        table_size, table_traffic: the tables' curves, shape (t, g).
        table_network: ms of each table on each device's link, shape (t, d).
        pool: pool of each device's slowest tier, shape (d,).
        capacity: bytes of each pool, shape (p,).
    """

    device: IntArray
    size: FloatArray
    traffic: FloatArray
    network: FloatArray
    cost: FloatArray
    spill: FloatArray
    used: FloatArray
    boundary: FloatArray
    slowness: FloatArray
    table_size: FloatArray
    table_traffic: FloatArray
    table_network: FloatArray
    pool: IntArray
    capacity: FloatArray


def empty_assignment(problem: PlacementProblem, grid: Grid) -> Assignment:
    """Return the assignment in which no table has a device yet."""
    slices = equal_slices(problem)
    devices, columns = problem.devices, grid.size.shape[1]
    return Assignment(
        device=np.full(problem.tables, _NONE, dtype=np.int64),
        size=np.zeros((devices, columns)),
        traffic=np.zeros((devices, columns)),
        network=np.zeros(devices),
        cost=np.zeros(devices),
        spill=np.zeros(devices),
        used=np.zeros(len(problem.pool_capacity)),
        boundary=np.cumsum(slices.capacity[slices.slot[:, :-1]], axis=1),
        slowness=1e3 / problem.bandwidth,
        table_size=grid.size,
        table_traffic=grid.traffic,
        table_network=problem.network_ms,
        pool=problem.pool[:, -1].copy(),
        capacity=problem.pool_capacity,
    )


@numba.njit(cache=True)
def _cost_with(a: Assignment, d: int, added: int, removed: int) -> float:
    """Return what device `d` would cost with table `added` more and `removed` less (−1: none), without network."""
    # Per probe one element of three curves; bisection touches about ten places of each, often in cache.
    last = a.size.shape[1] - 1
    cost = 0.0
    below = 0.0  # traffic of the tiers faster than this one
    low = 0
    for k in range(a.slowness.shape[1]):
        covered = _at(a.traffic, a.table_traffic, d, added, removed, last)
        if k < a.boundary.shape[1]:
            limit = a.boundary[d, k]
            if _at(a.size, a.table_size, d, added, removed, last) > limit:
                high = last
                while high - low > 1:
                    middle = (low + high) >> 1
                    if _at(a.size, a.table_size, d, added, removed, middle) <= limit:
                        low = middle
                    else:
                        high = middle
                size = _at(a.size, a.table_size, d, added, removed, low)
                width = _at(a.size, a.table_size, d, added, removed, low + 1) - size
                covered = _at(a.traffic, a.table_traffic, d, added, removed, low)
                if width > 0:
                    step = _at(a.traffic, a.table_traffic, d, added, removed, low + 1) - covered
                    covered += step * max(0.0, limit - size) / width
        cost += (covered - below) * a.slowness[d, k]
        below = covered
    return cost


@numba.njit(cache=True, inline="always")
def _at(curve: FloatArray, table_curve: FloatArray, d: int, added: int, removed: int, g: int) -> float:
    value = float(curve[d, g])
    if added >= 0:
        value += table_curve[added, g]
    if removed >= 0:
        value -= table_curve[removed, g]
    return value


@numba.njit(cache=True)
def _network_with(a: Assignment, d: int, added: int, removed: int) -> float:
    value = float(a.network[d])
    if added >= 0:
        value += a.table_network[added, d]
    if removed >= 0:
        value -= a.table_network[removed, d]
    return value


@numba.njit(cache=True)
def _spill_with(a: Assignment, d: int, added: int, removed: int) -> float:
    held = _at(a.size, a.table_size, d, added, removed, a.size.shape[1] - 1)
    fast = a.boundary[d, -1] if a.boundary.shape[1] else 0.0
    return max(0.0, held - fast)


@numba.njit(cache=True)
def _fits(a: Assignment, d: int, spill_d: float, e: int, spill_e: float) -> bool:
    """Return whether the slowest tier would hold the spill of devices `d` and `e` (−1: only `d` changes)."""
    change_d = spill_d - a.spill[d]
    change_e = spill_e - a.spill[e] if e >= 0 else 0.0
    if e >= 0 and a.pool[d] != a.pool[e]:
        if a.used[a.pool[e]] + change_e > a.capacity[a.pool[e]]:
            return False
        change_e = 0.0
    return bool(a.used[a.pool[d]] + change_d + change_e <= a.capacity[a.pool[d]])


@numba.njit(cache=True)
def _change(a: Assignment, d: int, added: int, removed: int) -> None:
    """Give device `d` table `added` and take `removed` from it (−1: none)."""
    spill = _spill_with(a, d, added, removed)
    a.used[a.pool[d]] += spill - a.spill[d]
    a.spill[d] = spill
    a.network[d] = _network_with(a, d, added, removed)
    if added >= 0:
        a.size[d] += a.table_size[added]
        a.traffic[d] += a.table_traffic[added]
        a.device[added] = d
    if removed >= 0:
        a.size[d] -= a.table_size[removed]
        a.traffic[d] -= a.table_traffic[removed]
    a.cost[d] = _cost_with(a, d, _NONE, _NONE) + a.network[d]


@numba.njit(cache=True)
def restore(a: Assignment, device: IntArray) -> None:
    """Set every table's device, and sum all curves anew, so that rounding never adds up."""
    a.size[:] = 0.0
    a.traffic[:] = 0.0
    a.network[:] = 0.0
    a.used[:] = 0.0
    for j in range(len(device)):
        d = device[j]
        a.device[j] = d
        a.size[d] += a.table_size[j]
        a.traffic[d] += a.table_traffic[j]
        a.network[d] += a.table_network[j, d]
    for d in range(len(a.cost)):
        a.spill[d] = _spill_with(a, d, _NONE, _NONE)
        a.used[a.pool[d]] += a.spill[d]
        a.cost[d] = _cost_with(a, d, _NONE, _NONE) + a.network[d]


@numba.njit(cache=True)
def assign(a: Assignment, order: IntArray, by_room: bool) -> bool:
    """Give every table a device, in `order`; return whether all found one.

    Each goes where its device then costs least or, `by_room`, where most room is left.
    """
    for j in order:
        best, best_value = _NONE, np.inf
        for d in range(len(a.cost)):
            spill = _spill_with(a, d, j, _NONE)
            if not _fits(a, d, spill, _NONE, 0.0):
                continue
            if by_room:
                fast = a.boundary[d, -1] if a.boundary.shape[1] else 0.0
                room = a.capacity[a.pool[d]] - a.used[a.pool[d]] + fast - a.size[d, -1]
                value = -room
            else:
                value = _cost_with(a, d, j, _NONE) + _network_with(a, d, j, _NONE)
            if value < best_value:
                best, best_value = d, value
        if best == _NONE:
            return False
        _change(a, best, j, _NONE)
    return True


@numba.njit(cache=True)
def descend(a: Assignment) -> None:
    """Improve the slowest device by moves and swaps until no other device can help it."""
    while _improve(a):
        pass


@numba.njit(cache=True)
def _improve(a: Assignment) -> bool:
    """Make the best move or swap with the first device, least loaded first, that lowers the bottleneck."""
    slowest = int(np.argmax(a.cost))
    mine = np.flatnonzero(a.device == slowest)
    limit = a.cost[slowest] * (1.0 - _GAIN)
    for candidate in np.argsort(a.cost):
        other = int(candidate)
        if other == slowest:
            continue
        theirs = np.flatnonzero(a.device == other)
        best, best_j, best_i = limit, _NONE, _NONE
        for candidate_j in mine:
            j = int(candidate_j)
            for position in range(-1, len(theirs)):
                i = int(theirs[position]) if position >= 0 else _NONE
                # The partner must stay below the limit too; it is judged first, since it fails more often.
                there = _cost_with(a, other, j, i) + _network_with(a, other, j, i)
                if there >= best:
                    continue
                here = _cost_with(a, slowest, i, j) + _network_with(a, slowest, i, j)
                worse = max(here, there)
                if worse < best:
                    spill_here, spill_there = _spill_with(a, slowest, i, j), _spill_with(a, other, j, i)
                    if _fits(a, slowest, spill_here, other, spill_there):
                        best, best_j, best_i = worse, j, i
        if best_j != _NONE:
            _change(a, slowest, best_i, best_j)
            _change(a, other, best_j, best_i)
            return True
    return False


@numba.njit(cache=True)
def kick_and_descend(a: Assignment, rng: np.random.Generator, rounds: int) -> None:
    """Leave local minima: `rounds` times some random swaps with the slowest device, then descend again.

    A round that ends above the best so far is undone.
    """
    devices = len(a.cost)
    best = a.cost.max()
    best_device = a.device.copy()
    for _ in range(rounds):
        for _ in range(_KICKS):
            _random_swap(a, int(np.argmax(a.cost)), int(rng.integers(0, devices)), rng)
        descend(a)
        if a.cost.max() <= best * (1.0 + _GAIN):
            best = a.cost.max()
            best_device[:] = a.device
        else:
            restore(a, best_device)


@numba.njit(cache=True)
def _random_swap(a: Assignment, d: int, e: int, rng: np.random.Generator) -> None:
    """Swap a random table of device `d` with a random one of `e`, or with none, where that fits."""
    mine, theirs = np.flatnonzero(a.device == d), np.flatnonzero(a.device == e)
    if d == e or len(mine) == 0:
        return
    j = int(mine[rng.integers(0, len(mine))])
    choice = rng.integers(0, len(theirs) + 1)
    i = int(theirs[choice]) if choice < len(theirs) else _NONE
    if _fits(a, d, _spill_with(a, d, i, j), e, _spill_with(a, e, j, i)):
        _change(a, d, i, j)
        _change(a, e, j, i)
