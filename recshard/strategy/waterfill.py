"""Water-filling: the best split of tables over the tiers of their devices, given which device holds each.

Rows compete for fast memory by traffic per byte. Given the assignment, filling the tiers from the fastest in
that order is optimal, since cost is linear in every row (design.md). One pass over all frequency classes,
densest first, fills every device at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from recshard.problem import FloatArray, IntArray, PlacementProblem


@dataclass(frozen=True)
class Slices:
    """Who may use how much of each memory: tier k of device d draws on `left[slot[d, k]]` bytes.

    Attributes:
        slot: shape (d, k). Memory of one device has a slot of its own, and so has each device's slice of a
            pool that several share; only the slowest tier's shared pool stays one slot, since what no faster
            tier holds must stand there whoever owns it.
        capacity: bytes of each slot, shape (s,).
    """

    slot: IntArray
    capacity: FloatArray


def equal_slices(problem: PlacementProblem) -> Slices:
    """Return slices that divide every shared pool, but the slowest, equally among its devices."""
    devices, tiers = problem.devices, problem.tiers
    slot = np.empty((devices, tiers), dtype=np.int64)
    slot[:, :-1] = np.arange(devices * (tiers - 1)).reshape(devices, tiers - 1)
    last, slot[:, -1] = np.unique(problem.pool[:, -1], return_inverse=True)
    slot[:, -1] += devices * (tiers - 1)
    divided = problem.pool_capacity[problem.pool] / problem.pool_users[problem.pool]
    return Slices(slot, np.concatenate([divided[:, :-1].ravel(), problem.pool_capacity[last]]))


def fill(problem: PlacementProblem, device: IntArray, slices: Slices) -> tuple[IntArray, int]:
    """Split every table over the tiers of its device, in whole rows.

    Args:
        device: device of each table, shape (t,).
        slices: the bytes that each device may use.

    Returns:
        Rows per tier, shape (t, k), and the bytes that found no room (0 where the assignment fits).
    """
    rows = np.zeros((problem.tables, problem.tiers), dtype=np.int64)
    homeless = _fill(
        problem.class_order,
        problem.class_rows,
        problem.class_table,
        problem.row_bytes,
        device,
        slices.slot,
        slices.capacity.copy(),
        rows,
    )
    return rows, homeless


@numba.njit(cache=True)
def _fill(
    order: IntArray,
    class_rows: IntArray,
    class_table: IntArray,
    row_bytes: IntArray,
    device: IntArray,
    slot: IntArray,
    left: FloatArray,
    rows: IntArray,
) -> int:
    # Classes are read in density order (scattered, but each once); the bytes left per slot stay in cache.
    homeless = 0
    for c in order:
        table = class_table[c]
        remaining = class_rows[c]
        size = row_bytes[table]
        for k in range(slot.shape[1]):
            s = slot[device[table], k]
            taken = min(remaining, int(left[s] // size))
            if taken > 0:
                left[s] -= taken * size
                rows[table, k] += taken
                remaining -= taken
            if remaining == 0:
                break
        homeless += remaining * size
    return homeless


@dataclass(frozen=True)
class FractionalSplit:
    """The split of every device as if rows could be cut: what no split in whole rows can beat.

    Attributes:
        cost_ms: cost of each device without its network, shape (d,).
        price: milliseconds saved per further byte in each tier of each device, shape (d, k): its shadow price.
        homeless: bytes of each device that found no room, shape (d,).
    """

    cost_ms: FloatArray
    price: FloatArray
    homeless: FloatArray


def fractional_split(problem: PlacementProblem, device: IntArray, capacity: FloatArray) -> FractionalSplit:
    """Return the cost of splitting the tables of each device over `capacity` bytes per tier, shape (d, k)."""
    boundary = np.cumsum(capacity, axis=1)
    slowness = 1e3 / problem.bandwidth  # ms per byte of traffic
    cost = np.zeros(problem.devices)
    cut = np.zeros((problem.devices, problem.tiers))
    homeless = _fill_fractional(
        problem.class_order,
        (problem.class_rows * problem.row_bytes[problem.class_table]).astype(np.float64),
        problem.class_table,
        problem.class_density,
        device,
        boundary,
        slowness,
        cost,
        cut,
    )
    saved = cut[:, :-1] * np.diff(slowness, axis=1)
    price = np.zeros_like(cut)
    price[:, :-1] = np.cumsum(saved[:, ::-1], axis=1)[:, ::-1]
    return FractionalSplit(cost, price, homeless)


@numba.njit(cache=True)
def _fill_fractional(
    order: IntArray,
    class_bytes: FloatArray,
    class_table: IntArray,
    class_density: FloatArray,
    device: IntArray,
    boundary: FloatArray,
    slowness: FloatArray,
    cost: FloatArray,
    cut: FloatArray,
) -> FloatArray:
    # Each device keeps how far it is filled and at which tier; `cut` is the density where a boundary falls.
    devices, tiers = boundary.shape
    filled = np.zeros(devices)
    tier = np.zeros(devices, dtype=np.int64)
    homeless = np.zeros(devices)
    for c in order:
        d = device[class_table[c]]
        remaining = class_bytes[c]
        density = class_density[c]
        while remaining > 0:
            k = tier[d]
            if k == tiers:
                homeless[d] += remaining
                break
            taken = min(boundary[d, k] - filled[d], remaining)
            cost[d] += taken * density * slowness[d, k]
            filled[d] += taken
            remaining -= taken
            if filled[d] >= boundary[d, k]:
                # Where a boundary falls between two classes, either density is a valid slope.
                cut[d, k] = density
                tier[d] += 1
    return homeless
