"""Remap: where each row of a table stands, as row → (tier, slot); part, tier, slot if cut by rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recshard.problem import IntArray


@dataclass(frozen=True)
class Remap:
    """The home of every row of one table or column shard, also of rows that no trace showed.

    Attributes:
        tier: tier of each row, shape (rows,).
        slot: place of each row inside its tier, hottest first, shape (rows,); 32 bits while that suffices.
    """

    tier: NDArray[np.int8]
    slot: NDArray[np.int32] | NDArray[np.int64]


@dataclass(frozen=True)
class RowParts:
    """The home of every row of a table that is cut by rows: which shard has it, and where the shard has it.

    Attributes:
        part: the row shard that has each row, shape (rows,); 16 bits while that suffices.
        home: tier of each row on the device of its part, and its slot among the rows that part has in that tier.
    """

    part: NDArray[np.int16] | NDArray[np.int32]
    home: Remap


def row_order(rows: int, hot_rows: IntArray) -> IntArray:
    """Return all rows of a table, hottest first: those seen, then the unseen by rising row, shape (rows,)."""
    unseen = np.ones(rows, dtype=bool)
    unseen[hot_rows] = False
    return np.concatenate([hot_rows, np.flatnonzero(unseen)])


def remap_table(rows_per_tier: IntArray, hot_rows: IntArray) -> Remap:
    """Return the homes of the rows of a table, or of a column shard, which has all rows of its table.

    Args:
        rows_per_tier: rows in each tier, fastest first, shape (k,).
        hot_rows: the rows seen, hottest first, shape (seen,).
    """
    home = _empty(int(rows_per_tier.sum()))
    _settle(home, row_order(len(home.tier), hot_rows), rows_per_tier)
    return home


def remap_parts(rows_per_tier: IntArray, hot_rows: IntArray) -> RowParts:
    """Return the homes of the rows of a table that is cut by rows: they are dealt out to its parts, hottest first.

    Args:
        rows_per_tier: rows of each part in each tier, shape (parts, k).
        hot_rows: the rows seen of the whole table, hottest first, shape (seen,).
    """
    parts, rows = len(rows_per_tier), int(rows_per_tier.sum())
    home, order = _empty(rows), row_order(rows, hot_rows)
    narrow = parts - 1 <= np.iinfo(np.int16).max
    part = np.empty(rows, dtype=np.int16) if narrow else np.empty(rows, dtype=np.int32)
    for p in range(parts):
        dealt = order[p::parts]
        part[dealt] = p
        _settle(home, dealt, rows_per_tier[p])
    return RowParts(part, home)


def _empty(rows: int) -> Remap:
    narrow = rows <= np.iinfo(np.int32).max
    slot = np.empty(rows, dtype=np.int32) if narrow else np.empty(rows, dtype=np.int64)
    return Remap(np.empty(rows, dtype=np.int8), slot)


def _settle(home: Remap, order: IntArray, rows_per_tier: IntArray) -> None:
    """Write the homes of the rows in `order`, which fill the tiers one after another."""
    home.tier[order] = np.repeat(np.arange(len(rows_per_tier), dtype=np.int8), rows_per_tier)
    home.slot[order] = np.concatenate([np.arange(n) for n in rows_per_tier])
