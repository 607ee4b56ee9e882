"""Counting of a trace as it passes by: batch after batch, several tables at a time, within the memory allowed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from recshard.errors import InputError
from recshard.profile.assemble import assemble
from recshard.profile.counted import Counted
from recshard.profile.counter import Allowance, Counter
from recshard.profile.infer import tables_for
from recshard.profile.lengths import LengthCounter
from recshard.profile.pairs import Pairs
from recshard.profile.partial import Partial
from recshard.profile.profile import Profile
from recshard.profile.spill import RunWriter, SpillFolder, merge_groups
from recshard.tables import TableSet, load_tables
from recshard.trace.base import Batch, IntArray
from recshard.trace.hashing import to_rows
from recshard.trace.memory import Source, to_batch

LEAST_MEMORY = 1 << 27
_COUNTERS = 1 / 2  # of the memory; the rest is for batches, and at the end for sorting and writing
_FEW = 100_000  # lookups that are counted before threads could be woken
_LONE = 1 << 17  # lookups of one table that are worth splitting between threads


class Profiler:
    """Collects the statistics of a trace, such as inside a training loop.

    >>> profiler = Profiler("tables.toml")
    >>> for batch in loader:
    ...     profiler.update({"item": (values, lengths)})
    >>> profiler.save("profile")

    Args:
        tables: the declared tables, or a tables.toml; what they leave out is inferred. None: all is.
        memory: bytes that counting may take; what does not fit goes to disk. None: half of the machine's.
        threads: that count at once; None: one per processor.
        spill: folder for what goes to disk; None: the system's temporary one.
        name: of the source, in messages and in the profile.

    Raises:
        InputError: less memory than 128 MiB, or tables that cannot be read.
    """

    def __init__(
        self,
        tables: TableSet | str | Path | None = None,
        *,
        memory: int | None = None,
        threads: int | None = None,
        spill: Path | None = None,
        name: str = "batches",
    ) -> None:
        self.memory = default_memory() if memory is None else memory
        if self.memory < LEAST_MEMORY:
            raise InputError(
                f"memory: found {self.memory / 2**30:.3g} GiB; accepted: {LEAST_MEMORY / 2**30:.4g} GiB or more"
            )
        self.name = name
        self.samples = 0
        self.lookups = 0
        self._declared = load_tables(tables) if isinstance(tables, str | Path) else tables
        self._tables: TableSet | None = None
        self._counters: list[Counter] = []
        self._features: dict[str, LengthCounter] = {}
        self._by_table: dict[int, LengthCounter] = {}
        self._allowance = Allowance(int(self.memory * _COUNTERS))
        self._folder: SpillFolder | None = None
        self._spill_parent = spill
        if threads is not None and threads < 1:
            raise InputError(f"threads: found {threads}; accepted: 1 or more")
        self._threads = threads or len(os.sched_getaffinity(0))
        self._pool: ThreadPoolExecutor | None = None
        self._refused = self._finished = False

    def start(self, features: tuple[str, ...]) -> TableSet:
        """Name the features that batches will have; otherwise the first batch names them.

        Raises:
            InputError: a declared feature is not among them.
        """
        self._tables = tables_for(features, self._declared, self.name)
        least = len(self._tables) * Counter.least_bytes()
        if least > self._allowance.total:
            raise InputError(
                f"memory: found {self.memory / 2**30:.3g} GiB; accepted: {least / _COUNTERS / 2**30:.3g} GiB or "
                f"more for {len(self._tables)} tables"
            )
        self._counters = [
            Counter(t.rows if t.is_complete and t.ids == "rows" else None, self._allowance)
            for t in self._tables.tables
        ]
        self._begin_anew()
        return self._tables

    def update(self, batch: Batch | Source) -> None:
        """Count a batch.

        Args:
            batch: a mapping from each feature to `(values, lengths)`, arrays or tensors of shapes (lookups,) and
                (samples,); a KeyedJaggedTensor; or a batch of a trace.

        Raises:
            InputError: a malformed batch, features other than those of the first, or an ID outside its table.
        """
        self._check_open()
        if not isinstance(batch, Batch):
            batch = to_batch(batch, f"{self.name}: after {self.samples} samples")
        tables = self._tables or self.start(tuple(batch.bags))
        if batch.bags.keys() != self._features.keys():
            raise InputError(
                f"{self.name}: after {self.samples} samples: found features {', '.join(batch.bags)}; "
                f"accepted: those of the first batch: {', '.join(self._features)}"
            )
        self._refused = True  # until the whole batch is counted: what a refused one leaves behind is no profile
        lookups: dict[int, list[IntArray]] = {}
        for feature, bag in batch.bags.items():
            j = tables.table_index[feature]
            counter = self._counters[j]
            if counter.rows is not None and not counter.is_dense:
                to_rows(bag.values, tables.tables[j], feature, self.name)
            self._features[feature].add(bag.lengths)
            lookups.setdefault(j, []).append(bag.values)
        total = sum(len(bag.values) for bag in batch.bags.values())
        threaded = self._threads > 1 and total >= _FEW
        jobs: list[tuple[int, IntArray, int]] = []
        for j, parts in lookups.items():
            lanes = self._lanes(self._counters[j], parts, total) if threaded else 1
            jobs += [(j, part, lane) for ids in parts for lane, part in enumerate(np.array_split(ids, lanes))]
        for j, lengths in self._by_table.items():
            served = tables.tables[j].features
            lengths.add(np.sum([batch.bags[feature].lengths for feature in served], axis=0))
        for j, ids, done in self._count(jobs, threaded):
            self._count_rest(j, ids, done)
        for counter in self._counters:
            if counter.is_full:
                self._to_disk(counter)
        self.samples += batch.samples
        self.lookups += total
        self._refused = False

    def profile(self) -> Profile:
        """Return the statistics so far; counting may go on.

        Raises:
            InputError: nothing was counted yet.
        """
        self._check_open()
        if self._tables is None:
            raise InputError(f"{self.name}: nothing was counted yet; a profile needs at least one sample")
        return self.assembled(self._partial(last=False), (self.name,))

    def finish(self, sampled: float = 1.0) -> Profile:
        """Return the statistics, and give back the memory of the counters: nothing can be counted any more.

        Args:
            sampled: share of the source's samples that were counted.

        Raises:
            InputError: nothing was counted yet, or the statistics were taken before.
        """
        self._check_open()
        if self._tables is None:
            raise InputError(f"{self.name}: nothing was counted yet; a profile needs at least one sample")
        return self.assembled(self._partial(last=True), (self.name,), sampled)

    def save(self, path: str | Path) -> None:
        """Write the statistics so far as a profile, whole or not at all; counting may go on.

        Raises:
            InputError: nothing was counted yet, or the folder cannot be written.
        """
        from recshard.profile.storage import save_profile

        save_profile(self.profile(), path)

    def partial(self) -> Partial:
        """Return the counts so far, of no sample perhaps, and give back the memory of the counters."""
        return self._partial(last=True)

    def drain(self, writer: RunWriter) -> Partial:
        """Move the counts so far into a file of runs, and begin anew."""
        counts = tuple((writer.write(self._all_of(counter)),) for counter in self._counters)
        result = self._with_lengths(counts)
        self._begin_anew()
        return result

    def assembled(self, partial: Partial, source: tuple[str, ...], sampled: float = 1.0) -> Profile:
        """Return the profile that counts of these tables amount to.

        Raises:
            InputError: an ID outside its table.
        """
        assert self._tables is not None
        working = self.memory - self._allowance.total
        if not partial.samples:
            if sampled < 1:
                raise InputError(
                    f"{self.name}: a random {sampled:g} of the samples chose none; take a larger share (--sample)"
                )
            raise InputError(f"{self.name}: the trace is empty; a profile needs at least one sample")
        return assemble(self._tables, partial, source, self.folder, working, self._keep, sampled)

    def folder(self) -> SpillFolder:
        """Return the folder of what goes to disk; it is made when it is first asked for."""
        if self._folder is None:
            self._folder = SpillFolder(self._spill_parent)
        return self._folder

    def _check_open(self) -> None:
        """Raise InputError where no statistics can come any more."""
        if self._refused:
            raise InputError(
                f"{self.name}: a batch was refused before it was counted whole; begin anew without it"
            )
        if self._finished:
            raise InputError(f"{self.name}: the profiler was finished; nothing can be counted any more")

    def _begin_anew(self) -> None:
        assert self._tables is not None
        self.samples = self.lookups = 0
        self._features = {f.name: LengthCounter() for f in self._tables.features}
        several = [j for j, table in enumerate(self._tables.tables) if len(table.features) > 1]
        self._by_table = {j: LengthCounter() for j in several}

    def _lanes(self, counter: Counter, parts: list[IntArray], total: int) -> int:
        """Return between how many threads one table's IDs are split: all, if it has the better part of a batch.

        No counter may have to grow then, which would take it away from other threads.
        """
        mine = sum(map(len, parts))
        if not counter.is_dense or mine < _LONE or mine * self._threads <= total:
            return 1
        if not counter.holds(max(int(ids.max()) for ids in parts if len(ids))):
            return 1
        while counter.lanes < self._threads and counter.add_lane():
            pass
        return counter.lanes

    def _count(self, jobs: list[tuple[int, IntArray, int]], threaded: bool) -> Iterator[tuple[int, IntArray, int]]:
        """Count the IDs of all jobs; yield those that stopped before their end, and where."""
        if not threaded:
            for j, ids, lane in jobs:
                done = self._counters[j].add(ids, lane=lane)
                if done < len(ids):
                    yield j, ids, done
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="recshard-count")
        # What belongs to one copy of a table's counters is counted by one thread. Threads are given all their work
        # at once, about as many lookups each, the largest first: handing it out piece by piece costs more.
        sizes: dict[tuple[int, int], int] = {}
        for j, ids, lane in jobs:
            sizes[j, lane] = sizes.get((j, lane), 0) + len(ids)
        loads = [0] * self._threads
        thread: dict[tuple[int, int], int] = {}
        for copy in sorted(sizes, key=lambda copy: -sizes[copy]):
            thread[copy] = loads.index(min(loads))
            loads[thread[copy]] += sizes[copy]
        lots = [[job for job in jobs if thread[job[0], job[2]] == k] for k in range(self._threads)]
        ends = list(self._pool.map(self._count_lot, lots))
        for lot, stopped in zip(lots, ends, strict=True):
            for (j, _, lane), end in zip(lot, stopped, strict=True):
                if lane:
                    self._counters[j].note_counted(end)
        for lot, stopped in zip(lots, ends, strict=True):
            for (j, ids, _), end in zip(lot, stopped, strict=True):
                if end < len(ids):
                    yield j, ids, end

    def _count_lot(self, lot: list[tuple[int, IntArray, int]]) -> list[int]:
        return [self._counters[j].add(ids, lane=lane) for j, ids, lane in lot]

    def _count_rest(self, j: int, ids: IntArray, done: int) -> None:
        """Count what the memory allowed has no room for: the largest counters go to disk until it has."""
        counter = self._counters[j]
        while True:
            done = counter.add(ids, done)
            if done == len(ids):
                return
            if counter.rows is not None and int(ids[done]) >= counter.rows:
                table = self._tables.tables[j] if self._tables else None
                assert table is not None
                to_rows(ids[done:], table, "/".join(table.features), self.name)
            largest = max(self._counters, key=lambda c: (c.bytes, c is counter))
            # One that is in its own way needs no more room once it is empty, and not to grow again from the start.
            self._to_disk(largest, keep=largest is counter)

    def _to_disk(self, counter: Counter, *, keep: bool = False) -> None:
        counter.runs.append(self.folder().write(counter.empty(keep=keep)))

    def _all_of(self, counter: Counter) -> Iterator[Pairs]:
        """Yield all of a counter's counts, and let it begin anew."""
        if counter.runs:
            self._to_disk(counter)
            runs, counter.runs = counter.runs, []
            yield from merge_groups(runs, self.folder())
        else:
            yield from counter.empty()

    def _partial(self, *, last: bool) -> Partial:
        counts = []
        for counter in self._counters:
            size = counter.result_bytes
            taken = counter.bytes if last and counter.is_dense else 0  # dense counters are handed out themselves
            parts: tuple[Counted, ...]
            if not counter.runs and self._allowance.exchange(taken, size):
                parts = (counter.result(last=last),)
                if not last:
                    self._allowance.exchange(size, 0)  # of the profile, whose memory is its owner's concern
                elif taken:
                    self._allowance.force(taken)  # which are released next
            else:
                self._to_disk(counter)
                parts = tuple(counter.runs)
            counts.append(parts)
            if last:
                counter.release()
                self._finished = True
        return self._with_lengths(tuple(counts))

    def _with_lengths(self, counts: tuple[tuple[Counted, ...], ...]) -> Partial:
        assert self._tables is not None
        features = {name: counter.result() for name, counter in self._features.items()}
        tables = tuple(
            self._by_table[j].result() if j in self._by_table else features[table.features[0]]
            for j, table in enumerate(self._tables.tables)
        )
        return Partial(self.samples, features, tables, counts)

    def _keep(self, size: int) -> bool:
        return self._allowance.exchange(0, size)


def default_memory() -> int:
    """Return half of the machine's memory, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
