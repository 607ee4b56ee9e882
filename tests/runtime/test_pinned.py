"""Pinned memory has the size asked for, and is unpinned before it goes, never while a tensor is over it."""

from __future__ import annotations

import gc

import pytest
import torch

from recshard.errors import InputError
from recshard.runtime.pinned import pinned_zeros


class Runtime:
    """What pinning asks of CUDA's runtime, remembering what is pinned; `allowed` bytes at most."""

    def __init__(self, allowed: int) -> None:
        self.allowed, self.pinned = allowed, dict[int, int]()

    def cudaHostRegister(self, address: int, size: int, flags: int) -> int:
        if size > self.allowed:
            return 2
        self.pinned[address] = size
        return 0

    def cudaHostUnregister(self, address: int) -> int:
        del self.pinned[address]
        return 0


class CudaError(RuntimeError):
    """As `torch.cuda.CudaError`, without a GPU."""


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    runtime = Runtime(allowed=1 << 20)

    def check(error: int) -> None:
        if error:
            raise CudaError("out of memory")

    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    monkeypatch.setattr(torch.cuda, "check_error", check)
    monkeypatch.setattr(torch.cuda, "CudaError", CudaError)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    return runtime


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_just_the_bytes_of_the_rows_are_pinned(cuda: Runtime, dtype: torch.dtype) -> None:
    rows = pinned_zeros((4097, 3), dtype)
    assert cuda.pinned == {rows.data_ptr(): 4097 * 3 * dtype.itemsize}
    assert rows.shape == (4097, 3)
    assert rows.dtype == dtype
    assert not rows.any()
    assert pinned_zeros((0, 3), dtype).shape == (0, 3)


def test_memory_stays_pinned_as_long_as_a_tensor_is_over_it(cuda: Runtime) -> None:
    rows = pinned_zeros((64, 4), torch.float32)
    rows.fill_(2)
    kept = torch.nn.Parameter(rows[8:].view(-1))
    del rows
    gc.collect()
    assert len(cuda.pinned) == 1
    assert bool((kept == 2).all())
    del kept
    gc.collect()
    assert cuda.pinned == {}


def test_what_the_system_does_not_pin_is_one_error(cuda: Runtime) -> None:
    with pytest.raises(
        InputError, match=r"2097152 bytes of host memory cannot be pinned: out of memory; .*ulimit"
    ):
        pinned_zeros((1 << 19, 1), torch.float32)
    assert cuda.pinned == {}
