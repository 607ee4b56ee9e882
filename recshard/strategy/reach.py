"""Reach: which bytes each device can use, its own and those that it shares, as chains of memories.

Where only bytes matter, memories with the same users are one memory. A device fills its own first, then what few
share, then what many share. Since sets of users are nested, this greedy filling finds room whenever there is any.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numba
import numpy as np

from recshard.problem import IntArray, PlacementProblem


@dataclass(frozen=True)
class Reach:
    """The memories of a problem, merged by who uses them.

    Attributes:
        chain: memories of each device, shape (d, n); its own stands first, then the less shared before the more
            shared, then −1 where there are no more.
        capacity: whole bytes of each memory, shape (m,).
        raised: how many pools of each memory grow where every device's slowest tier grows, shape (m,).
        slowest: the slowest tier of each device that has any bytes, shape (d,).
    """

    chain: IntArray
    capacity: IntArray
    raised: IntArray
    slowest: IntArray

    def per_device(self, capacity: IntArray) -> IntArray:
        """Return the bytes that each device could use if it were alone, shape (d,)."""
        return np.asarray(np.where(self.chain >= 0, capacity[self.chain], 0).sum(axis=1), dtype=np.int64)

    def with_extra(self, extra: int) -> IntArray:
        """Return the capacities if the slowest pool of every device had `extra` bytes more, shape (m,)."""
        return self.capacity + extra * self.raised

    def homeless(self, load: IntArray, capacity: IntArray) -> IntArray:
        """Return the bytes of each device's load that find no room, shape (d,)."""
        return np.asarray(_homeless(self.chain, capacity.copy(), load), dtype=np.int64)


def reach_of(problem: PlacementProblem) -> Reach:
    """Return what each device of a problem reaches.

    Pools whose users overlap without being nested are merged into one: what does not fit then does not fit
    before. Pools larger than the model are as good as the model's size.
    """
    pool_bytes = np.floor(np.minimum(problem.pool_capacity, float(problem.table_bytes.sum()))).astype(np.int64)
    slowest = np.array([_last_with_bytes(problem, d) for d in range(problem.devices)], dtype=np.int64)
    grows = set(problem.pool[np.arange(problem.devices), slowest].tolist())
    users: dict[int, set[int]] = {}
    for d, pools in enumerate(problem.pool.tolist()):
        for p in pools:
            users.setdefault(p, set()).add(d)
    merged: dict[frozenset[int], list[int]] = {frozenset([d]): [] for d in range(problem.devices)}
    for p, who in users.items():
        merged.setdefault(frozenset(who), []).append(p)
    merged = _nested(merged)
    memories = sorted(merged, key=lambda who: (len(who), min(who)))
    chain: list[list[int]] = [[] for _ in range(problem.devices)]
    for m, members in enumerate(memories):
        for d in members:
            chain[d].append(m)
    width = max(len(entry) for entry in chain)
    return Reach(
        np.array([entry + [-1] * (width - len(entry)) for entry in chain], dtype=np.int64),
        np.array([pool_bytes[merged[own]].sum() for own in memories], dtype=np.int64),
        np.array([len(grows.intersection(merged[own])) for own in memories], dtype=np.int64),
        slowest,
    )


def _last_with_bytes(problem: PlacementProblem, device: int) -> int:
    """A tier that a device lacks has no bytes, and nobody can add memory to it."""
    present = np.flatnonzero(problem.pool_capacity[problem.pool[device]] >= 1)
    return int(present[-1]) if len(present) else problem.tiers - 1


def _nested(merged: dict[frozenset[int], list[int]]) -> dict[frozenset[int], list[int]]:
    """Return the pools by users, crossing sets united until none cross."""
    while (pair := _crossing(merged)) is not None:
        one, other = pair
        pools = merged.pop(one) + merged.pop(other)
        merged.setdefault(one | other, []).extend(pools)
    return merged


def _crossing(sets: Iterable[frozenset[int]]) -> tuple[frozenset[int], frozenset[int]] | None:
    of_device: dict[int, list[frozenset[int]]] = {}
    checked: set[tuple[int, int]] = set()
    for who in sorted((s for s in sets if len(s) > 1), key=len):
        for d in who:
            chain = of_device.setdefault(d, [])
            if chain and (id(chain[-1]), id(who)) not in checked:
                checked.add((id(chain[-1]), id(who)))
                if not chain[-1] <= who:
                    return chain[-1], who
            chain.append(who)
    return None


@numba.njit(cache=True)
def _homeless(chain: IntArray, left: IntArray, load: IntArray) -> IntArray:
    rest = load.copy()
    for d in range(len(load)):
        rest[d] = take(chain[d], left, load[d])
    return rest


@numba.njit(cache=True)
def take(chain: IntArray, left: IntArray, size: int) -> int:
    """Use up `size` bytes of a device's memories, the least shared first; return the bytes without room."""
    for m in chain:
        if m < 0 or size == 0:
            break
        taken = min(left[m], size)
        left[m] -= taken
        size -= taken
    return size
