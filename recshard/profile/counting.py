"""Exact counting: how often every row, or every raw ID, occurs.

Two counters. `RowCounter` keeps one counter per row of a table whose size is known: 8 bytes a row.
`IdCounter` keeps one slot per distinct ID seen, in an open-addressing hash table at most half full: between
32 and 64 bytes a distinct ID. Neither sees a lookup twice.
"""

from __future__ import annotations

import numba
import numpy as np

from recshard.trace.base import IntArray

_FIRST_SLOTS = 1 << 10
_EMPTY = -1  # raw IDs are never negative


class RowCounter:
    """Counts lookups per row of a table of known size."""

    def __init__(self, rows: int) -> None:
        self.counts = np.zeros(rows, dtype=np.int64)

    def add(self, rows: IntArray) -> None:
        """Count one lookup for each of `rows`, all within the table, shape (n,)."""
        _count_rows(rows, self.counts)


class IdCounter:
    """Counts lookups per raw ID, of which nothing is known but that they are not negative."""

    def __init__(self) -> None:
        self._keys = np.full(_FIRST_SLOTS, _EMPTY, dtype=np.int64)
        self._counts = np.zeros(_FIRST_SLOTS, dtype=np.int64)
        self._used = 0

    def add(self, ids: IntArray) -> None:
        """Count one lookup for each of `ids`, shape (n,)."""
        done = 0
        while True:
            done, self._used = _count_ids(ids, done, self._keys, self._counts, self._used)
            if done == len(ids):
                return
            keys = np.full(2 * len(self._keys), _EMPTY, dtype=np.int64)
            counts = np.zeros(len(keys), dtype=np.int64)
            _rehash(self._keys, self._counts, keys, counts)
            self._keys, self._counts = keys, counts

    def result(self) -> tuple[IntArray, IntArray]:
        """Return the distinct IDs in rising order and their counts, both of shape (distinct,)."""
        used = self._keys != _EMPTY
        ids, counts = self._keys[used], self._counts[used]
        order = np.argsort(ids)
        return ids[order], counts[order]


@numba.njit(cache=True)
def _count_rows(rows: IntArray, counts: IntArray) -> None:
    # One random read-modify-write a lookup; hot rows stay in cache because IDs follow a power law.
    for i in range(len(rows)):
        counts[rows[i]] += 1


@numba.njit(cache=True)
def _slot(key: int, keys: IntArray) -> int:
    """Return the slot that holds `key`, or the empty one for it (splitmix64 finaliser, linear probing)."""
    mixed = np.uint64(key)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed = mixed ^ (mixed >> np.uint64(31))
    mask = len(keys) - 1
    slot = np.int64(mixed & np.uint64(mask))
    while keys[slot] != key and keys[slot] != _EMPTY:
        slot = (slot + 1) & mask
    return int(slot)


@numba.njit(cache=True)
def _count_ids(ids: IntArray, start: int, keys: IntArray, counts: IntArray, used: int) -> tuple[int, int]:
    """Count from `start` on until the hash table is half full; return where it stopped and the slots used."""
    # Keys and counts are probed at one random place a lookup; linear probing keeps retries in the cache line.
    for i in range(start, len(ids)):
        slot = _slot(ids[i], keys)
        if keys[slot] == _EMPTY:
            if 2 * (used + 1) > len(keys):
                return i, used
            keys[slot] = ids[i]
            used += 1
        counts[slot] += 1
    return len(ids), used


@numba.njit(cache=True)
def _rehash(old_keys: IntArray, old_counts: IntArray, keys: IntArray, counts: IntArray) -> None:
    for i in range(len(old_keys)):
        if old_keys[i] != _EMPTY:
            slot = _slot(old_keys[i], keys)
            keys[slot] = old_keys[i]
            counts[slot] = old_counts[i]
