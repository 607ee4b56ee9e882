"""Bounds from few tables: one that is costly even alone, or several that must meet on one device.

* One table: none costs less than it does alone on the device that serves it best. A table cut into m shards has
  at most m devices, so the slowest of them bears at least 1/m of what the table costs on m copies of a device
  that is as good as the best in everything. Cut by columns, some shard has at least 1/m of them and the state of
  every row, and costs no less than it does alone.
* Pigeonhole: of any k·D + 1 tables that cannot be cut, some device of the D holds k + 1. What these cost
  together is at least the sum of what they cost at some rent per byte of its memories, less all the rent that
  the memories yield; rent zero gives the sum of what they cost alone.
"""

from __future__ import annotations

import numba
import numpy as np

from recshard.problem import FloatArray, IntArray, PlacementProblem
from recshard.shards import Shards, cut
from recshard.strategy.bound.curves import Curves, cost_on_lines, lower_envelope, table_curves
from recshard.strategy.bound.kinds import Kinds

_RENTS = 32
_MOST_RENTED = 4  # more tables on a device are many and small: then all memory together says more


def alone_ms(problem: PlacementProblem, curves: Curves, kinds: Kinds) -> FloatArray:
    """Return what each table costs alone on a device of each kind, network included, shape (t, q)."""
    every, one = np.arange(problem.tables), np.ones(problem.tables, dtype=np.int64)
    free = np.zeros(problem.tiers)
    cost = [
        _at_rent(curves, every, kinds.slowness[q], free, kinds.reach[q], one) for q in range(len(kinds.devices))
    ]
    return np.column_stack(cost) + problem.network_bytes[:, None] * kinds.network_slowness


def single_table_bound_ms(
    problem: PlacementProblem, curves: Curves, kinds: Kinds, alone: FloatArray, copies: IntArray, by_rows: bool
) -> float:
    """Return the bound of the costliest table, in ms.

    Args:
        alone: what each table costs alone on each kind of device, shape (t, q).
        copies: the most devices that share each table, shape (t,).
        by_rows: whether shards are cut by rows, so that each sends pooled outputs of full width.
    """
    best = np.where(copies == 1, alone.min(axis=1), 0.0)
    if (copies > 1).any():
        free, every = np.zeros(problem.tiers), np.arange(problem.tables)
        memory = _at_rent(curves, every, kinds.slowness.min(axis=0), free, kinds.reach.max(axis=0), copies)
        network = problem.network_bytes * kinds.network_slowness.min()
        shared = memory / copies + (network if by_rows else network / copies)
        best = np.where(copies == 1, best, shared)
    return float(best.max(initial=0.0))


def widest_shard_bound_ms(problem: PlacementProblem, kinds: Kinds, most: IntArray) -> float:
    """Return the bound of the widest column shard of the costliest table, in ms.

    Args:
        most: the most column shards of each table, shape (t,).
    """
    every, one = np.arange(problem.tables), np.ones(problem.tables, dtype=np.int64)
    columns = -(-problem.dim // most)
    widest = cut(problem, Shards(every, np.zeros_like(every), columns, np.zeros_like(every), one))
    return float(alone_ms(widest, table_curves(widest), kinds).min(axis=1).max(initial=0.0))


def pigeonhole_bound_ms(
    problem: PlacementProblem, curves: Curves, kinds: Kinds, alone: FloatArray, whole: IntArray
) -> float:
    """Return the best bound from tables that must meet on a device, in ms; 0 for fewer tables than devices.

    Args:
        alone: what each table costs alone on each kind of device, shape (t, q).
        whole: the tables that cannot be cut.
    """
    devices = problem.devices
    costliest = whole[np.argsort(-alone[whole].min(axis=1), kind="stable")]
    most = (len(costliest) - 1) // devices  # largest k for which there are k·D + 1 tables
    if most < 1:
        return 0.0
    above = np.concatenate([[0.0], np.cumsum(alone[costliest].min(axis=1))])
    k = np.arange(1, most + 1)
    unrented = float((above[k * devices + 1] - above[k * devices - k]).max())
    few = min(most, _MOST_RENTED)
    return max(unrented, _rented_pigeonhole(problem, curves, kinds, costliest[: few * devices + 1], few))


def _rented_pigeonhole(
    problem: PlacementProblem, curves: Curves, kinds: Kinds, costliest: IntArray, most: int
) -> float:
    """Return the pigeonhole bound for k = 1 … most where tables that meet pay rent for memory, in ms.

    At density θ a byte's rent in tier k is what it saves there over the slowest tier.
    """
    density = curves.density[np.concatenate([np.arange(*curves.start[j : j + 2]) for j in costliest])]
    density = density[density > 0]
    if not len(density):
        return 0.0
    threshold = np.append(0.0, np.geomspace(density.min(), density.max(), _RENTS))
    together = np.zeros((len(kinds.devices), most))
    one = np.ones(problem.tables, dtype=np.int64)
    for q, slowness in enumerate(kinds.slowness):
        network = problem.network_bytes[costliest] * kinds.network_slowness[q]
        for at in threshold:
            rent = at * (slowness[-1] - slowness)
            cost = network + _at_rent(curves, costliest, slowness, rent, kinds.reach[q], one)
            income = float(np.dot(rent, kinds.capacity[q]))
            for k in range(1, most + 1):
                least = np.partition(cost[: k * problem.devices + 1], k)[: k + 1].sum() - income
                together[q, k - 1] = max(together[q, k - 1], least)
    return float(together.min(axis=0).max())


def _at_rent(
    curves: Curves,
    tables: IntArray,
    slowness: FloatArray,
    rent: FloatArray,
    reach: FloatArray,
    copies: IntArray,
) -> FloatArray:
    return _each_at_rent(
        curves.start, curves.density, curves.size, curves.traffic, tables, slowness, rent, reach, copies
    )


@numba.njit(cache=True)
def _each_at_rent(
    start: IntArray,
    density: FloatArray,
    size: FloatArray,
    traffic: FloatArray,
    tables: IntArray,
    slowness: FloatArray,
    rent: FloatArray,
    reach: FloatArray,
    copies: IntArray,
) -> FloatArray:
    """Return the least cost of each of `tables` by itself, memory being rented by the byte, shape (tables,)."""
    following, turn = lower_envelope(slowness, rent)
    unused = np.zeros(len(slowness))
    cost = np.empty(len(tables))
    for i, j in enumerate(tables):
        cost[i] = cost_on_lines(
            j, start, density, size, traffic, slowness, rent, reach, following, turn, copies[j], unused, unused
        )
    return cost
