"""Rows of a file read past the page cache, many reads in flight at once."""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

import numba
import numpy as np
from numba.core import types

from recshard.errors import InputError
from recshard.problem import IntArray
from recshard.runtime.aio import BLOCK, ByteArray, queue

_O_DIRECT = getattr(os, "O_DIRECT", 0)

# libc's own, so that a kernel without the interpreter's lock waits for the disk.
_pread: Any = types.ExternalFunction("pread", types.intp(types.intc, types.uintp, types.uintp, types.intp))


class DirectReader:
    """Reads single rows of a file of rows of equal size; a context manager. One `gather` at a time.

    Every row is read from the disk whenever it is asked for, as the 4 KiB blocks in which it lies: nothing stays
    in memory. Reads go through Linux's queue of them, where there is none through threads.
    """

    def __init__(self, path: str | Path, rows: int, row_bytes: int, threads: int = 16, *, start: int = 0) -> None:
        """Open the file.

        Args:
            path: the file, row after row.
            rows: how many; what comes behind them is not read.
            row_bytes: of each.
            threads: reads in flight at once, by as many threads where the system has no queue.
            start: where the first row begins, in bytes.

        Raises:
            InputError: the file cannot be opened, is on a file system whose page cache cannot be bypassed, or is
                shorter than its rows.
        """
        self.path, self.rows, self.row_bytes, self.threads = Path(path), rows, row_bytes, threads
        self._start = start
        self._opened: _Opened | None = _open(self.path)
        self._file = self._opened.number
        found = max(os.fstat(self._file).st_size - start, 0)
        if found < rows * row_bytes:
            self.close()
            raise InputError(
                f"{path}: found {found} bytes; accepted: at least the {rows * row_bytes} bytes of {rows} rows of "
                f"{row_bytes}; it was cut short: write it again"
            )
        self._span = -(-row_bytes // BLOCK) * BLOCK + BLOCK  # a row may begin in one block and end in the next
        store = np.empty(threads * self._span + BLOCK, dtype=np.uint8)
        aligned = -store.ctypes.data % BLOCK
        self._blocks = store[aligned : aligned + threads * self._span].reshape(threads, self._span)
        self._try()

    def gather(self, slots: IntArray) -> ByteArray:
        """Return rows by their number, uint8, shape (n, row_bytes).

        Args:
            slots: from 0 to rows − 1, in any order and as often as you like, int64, shape (n,).

        Raises:
            InputError: a slot beyond the rows, or a read that failed.
        """
        return gather([(self, slots)])[0]

    def begins(self, slots: IntArray) -> IntArray:
        """Return where rows begin in the file, shape (n,).

        Raises:
            InputError: a slot beyond the rows.
        """
        if len(slots) and (slots.min() < 0 or slots.max() >= self.rows):
            wrong = slots[(slots < 0) | (slots >= self.rows)][0]
            raise InputError(f"{self.path}: found slot {wrong}; accepted: 0 to {self.rows - 1}")
        return self._start + slots * self.row_bytes

    def close(self) -> None:
        """Read no more; the file is closed once all its readers are, or are gone."""
        self._opened, self._file = None, -1

    def __enter__(self) -> DirectReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, begin: IntArray, size: IntArray, to: IntArray, out: ByteArray) -> None:
        """Read rows to their places in `out`, as `Queue.read`."""
        n = len(begin)
        own = queue(self.threads)
        if own is not None:
            with own.lock:
                at, number = own.read(self._file, begin, size, to, self._blocks, out)
            if at < n:
                raise self._failed(begin[at], os.strerror(number) if number else None)
            return
        bounds = np.linspace(0, n, min(self.threads, max(n, 1)) + 1).astype(np.int64)
        waiting = [
            _pool(self.threads).submit(
                _read_rows, self._file, begin[a:b], size[a:b], to[a:b], self._blocks[number], out
            )
            for number, (a, b) in enumerate(pairwise(bounds))
        ]
        stopped = [one.result() for one in waiting]
        for (a, b), at in zip(pairwise(bounds), stopped, strict=True):
            if a + at < b:
                raise self._failed(begin[a + at])

    def _failed(self, begin: int, reason: str | None = None) -> InputError:
        return InputError(f"{self.path}: cannot be read at byte {begin}: {reason or self._reason(begin)}")

    def _reason(self, begin: int) -> str:
        """Return why bytes cannot be read: what the system says when it is asked for once more."""
        try:
            os.preadv(self._file, [self._blocks[0]], begin // BLOCK * BLOCK)
        except OSError as error:
            return error.strerror or str(error)
        return "the file was cut short or a read was interrupted"

    def _try(self) -> None:
        """Read a block: some file systems open a file past the page cache and refuse to read it so."""
        try:
            os.preadv(self._file, [self._blocks[0][:BLOCK]], self._start // BLOCK * BLOCK)
        except OSError as error:
            self.close()
            raise _refused(self.path, error) from None


def gather(wanted: Sequence[tuple[DirectReader, IntArray]]) -> list[ByteArray]:
    """Return rows of several readers, those of one file with all their reads in flight together.

    Args:
        wanted: readers, each with rows by their number.

    Returns:
        in the same order, uint8, shape (n, row_bytes).

    Raises:
        InputError: a slot beyond the rows of its reader, or a read that failed.
    """
    found = [np.empty((0, 0), dtype=np.uint8)] * len(wanted)
    files: dict[int, list[int]] = {}
    for number, (reader, _) in enumerate(wanted):
        files.setdefault(reader._file, []).append(number)
    for numbers in files.values():
        readers = [wanted[number][0] for number in numbers]
        begin = np.concatenate([wanted[number][0].begins(wanted[number][1]) for number in numbers])
        lookups = [len(wanted[number][1]) for number in numbers]
        size = np.repeat([reader.row_bytes for reader in readers], lookups)
        ends = np.cumsum(np.concatenate([[0], size]))
        out = np.empty(ends[-1], dtype=np.uint8)
        # The reader whose rows span most blocks has room for all.
        max(readers, key=lambda reader: reader._blocks.size)._read(begin, size, ends[:-1], out)
        first = 0
        for number, reader, count in zip(numbers, readers, lookups, strict=True):
            end = first + count * reader.row_bytes
            found[number] = out[first:end].reshape(count, reader.row_bytes)
            first = end
    return found


class _Opened:
    """A file opened past the page cache, for all readers of parts of it; closed with the last of them."""

    def __init__(self, path: Path) -> None:
        self.number = os.open(path, os.O_RDONLY | _O_DIRECT | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self.number)


_opened: weakref.WeakValueDictionary[tuple[int, int], _Opened] = weakref.WeakValueDictionary()


def _open(path: Path) -> _Opened:
    if not _O_DIRECT:
        raise _refused(path, OSError(errno.EINVAL, "this system has no O_DIRECT"))
    try:
        found = os.stat(path)
        same = found.st_dev, found.st_ino  # the number of a file is no other's while it is open
        opened = _opened.get(same)
        if opened is None:
            opened = _opened[same] = _Opened(path)
        return opened
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
        raise _refused(path, error) from None


def _refused(path: Path, error: OSError) -> InputError:
    return InputError(
        f"{path}: cannot be read past the page cache (O_DIRECT): {error.strerror or error}; accepted: a folder on "
        "a local disk (ext4, xfs, btrfs and most others), not in memory; choose another folder"
    )


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """The threads that all readers share: a model has more files than reads that a disk serves at once."""
    return ThreadPoolExecutor(threads, thread_name_prefix="direct-read")


@numba.njit(cache=True, nogil=True)
def _read_rows(file: int, begin: IntArray, size: IntArray, to: IntArray, block: ByteArray, out: ByteArray) -> int:
    """Read rows to their places in `out`; return where it stopped: at the end, or at one not read whole."""
    # One read a row into the same few blocks, from which the row is copied.
    for i in range(len(begin)):
        first = begin[i] // BLOCK * BLOCK
        ahead = begin[i] - first
        length = (ahead + size[i] + BLOCK - 1) // BLOCK * BLOCK
        if _pread(file, block.ctypes.data, length, first) < ahead + size[i]:
            return i
        out[to[i] : to[i] + size[i]] = block[ahead : ahead + size[i]]
    return len(begin)
