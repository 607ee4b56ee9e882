"""Packing: whole tables onto devices so that each device's bytes find room, quickly or proven impossible.

Only sizes matter here. If some tables fit, as many tables that are each no larger fit as well; hence the largest
tables go first, and if any n tables are too many, the n largest are.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numba
import numpy as np

from recshard.problem import IntArray, PlacementProblem
from recshard.strategy.packing_milp import pack_by_milp
from recshard.strategy.reach import Reach, reach_of, take

_BEST_FIT, _ROOMIEST, _OWN_FIRST = 0, 1, 2
_WAYS = (_BEST_FIT, _OWN_FIRST, _ROOMIEST)
_SHUFFLES = 20
MANY_SHUFFLES = 1000  # some hundredths of a second, before a solver takes seconds
_SHUFFLED = 1_000_000  # tables × devices up to which shuffling is cheap
_PIGEONHOLES = 2000  # only the largest tables can be too many at once in this sense


@dataclass
class Clock:
    """How much time is left.

    Attributes:
        seconds: for everything together.
    """

    seconds: float
    begin: float = field(default_factory=time.perf_counter)

    @property
    def left(self) -> float:
        """Seconds left, zero or more."""
        return max(0.0, self.begin + self.seconds - time.perf_counter())


def find_packing(problem: PlacementProblem, seconds: float = 5.0) -> IntArray | None:
    """Return a device for each table such that the bytes of all fit, shape (t,), or None where none was found.

    A packing is preferred that leaves room for a row at the end of every tier: that one surely fits in whole
    rows. Where memory is too full for it, the packing fits up to the rows that would have to be cut.
    """
    clock = Clock(seconds)
    order = np.argsort(-problem.table_bytes, kind="stable")
    sizes, reach = problem.table_bytes[order], reach_of(problem)
    for capacity, share in ((with_room_for_rows(problem, reach), 0.5), (reach.capacity, 1.0)):
        device, _ = pack_quickly(sizes, reach, capacity, MANY_SHUFFLES)
        if device is None and first_too_many(sizes, reach, capacity) > len(sizes):
            device, _ = pack_by_milp(sizes, reach, capacity, clock.left * share)
        if device is not None:
            return in_table_order(device, order)
    return None


def with_room_for_rows(problem: PlacementProblem, reach: Reach) -> IntArray:
    """Return the capacities less the largest row for every (device, tier) that draws on them, shape (m,)."""
    spare = np.zeros(len(reach.capacity), dtype=np.int64)
    depth = (reach.chain >= 0).sum(axis=1)
    for d in range(problem.devices):
        # A merged memory may stand for all tiers of a device: each of them can end in the middle of a row.
        spare[reach.chain[d, : depth[d]]] += int(problem.row_bytes.max()) * problem.tiers
    return np.asarray(np.maximum(reach.capacity - spare, 0), dtype=np.int64)


def in_table_order(device: IntArray, order: IntArray) -> IntArray:
    """Return the devices of sorted tables in the order of the tables, shape (t,)."""
    result = np.empty(len(order), dtype=np.int64)
    result[order] = device
    return result


def pack_quickly(
    sizes: IntArray, reach: Reach, capacity: IntArray, shuffles: int = _SHUFFLES
) -> tuple[IntArray | None, int]:
    """Return a packing by greedy rules, or None, and how many of the largest tables were packed at least.

    Args:
        sizes: bytes of the tables, falling, shape (t,).
        capacity: bytes of each memory, shape (m,).
        shuffles: how often to try a random order near the falling one, where that is cheap.
    """
    packed = 0
    for way in _WAYS:
        device, count = _pack(sizes, reach.chain, capacity.copy(), way, False)
        packed = max(packed, int(count))
        if count == len(sizes):
            return device, packed
    rng = np.random.default_rng(0)
    if sizes.sum() > capacity.sum() or len(sizes) * len(reach.chain) > _SHUFFLED:
        return None, packed
    for attempt in range(shuffles):
        order = np.argsort(-sizes * rng.uniform(0.7, 1.0, len(sizes)), kind="stable")
        device, count = _pack(sizes[order], reach.chain, capacity.copy(), _WAYS[attempt % len(_WAYS)], False)
        if count == len(sizes):
            return in_table_order(device, order), len(sizes)
    return None, packed


def overfull(sizes: IntArray, reach: Reach, capacity: IntArray) -> list[IntArray]:
    """Return assignments that put each table that fits nowhere where most of it fits, shape (t,) each."""
    return [_pack(sizes, reach.chain, capacity.copy(), way, True)[0] for way in _WAYS]


@numba.njit(cache=True)
def _pack(sizes: IntArray, chain: IntArray, left: IntArray, way: int, force: bool) -> tuple[IntArray, int]:
    # Every table looks at all devices; their chains are short, and the bytes left stay in cache.
    device = np.zeros(len(sizes), dtype=np.int64)
    for j in range(len(sizes)):
        best, best_key = -1, 0.0
        roomiest, most = 0, -1
        for d in range(len(chain)):
            room = 0
            for m in chain[d]:
                if m >= 0:
                    room += left[m]
            if room > most:
                roomiest, most = d, room
            if room < sizes[j]:
                continue
            own = left[chain[d, 0]]
            key = float(room)
            if way == 1:
                key = -key
            elif way == 2:
                # Own memory that just holds it, else as little of the shared as can be.
                key = float(own - sizes[j]) if own >= sizes[j] else 1e18 + float(sizes[j] - own)
            if best < 0 or key < best_key:
                best, best_key = d, key
        if best < 0:
            if not force:
                return device, j
            best = roomiest
        take(chain[best], left, sizes[j])
        device[j] = best
    return device, len(sizes)


def first_too_many(sizes: IntArray, reach: Reach, capacity: IntArray) -> int:
    """Return the least n for which the n largest tables are easily proven not to fit; t + 1 where none are.

    Three proofs: a table is larger than any device reaches; their sum exceeds all memories; or there are more of
    them than memories could hold if all were as small as the smallest of them.
    """
    n = len(sizes) + 1
    if len(sizes) and sizes[0] > reach.per_device(capacity).max():
        return 1
    over = np.flatnonzero(np.cumsum(sizes) > capacity.sum())
    if len(over):
        n = int(over[0]) + 1
    if reach.chain.shape[1] > 2:
        return n
    shared = np.full(len(reach.chain), -1) if reach.chain.shape[1] == 1 else reach.chain[:, 1]
    order = np.argsort(shared, kind="stable")
    own = capacity[reach.chain[order, 0]]
    return int(_pigeonhole(sizes[: min(n - 1, _PIGEONHOLES)], own, shared[order], capacity, n))


@numba.njit(cache=True)
def _pigeonhole(sizes: IntArray, own: IntArray, shared: IntArray, capacity: IntArray, otherwise: int) -> int:
    for i in range(len(sizes)):
        if sizes[i] == 0:
            break
        if i + 1 < len(sizes) and sizes[i + 1] == sizes[i]:
            continue
        held = 0
        begin = 0
        while begin < len(own) and held <= i:
            end = begin + 1
            while end < len(own) and shared[begin] >= 0 and shared[end] == shared[begin]:
                end += 1
            held += (own[begin:end] // sizes[i]).sum()
            if shared[begin] >= 0:
                # One more on a device costs what its own memory lacks; the cheapest come first.
                left = capacity[shared[begin]]
                for lacking in np.sort(sizes[i] - own[begin:end] % sizes[i]):
                    if lacking > left:
                        break
                    left -= lacking
                    held += 1
                held += left // sizes[i]
            begin = end
        if held <= i:
            # Of equal tables one more than can be held are enough.
            return held + 1
    return otherwise
