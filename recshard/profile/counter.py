"""Counting of one table's IDs: sparse while few are known, dense once that is smaller or faster, on disk beyond
that.

Every counter starts as a hash table of a few KiB. It turns into dense counters, 4 bytes a row, as soon as these
take no more memory than a larger hash table would; what the memory allowed cannot hold goes to disk as a sorted
run, and counting begins anew.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np

from recshard.profile.counted import Dense, InMemory
from recshard.profile.kernels import (
    CountArray,
    compact,
    count_dense,
    count_seen,
    count_sparse,
    gather,
    rehash,
    scatter,
    unpack,
)
from recshard.profile.pairs import Pairs
from recshard.profile.sorting import rising_order
from recshard.profile.spill import BATCH, Run
from recshard.trace.base import IntArray

_FIRST_SLOTS = 1 << 10
_SLOT_BYTES = 16
_DENSE_BYTES = 4
# A dense counter is found without hashing or probing, which is worth so much more memory.
_DENSE_FAVOUR = 4
_MOST_COUNT = int(np.iinfo(np.uint32).max)


class Allowance:
    """Bytes that counters may take, all together; handed out to threads one after the other."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.taken = 0
        self._lock = threading.Lock()

    def exchange(self, old: int, new: int) -> bool:
        """Return whether `new` bytes may be held in the place of `old`; if so they are taken."""
        with self._lock:
            if new > old and self.taken - old + new > self.total:
                return False
            self.taken += new - old
            return True

    def force(self, more: int) -> None:
        """Take `more` bytes whether they are allowed or not."""
        with self._lock:
            self.taken += more


class Counter:
    """Counts of one table's IDs, whose `runs` on disk are part of them.

    Args:
        rows: of a table whose IDs are its rows; None where nothing is known of the IDs.
        allowance: shared with the counters of other tables.
    """

    def __init__(self, rows: int | None, allowance: Allowance) -> None:
        self.rows = rows
        self.runs: list[Run] = []
        self._allowance = allowance
        self._lanes: list[CountArray] = []
        self._table = np.zeros((0, 2), dtype=np.int64)
        self._bytes = 0
        self._used = 0
        self._top = -1
        self._counted = 0
        self._begin_anew()

    @staticmethod
    def least_bytes() -> int:
        """Return the bytes that every counter takes at least."""
        return _sparse_charge(_FIRST_SLOTS)

    @property
    def bytes(self) -> int:
        """Bytes that the counter takes of the allowance."""
        return self._bytes

    @property
    def is_dense(self) -> bool:
        """Whether there is a counter for every row."""
        return bool(self._lanes)

    def holds(self, top: int) -> bool:
        """Whether dense counters have a place for ID `top`, so that several threads may count IDs up to it."""
        return top < len(self._lanes[0])

    @property
    def is_full(self) -> bool:
        """Whether a counter could overflow with the next batch, so that what is counted must go to disk."""
        return self._counted > _MOST_COUNT // 2

    def add(self, ids: IntArray, begin: int = 0, lane: int = 0) -> int:
        """Count one lookup for each of `ids` from `begin` on; return where it stopped.

        It stops before the end where the allowance is used up, and of a table whose IDs are rows at an ID that is
        outside of it.

        Args:
            ids: not negative, shape (n,).
            begin: the first to be counted.
            lane: which of the copies of dense counters; each is used by one thread at a time.
        """
        first = begin
        while begin < len(ids):
            if self._lanes:
                begin = count_dense(ids, begin, self._lanes[lane])
                if begin < len(ids) and not self._make_room_for(int(ids[begin])):
                    break
            else:
                begin, self._used, self._top = count_sparse(ids, begin, self._table, self._used, self._top)
                if begin < len(ids) and not self._grow():
                    break
        if lane == 0:
            self._counted += begin - first
        return begin

    def add_lane(self) -> bool:
        """Give dense counters a copy for one more thread; return whether the allowance lets it."""
        extra = self._lanes[0].nbytes
        if not self._allowance.exchange(self._bytes, self._bytes + extra):
            return False
        self._bytes += extra
        self._lanes.append(np.zeros_like(self._lanes[0]))
        return True

    @property
    def lanes(self) -> int:
        """How many threads can count at once: copies of dense counters, or 1."""
        return max(1, len(self._lanes))

    def note_counted(self, lookups: int) -> None:
        """Take into account lookups that other lanes counted."""
        self._counted += lookups

    def result(self, *, last: bool) -> InMemory | Dense:
        """Return what is counted in memory.

        Args:
            last: whether the counters themselves may be handed out, since nothing more will be counted.
        """
        if self._lanes:
            total = self._added_up()
            return total if last else Dense(total.counters.copy())
        ids, counts = np.empty((2, self._used), dtype=np.int64)
        unpack(self._table, ids, counts)
        return InMemory(ids, counts)

    @property
    def result_bytes(self) -> int:
        """Bytes of what `result` returns."""
        return self._lanes[0].nbytes if self._lanes else _SLOT_BYTES * self._used

    def empty(self, *, keep: bool = False) -> Iterator[Pairs]:
        """Yield what is counted in memory, IDs rising, then count anew; sorting is part of a counter's charge."""
        if self._lanes:
            yield from self._added_up().chunks()
        else:
            used = compact(self._table)
            order = rising_order(self._table[:used, 0])
            for begin in range(0, used, BATCH):
                ids, counts = np.empty((2, BATCH), dtype=np.int64)
                found = gather(self._table, order, begin, ids, counts)
                yield ids[:found], counts[:found]
        if keep and not self._lanes:
            self._table[:] = 0
            self._used, self._top, self._counted = 0, -1, 0
        else:
            self._begin_anew()

    def release(self) -> None:
        """Give back the memory; nothing can be counted any more."""
        self._allowance.exchange(self._bytes, 0)
        self._bytes = 0
        self._lanes = []
        self._table = _empty_table(1)
        self._used = 0

    def _begin_anew(self) -> None:
        self._lanes = []
        self._used, self._top, self._counted = 0, -1, 0
        if self.rows is not None and self.rows * _DENSE_BYTES <= _FIRST_SLOTS * _SLOT_BYTES:
            self._take(self.rows * _DENSE_BYTES, always=True)
            self._lanes = [np.zeros(self.rows, dtype=np.uint32)]
            self._table = np.zeros((0, 2), dtype=np.int64)
        else:
            self._take(_sparse_charge(_FIRST_SLOTS), always=True)
            self._table = _empty_table(_FIRST_SLOTS)

    def _take(self, size: int, *, always: bool = False) -> bool:
        """Take `size` bytes instead of what is held now; a first table of some KiB is always allowed."""
        if not self._allowance.exchange(self._bytes, size):
            if not always:
                return False
            self._allowance.force(size - self._bytes)
        self._bytes = size
        return True

    def _grow(self) -> bool:
        """Take twice the slots, or dense counters where these are no larger; whether the allowance lets it."""
        slots = 2 * len(self._table)
        size = self.rows if self.rows is not None else _room_for(self._top)
        dense = size * _DENSE_BYTES
        small = dense <= _DENSE_FAVOUR * slots * _SLOT_BYTES
        if size > self._top and small and self._take(self._bytes + dense):
            counts = np.zeros(size, dtype=np.uint32)
            scatter(self._table, counts)
            self._lanes, self._table = [counts], np.zeros((0, 2), dtype=np.int64)
            return self._take(dense)
        if not self._take(_sparse_charge(slots)):
            return False
        table = _empty_table(slots)
        rehash(self._table, table)
        self._table = table
        return True

    def _make_room_for(self, top: int) -> bool:
        """Dense counters up to ID `top`, or a hash table if those would be mostly empty; whether there is room."""
        if self.rows is not None:
            return False  # the ID is outside of the table
        size = _room_for(top)
        # Dense counters have come to pay at 4 bytes a row of the old range; a range far beyond it does not.
        if size * _DENSE_BYTES <= 4 * self._lanes[0].nbytes or size <= 4 * self._counted:
            wider = size * _DENSE_BYTES * len(self._lanes)
            if not self._take(self._bytes + wider):
                return False
            for k, old in enumerate(self._lanes):
                self._lanes[k] = np.zeros(size, dtype=np.uint32)
                self._lanes[k][: len(old)] = old
            return self._take(wider)
        total = self._added_up()
        used = int(count_seen(total.counters))
        slots = _FIRST_SLOTS
        while 2 * slots // 3 <= used:
            slots *= 2
        if not self._take(self._bytes + _sparse_charge(slots)):
            return False
        self._table = _empty_table(slots)
        for ids, counts in total.chunks():
            rehash(np.stack([ids, counts], axis=1), self._table)
            self._top = int(ids[-1])
        self._lanes, self._used = [], used
        return self._take(_sparse_charge(slots))

    def _added_up(self) -> Dense:
        """Return the counters of all lanes in the first."""
        for lane in self._lanes[1:]:
            self._lanes[0] += lane
            lane[:] = 0
        return Dense(self._lanes[0])


def _sparse_charge(slots: int) -> int:
    """Bytes of a hash table, and those that sorting it for the disk takes for a while."""
    return slots * _SLOT_BYTES * 5 // 3


def _empty_table(slots: int) -> IntArray:
    return np.zeros((slots, 2), dtype=np.int64)


def _room_for(top: int) -> int:
    """Return a size of dense counters that holds ID `top`, a power of two."""
    return 1 << max(10, int(top).bit_length())
