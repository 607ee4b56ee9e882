"""Exchanges of tables between two devices: the kernel of `search`.

Before what devices would cost is worked out, every exchange is judged in constant time: access curves are concave,
so a device's cost is at least what it is with its thresholds held where they are, and that is a sum over tables (a
Lagrangian bound). Only exchanges that this leaves open are worth a bisection.
"""

from __future__ import annotations

import numba
import numpy as np

from recshard.problem import FloatArray, IntArray
from recshard.strategy.assignment import NONE, Assignment, cost_with, fits, floor_of, load_on, put, spill_with

_GAIN = 1e-12  # of a device's cost: smaller gains are rounding
_MOST_BISECTED = 2_000  # exchanges of two devices that are worth the best of them
_STEEPEST = 600.0  # e to this is still a number


@numba.njit(cache=True)
def ascending(values: FloatArray) -> IntArray:
    """Return the order of rising values: compiled once, here, for all kernels."""
    return np.argsort(values)


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
    floor_d, floor_e = floor_of(a, d), floor_of(a, e)
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
            there = pressure(cost_with(a, e, i, ii, j, jj, hint), steepness, scale)
            if there >= best:
                continue
            hint[:] = a.hint[d]
            here = pressure(cost_with(a, d, j, jj, i, ii, hint), steepness, scale)
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
