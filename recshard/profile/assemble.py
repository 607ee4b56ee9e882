"""From counts to a profile: tables completed, IDs hashed to rows, rows sorted by how often they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial as partial_of

import numpy as np

from recshard.profile.counted import Counted, count_of_counts, hashed, hottest_first, last_key
from recshard.profile.infer import infer_table
from recshard.profile.pairs import Pairs
from recshard.profile.partial import Partial, add_up
from recshard.profile.profile import FeatureStats, HashingStats, Profile, TableStats
from recshard.profile.spill import SpillFolder
from recshard.tables import TableSet
from recshard.trace.hashing import to_rows

_PAIR_BYTES = 128  # of a row and its count while they are sorted


def assemble(
    declared: TableSet,
    partial: Partial,
    source: tuple[str, ...],
    folder: Callable[[], SpillFolder],
    memory: int,
    keep: Callable[[int], bool],
    sampled: float = 1.0,
) -> Profile:
    """Return the profile that partial counts amount to.

    Args:
        declared: one table for every feature; what they leave out is inferred.
        partial: the counts.
        source: names the traces.
        folder: gives the folder for what does not fit into memory.
        memory: bytes that may be taken for a while.
        keep: whether so many bytes more may be kept in memory.
        sampled: share of the samples that were counted.

    Raises:
        InputError: an ID outside its table.
    """
    tables, stats, rows = [], [], []
    for table, lengths, parts in zip(declared.tables, partial.tables, partial.counts, strict=True):
        counted = add_up(parts, folder) if len(parts) > 1 else parts[0]
        full = infer_table(table, counted.pairs, last_key(counted))
        hashing = None
        if full.ids == "rows":
            to_rows(np.array([max(0, last_key(counted))]), full, "/".join(full.features), source[0])
        else:
            row_of = partial_of(to_rows, table=full, feature="/".join(full.features), source=source[0])
            collisions = hashed(counted, full.rows, row_of, folder, memory, keep)
            hashing = HashingStats(counted.pairs, collisions.collided_ids, collisions.collided_accesses)
            counted = collisions.rows
        tables.append(full)
        rows.append(counted)
        stats.append(TableStats(*count_of_counts(counted), hashing, lengths))
    complete = declared.with_tables(tuple(tables))
    features = tuple(FeatureStats(f.name, f.table, partial.features[f.name]) for f in complete.features)
    return Profile(
        complete, partial.samples, features, tuple(stats), _hot_chunks(rows, stats, memory), source, sampled
    )


def _hot_chunks(rows: list[Counted], stats: list[TableStats], memory: int) -> Callable[[int], Iterator[Pairs]]:
    def chunks(index: int) -> Iterator[Pairs]:
        mine = stats[index]
        return hottest_first(rows[index], mine.class_count, mine.class_rows, max(1, memory // _PAIR_BYTES))

    return chunks
