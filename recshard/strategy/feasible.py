"""Whether whole tables fit onto devices at all, and if not, the smallest proof and the least that would help.

If some tables fit, as many tables that are each no larger fit too. So the n largest tables are the hardest n, and
the least n for which they do not fit gives a conflict that is both minimal (without any one of them the rest is no
larger than the n − 1 largest) and as small as any conflict can be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from recshard.problem import IntArray, PlacementProblem
from recshard.strategy.infeasible import Infeasible, Kind, Remedy, Shortage
from recshard.strategy.packing import MANY_SHUFFLES, Clock, first_too_many, in_table_order, overfull, pack_quickly
from recshard.strategy.packing_milp import least_extra, loads, pack_by_milp
from recshard.strategy.reach import Reach, reach_of

_PROOF_SHARE = 0.6  # of the time; the rest goes to the least extra capacity
_TRY_SHARE = 0.25  # of the time, for one number of tables


def explain(problem: PlacementProblem, seconds: float = 5.0) -> Infeasible | None:
    """Return why no division of whole tables among the devices fits, or None where one does.

    Only bytes matter: a device reaches the sum of its tiers' pools, and rows may stand in any of them. A division
    that fits in bytes may still fail by a row at the end of every tier; nothing is said of that.

    Args:
        seconds: about how long to look; most answers take milliseconds.
    """
    clock = Clock(seconds)
    order = np.argsort(-problem.table_bytes, kind="stable").astype(np.int64)
    sizes, reach = problem.table_bytes[order], reach_of(problem)
    found = _conflict(sizes, reach, clock)
    if found is None:
        return None
    extra = _least_extra(sizes, reach, clock)
    proven = found.count <= problem.tables
    conflict = order[: found.count if proven else 0]
    reached = _reached(problem)
    memory = int(np.floor(problem.pool_capacity).sum())
    kind: Kind = "packing"
    if not proven:
        kind = "unknown"
    elif sizes[0] > max(reached):
        kind = "one table"
    elif sizes.sum() > memory:
        kind = "total"
    homeless = reach.homeless(loads(sizes, extra.device, problem.devices), reach.capacity)
    return Infeasible(
        kind=kind,
        tables=tuple(conflict.tolist()),
        table_bytes=tuple(problem.table_bytes[conflict].tolist()),
        minimal=proven and found.minimal,
        model_bytes=int(sizes.sum()),
        memory_bytes=memory,
        reach=reached,
        tiers=problem.tiers,
        short=_short(problem, reach, homeless),
        remedies=(
            _capacity(problem, reach, extra),
            _smaller(problem, homeless, in_table_order(extra.device, order), extra),
        ),
    )


def _reached(problem: PlacementProblem) -> tuple[int, ...]:
    pools = np.floor(problem.pool_capacity)
    return tuple(int(pools[np.unique(mine)].sum()) for mine in problem.pool)


@dataclass
class _Conflict:
    """The `fits` largest tables fit, the `count` largest do not; count is t + 1 where nothing is proven."""

    fits: int
    count: int

    @property
    def minimal(self) -> bool:
        return self.fits == self.count - 1


def _conflict(sizes: IntArray, reach: Reach, clock: Clock) -> _Conflict | None:
    """Return the least number of the largest tables that do not fit, or None where all do."""
    total = len(sizes)
    _, fits = pack_quickly(sizes, reach, reach.capacity)
    known = _Conflict(fits, total + 1 if fits == total else first_too_many(sizes, reach, reach.capacity))
    keep = (1 - _PROOF_SHARE) * clock.seconds

    def settle(n: int) -> None:
        device, impossible = _decide(sizes[:n], reach, min(clock.left - keep, _TRY_SHARE * clock.seconds))
        if device is not None:
            known.fits = n
        elif impossible:
            known.count = n

    # A small proof is a quick one, so the first look goes to where the greedy rules stopped.
    for n in (fits + 1, total):
        if known.fits < n < min(known.count, total + 1) and (n < total or known.count > total):
            settle(n)
    low = known.fits
    while low + 1 < (high := min(known.count, total)) and clock.left > keep:
        middle = (low + high) // 2
        settle(middle)
        if known.count > middle:
            low = middle  # fits, or stays open: then a larger number may still be proven too many
    if known.fits == total:
        return None
    return known


def _decide(sizes: IntArray, reach: Reach, seconds: float) -> tuple[IntArray | None, bool]:
    """Return a packing or None, and whether it is proven that there is none."""
    device, _ = pack_quickly(sizes, reach, reach.capacity, MANY_SHUFFLES)
    if device is not None:
        return device, False
    return pack_by_milp(sizes, reach, reach.capacity, seconds)


@dataclass(frozen=True)
class _Extra:
    """Bytes to add to slowest tiers, the same in every pool or in all together: enough, and proven at least."""

    same: int
    same_at_least: int
    total: int
    total_at_least: int
    device: IntArray  # the assignment that needs `total`, tables by falling size


def _least_extra(sizes: IntArray, reach: Reach, clock: Clock) -> _Extra:
    """Return the least extra capacity, from greedy rules and simple proofs first, then from the MILP."""
    everything = int(sizes.sum())
    low = _bisect(0, everything, lambda x: first_too_many(sizes, reach, reach.with_extra(x)) > len(sizes))
    high = _bisect(low, everything, lambda x: pack_quickly(sizes, reach, reach.with_extra(x))[0] is not None)
    device, _ = pack_quickly(sizes, reach, reach.with_extra(high))
    devices = len(reach.chain)
    candidates = overfull(sizes, reach, reach.capacity)
    if device is not None:
        candidates.append(device)
    if low < high:
        better, bound = least_extra(sizes, reach, "same", clock.left / 2)
        low = max(low, bound)
        if better is not None:
            candidates.append(better)
            load = loads(sizes, better, devices)
            high = min(high, _bisect(0, high, lambda x: not reach.homeless(load, reach.with_extra(x)).any()))
    missing = everything - int(reach.capacity.sum())
    total_low = max(missing, low)  # what suffices in all suffices everywhere
    needs = [int(reach.homeless(loads(sizes, c, devices), reach.capacity).sum()) for c in candidates]
    if total_low < min(needs):
        better, bound = least_extra(sizes, reach, "total", clock.left)
        total_low = max(total_low, bound)
        if better is not None:
            candidates.append(better)
            needs.append(int(reach.homeless(loads(sizes, better, devices), reach.capacity).sum()))
    total = min(needs)
    return _Extra(high, min(low, high), total, min(total_low, total), candidates[needs.index(total)])


def _bisect(low: int, high: int, enough: Callable[[int], bool]) -> int:
    """Return the least number in [low, high] that is enough, given that `high` is."""
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return high


def _short(problem: PlacementProblem, reach: Reach, homeless: IntArray) -> tuple[Shortage, ...]:
    """Return the slowest memories in which the bytes without room would have to stand."""
    pools = problem.pool[np.arange(problem.devices), reach.slowest]
    short = []
    for pool in np.unique(pools[homeless > 0]):
        users = np.flatnonzero((problem.pool == pool).any(axis=1))
        tier = int(reach.slowest[np.flatnonzero(pools == pool)[0]])
        short_by = int(homeless[pools == pool].sum())
        short.append(Shortage(tier, tuple(users.tolist()), int(problem.pool_capacity[pool]), short_by))
    return tuple(short)


def _capacity(problem: PlacementProblem, reach: Reach, extra: _Extra) -> Remedy:
    pools = problem.pool[np.arange(problem.devices), reach.slowest]
    shared = np.array([len(np.unique(np.argwhere(problem.pool == p)[:, 0])) > 1 for p in np.unique(pools)])
    return Remedy(
        "capacity",
        extra.same,
        extra.same_at_least,
        tiers=tuple(np.unique(reach.slowest).tolist()),
        per="node" if shared.all() else "pool" if shared.any() else "device",
    )


def _smaller(problem: PlacementProblem, homeless: IntArray, device: IntArray, extra: _Extra) -> Remedy:
    """Return what the largest tables of the short devices have to lose: just what has no room there."""
    less: dict[int, int] = {}
    for d in np.flatnonzero(homeless):
        left = int(homeless[d])
        mine = np.flatnonzero(device == d)
        for j in mine[np.argsort(-problem.table_bytes[mine], kind="stable")]:
            less[int(j)] = min(left, int(problem.table_bytes[j]))
            left -= less[int(j)]
            if not left:
                break
    return Remedy(
        "smaller", extra.total, extra.total_at_least, tables=tuple(less), table_bytes=tuple(less.values())
    )
