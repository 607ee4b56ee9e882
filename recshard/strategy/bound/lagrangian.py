"""The Lagrangian of the placement problem: weights on the devices, rents on the memories, every table by itself.

For weights w ≥ 0 of the devices that add up to 1 and rents μ ≥ 0 per byte of every pool, the bottleneck is at
least Σ w_d · cost_d ≥ Σ over tables of (the least cost of the table, traffic weighted and memory rented) − Σ μ_p
· capacity_p: each table goes by itself to the device where it costs least. It is there split within the device's
reach (the bytes that all its tiers down to k hold), exactly; that a single slower tier has a capacity of its own
is left to its rent. A table that may be cut puts every row where it costs least, on lines by rising weighted
slowness, of which the first i hold at most as many bytes as those of its lines do on the roomiest device, times
the most shards. Rows and network of a cut table count as if it were whole: shards only add to them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from recshard.problem import FloatArray, IntArray, PlacementProblem
from recshard.strategy.bound.curves import Curves, cost_on_lines, lower_envelope
from recshard.strategy.bound.kinds import Kinds


@dataclass(frozen=True)
class Lagrangian:
    """The function to be maximised. A point is q shares of weight, then r rents of all pools of a kind in ms.

    Attributes:
        curves: of all tables.
        kinds: of devices and pools.
        copies: the most devices that share each table, shape (t,).
        allowed: the kinds of devices where each table may stand, shape (t, q).
        network_ms: what each table costs the network link of each kind of device, shape (t, q).
    """

    curves: Curves
    kinds: Kinds
    copies: IntArray
    allowed: NDArray[np.bool_]
    network_ms: FloatArray

    def evaluate(self, point: FloatArray) -> tuple[float, FloatArray]:
        """Return a lower bound on the bottleneck in ms and its slope, shape (q + r,).

        The Lagrangian is concave and linear along rays: it is nowhere above slope · point.

        Args:
            point: shares of weight of the kinds of devices, adding up to 1, and rents, shape (q + r,), all ≥ 0.
        """
        kinds, kind_count = self.kinds, len(self.kinds.devices)
        weight = point[:kind_count] / kinds.devices
        whole = kinds.pools * kinds.pool_capacity
        rent = np.divide(point[kind_count:], whole, out=np.zeros(len(whole)), where=whole > 0)
        cost, size, traffic, network = _priced(
            self.curves.start,
            self.curves.density,
            self.curves.size,
            self.curves.traffic,
            self.copies,
            self.allowed,
            self.network_ms,
            kinds.slowness,
            kinds.capacity,
            weight,
            rent[kinds.pool],
        )
        rented = np.bincount(kinds.pool.ravel(), weights=size.ravel(), minlength=len(whole))
        slope = np.concatenate(
            [
                ((traffic * kinds.slowness).sum(axis=1) + network) / kinds.devices,
                np.divide(rented, whole, out=np.zeros(len(whole)), where=whole > 0) - (whole > 0),
            ]
        )
        return cost - float(point[kind_count:][whole > 0].sum()), slope


def lagrangian(problem: PlacementProblem, curves: Curves, kinds: Kinds, copies: IntArray) -> Lagrangian:
    """Return the Lagrangian of a problem; see `Lagrangian` for the shapes."""
    fits = problem.table_bytes[:, None] <= kinds.reach[:, -1] * (1 + 1e-12)
    fits |= (copies > 1)[:, None] | ~fits.any(axis=1, keepdims=True)
    network = problem.network_bytes[:, None] * kinds.network_slowness
    return Lagrangian(curves, kinds, copies, fits, network)


@numba.njit(cache=True)
def _priced(
    start: IntArray,
    density: FloatArray,
    size: FloatArray,
    traffic: FloatArray,
    copies: IntArray,
    allowed: NDArray[np.bool_],
    network: FloatArray,
    slowness: FloatArray,
    capacity: FloatArray,
    weight: FloatArray,
    rent: FloatArray,
) -> tuple[float, FloatArray, FloatArray, FloatArray]:
    """Return Σ over tables of their least cost, and bytes (q, k), traffic (q, k) and network (q,) behind it."""
    kinds, tiers = slowness.shape
    # One chain of lines for each kind of device, and a last one of all lines for tables that may be cut.
    chain = np.zeros(kinds + 2, dtype=np.int64)
    lines = np.empty(2 * kinds * tiers, dtype=np.int64)
    reach = np.zeros(2 * kinds * tiers)
    n = 0
    for q in range(kinds):
        for k in range(tiers):
            # Memory without a byte is no line, but where nothing is left the slowest stands for all.
            if capacity[q, k] > 0 or (k == tiers - 1 and n == chain[q]):
                lines[n] = q * tiers + k
                reach[n] = capacity[q, k] + (reach[n - 1] if n > chain[q] else 0.0)
                n += 1
        chain[q + 1] = n
    slope = np.empty(2 * kinds * tiers)
    price = np.empty(2 * kinds * tiers)
    for i in range(n):
        q, k = lines[i] // tiers, lines[i] % tiers
        slope[i] = weight[q] * slowness[q, k]
        price[i] = rent[q, k]
    held = np.zeros(kinds)
    for i in np.argsort(slope[:n], kind="mergesort"):
        q, k = lines[i] // tiers, lines[i] % tiers
        held[q] += capacity[q, k]
        at = n + chain[kinds + 1]
        lines[at], slope[at], price[at], reach[at] = lines[i], slope[i], price[i], held.max()
        chain[kinds + 1] += 1
    chain[kinds + 1] += n
    following = np.empty(2 * kinds * tiers, dtype=np.int64)
    turn = np.empty(2 * kinds * tiers)
    for q in range(kinds + 1):
        a, b = chain[q], chain[q + 1]
        following[a:b], turn[a:b] = lower_envelope(slope[a:b], price[a:b])

    used_size = np.zeros(2 * kinds * tiers)
    used_traffic = np.zeros(2 * kinds * tiers)
    nowhere = np.zeros(2 * kinds * tiers)
    used_network = np.zeros(kinds)
    total = 0.0
    for j in range(len(start) - 1):
        best = np.inf
        where = kinds
        link = 0
        if copies[j] == 1:
            for q in range(kinds):
                if allowed[j, q]:
                    a, b = chain[q], chain[q + 1]
                    cost = weight[q] * network[j, q] + cost_on_lines(
                        j,
                        start,
                        density,
                        size,
                        traffic,
                        slope[a:b],
                        price[a:b],
                        reach[a:b],
                        following[a:b],
                        turn[a:b],
                        1,
                        nowhere[a:b],
                        nowhere[a:b],
                    )
                    if cost < best:
                        best, where, link = cost, q, q
        else:
            for q in range(kinds):
                if weight[q] * network[j, q] < weight[link] * network[j, link]:
                    link = q
        a, b = chain[where], chain[where + 1]
        total += weight[link] * network[j, link] + cost_on_lines(
            j,
            start,
            density,
            size,
            traffic,
            slope[a:b],
            price[a:b],
            reach[a:b],
            following[a:b],
            turn[a:b],
            copies[j],
            used_size[a:b],
            used_traffic[a:b],
        )
        used_network[link] += network[j, link]
    by_size = np.zeros(kinds * tiers)
    by_traffic = np.zeros(kinds * tiers)
    for i in range(chain[kinds + 1]):
        by_size[lines[i]] += used_size[i]
        by_traffic[lines[i]] += used_traffic[i]
    return total, by_size.reshape(kinds, tiers), by_traffic.reshape(kinds, tiers), used_network
