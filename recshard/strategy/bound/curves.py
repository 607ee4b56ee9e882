"""Curves: the bytes and the traffic of every table above any density, and what a table costs at given prices."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from recshard.problem import FloatArray, IntArray, PlacementProblem


@dataclass(frozen=True)
class Curves:
    """Running sums over the classes of each table, hottest first.

    Attributes:
        start: where each table's classes begin, shape (t + 1,).
        density: traffic per byte of each class, falling within a table, shape (c,).
        size: bytes of a table's classes up to and including each, shape (c,).
        traffic: the traffic of the same, shape (c,).
    """

    start: IntArray
    density: FloatArray
    size: FloatArray
    traffic: FloatArray


def table_curves(problem: PlacementProblem) -> Curves:
    """Return the curves of all tables."""
    size, traffic = _running_sums(
        problem.class_start, problem.class_rows, problem.row_bytes.astype(np.float64), problem.class_density
    )
    return Curves(problem.class_start, problem.class_density, size, traffic)


@numba.njit(cache=True)
def _running_sums(
    start: IntArray, rows: IntArray, row_bytes: FloatArray, density: FloatArray
) -> tuple[FloatArray, FloatArray]:
    # One sequential pass.
    size = np.empty(len(rows))
    traffic = np.empty(len(rows))
    for j in range(len(start) - 1):
        above_size = 0.0
        above_traffic = 0.0
        for c in range(start[j], start[j + 1]):
            own = rows[c] * row_bytes[j]
            above_size += own
            above_traffic += own * density[c]
            size[c] = above_size
            traffic[c] = above_traffic
    return size, traffic


@numba.njit(cache=True)
def lower_envelope(slope: FloatArray, price: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return, for lines by rising slope, which one follows each in the lower envelope of it and all later ones.

    A byte of density ρ costs `price[i] + slope[i] · ρ` on line i. Line i is best from infinite density down to
    `turn[i]`, then comes line `following[i]` (-1: none), which has a turn of its own. Every suffix of the lines
    has its envelope in the same two arrays, each of shape (lines,).
    """
    n = len(slope)
    following = np.full(n, -1, dtype=np.int64)
    turn = np.full(n, -1.0)
    for i in range(n - 2, -1, -1):
        f = i + 1
        while f >= 0:
            if price[i] <= price[f]:
                at = -1.0  # both faster and cheaper
            elif slope[i] < slope[f]:
                at = (price[i] - price[f]) / (slope[f] - slope[i])
            else:
                at = np.inf
            if at > turn[f]:
                following[i] = f
                turn[i] = at
                break
            f = following[f]
    return following, turn


@numba.njit(cache=True)
def cost_on_lines(
    j: int,
    start: IntArray,
    density: FloatArray,
    size: FloatArray,
    traffic: FloatArray,
    slope: FloatArray,
    price: FloatArray,
    reach: FloatArray,
    following: IntArray,
    turn: FloatArray,
    copies: int,
    used_size: FloatArray,
    used_traffic: FloatArray,
) -> float:
    """Return the least cost of table j on lines by rising slope, and add what it uses of each line.

    At most `copies · reach[i]` bytes may stand on lines 0 … i together. Cost per byte is least where each byte
    by itself is on the best line that its rank allows: the hottest `copies · reach[0]` bytes may be on any line,
    those after them on all but line 0, and so on. That choice never moves back to a faster line, so it keeps
    all limits and is exact. The last line takes whatever is left.
    """
    # Bisection within one table's classes: a few cache lines a probe, tables in memory order.
    first, end = start[j], start[j + 1]
    if first == end:
        return 0.0
    whole = size[end - 1]
    cost = 0.0
    position = 0.0
    above = 0.0
    fastest = 0
    last = len(slope) - 1
    while position < whole:
        while fastest < last and copies * reach[fastest] <= position:
            fastest += 1
        limit = whole if fastest == last else min(whole, copies * reach[fastest])
        line = fastest
        while position < limit:
            stop = limit
            read = -1.0
            if following[line] >= 0:
                low, high = first, end  # to the first class that is not above the turn
                while low < high:
                    middle = (low + high) // 2
                    if density[middle] > turn[line]:
                        low = middle + 1
                    else:
                        high = middle
                stop = size[low - 1] if low > first else 0.0
                if stop < limit:
                    read = traffic[low - 1] if low > first else 0.0
                else:
                    stop = limit
            if stop > position:
                if read < 0:
                    low, high = first, end - 1  # to the class that reaches the limit
                    while low < high:
                        middle = (low + high) // 2
                        if size[middle] < stop:
                            low = middle + 1
                        else:
                            high = middle
                    read = traffic[low] - (size[low] - stop) * density[low]
                cost += (stop - position) * price[line] + (read - above) * slope[line]
                used_size[line] += stop - position
                used_traffic[line] += read - above
                position = stop
                above = read
            line = following[line]
    return cost
