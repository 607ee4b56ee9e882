"""The pooled bound: devices that are all alike are no faster than one device with all their memory together.

The bottleneck is at least the mean device cost, and the sum of all device costs is at least what filling the
pooled tiers with the densest rows costs, where no table gets more of the tiers 0 … k than as many devices as it
may be cut into shards reach. Of a pool that devices share, each reaches all.
Where the rows that fill the tiers 0 … k can be among those that fill the tiers 0 … k + 1, this is the best that
rents on the pools can prove (linear programming duality), and the Lagrangian bound has nothing to add. It is so
unless a shared tier is full while faster ones hold rows no denser than those that it must leave out, since no
table reaches all of their memory.
"""

from __future__ import annotations

import numba
import numpy as np

from recshard.problem import FloatArray, IntArray, PlacementProblem
from recshard.strategy.bound.kinds import Kinds

_ROUNDING = 1e-9  # of a tier's bytes


def pooled_bound_ms(problem: PlacementProblem, kinds: Kinds, copies: IntArray) -> tuple[float, bool]:
    """Return the pooled bound for devices of one kind, in ms, and whether rents on pools can prove no more.

    Args:
        copies: the most devices that share each table, shape (t,).
    """
    slowness = kinds.slowness[0]
    reach = np.full((problem.tables, problem.tiers), np.inf)
    reach[:, :-1] = copies[:, None] * kinds.reach[0, :-1]
    left = np.full(problem.tiers, np.inf)
    filled = 0.0
    for k in range(problem.tiers - 1):
        # What no table reaches of the faster tiers stays empty; it is no room for the slower ones' rows.
        usable = np.minimum(problem.table_bytes, reach[:, k]).sum()
        left[k] = filled = min(filled + (kinds.pools * kinds.pool_capacity)[kinds.pool[0, k]], usable)
    covered, outside = _covered(
        problem.class_order,
        problem.class_rows,
        problem.row_bytes.astype(np.float64),
        problem.class_table,
        problem.class_density,
        left.copy(),
        reach,
    )
    read = np.diff(covered, prepend=0.0)  # from each tier alone
    network = problem.network_bytes.sum() * kinds.network_slowness[0]
    nested = bool((outside <= _ROUNDING * left[:-1]).all())
    return float(np.dot(read, slowness) + network) / problem.devices, nested


@numba.njit(cache=True)
def _covered(
    order: IntArray,
    class_rows: IntArray,
    row_bytes: FloatArray,
    class_table: IntArray,
    density: FloatArray,
    left: FloatArray,
    reach: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the traffic of the densest `left[k]` bytes, of table j at most `reach[j, k]`, shape (k,).

    Also how many of these bytes cannot be among those of k + 1, whichever of equal density are taken, (k − 1,).
    """
    # Classes are read in density order (scattered, but each once); `left` and `reach` are used up in place.
    tiers = len(left)
    covered = np.zeros(tiers)
    outside = np.zeros(tiers - 1)
    alike = np.zeros(tiers)  # bytes taken of the density at hand
    for at, c in enumerate(order):
        j = class_table[c]
        size = class_rows[c] * row_bytes[j]
        for k in range(tiers):
            taken = min(size, left[k], reach[j, k])
            if taken > 0:
                reach[j, k] -= taken
                left[k] -= taken
                covered[k] += taken * density[c]
                alike[k] += taken
        if at + 1 == len(order) or density[order[at + 1]] != density[c]:
            for k in range(tiers - 1):
                outside[k] += max(0.0, alike[k] - alike[k + 1])
            alike[:] = 0.0
    return covered, outside
