"""Parts: the rows of one shard in one tier, which one memory of one device holds as a small table of its own.

A table's rows are known by their rank (hottest first). Row shards are dealt the ranks in turn, and each shard's
own rows fill its tiers one after another: so a rank says part and slot without a further table, and all column
shards of a table share one array of ranks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from recshard.errors import InputError
from recshard.plan.plan import Plan
from recshard.problem import IntArray
from recshard.remap.ranks import RankArray, look_up_ranks, rank_rows
from recshard.remap.route import route


@dataclass(frozen=True)
class Part:
    """Where some rows of a table stand: in one tier of one device.

    Attributes:
        name: unique in the plan: its shard's, followed by `@tier` where the shard stands in several tiers.
        table, shard: indices in the plan.
        device, tier: indices in the topology.
        rows: rows it holds; a slot is 0 … rows − 1, hottest first.
        first_column, columns: the columns of the table that it holds.
        shard_number, shards: the ranks of its shard are those that leave `shard_number` when divided by `shards`;
            0 and 1 where the table is not cut by rows.
        start: rows of its shard in faster tiers: slot = rank ÷ shards, rounded down, − start.
    """

    name: str
    table: int
    shard: int
    device: int
    tier: int
    rows: int
    first_column: int
    columns: int
    shard_number: int
    shards: int
    start: int


@dataclass(frozen=True)
class Routed:
    """The lookups that go to one part, in their order.

    Attributes:
        part: the part.
        slots: slot of each, int64, shape (n,).
        offsets: where each bag begins, and the end, int64, shape (bags + 1,).
        lookups: which of the table's lookups they are, int64, shape (n,); None: all of them.
    """

    part: Part
    slots: IntArray
    offsets: IntArray
    lookups: IntArray | None


def parts_of(plan: Plan) -> tuple[Part, ...]:
    """Return the parts of a plan, in the order of tables, shards and tiers; tiers that hold no rows have none."""
    shards, rows = plan.shards, plan.placement.rows
    parts = []
    for s, shard_name in enumerate(plan.shard_names):
        start = 0
        for k in np.flatnonzero(rows[s]):
            parts.append(
                Part(
                    name=f"{shard_name}@{plan.tier_names[k]}" if plan.is_split(s) else shard_name,
                    table=int(shards.table[s]),
                    shard=s,
                    device=int(plan.placement.device[s]),
                    tier=int(k),
                    rows=int(rows[s, k]),
                    first_column=int(shards.first_column[s]),
                    columns=int(shards.columns[s]),
                    shard_number=int(shards.part[s]),
                    shards=int(shards.parts[s]),
                    start=start,
                )
            )
            start += int(rows[s, k])
    return tuple(parts)


@dataclass(frozen=True)
class TableRemap:
    """The way from the rows of one table to its parts.

    Attributes:
        table: name of the table.
        rows: of the table.
        parts: all of them, in the order of `parts_of`.
        ranks: rank of each row, shape (rows,); None where every row's slot is its own number: the table, or each
            of its column shards, stands whole in one tier.
    """

    table: str
    rows: int
    parts: tuple[Part, ...]
    ranks: RankArray | None

    @cached_property
    def covers(self) -> tuple[tuple[Part, ...], ...]:
        """The parts in groups that hold every row of the table once: one a column shard."""
        first = dict.fromkeys(part.first_column for part in self.parts)
        return tuple(tuple(part for part in self.parts if part.first_column == column) for column in first)

    def digest(self, parts: Sequence[Part]) -> int:
        """Return 63 bits that say which rows of the table some of its parts hold, and in which slots."""
        held = [(p.first_column, p.columns, p.shard_number, p.shards, p.start, p.rows) for p in parts]
        found = hashlib.blake2b(repr((self.table, self.rows, held)).encode(), digest_size=8)
        if self.ranks is not None:
            found.update(np.ascontiguousarray(self.ranks).data)
        return int.from_bytes(found.digest(), "big") >> 1

    def look_up(self, rows: IntArray) -> IntArray:
        """Return the rank of each of `rows`, int64, shape (n,), the rows themselves where there are no ranks.

        Raises:
            InputError: one of `rows` is not in the table.
        """
        if self.ranks is None:
            self.check(rows)
            return rows
        out = np.empty(len(rows), dtype=np.int64)
        self._refuse(rows, look_up_ranks(self.ranks, rows, out))
        return out

    def check(self, rows: IntArray) -> None:
        """Raise InputError where one of `rows` is not in the table."""
        if len(rows) and (rows.min() < 0 or rows.max() >= self.rows):
            self._refuse(rows, int(np.argmax((rows < 0) | (rows >= self.rows))))

    def route(self, rows: IntArray, offsets: IntArray) -> list[Routed]:
        """Return the lookups of every part, in the order of `parts`.

        Args:
            rows: rows of the table, int64, shape (n,).
            offsets: where each bag begins, and the end, int64, shape (bags + 1,).

        Raises:
            InputError: one of `rows` is not in the table.
        """
        ranks = self.look_up(rows)
        found = []
        for cover in self.covers:
            if len(cover) == 1:
                found.append(Routed(cover[0], ranks, offsets, None))
                continue
            home, start = _homes(cover)
            slots, bags, lookups, begin = route(ranks, offsets, home, start, len(cover))
            for number, part in enumerate(cover):
                mine = slice(begin[number], begin[number + 1])
                found.append(Routed(part, slots[mine], bags[number], lookups[mine]))
        return found

    def rows_of(self, part: Part) -> IntArray:
        """Return the rows of the table that a part holds, in the order of its slots, int64, shape (part.rows,)."""
        if self.ranks is None:
            return np.arange(part.rows, dtype=np.int64)
        within = self.ranks // part.shards - part.start
        mine = np.flatnonzero(
            (self.ranks % part.shards == part.shard_number) & (within >= 0) & (within < part.rows)
        )
        rows = np.empty(part.rows, dtype=np.int64)
        rows[within[mine]] = mine
        return rows

    def _refuse(self, rows: IntArray, at: int) -> None:
        if at < len(rows):
            raise InputError(
                f"table '{self.table}': found ID {rows[at]} at lookup {at}; accepted: rows 0 to {self.rows - 1}; "
                "hash raw IDs to rows first, as the model does, or plan for a table with more rows"
            )


def _homes(cover: Sequence[Part]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, for each row shard, its first part in `cover`, shape (shards + 1,), and each part's start."""
    shard = np.array([part.shard_number for part in cover])
    first = np.searchsorted(shard, np.arange(cover[0].shards + 1))
    return first, np.array([part.start for part in cover], dtype=np.int64)


def remap_of(plan: Plan, table: int, out: RankArray | None = None) -> TableRemap:
    """Return the remap of a table, by its index in the plan.

    Args:
        out: where to write the ranks, where there are any, such as a memory-mapped file.
    """
    declared = plan.tables.tables[table]
    parts = tuple(part for part in parts_of(plan) if part.table == table)
    ranks = rank_rows(declared.rows, plan.hot_rows(table), out) if plan.needs_hot_rows(table) else None
    return TableRemap(declared.name, declared.rows, parts, ranks)
