"""Lookups in one part: pooled sums of its rows, with sparse gradients for the rows read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from recshard.profile.sorting import rising_order
from recshard.runtime.buffers import borrow
from recshard.runtime.memory import Block
from recshard.runtime.row_kernels import distinct_rows, gradient_of_weights, sum_by_row


class DirectRows:
    """Rows of a part in a file, read past the page cache; what was written to its memory map is flushed before."""

    def __init__(self, block: Block) -> None:
        from recshard.runtime.direct import DirectReader

        assert block.file is not None
        rows, columns = block.tensor.shape
        self._block = block
        self._flushed = -1
        size = columns * block.tensor.dtype.itemsize
        self._reader = DirectReader(block.file.path, rows, size, start=block.file.start)

    def gather(self, weight: Tensor, slots: Tensor) -> Tensor:
        """Return the rows in `slots`, shape (n, columns)."""
        if weight._version != self._flushed:
            assert self._block.file is not None
            self._block.file.flush()
            self._flushed = weight._version
        read = torch.from_numpy(self._reader.gather(slots.numpy()))
        return read.view(weight.dtype).view(len(slots), weight.shape[1])


class _Gather(torch.autograd.Function):
    """Distinct rows of a part → a small table of them, whose gradient is the sparse gradient of the part."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, slots: Tensor, rows: DirectRows) -> Tensor:
        ctx.slots, ctx.shape = slots, weight.shape
        return rows.gather(weight, slots)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = gradients
        return _sparse(ctx.slots, gradient, ctx.shape), None, None


class _Pool(torch.autograd.Function):
    """Pooled sums of a part in the CPU's memory, whose gradient names every row once."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, slots: Tensor, offsets: Tensor, weights: Tensor | None) -> Tensor:
        ctx.slots, ctx.offsets, ctx.shape = slots, offsets, weight.shape
        ctx.save_for_backward(weight if ctx.needs_input_grad[3] else None, weights)
        return functional.embedding_bag(
            slots, weight, offsets, mode="sum", include_last_offset=True, per_sample_weights=weights
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, None, None, Tensor | None]:
        gradient, slots, offsets = gradients[0].contiguous().numpy(), ctx.slots.numpy(), ctx.offsets.numpy()
        weight, weights = ctx.saved_tensors
        of_rows = of_weights = None
        if ctx.needs_input_grad[0]:
            factors = np.empty(0, dtype=np.float32) if weights is None else weights.detach().numpy()
            order = rising_order(slots)
            rows = distinct_rows(slots, order)
            sums = borrow(len(rows), gradient.shape[1])
            sum_by_row(gradient, slots, offsets, order, factors, sums)
            of_rows = _sparse(torch.from_numpy(rows), torch.from_numpy(sums), ctx.shape)
        if weight is not None:
            of_weights = torch.from_numpy(gradient_of_weights(gradient, weight.detach().numpy(), slots, offsets))
        return of_rows, None, None, of_weights


def _sparse(rows: Tensor, values: Tensor, shape: torch.Size) -> Tensor:
    return torch.sparse_coo_tensor(rows[None], values, shape, is_coalesced=True, check_invariants=False)


_gather = cast(Callable[[Tensor, Tensor, DirectRows], Tensor], _Gather.apply)
_pool = cast(Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor], _Pool.apply)


def pooled(
    weight: Tensor, slots: Tensor, offsets: Tensor, weights: Tensor | None, direct: DirectRows | None = None
) -> Tensor:
    """Return the sum of the rows in each bag, shape (bags, columns).

    Args:
        weight: rows of the part, shape (rows, columns).
        slots: rows looked up, int64, shape (n,).
        offsets: where each bag begins, and the end, int64, shape (bags + 1,).
        weights: of each lookup in the sum, shape (n,); None: all are 1.
        direct: where to read the rows instead.
    """
    device = weight.device
    if weights is not None:
        weights = weights.to(device, weight.dtype)
    if direct is not None and len(slots):
        distinct, slots = torch.unique(slots, return_inverse=True)
        rows = _gather(weight, distinct, direct)
        return functional.embedding_bag(
            slots, rows, offsets, mode="sum", include_last_offset=True, per_sample_weights=weights
        )
    if weight.device.type == "cpu" and weight.dtype == torch.float32:
        return _pool(weight, slots, offsets, None if weights is None else weights.contiguous())
    return functional.embedding_bag(
        slots.to(device, non_blocking=True),
        weight,
        offsets.to(device, non_blocking=True),
        mode="sum",
        sparse=True,
        include_last_offset=True,
        per_sample_weights=weights,
    )
