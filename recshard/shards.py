"""Shards: the pieces, by columns or by rows, into which tables are cut when one device is not enough for them.

Behind the door to the strategies a shard is a table like any other: `cut` turns a problem over tables into the
same problem over shards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from recshard.errors import InputError, nearest
from recshard.problem import FloatArray, IntArray, PlacementProblem

SplitKind = Literal["none", "column", "row"]

_ALIGNED = 4  # columns: embedding kernels read rows in vectors of four elements


@dataclass(frozen=True)
class SplitRules:
    """Which cuts are allowed.

    Attributes:
        kind: `none`: every table stands whole on one device; `column`: each shard has all rows and some of the
            columns; `row`: each shard has all columns and every n-th row by hotness.
        min_dim: least columns of a column shard.
        max_shards: most shards of one table; 0: no limit.
    """

    kind: SplitKind = "none"
    min_dim: int = 32
    max_shards: int = 0

    def __post_init__(self) -> None:
        """Raise InputError for an unknown kind, a least dim below 1 or a negative number of shards."""
        kinds = get_args(SplitKind)
        if self.kind not in kinds:
            raise InputError(
                f"split: found '{self.kind}'{nearest(self.kind, kinds)}; accepted: {', '.join(kinds)}"
            )
        if self.min_dim < 1:
            raise InputError(f"least dim of a shard: found {self.min_dim}; accepted: a whole number from 1")
        if self.max_shards < 0:
            raise InputError(
                f"most shards of a table: found {self.max_shards}; accepted: a whole number from 1, 0 for no limit"
            )

    @property
    def options(self) -> str:
        """The command line's options that say this."""
        text = f"--split {self.kind}"
        if self.kind == "column" and self.min_dim != SplitRules().min_dim:
            text += f" --min-dim {self.min_dim}"
        return text + (f" --max-shards {self.max_shards}" if self.max_shards else "")


WHOLE = SplitRules()


def wider(rules: SplitRules) -> Iterator[SplitRules]:
    """Yield rules that allow more cuts than `rules`, from coarse to fine."""
    if rules.kind == "none":
        yield SplitRules("column")
    if rules.kind != "row":
        yield SplitRules("column", _ALIGNED)
    if rules.kind != "row" or rules.max_shards:
        yield SplitRules("row")


@dataclass(frozen=True)
class Shards:
    """The shards of all tables, in table order; a table that is not cut is one shard.

    Attributes:
        table: table of each shard, shape (s,).
        first_column, columns: the columns it has, shape (s,).
        part, parts: it has the rows whose rank by hotness leaves `part` when divided by `parts`, shape (s,); ties
            in the order of the profile. A shard of all rows is part 0 of 1.
    """

    table: IntArray
    first_column: IntArray
    columns: IntArray
    part: IntArray
    parts: IntArray

    def __len__(self) -> int:
        return len(self.table)

    def is_cut(self, shard: int) -> bool:
        """Return whether a shard is less than its table."""
        return int(np.count_nonzero(self.table == self.table[shard])) > 1

    def name(self, shard: int, table_name: str, dim: int) -> str:
        """Return the name of a shard: its table's, with columns `[0:32]` or part `[1/4]` where it is cut."""
        if self.parts[shard] > 1:
            return f"{table_name}[{self.part[shard] + 1}/{self.parts[shard]}]"
        if self.columns[shard] < dim:
            first = self.first_column[shard]
            return f"{table_name}[{first}:{first + self.columns[shard]}]"
        return table_name


def most_shards(problem: PlacementProblem, rules: SplitRules) -> IntArray:
    """Return into how many shards each table may be cut at most, shape (t,); 1: not at all."""
    if rules.kind == "none":
        return np.ones(problem.tables, dtype=np.int64)
    if rules.kind == "column":
        vectors = -(-rules.min_dim // _ALIGNED)
        most = np.maximum(problem.dim // _ALIGNED // vectors, 1)
    else:
        most = problem.rows.copy()
    return np.minimum(most, rules.max_shards) if rules.max_shards else most


def cut_evenly(problem: PlacementProblem, count: IntArray, kind: SplitKind) -> Shards:
    """Return shards of as equal a size as can be.

    Args:
        count: shards of each table, shape (t,), at most `most_shards`.
        kind: how tables with more than one shard are cut.
    """
    table = np.repeat(np.arange(problem.tables), count)
    number = np.arange(len(table)) - np.repeat(np.cumsum(count) - count, count)
    dim, of = problem.dim[table], count[table]
    if kind == "row":
        return Shards(table, np.zeros_like(table), dim, number, of)
    # Whole vectors, as evenly as they go; what is less than a vector stays with the last shard.
    vectors = dim // _ALIGNED
    first = np.where(number > 0, vectors * number // of * _ALIGNED, 0)
    end = np.where(number + 1 < of, vectors * (number + 1) // of * _ALIGNED, dim)
    return Shards(table, first, end - first, np.zeros_like(table), np.ones_like(table))


def cut(problem: PlacementProblem, shards: Shards | None) -> PlacementProblem:
    """Return the problem in which every shard is a table of its own (None: the problem itself).

    A column shard has all rows and accesses of its table; bytes, traffic and pooled outputs go by its columns,
    but optimizer state kept once a row is kept once a row of every shard. A row shard has its share of rows and
    accesses, and sends pooled outputs of full width.
    """
    if shards is None:
        return problem
    table = shards.table
    start, end = problem.class_start[table], problem.class_start[table + 1]
    classes = end - start
    index = np.arange(classes.sum()) - np.repeat(np.cumsum(classes) - classes - start, classes)
    class_rows, class_share = problem.class_rows[index], problem.class_share[index]
    shard = np.repeat(np.arange(len(shards)), classes)
    accesses = problem.accesses[table]
    if (shards.parts > 1).any():
        # Ranks before the class, counted within its table.
        before = np.concatenate([[0], np.cumsum(problem.class_rows)])
        rank = before[index] - before[start][shard]
        part, parts = shards.part[shard], shards.parts[shard]
        class_rows = _members(rank + class_rows, part, parts) - _members(rank, part, parts)
        mass = np.bincount(shard, class_rows * class_share, minlength=len(shards))
        accesses = np.where(shards.parts > 1, accesses * mass, accesses)
        class_share = class_share / np.where((shards.parts > 1) & (mass > 0), mass, 1.0)[shard]
        kept = class_rows > 0
        class_rows, class_share, shard = class_rows[kept], class_share[kept], shard[kept]
    width = shards.columns / problem.dim[table]
    state = problem.row_state_bytes[table]
    weights = problem.row_bytes[table] - state
    return replace(
        problem,
        rows=np.bincount(shard, class_rows, minlength=len(shards)).astype(np.int64),
        dim=shards.columns,
        row_bytes=state + weights * shards.columns // problem.dim[table],
        row_state_bytes=state,
        access_bytes=problem.access_bytes[table] * width,
        accesses=accesses,
        class_start=np.searchsorted(shard, np.arange(len(shards) + 1)),
        class_rows=class_rows,
        class_share=class_share,
        network_bytes=problem.network_bytes[table] * width,
    )


def _members(ranks: IntArray, part: IntArray, parts: IntArray) -> IntArray:
    """Return how many of the first `ranks` ranks leave `part` when divided by `parts`."""
    return -((part - ranks) // parts)


def dim_share(problem: PlacementProblem, shards: Shards) -> FloatArray:
    """Return the share of its table's columns that each shard has, shape (s,)."""
    return np.asarray(shards.columns / problem.dim[shards.table])
