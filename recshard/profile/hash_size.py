"""Hash sizes: how many rows a hashed table needs so that few accesses share their row with another ID.

IDs hashed uniformly into R rows collide whatever their popularity: of U distinct IDs each shares its row with
another with probability 1 − (1 − 1/R)^(U − 1). That is the expected share of collided IDs, and the expected share
of collided accesses too, around which a few very hot IDs make the real share scatter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from recshard.errors import InputError
from recshard.profile.profile import Profile, expected_reached
from recshard.tables import EmbeddingTable, TableSet

_MOST_ROWS = 10**12
_MOST_GROWTH = 1_000_000


@dataclass(frozen=True)
class HashSize:
    """What is recommended for one table.

    Attributes:
        table: as it is now.
        distinct_ids: raw IDs to make room for; None where IDs are rows already, or taken modulo, so that how they
            collide follows from the IDs and not from chance.
        collided: measured share of accesses that land on a row which several IDs share.
        expected: share of collided accesses to be expected of the present size.
        rows: recommended, the least that meet the target; the present ones where nothing can be said.
        expected_then: share of collided accesses to be expected of the recommended size.
        occupancy_then: share of the recommended rows that any ID reaches.
    """

    table: EmbeddingTable
    distinct_ids: int | None
    collided: float | None
    expected: float | None
    rows: int
    expected_then: float | None
    occupancy_then: float | None

    @property
    def freed_bytes(self) -> int:
        """Bytes that the recommended size frees; below 0 where it costs some."""
        return (self.table.rows - self.rows) * self.table.row_bytes


def collided_share(ids: int, rows: int) -> float:
    """Return the share of `ids`, hashed uniformly into `rows`, that share their row with another on average."""
    if ids < 2:
        return 0.0
    return -math.expm1((ids - 1) * math.log1p(-1.0 / rows)) if rows > 1 else 1.0


def rows_for_collisions(ids: int, target: float) -> int:
    """Return the fewest rows into which `ids` are hashed so that at most a share `target` collides on average.

    Raises:
        InputError: a target outside 0 … 1, both excluded, or so small that it takes more than 10¹² rows.
    """
    if not 0 < target < 1:
        raise InputError(f"target: found {target}; accepted: a share between 0 and 1, such as 0.05")
    if ids < 2:
        return 1
    rows = max(1, math.ceil(-1.0 / math.expm1(math.log1p(-target) / (ids - 1))))
    if rows > _MOST_ROWS:
        raise InputError(f"target: {target} takes {rows:.2g} rows for {ids:,} IDs; accepted: what 10¹² rows reach")
    # Rounding may be off by one row either way.
    while rows > 1 and collided_share(ids, rows - 1) <= target:
        rows -= 1
    while collided_share(ids, rows) > target:
        rows += 1
    return rows


def hash_sizes(profile: Profile, target: float, growth: float = 1.0) -> list[HashSize]:
    """Return a hash size for every table, in table order.

    Args:
        profile: with the number of distinct raw IDs of hashed tables.
        target: share of accesses that may land on a row which several IDs share.
        growth: how many times as many distinct IDs there will be as the profile has.

    Raises:
        InputError: a target outside 0 … 1 or growth below 1.
    """
    if not 1 <= growth <= _MOST_GROWTH:
        raise InputError(f"growth: found {growth}; accepted: 1 to {_MOST_GROWTH:,}")
    return [_hash_size(profile, j, target, growth) for j in range(len(profile.tables))]


def _hash_size(profile: Profile, index: int, target: float, growth: float) -> HashSize:
    table, stats = profile.tables.tables[index], profile.stats[index]
    if stats.hashing is None or table.ids == "mod":
        return HashSize(table, None, None, None, table.rows, None, None)
    ids = math.ceil(stats.hashing.distinct_ids * growth)
    rows = rows_for_collisions(ids, target)
    return HashSize(
        table,
        ids,
        stats.hashing.collided_accesses / stats.lookups if stats.lookups else 0.0,
        collided_share(stats.hashing.distinct_ids, table.rows),
        rows,
        collided_share(ids, rows),
        expected_reached(ids, rows) / rows,
    )


def resized(tables: TableSet, sizes: list[HashSize]) -> TableSet:
    """Return the tables with the recommended numbers of rows."""
    return tables.with_tables(
        tuple(replace(table, rows=size.rows) for table, size in zip(tables.tables, sizes, strict=True))
    )
