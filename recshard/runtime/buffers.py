"""Memory for gradients, used again from step to step: fresh pages cost more than what is written to them."""

from __future__ import annotations

import threading
import weakref

import numpy as np
from numpy.typing import NDArray

_LEAST = 1 << 12  # elements: smaller arrays are the allocator's to keep
_free: dict[int, list[NDArray[np.float32]]] = {}
_lock = threading.RLock()  # a collection of garbage may give memory back while some is taken


def borrow(rows: int, columns: int) -> NDArray[np.float32]:
    """Return a float32 array, shape (rows, columns), of whatever was there; once gone, its memory is lent anew."""
    count = rows * columns
    if count < _LEAST:
        return np.empty((rows, columns), dtype=np.float32)
    size = 1 << (count - 1).bit_length()
    with _lock:
        kept = _free.setdefault(size, [])
        memory = kept.pop() if kept else np.empty(size, dtype=np.float32)
    array = memory[:count].reshape(rows, columns)
    weakref.finalize(array, _give_back, memory).atexit = False
    return array


def _give_back(memory: NDArray[np.float32]) -> None:
    with _lock:
        _free[len(memory)].append(memory)
