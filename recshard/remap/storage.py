"""Remaps on disk: one file of ranks a table that needs them, as numpy writes arrays, read memory-mapped."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recshard.errors import InputError
from recshard.plan.plan import Plan
from recshard.remap.ranks import RankArray, first_that_is_no_rank, rank_dtype, rank_rows


def rank_files(plan: Plan) -> list[str | None]:
    """Return the names of the files that `write_ranks` writes, one a table, None for no file."""
    return [f"{j:04d}.npy" if plan.needs_hot_rows(j) else None for j in range(len(plan.tables.tables))]


def write_ranks(plan: Plan, folder: Path) -> list[str | None]:
    """Write the ranks of every table that needs them into `folder`, and return the files' names, None for no file.

    Files are written through memory maps: besides the rows seen of one table nothing is held in memory.
    """
    names = rank_files(plan)
    for j, (table, name) in enumerate(zip(plan.tables.tables, names, strict=True)):
        if name is None:
            continue
        file = np.lib.format.open_memmap(
            folder / name, mode="w+", dtype=rank_dtype(table.rows), shape=(table.rows,)
        )
        rank_rows(table.rows, plan.hot_rows(j), file)
        file.flush()
    return names


def read_ranks(path: Path, rows: int) -> RankArray:
    """Return the ranks in a file, memory-mapped, shape (rows,): every row was found to have one of its own.

    Raises:
        InputError: no such file, cut short, of another length or type, or a rank that is missing or given twice.
    """
    again = "export the plan again"
    try:
        ranks: RankArray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path}: cannot be read as a remap: {error}; {again}") from None
    if ranks.shape != (rows,) or ranks.dtype != rank_dtype(rows):
        raise InputError(
            f"{path}: found {ranks.dtype} of shape {ranks.shape}; accepted: {np.dtype(rank_dtype(rows))} of shape "
            f"({rows},), a rank for every row of the table; {again}"
        )
    wrong = first_that_is_no_rank(ranks)
    if wrong >= 0:
        raise InputError(
            f"{path}: row {wrong} has rank {ranks[wrong]}, which is out of range or another row's; accepted: "
            f"every rank from 0 to {rows - 1} once; {again}"
        )
    return ranks
