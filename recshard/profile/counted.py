"""What counting found of one table: rows or raw IDs and their counts, in memory or on disk, read in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from recshard.profile.kernels import CountArray, add_to_rows, count_seen, take_seen, tally
from recshard.profile.pairs import Pairs, joined, regrouped
from recshard.profile.sorting import rising_order
from recshard.profile.spill import BATCH, Run, SpillFolder, merge_rows
from recshard.trace.base import IntArray

_SMALL = 1 << 16  # counts below are tallied by index
_SORTED_PAIR = 128  # bytes of a row and its count while they are sorted and written


class InMemory:
    """Distinct IDs and their counts. They are sorted when that is first needed: statistics do not ask for it.

    Args:
        keys: distinct IDs in any order, shape (distinct,).
        counts: of each, shape (distinct,).
    """

    def __init__(self, keys: IntArray, counts: IntArray) -> None:
        self.pairs = len(keys)
        self._held: tuple[IntArray, IntArray, bool] = (keys, counts, False)

    def ordered(self) -> Pairs:
        """Return IDs, rising, and their counts."""
        keys, counts, is_sorted = self._held
        if not is_sorted:
            order = rising_order(keys)
            keys, counts = keys[order], counts[order]
            self._held = (keys, counts, True)  # at once, for whoever reads in another thread
        return keys, counts

    def chunks(self) -> Iterator[Pairs]:
        """Yield IDs, rising, and counts in pieces."""
        return _pieces(*self.ordered())

    def pieces(self) -> Iterator[Pairs]:
        """Yield IDs and counts in pieces, in whatever order they are."""
        return _pieces(*self._held[:2])


def _pieces(keys: IntArray, counts: IntArray) -> Iterator[Pairs]:
    step = 32 * BATCH
    for begin in range(0, len(keys), step):
        yield keys[begin : begin + step], counts[begin : begin + step]


@dataclass(frozen=True)
class Dense:
    """A counter for every row, shape (rows,); 0 where a row was not seen."""

    counters: CountArray

    @cached_property
    def pairs(self) -> int:
        """How many rows were seen."""
        return int(count_seen(self.counters))

    def chunks(self) -> Iterator[Pairs]:
        """Yield rows and counts in pieces."""
        begin = 0
        while begin < len(self.counters):
            rows = np.empty(32 * BATCH, dtype=np.int64)
            counts = np.empty(32 * BATCH, dtype=np.int64)
            begin, found = take_seen(self.counters, begin, rows, counts)
            if found:
                yield rows[:found], counts[:found]


Counted = InMemory | Dense | Run


@dataclass(frozen=True)
class Collisions:
    """Rows that a table's raw IDs reached, and how they share them.

    Attributes:
        rows: rows reached and their lookups.
        collided_ids: IDs that share their row with another.
        collided_accesses: lookups of rows that several IDs share.
    """

    rows: Counted
    collided_ids: int
    collided_accesses: int


def last_key(counted: Counted) -> int:
    """Return the largest ID, or −1 where there is none."""
    if isinstance(counted, InMemory):
        return max((int(keys.max()) for keys, _ in counted.pieces()), default=-1)
    if isinstance(counted, Dense):
        return _last_seen(counted.counters)
    last = Run(counted.path, max(counted.first, counted.last - 1), counted.last, 0)
    return max((int(keys[-1]) for keys, _ in last.chunks()), default=-1)


def _last_seen(counters: CountArray) -> int:
    for begin in range(max(0, len(counters) - BATCH), -BATCH, -BATCH):
        seen = np.flatnonzero(counters[max(0, begin) : begin + BATCH])
        if len(seen):
            return max(0, begin) + int(seen[-1])
    return -1


def hashed(
    ids: Counted,
    rows: int,
    row_of: Callable[[IntArray], IntArray],
    folder: Callable[[], SpillFolder],
    memory: int,
    keep: Callable[[int], bool],
) -> Collisions:
    """Add the counts of raw IDs up by row.

    Args:
        ids: distinct raw IDs and their counts.
        rows: of the table.
        row_of: maps IDs to rows.
        folder: for what does not fit into memory.
        memory: bytes that this may take for a while; counters of all rows take 9 a row.
        keep: whether so many bytes more may be kept for the result, which otherwise goes to disk.
    """
    if 9 * rows <= memory:
        return _hashed_in_memory(ids, rows, row_of, folder, keep)
    pieces = regrouped(ids.chunks(), max(BATCH, memory // _SORTED_PAIR))
    runs = [folder().write([_by_row(keys, counts, row_of)]) for keys, counts in pieces]
    alone = collided_accesses = 0

    def merged() -> Iterator[Pairs]:
        nonlocal alone, collided_accesses
        for reached, counts, shared in merge_rows(runs, folder()):
            alone += int(np.count_nonzero(~shared))
            collided_accesses += int(counts[shared].sum())
            yield reached, counts

    reached = folder().write(merged())
    return Collisions(reached, ids.pairs - alone, collided_accesses)


def _hashed_in_memory(
    ids: Counted,
    rows: int,
    row_of: Callable[[IntArray], IntArray],
    folder: Callable[[], SpillFolder],
    keep: Callable[[int], bool],
) -> Collisions:
    total = np.zeros(rows, dtype=np.int64)
    owners = np.zeros(rows, dtype=np.uint8)
    for keys, counts in ids.pieces() if isinstance(ids, InMemory) else ids.chunks():
        add_to_rows(row_of(keys), counts, total, owners)
    reached = int(np.count_nonzero(owners))
    shared = owners > 1
    collided_ids = ids.pairs - (reached - int(np.count_nonzero(shared)))
    collided_accesses = int(total[shared].sum())
    if keep(16 * reached):
        keys = np.flatnonzero(owners)
        return Collisions(InMemory(keys, total[keys]), collided_ids, collided_accesses)

    def pieces() -> Iterator[Pairs]:
        for begin in range(0, rows, BATCH):
            part = total[begin : begin + BATCH]
            seen = np.flatnonzero(part)
            yield begin + seen, part[seen]

    return Collisions(folder().write(pieces()), collided_ids, collided_accesses)


def _by_row(keys: IntArray, counts: IntArray, row_of: Callable[[IntArray], IntArray]) -> Pairs:
    rows = row_of(keys)
    order = rising_order(rows)
    return rows[order], counts[order]


def count_of_counts(counted: Counted) -> Pairs:
    """Return the distinct counts, falling, and how many rows have each, both of shape (c,)."""
    small = np.zeros(_SMALL, dtype=np.int64)
    large: list[IntArray] = []
    if isinstance(counted, Dense):
        if tally(counted.counters, small):
            large.append(counted.counters[counted.counters >= _SMALL].astype(np.int64))
        small[0] = 0
        return _classes(small, large)
    for _, counts in counted.pieces() if isinstance(counted, InMemory) else counted.chunks():
        rare = counts >= _SMALL
        if rare.any():
            large.append(counts[rare])
            counts = counts[~rare]
        part = np.bincount(counts)
        small[: len(part)] += part
    return _classes(small, large)


def _classes(small: IntArray, large: list[IntArray]) -> Pairs:
    """Return counts, falling, and how many rows have each, from a histogram of the small and all others."""
    seen = np.flatnonzero(small)
    high, rows = np.unique(np.concatenate(large), return_counts=True) if large else (seen[:0], seen[:0])
    return np.concatenate([seen, high])[::-1], np.concatenate([small[seen], rows])[::-1]


def hottest_first(counted: Counted, class_count: IntArray, class_rows: IntArray, pairs: int) -> Iterator[Pairs]:
    """Yield rows and counts by falling count, then rising row, in pieces of about `pairs`.

    What is on disk is read once for each group of classes that fits into a piece; a class that does not is read by
    itself, in its order.

    Args:
        counted: rows and their counts.
        class_count: the distinct counts, falling, shape (c,).
        class_rows: rows with each, shape (c,).
        pairs: that may be held in memory.
    """
    begin = 0
    while begin < len(class_count):
        end, held = begin + 1, int(class_rows[begin])
        while end < len(class_count) and held + int(class_rows[end]) <= pairs:
            held += int(class_rows[end])
            end += 1
        most, least = class_count[begin], class_count[end - 1]
        pieces = _between(counted, int(least), int(most))
        if end == begin + 1:
            yield from pieces
        else:
            rows, counts = joined(list(pieces))
            order = rising_order(int(most) - counts)
            yield rows[order], counts[order]
        begin = end


def _between(counted: Counted, least: int, most: int) -> Iterator[Pairs]:
    for rows, counts in counted.chunks():
        kept = (counts >= least) & (counts <= most)
        if kept.any():
            yield rows[kept], counts[kept]
