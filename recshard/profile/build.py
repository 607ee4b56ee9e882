"""From a trace to a profile, in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from recshard.errors import InputError
from recshard.profile.counting import IdCounter, RowCounter
from recshard.profile.infer import infer_table, tables_for
from recshard.profile.profile import FeatureStats, HashingStats, Profile, TableStats
from recshard.tables import EmbeddingTable, TableSet
from recshard.trace.base import IntArray, Trace
from recshard.trace.hashing import to_rows
from recshard.trace.selection import declared_tables

Progress = Callable[[int, int], None]


def profile_trace(trace: Trace, tables: TableSet | None = None, *, progress: Progress | None = None) -> Profile:
    """Count every lookup of `trace`.

    Memory: 8 bytes a row of tables whose IDs are rows already, and 32 to 64 bytes a distinct raw ID of
    tables that are hashed or still to be inferred; at the end 16 bytes more for every row seen.

    Args:
        trace: read once, in batches.
        tables: the declared tables; what they leave out is inferred (design.md, "Spec files"). None: those that
            a synthetic trace's recipe declares.
        progress: called after every batch with the samples and lookups counted so far.

    Raises:
        InputError: the trace is empty or malformed, lacks a declared feature, or an ID is outside its table.
    """
    declared = tables_for(trace.features, tables or declared_tables(trace), trace.name)
    counters = [_counter(t) for t in declared.tables]
    present = dict.fromkeys(trace.features, 0)
    lookups = dict.fromkeys(trace.features, 0)
    samples = 0
    for batch in trace.batches():
        samples += batch.samples
        for feature, bag in batch.bags.items():
            j = declared.table_index[feature]
            counter = counters[j]
            if isinstance(counter, RowCounter):
                counter.add(to_rows(bag.values, declared.tables[j], feature, trace.name))
            else:
                counter.add(bag.values)
            present[feature] += int(np.count_nonzero(bag.lengths))
            lookups[feature] += len(bag.values)
        if progress is not None:
            progress(samples, sum(lookups.values()))
    if samples == 0:
        raise InputError(f"{trace.name}: the trace is empty; a profile needs at least one sample")
    return _assemble(declared, counters, trace, samples, present, lookups)


def _counter(table: EmbeddingTable) -> RowCounter | IdCounter:
    return RowCounter(table.rows) if table.is_complete and table.ids == "rows" else IdCounter()


def _assemble(
    declared: TableSet,
    counters: Sequence[RowCounter | IdCounter],
    trace: Trace,
    samples: int,
    present: dict[str, int],
    lookups: dict[str, int],
) -> Profile:
    tables, stats, hot = [], [], []
    for table, counter in zip(declared.tables, counters, strict=True):
        if isinstance(counter, RowCounter):
            full, counts, hashing = table, counter.counts, None
        else:
            ids, id_counts = counter.result()
            full = infer_table(table, ids)
            counts, hashing = _counts_of_rows(full, ids, id_counts, trace.name)
        tables.append(full)
        hot.append(hottest_first(counts))
        stats.append(count_of_counts(hot[-1][1], hashing))
    complete = declared.with_tables(tuple(tables))
    features = tuple(
        FeatureStats(f.name, f.table, samples, present[f.name], lookups[f.name]) for f in complete.features
    )
    return Profile(complete, samples, features, tuple(stats), hot.__getitem__, (trace.name,))


def _counts_of_rows(
    table: EmbeddingTable, ids: IntArray, id_counts: IntArray, source: str
) -> tuple[IntArray, HashingStats | None]:
    """Return lookups per row, shape (rows,), and the collisions where raw IDs do not name rows."""
    rows = to_rows(ids, table, "/".join(table.features), source)
    counts = np.zeros(table.rows, dtype=np.int64)
    np.add.at(counts, rows, id_counts)
    if table.ids == "rows":
        return counts, None
    ids_per_row = np.bincount(rows, minlength=table.rows)
    shared = ids_per_row > 1
    return counts, HashingStats(len(ids), int(ids_per_row[shared].sum()), int(counts[shared].sum()))


def hottest_first(counts: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows seen, by falling count and then rising row, and their counts, from counts per row."""
    seen = np.flatnonzero(counts)
    order = np.argsort(-counts[seen], kind="stable")
    rows = seen[order]
    return rows, counts[rows]


def count_of_counts(falling: IntArray, hashing: HashingStats | None = None) -> TableStats:
    """Return the frequency classes of rows whose counts are given in falling order, shape (seen,)."""
    starts = np.flatnonzero(np.diff(falling, prepend=-1))
    return TableStats(falling[starts], np.diff(starts, append=len(falling)), hashing)
