"""Linux's own queue of reads: many in flight from one thread, at the same cost for few as for many."""

from __future__ import annotations

import os
import platform
import threading
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numba
import numpy as np
from numba.core import types
from numpy.typing import NDArray

from recshard.problem import IntArray

ByteArray: TypeAlias = NDArray[np.uint8]

BLOCK = 4096  # bytes: what O_DIRECT wants offsets, lengths and addresses to be multiples of
_PATIENCE = 1000  # interrupted waits in a row before giving up
_GAVE_UP = -1


class _Calls(NamedTuple):
    """Numbers of the system calls."""

    setup: int
    submit: int
    wait: int


_CALLS = {"x86_64": _Calls(206, 209, 208), "aarch64": _Calls(0, 2, 4)}

# libc's entry to calls for which it has no function; kernels then wait without the interpreter's lock.
_syscall: Any = types.ExternalFunction(
    "syscall", types.intp(types.intp, types.uintp, types.uintp, types.uintp, types.uintp, types.uintp)
)


class Queue:
    """A queue of `depth` reads; whoever uses it holds its `lock`."""

    def __init__(self, depth: int, calls: _Calls) -> None:
        """Ask the system for one; `is_open` says whether it gave it."""
        self.lock = threading.Lock()
        self._calls = calls
        self._number = np.zeros(1, dtype=np.uint64)
        self._requests = np.zeros((depth, 8), dtype=np.int64)
        self._pointers = np.zeros(depth, dtype=np.int64)
        self._events = np.zeros((depth, 4), dtype=np.int64)
        self._abandoned: ByteArray | None = None
        self.is_open = _setup(calls.setup, depth, self._number) == 0

    def read(
        self, file: int, begin: IntArray, size: IntArray, to: IntArray, blocks: ByteArray, out: ByteArray
    ) -> tuple[int, int]:
        """Read rows of a file, each to its place in `out`.

        Args:
            file: descriptor, opened past the page cache.
            begin, size: where each row begins in the file, and its bytes, shape (n,).
            to: where each begins in `out`, shape (n,).
            blocks: room for as many reads as the queue is deep, at an address that is a multiple of 4 KiB, shape
                (depth, bytes of the blocks in which a row may lie).
            out: shape (sum of sizes,).

        Returns:
            n and 0, or a row that could not be read whole, with the system's error number, 0 where it gave fewer
            bytes.
        """
        arrays = (self._requests, self._pointers, self._events)
        number, calls = self._number[0], self._calls
        at, error = _read(number, calls.submit, calls.wait, file, begin, size, to, blocks, *arrays, out)
        if error == _GAVE_UP:
            # Reads may still end, into these blocks and with events that are no other call's.
            self.is_open, self._abandoned = False, blocks
            error = 0
        return int(at), int(error)


def queue(depth: int) -> Queue | None:
    """Return this process's queue of so many reads, or None where the system has none to give."""
    found = _queue(depth, os.getpid())  # a child process has none of its parent's
    return found if found is not None and found.is_open else None


@cache
def _queue(depth: int, process: int) -> Queue | None:
    calls = _CALLS.get(platform.machine()) if platform.system() == "Linux" else None
    return None if calls is None else Queue(depth, calls)


@numba.njit(cache=True)
def _setup(call: int, depth: int, number: NDArray[np.uint64]) -> int:
    return int(_syscall(call, depth, number.ctypes.data, 0, 0, 0))


@numba.njit(cache=True, nogil=True)
def _read(
    number: int,
    submit: int,
    wait: int,
    file: int,
    begin: IntArray,
    size: IntArray,
    to: IntArray,
    blocks: ByteArray,
    requests: IntArray,
    pointers: IntArray,
    events: IntArray,
    out: ByteArray,
) -> tuple[int, int]:
    # Few blocks that stay in the processor's cache; rows are written to `out` as their reads end, in any order.
    depth, span = blocks.shape
    n = len(begin)
    free = np.arange(depth)
    row_of = np.empty(depth, dtype=np.int64)
    left, begun, flying = depth, 0, 0
    failed, error = n, 0
    interrupted = 0
    while flying > 0 or (begun < n and failed == n):
        count = 0
        while left > 0 and begun < n and failed == n:
            left -= 1
            block = free[left]
            row_of[block] = begun
            first = begin[begun] // BLOCK * BLOCK
            # struct iocb: data, key and flags, operation (0: read) and file, buffer, bytes, offset
            requests[block, 0] = block
            requests[block, 1] = 0
            requests[block, 2] = np.int64(file) << 32
            requests[block, 3] = blocks.ctypes.data + block * span
            requests[block, 4] = (begin[begun] - first + size[begun] + BLOCK - 1) // BLOCK * BLOCK
            requests[block, 5] = first
            pointers[count] = requests.ctypes.data + block * requests.strides[0]
            count += 1
            begun += 1
        sent = 0
        while sent < count:
            taken = _syscall(submit, number, count - sent, pointers.ctypes.data + 8 * sent, 0, 0)
            if taken <= 0:
                failed, begun = begun - count + sent, n
                break
            sent += taken
        flying += sent
        if flying == 0:
            break
        ended = _syscall(wait, number, min(flying, max(depth // 4, 1)), depth, events.ctypes.data, 0)
        if ended < 0:
            interrupted += 1
            if interrupted > _PATIENCE:
                return min(failed, n - 1), _GAVE_UP
            continue
        interrupted = 0
        flying -= ended
        for event in range(ended):
            block, got = events[event, 0], events[event, 2]
            row = row_of[block]
            ahead, own = begin[row] % BLOCK, size[row]
            if got >= ahead + own:
                out[to[row] : to[row] + own] = blocks[block, ahead : ahead + own]
            elif row < failed:
                failed, error = row, max(-got, 0)
            free[left] = block
            left += 1
    return failed, error
