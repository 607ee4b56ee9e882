"""Pinned host memory of the size asked for, which the CPU has as ordinary memory and the GPU reads in place.

PyTorch's own pinned tensors take a power of two of bytes each, up to twice what a table needs.
"""

from __future__ import annotations

import math
import mmap
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recshard.errors import InputError

# Types that numpy and CUDA's array interface have for the same bytes: their type codes have no bfloat16.
SAME_BYTES = {torch.float32: torch.int32, torch.float16: torch.int16, torch.bfloat16: torch.int16}


def pinned_zeros(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return pinned zeros in host memory; unpinned and given back once no tensor is over them.

    Raises:
        InputError: the system does not pin so much.
    """
    size = math.prod(shape) * dtype.itemsize
    # The array outlives every tensor over it, and its finaliser runs before its memory goes.
    memory = np.frombuffer(mmap.mmap(-1, max(size, 1)), dtype=np.uint8)
    address = memory.ctypes.data
    try:
        torch.cuda.check_error(_cuda().cudaHostRegister(address, len(memory), 0))
    except torch.cuda.CudaError as error:
        raise InputError(
            f"{size} bytes of host memory cannot be pinned: {error}; accepted: what the system has free and lets "
            "a process lock (ulimit -l); plan for a smaller tier, or leave it unpinned with places={tier: 'host'}"
        ) from None
    weakref.finalize(memory, _unpin, address).atexit = False
    return torch.from_numpy(memory)[:size].view(dtype).view(shape)


def _unpin(address: int) -> None:
    torch.cuda.synchronize()  # the GPU may still be reading
    torch.cuda.check_error(_cuda().cudaHostUnregister(address))


def _cuda() -> Any:
    runtime: Callable[[], Any] = torch.cuda.cudart
    return runtime()


class _PinnedArray:
    """Pinned host memory, as CUDA's array interface describes an array that the GPU can address."""

    def __init__(self, pinned: Tensor) -> None:
        self._pinned = pinned  # the bytes live as long as the tensor made of them
        self.__cuda_array_interface__ = {
            "data": (pinned.data_ptr(), False),
            "shape": tuple(pinned.shape),
            "strides": None,
            "typestr": f"<i{pinned.dtype.itemsize}",
            "version": 3,
        }


def seen_by_gpu(pinned: Tensor) -> Tensor:
    """Return a CUDA tensor over the bytes of a pinned host tensor, which the GPU reads and writes over the bus.

    Raises:
        InputError: torch made a copy, since it takes the memory for another GPU's.
    """
    seen = torch.as_tensor(_PinnedArray(pinned.view(SAME_BYTES[pinned.dtype])), device="cuda").view(pinned.dtype)
    if seen.data_ptr() != pinned.data_ptr():
        raise InputError(
            "uvm: pinned memory was set aside for another GPU than the current one, which was given a copy; "
            "call torch.cuda.set_device with this process's GPU before anything else on a GPU"
        )
    return seen
