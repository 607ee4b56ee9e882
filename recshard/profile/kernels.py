"""Counting kernels over flat arrays; all release the interpreter's lock, so that tables are counted in parallel.

A sparse table is an open-addressing hash table: two numbers a slot, the ID and its count, which is 0 where the
slot is empty, so that memory fresh from the system is an empty table. At most two thirds are full. A lookup
touches one random line of a sparse table and one random counter of a dense one.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from recshard.profile.prefetch import prefetch
from recshard.trace.base import IntArray
from recshard.trace.hashing import mix

CountArray = NDArray[np.uint32]

_AHEAD = 128  # lookups between asking for a line and touching it
_IN_CACHE = 1 << 21  # bytes of counters that stay in a processor's own caches


@numba.njit(cache=True, nogil=True)
def count_dense(ids: IntArray, begin: int, counts: CountArray) -> int:
    """Count `ids` from `begin` on; return where it stopped: at the end, or at the first ID without a counter."""
    # One random read-modify-write a lookup. Counters beyond the caches are asked for long before their turn, so
    # that many lines are on their way at once; in the caches that would only cost.
    size = np.uint64(len(counts))
    ahead = _AHEAD if counts.nbytes > _IN_CACHE else 0
    early = max(begin, len(ids) - ahead) if ahead else begin
    for i in range(begin, early):
        prefetch(counts, np.uint64(ids[i + _AHEAD]))
        row = np.uint64(ids[i])
        if row >= size:
            return i
        counts[row] += np.uint32(1)
    for i in range(early, len(ids)):
        row = np.uint64(ids[i])
        if row >= size:
            return i
        counts[row] += np.uint32(1)
    return len(ids)


@numba.njit(cache=True, nogil=True, inline="always")
def _home(key: int, mask: int) -> np.int64:
    """Return the slot where the search for `key` begins."""
    return np.int64(mix(np.uint64(key)) & np.uint64(mask))


@numba.njit(cache=True, nogil=True, inline="always")
def _slot(key: int, table: IntArray) -> np.int64:
    """Return the slot that holds `key`, or the empty one for it (linear probing)."""
    mask = len(table) - 1
    slot = _home(key, mask)
    while table[slot, 1] != 0 and table[slot, 0] != key:
        slot = np.int64((slot + 1) & mask)
    return slot


@numba.njit(cache=True, nogil=True)
def count_sparse(ids: IntArray, begin: int, table: IntArray, used: int, top: int) -> tuple[int, int, int]:
    """Count `ids` from `begin` on until the table is two thirds full.

    Returns:
        Where it stopped, the slots used, and the largest ID met so far.
    """
    limit = 2 * len(table) // 3
    mask = len(table) - 1
    flat = table.reshape(-1)
    ahead = _AHEAD if table.nbytes > _IN_CACHE else 0
    for i in range(begin, len(ids)):
        if ahead and i + ahead < len(ids):
            prefetch(flat, 2 * _home(ids[i + ahead], mask))
        slot = _slot(ids[i], table)
        if table[slot, 1] == 0:
            if used >= limit:
                return i, used, top
            table[slot, 0] = ids[i]
            used += 1
            top = max(top, ids[i])
        table[slot, 1] += 1
    return len(ids), used, top


@numba.njit(cache=True, nogil=True)
def rehash(old: IntArray, table: IntArray) -> None:
    """Move what a sparse table holds into a larger, empty one."""
    mask = len(table) - 1
    flat = table.reshape(-1)
    for i in range(len(old)):
        if i + _AHEAD < len(old):
            prefetch(flat, 2 * _home(old[i + _AHEAD, 0], mask))
        if old[i, 1] != 0:
            slot = _slot(old[i, 0], table)
            table[slot, 0] = old[i, 0]
            table[slot, 1] = old[i, 1]


@numba.njit(cache=True, nogil=True)
def scatter(table: IntArray, counts: CountArray) -> None:
    """Add what a sparse table holds to dense counters."""
    for i in range(len(table)):
        if table[i, 1] != 0:
            counts[table[i, 0]] += np.uint32(table[i, 1])


@numba.njit(cache=True, nogil=True)
def unpack(table: IntArray, keys: IntArray, counts: IntArray) -> None:
    """Write what a sparse table holds into two arrays of that length, in no order."""
    used = 0
    for i in range(len(table)):
        if table[i, 1] != 0:
            keys[used] = table[i, 0]
            counts[used] = table[i, 1]
            used += 1


@numba.njit(cache=True, nogil=True)
def compact(table: IntArray) -> int:
    """Move the used slots of a sparse table to its front, in place; return how many there are."""
    used = 0
    for i in range(len(table)):
        if table[i, 1] != 0:
            table[used, 0] = table[i, 0]
            table[used, 1] = table[i, 1]
            used += 1
    return used


@numba.njit(cache=True, nogil=True)
def gather(table: IntArray, order: IntArray, begin: int, keys: IntArray, counts: IntArray) -> int:
    """Write the slots that `order` names from `begin` on into two arrays until they are full; return how many."""
    # Slots are read at random places, which are asked for early, and written in order.
    flat = table.reshape(-1)
    found = min(len(keys), len(order) - begin)
    for i in range(found):
        if begin + i + _AHEAD < len(order):
            prefetch(flat, 2 * order[begin + i + _AHEAD])
        keys[i] = table[order[begin + i], 0]
        counts[i] = table[order[begin + i], 1]
    return found


@numba.njit(cache=True, nogil=True)
def count_seen(counts: CountArray) -> int:
    """Return how many counters are not 0."""
    seen = 0
    for i in range(len(counts)):
        seen += counts[i] != 0
    return seen


@numba.njit(cache=True, nogil=True)
def take_seen(counts: CountArray, begin: int, rows: IntArray, taken: IntArray) -> tuple[int, int]:
    """Write the rows from `begin` on whose counters are not 0, and those counters, until `rows` is full.

    Returns:
        Where it stopped, and how many there are.
    """
    found = 0
    for i in range(begin, len(counts)):
        if counts[i]:
            if found == len(rows):
                return i, found
            rows[found] = i
            taken[found] = counts[i]
            found += 1
    return len(counts), found


@numba.njit(cache=True, nogil=True)
def tally(counts: CountArray, small: IntArray) -> int:
    """Count the counters that have a place in `small`; return how many have none."""
    # Most counters of a large table are 0, 1 or 2: few lines of `small` are touched.
    large = 0
    for i in range(len(counts)):
        if counts[i] < len(small):
            small[counts[i]] += 1
        else:
            large += 1
    return large


@numba.njit(cache=True, nogil=True)
def all_equal(values: IntArray) -> bool:
    """Return whether all values are the same; true where there is none."""
    differ = np.int64(0)
    for i in range(1, len(values)):
        differ |= values[i] ^ values[0]
    return bool(differ == 0)


@numba.njit(cache=True, nogil=True)
def count_lengths(lengths: IntArray, histogram: IntArray) -> int:
    """Count the lengths that have a place in `histogram`; return how many have none."""
    outside = 0
    for i in range(len(lengths)):
        if lengths[i] < len(histogram):
            histogram[lengths[i]] += 1
        else:
            outside += 1
    return outside


@numba.njit(cache=True, nogil=True)
def merge_pairs(
    left: IntArray, left_count: IntArray, right: IntArray, right_count: IntArray
) -> tuple[IntArray, IntArray]:
    """Return two lists of IDs, both rising, as one, counts of an ID that is in both being added."""
    # Three sequential streams.
    keys = np.empty(len(left) + len(right), dtype=np.int64)
    counts = np.empty(len(keys), dtype=np.int64)
    i = j = n = 0
    while i < len(left) or j < len(right):
        if j == len(right) or (i < len(left) and left[i] < right[j]):
            keys[n], counts[n] = left[i], left_count[i]
            i += 1
        elif i == len(left) or right[j] < left[i]:
            keys[n], counts[n] = right[j], right_count[j]
            j += 1
        else:
            keys[n], counts[n] = left[i], left_count[i] + right_count[j]
            i += 1
            j += 1
        n += 1
    return keys[:n].copy(), counts[:n].copy()


@numba.njit(cache=True, nogil=True)
def add_to_rows(rows: IntArray, counts: IntArray, total: IntArray, owners: NDArray[np.uint8]) -> None:
    """Add counts of raw IDs to the rows they fall in; an owner count of 2 stands for two IDs or more."""
    # One random access to each of two arrays a raw ID.
    for i in range(len(rows)):
        total[rows[i]] += counts[i]
        if owners[rows[i]] < 2:
            owners[rows[i]] += np.uint8(1)
