"""Remap: where each row of a table stands, as row → (tier, slot)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recshard.problem import IntArray


@dataclass(frozen=True)
class Remap:
    """The home of every row of one table, also of rows that no trace showed.

    Attributes:
        tier: tier of each row, shape (rows,).
        slot: place of each row inside its tier, hottest first, shape (rows,); 32 bits while that suffices.
    """

    tier: NDArray[np.int8]
    slot: NDArray[np.int32] | NDArray[np.int64]


def row_order(rows: int, hot_rows: IntArray) -> IntArray:
    """Return all rows of a table, hottest first: those seen, then the unseen by rising row, shape (rows,)."""
    unseen = np.ones(rows, dtype=bool)
    unseen[hot_rows] = False
    return np.concatenate([hot_rows, np.flatnonzero(unseen)])


def remap_table(rows_per_tier: IntArray, hot_rows: IntArray) -> Remap:
    """Return the homes of a table's rows.

    Args:
        rows_per_tier: rows in each tier, fastest first, shape (k,).
        hot_rows: the rows seen, hottest first, shape (seen,).
    """
    rows = int(rows_per_tier.sum())
    order = row_order(rows, hot_rows)
    tier = np.empty(rows, dtype=np.int8)
    narrow = rows <= np.iinfo(np.int32).max
    slot = np.empty(rows, dtype=np.int32) if narrow else np.empty(rows, dtype=np.int64)
    tier[order] = np.repeat(np.arange(len(rows_per_tier), dtype=np.int8), rows_per_tier)
    slot[order] = np.concatenate([np.arange(n) for n in rows_per_tier])
    return Remap(tier, slot)
