"""Ranks: every row of a table by its heat, hottest first; also of the rows that no trace showed."""

from __future__ import annotations

from typing import TypeAlias

import numba
import numpy as np
from numpy.typing import NDArray

from recshard.problem import IntArray
from recshard.profile.prefetch import prefetch

RankArray: TypeAlias = NDArray[np.int32 | np.int64]

_AHEAD = 64  # lookups between asking for a rank and reading it


def rank_dtype(rows: int) -> type[np.int32] | type[np.int64]:
    """Return the narrowest type that has a rank for every one of `rows` rows: 32 bits while that suffices."""
    return np.int32 if rows - 1 <= np.iinfo(np.int32).max else np.int64


def row_order(rows: int, hot_rows: IntArray) -> IntArray:
    """Return all rows of a table, hottest first: those seen, then the unseen by rising row, shape (rows,)."""
    unseen = np.ones(rows, dtype=bool)
    unseen[hot_rows] = False
    return np.concatenate([hot_rows, np.flatnonzero(unseen)])


def rank_rows(rows: int, hot_rows: IntArray, out: RankArray | None = None) -> RankArray:
    """Return the rank of each row of a table, shape (rows,): those seen, hottest first, then the unseen in order.

    Args:
        hot_rows: the rows seen, hottest first, shape (seen,).
        out: where to write the ranks, such as a memory-mapped file; nothing else of that size is allocated.
    """
    ranks = np.empty(rows, dtype=rank_dtype(rows)) if out is None else out
    _rank(hot_rows, ranks)
    return ranks


@numba.njit(cache=True, nogil=True)
def _rank(hot_rows: IntArray, ranks: RankArray) -> None:
    # One random write a row that was seen, two passes in order over all of them.
    ranks[:] = -1
    for i in range(len(hot_rows)):
        ranks[hot_rows[i]] = i
    following = len(hot_rows)
    for row in range(len(ranks)):
        if ranks[row] < 0:
            ranks[row] = following
            following += 1


@numba.njit(cache=True, nogil=True)
def look_up_ranks(ranks: RankArray, rows: IntArray, out: IntArray) -> int:
    """Write the ranks of `rows` to `out`; return where it stopped: at the end, or at the first that is no row."""
    # One random read a lookup, asked for early, so that many are on their way at once.
    size = np.uint64(len(ranks))
    n = len(rows)
    for i in range(n):
        if i + _AHEAD < n:
            prefetch(ranks, np.uint64(rows[i + _AHEAD]))
        row = np.uint64(rows[i])
        if row >= size:
            return i
        out[i] = ranks[row]
    return n


@numba.njit(cache=True, nogil=True)
def first_that_is_no_rank(ranks: RankArray) -> int:
    """Return the first row whose rank is out of range or given twice, or -1 where each rank is given once."""
    n = np.int64(len(ranks))
    taken = np.zeros((n + 7) // 8, dtype=np.uint8)
    for row in range(n):
        rank = np.int64(ranks[row])
        if rank < 0 or rank >= n or taken[rank >> 3] >> (rank & 7) & 1:
            return row
        taken[rank >> 3] |= np.uint8(1 << (rank & 7))
    return -1
