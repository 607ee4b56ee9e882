"""Kernels of a training step on the CPU: gradients added up by row, and rows updated in one pass."""

from __future__ import annotations

from typing import TypeAlias

import numba
import numpy as np
from numpy.typing import NDArray

from recshard.problem import IntArray

Floats: TypeAlias = NDArray[np.float32]


@numba.njit(cache=True, nogil=True)
def distinct_rows(slots: IntArray, order: IntArray) -> IntArray:
    """Return the rows looked up, rising, shape (u,); `order`: places of `slots` in rising order, shape (n,)."""
    distinct = 0
    for i in range(len(order)):
        distinct += i == 0 or slots[order[i]] != slots[order[i - 1]]
    rows = np.empty(distinct, dtype=np.int64)
    at = -1
    for i in range(len(order)):
        if i == 0 or slots[order[i]] != slots[order[i - 1]]:
            at += 1
            rows[at] = slots[order[i]]
    return rows


@numba.njit(cache=True, nogil=True)
def sum_by_row(
    gradient: Floats, slots: IntArray, offsets: IntArray, order: IntArray, weights: Floats, sums: Floats
) -> None:
    """Write the gradient of each of the `distinct_rows` to `sums`, shape (u, columns).

    Args:
        gradient: of every bag's sum, shape (bags, columns).
        slots: rows looked up, shape (n,).
        offsets: where each bag begins, and the end, shape (bags + 1,).
        order: places of `slots` in rising order, shape (n,).
        weights: of each lookup in the sum, shape (n,), or none.
    """
    # Reads bags at random, which fit the cache; writes in order, and touches no row of the table.
    n, columns = len(slots), gradient.shape[1]
    bag_of = np.empty(n, dtype=np.int32)
    for bag in range(len(offsets) - 1):
        bag_of[offsets[bag] : offsets[bag + 1]] = bag
    at = -1
    for i in range(n):
        lookup = order[i]
        if i == 0 or slots[lookup] != slots[order[i - 1]]:
            at += 1
            sums[at] = 0
        own, total = gradient[bag_of[lookup]], sums[at]
        if len(weights):
            for c in range(columns):
                total[c] += weights[lookup] * own[c]
        else:
            for c in range(columns):
                total[c] += own[c]


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def gradient_of_weights(gradient: Floats, table: Floats, slots: IntArray, offsets: IntArray) -> Floats:
    """Return the gradient of each lookup's weight, shape (n,): its row times the gradient of its bag."""
    out = np.empty(len(slots), dtype=np.float32)
    for bag in range(len(offsets) - 1):
        own = gradient[bag]
        for i in range(offsets[bag], offsets[bag + 1]):
            row = table[slots[i]]
            total = np.float32(0)
            for c in range(len(own)):
                total += own[c] * row[c]
            out[i] = total
    return out


@numba.njit(cache=True, nogil=True)
def step_sgd(table: Floats, rows: IntArray, gradient: Floats, lr: float) -> None:
    """w −= lr · g for distinct rows."""
    rate = np.float32(lr)
    for i in range(len(rows)):
        row, own = table[rows[i]], gradient[i]
        for c in range(len(own)):
            row[c] -= rate * own[c]


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def step_rowwise_adagrad(
    table: Floats, sums: Floats, rows: IntArray, gradient: Floats, lr: float, eps: float
) -> None:
    """s += mean(g²); w −= lr · g ÷ (√s + eps) for distinct rows."""
    # One random read and write a row.
    for i in range(len(rows)):
        own, row = gradient[i], table[rows[i]]
        square = np.float32(0)
        for c in range(len(own)):
            square += own[c] * own[c]
        sums[rows[i]] += square / np.float32(len(own))
        rate = np.float32(lr) / (np.sqrt(sums[rows[i]]) + np.float32(eps))
        for c in range(len(own)):
            row[c] -= rate * own[c]
