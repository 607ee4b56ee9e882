"""Gradients' memory is lent again once nobody holds it, and never before."""

from __future__ import annotations

import numpy as np
import torch

from recshard.runtime.buffers import borrow


def test_memory_is_lent_again_only_when_nobody_holds_it() -> None:
    first = borrow(100, 128)
    address = first.ctypes.data
    held = torch.from_numpy(first)[3:]
    del first
    held.fill_(7)
    other = borrow(100, 128)
    assert not np.shares_memory(held.numpy(), other)
    other[:] = 0
    assert bool((held == 7).all())
    del held, other
    again = [borrow(100, 128), borrow(90, 128)]
    assert address in {array.ctypes.data for array in again}
    assert not np.shares_memory(*again)
    assert again[1].shape == (90, 128)


def test_gradients_of_two_backward_passes_add_up() -> None:
    from recshard.runtime.lookup import Lookups, pooled

    weight = torch.nn.Parameter(torch.randn(5000, 64))
    whole = torch.nn.Parameter(weight.detach().clone())
    for seed in range(3):
        slots = torch.randint(0, 5000, (3000,), generator=torch.Generator().manual_seed(seed))
        offsets = torch.arange(0, 3001, 100)
        pooled(Lookups(weight, slots, offsets)).square().sum().backward()
        bags = torch.nn.functional.embedding_bag(slots, whole, offsets, mode="sum", include_last_offset=True)
        bags.square().sum().backward()
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad.to_dense(), whole.grad, rtol=1e-4, atol=1e-3)
