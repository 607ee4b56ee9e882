"""The packing MILP: whole tables on devices with HiGHS, to find what greedy rules miss or to prove there is none.

Tables of equal size are counted, not told apart; equal devices and equal nodes are numbered by the largest table
that they hold. Answers are checked in whole bytes, since a solver's are good to its tolerance only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from recshard.problem import FloatArray, IntArray
from recshard.strategy.reach import Reach

_LARGEST = 60_000  # variables; beyond it HiGHS needs more than the few seconds there are
_UNIT = 1e4  # the roomiest device at most, in the model's units: far above the solver's absolute tolerances
_TOLERANCE = 1e-6  # of a bound, which is good to the solver's tolerances only
_ROUNDING = 1e-9  # of a device's reach
_SHORTEST = 0.02  # seconds below which HiGHS cannot even begin
_FAILED = 4  # scipy's statuses
_INFEASIBLE = 2

Extra = Literal["none", "same", "total"]


@dataclass(frozen=True)
class Outcome:
    """What HiGHS found.

    Attributes:
        device: device of each table, shape (t,), or None.
        infeasible: whether it proved that there is none.
        bound: proven least extra bytes.
    """

    device: IntArray | None
    infeasible: bool
    bound: float


def pack_by_milp(
    sizes: IntArray, reach: Reach, capacity: IntArray, seconds: float
) -> tuple[IntArray | None, bool]:
    """Return a packing or None, and whether it is proven that there is none.

    Args:
        sizes: bytes of the tables, falling, shape (t,).
        capacity: bytes of each memory, shape (m,).
    """
    outcome = _solve(sizes, reach, capacity, "none", seconds)
    if outcome.device is None:
        return None, outcome.infeasible
    load = loads(sizes, outcome.device, len(reach.chain))
    return (None if reach.homeless(load, capacity).any() else outcome.device), False


def least_extra(
    sizes: IntArray, reach: Reach, extra: Literal["same", "total"], seconds: float
) -> tuple[IntArray | None, int]:
    """Return the assignment that needs the least extra capacity, and bytes proven to be needed at least.

    Args:
        extra: `same`: the least bytes that, added to the slowest pool of every device, make room; `total`: the
            least sum of bytes, added to slowest pools as it pleases.
    """
    outcome = _solve(sizes, reach, reach.capacity, extra, seconds)
    doubt = _TOLERANCE * outcome.bound + _ROUNDING * float(reach.per_device(reach.capacity).max())
    return outcome.device, max(0, int(np.ceil(outcome.bound - doubt)))


def loads(sizes: IntArray, device: IntArray, devices: int) -> IntArray:
    """Return the bytes on each device, shape (d,)."""
    load = np.zeros(devices, dtype=np.int64)
    np.add.at(load, device, sizes)
    return load


def _solve(sizes: IntArray, reach: Reach, capacity: IntArray, extra: Extra, seconds: float) -> Outcome:
    """Columns: tables of each size on each device (r × d), bytes that devices take from shared memories, extra."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    size, count = (a[::-1] for a in np.unique(sizes, return_counts=True))
    devices = len(reach.chain)
    whole = len(size) * devices
    if not len(sizes) or whole > _LARGEST or seconds < _SHORTEST:
        return Outcome(None, False, 0.0)
    # Whole bytes stay whole numbers: of their odd fractions HiGHS was seen to give up.
    unit = max(1.0, float(reach.per_device(capacity).max()) / _UNIT)
    d_shared, k_shared = np.nonzero(reach.chain[:, 1:] >= 0)
    memory = reach.chain[:, 1:][d_shared, k_shared]
    flows = len(memory)
    own = reach.chain[:, 0]
    shared = np.unique(memory)
    raised = np.flatnonzero(reach.raised) if extra == "total" else np.arange(1 if extra == "same" else 0)
    width = whole + flows + len(raised)
    # Rows: every size placed (r), own memory of each device (d), each shared memory (s).
    r, d = np.divmod(np.arange(whole), devices)
    flow = np.arange(flows)
    at_shared = len(size) + devices + np.searchsorted(shared, memory)
    entries: list[tuple[Any, Any, Any]] = [
        (r, np.arange(whole), np.ones(whole)),
        (len(size) + d, np.arange(whole), size[r] / unit),
        (len(size) + d_shared, whole + flow, -np.ones(flows)),
        (at_shared, whole + flow, np.ones(flows)),
    ]
    row_memory = np.concatenate([own, shared])
    if extra == "same":
        grown = np.flatnonzero(reach.raised[row_memory])
        column = np.full(len(grown), whole + flows)
        entries.append((len(size) + grown, column, -reach.raised[row_memory[grown]].astype(float)))
    elif extra == "total":
        place = {int(m): i for i, m in enumerate(row_memory)}
        rows = np.array([len(size) + place[int(m)] for m in raised], dtype=np.int64)
        entries.append((rows, whole + flows + np.arange(len(raised)), -np.ones(len(raised))))
    row, column, value = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    height = len(size) + devices + len(shared)
    matrix = coo_array((value, (row, column)), shape=(height, width)).tocsr()
    limit = capacity[row_memory] / unit
    constraint = LinearConstraint(
        matrix,
        np.concatenate([count, np.full(devices + len(shared), -np.inf)]),
        np.concatenate([count, limit]),
    )
    most = np.where(_positions(reach, capacity)[d] < np.cumsum(count)[r], count[r], 0)
    integrality = np.zeros(width)
    integrality[:whole] = 1
    objective: FloatArray = np.zeros(width)
    objective[whole + flows :] = 1.0
    for presolve in (True, False):
        result = milp(
            objective,
            integrality=integrality,
            bounds=Bounds(np.zeros(width), np.concatenate([most, np.full(width - whole, np.inf)])),
            constraints=constraint,
            options={"time_limit": seconds, "mip_rel_gap": 0.0, "presolve": presolve},
        )
        if result.status != _FAILED:  # seen of a few tiny models, which are solved without presolving
            break
    bound = getattr(result, "mip_dual_bound", None)
    proven = float(bound) * unit if bound is not None and np.isfinite(bound) else 0.0
    if result.x is None:
        return Outcome(None, result.status == _INFEASIBLE, proven)
    placed = np.rint(result.x[:whole]).astype(np.int64).reshape(len(size), devices)
    if (placed.sum(axis=1) != count).any():
        return Outcome(None, False, proven)
    # Sizes stand in falling order in both, so the tables of a size are neighbours.
    return Outcome(np.repeat(np.tile(np.arange(devices), len(size)), placed.ravel()), False, proven)


def _positions(reach: Reach, capacity: IntArray) -> IntArray:
    """Return, for each device, how many interchangeable devices or nodes come before it at most, shape (d,).

    Interchangeable ones may be numbered by the largest table that they hold. So the n largest tables stand on the
    first n of them.
    """
    position = np.zeros(len(reach.chain), dtype=np.int64)
    seen: dict[object, int] = {}
    nodes: dict[int, list[int]] = {}
    for d, chain in enumerate(reach.chain.tolist()):
        key = (int(capacity[chain[0]]), int(reach.raised[chain[0]]), *chain[1:])
        position[d] = seen.get(key, 0)
        seen[key] = seen.get(key, 0) + 1
        nodes.setdefault(chain[1] if len(chain) > 1 and chain[1] >= 0 else -1, []).append(d)
    if reach.chain.shape[1] > 2:
        return position
    alike: dict[object, int] = {}
    for node, members in nodes.items():
        if node < 0:
            continue
        privates = tuple(sorted((int(capacity[m]), int(reach.raised[m])) for m in reach.chain[members, 0]))
        kind = (int(capacity[node]), int(reach.raised[node]), privates)
        number = alike.get(kind, 0)
        alike[kind] = number + 1
        position[members] = np.maximum(position[members], number)
    return position
