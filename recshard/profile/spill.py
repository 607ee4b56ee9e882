"""Sorted runs of counts on disk, and their merging: what is counted beyond the memory allowed.

A run is a stretch of an Arrow IPC file: record batches of IDs, rising, and their counts. pyarrow was chosen and
not an engine that aggregates on disk itself, such as DuckDB or Polars: Parquet files are read with it already;
its files stream in batches of a fixed size, so the memory of a merge is known beforehand (`BATCH` pairs a run);
and IDs arrive here counted already, so that what remains to be done on disk is one sequential merge.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recshard.errors import InputError
from recshard.profile.pairs import Pairs
from recshard.profile.sorting import rising_order
from recshard.trace.base import IntArray
from recshard.trace.columns import to_arrow

BATCH = 1 << 15  # pairs: half a MiB
MOST_RUNS = 64  # merged at a time


@dataclass(frozen=True)
class Run:
    """IDs, rising, and their counts, in the record batches `first` … `last` − 1 of an Arrow IPC file.

    A run in a temporary folder holds on to it: `folder` goes away with the last of its runs.
    """

    path: Path
    first: int
    last: int
    pairs: int
    folder: object = None

    def chunks(self) -> Iterator[Pairs]:
        """Yield IDs and counts in pieces of at most `BATCH`.

        Raises:
            InputError: the file is gone or damaged.
        """
        import pyarrow as pa

        try:
            # Not mapped into memory: pages of a mapped file would count as the program's.
            with pa.OSFile(str(self.path)) as source, pa.ipc.open_file(source) as reader:
                for number in range(self.first, self.last):
                    batch = reader.get_batch(number)
                    yield batch.column(0).to_numpy(), batch.column(1).to_numpy()
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self.path}: counts on disk cannot be read: {error}; profile again") from None


class RunWriter:
    """Writes runs into one file, one after the other."""

    def __init__(self, path: Path, writer: Any, schema: Any) -> None:
        self._path = path
        self._writer = writer
        self._schema = schema
        self._batches = 0

    def write(self, chunks: Iterable[Pairs]) -> Run:
        """Append the pieces of one run, IDs rising throughout; it can be read once the file is closed."""
        import pyarrow as pa

        first, pairs = self._batches, 0
        for keys, counts in chunks:
            for begin in range(0, len(keys), BATCH):
                part = slice(begin, begin + BATCH)
                columns = [to_arrow(keys[part]), to_arrow(counts[part])]
                self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))
                self._batches += 1
            pairs += len(keys)
        return Run(self._path, first, self._batches, pairs)


@contextmanager
def run_file(path: Path) -> Iterator[RunWriter]:
    """Yield the writer of a new file of runs.

    Raises:
        InputError: the file cannot be written, such as for want of space.
    """
    import pyarrow as pa

    schema = pa.schema([("key", pa.int64()), ("count", pa.int64())])
    try:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            yield RunWriter(path, writer, schema)
    except OSError as error:
        raise InputError(f"{path}: counts cannot be written to disk: {error}; make room there") from None


class SpillFolder:
    """A temporary folder for runs."""

    def __init__(self, parent: Path | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="recshard-counts-", dir=parent)
        self._numbers = itertools.count()

    def write(self, chunks: Iterable[Pairs]) -> Run:
        """Write one run into a file of its own."""
        with run_file(Path(self._folder.name) / f"{next(self._numbers)}.arrow") as writer:
            return replace(writer.write(chunks), folder=self._folder)


def merge_groups(runs: list[Run], folder: SpillFolder) -> Iterator[Pairs]:
    """Yield IDs, rising and distinct, and the sum of their counts; `MOST_RUNS` runs are merged at a time."""
    while len(runs) > MOST_RUNS:
        groups = [runs[k : k + MOST_RUNS] for k in range(0, len(runs), MOST_RUNS)]
        runs = [folder.write((keys, counts) for keys, counts, _ in merge(group)) for group in groups]
    for keys, counts, _ in merge(runs):
        yield keys, counts


def merge_rows(runs: list[Run], folder: SpillFolder) -> Iterator[tuple[IntArray, IntArray, NDArray[np.bool_]]]:
    """Yield rows, rising and distinct, the sum of their counts, and whether several pairs were of one row."""

    def marked(group: list[Run]) -> Iterator[Pairs]:
        for rows, counts, stood in merge(group):
            yield rows, np.where(stood > 1, -counts, counts)

    while len(runs) > MOST_RUNS:
        groups = [runs[k : k + MOST_RUNS] for k in range(0, len(runs), MOST_RUNS)]
        runs = [folder.write(marked(group)) for group in groups]
    for rows, counts, stood in merge(runs):
        yield rows, counts, stood > 1


def merge(runs: list[Run]) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """Yield IDs, rising and distinct, the sum of their counts, and in how many pairs each stood.

    A count below 0 stands for a pair that several others were merged into. Memory: about three times `BATCH` pairs
    a run.
    """
    sources = [run.chunks() for run in runs]
    empty = np.zeros(0, dtype=np.int64)
    held: list[Pairs] = [(empty, empty)] * len(runs)
    live = list(range(len(runs)))
    while live:
        for k in list(live):
            while len(held[k][0]) == 0:
                fresh = next(sources[k], None)
                if fresh is None:
                    live.remove(k)
                    break
                held[k] = fresh
        if not live:
            return
        # Whatever is at most the least of the last IDs held cannot come again from any run, unless it is equal to
        # the last ID of a run whose next piece begins with it again: runs of rows repeat theirs.
        cut = min(int(held[k][0][-1]) for k in live)
        keys, counts = _take(live, sources, held, cut)
        starts = np.flatnonzero(np.diff(keys, prepend=keys[0] - 1))
        stood = np.add.reduceat(np.where(counts < 0, 2, 1), starts)
        yield keys[starts], np.add.reduceat(np.abs(counts), starts), stood


def _take(live: list[int], sources: list[Iterator[Pairs]], held: list[Pairs], cut: int) -> Pairs:
    """Remove all pairs up to `cut` from what is held of the runs; return them in order."""
    parts: list[Pairs] = []
    for k in live:
        while True:
            keys, counts = held[k]
            end = int(np.searchsorted(keys, cut, side="right"))
            parts.append((keys[:end], counts[:end]))
            held[k] = (keys[end:], counts[end:])
            if end < len(keys) or not end:
                break
            fresh = next(sources[k], None)
            if fresh is None:
                break
            held[k] = fresh
    keys = np.concatenate([keys for keys, _ in parts])
    counts = np.concatenate([counts for _, counts in parts])
    order = rising_order(keys)
    return keys[order], counts[order]
