"""Lookups in one part: pooled sums of its rows, with sparse gradients for the rows read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
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
        size = columns * block.tensor.dtype.itemsize
        self._file = block.file
        self._flushed = -1
        self.reader = DirectReader(block.file.path, rows, size, start=block.file.start)

    def flush(self, weight: Tensor) -> None:
        """Write to the disk what was written to the part's rows since the last time."""
        if weight._version != self._flushed:
            self._file.flush()
            self._flushed = weight._version


@dataclass
class Lookups:
    """The lookups of some bags in one part.

    Attributes:
        weight: rows of the part, shape (rows, columns).
        slots: rows looked up, int64, shape (n,).
        offsets: where each bag begins, and the end, int64, shape (bags + 1,).
        weights: of each lookup in the sum, shape (n,); None: all are 1.
        direct: where to read the rows instead.
        distinct, read: once they were read, the rows that differ, int64, shape (u,), and what is in them, shape
            (u, columns); `slots` are then places in these.
    """

    weight: Tensor
    slots: Tensor
    offsets: Tensor
    weights: Tensor | None = None
    direct: DirectRows | None = None
    distinct: Tensor | None = None
    read: Tensor | None = None


def read_direct(lookups: Iterable[Lookups]) -> None:
    """Read the rows of all lookups in files past the page cache, the reads of one file in flight together.

    Raises:
        InputError: a file cannot be read.
    """
    wanted, pairs = [], []
    for own in lookups:
        if own.direct is not None:
            own.direct.flush(own.weight)
            own.distinct, own.slots = torch.unique(own.slots, return_inverse=True)
            wanted.append(own)
            pairs.append((own.direct.reader, own.distinct.numpy()))
    if not wanted:
        return
    from recshard.runtime.direct import gather

    for own, rows in zip(wanted, gather(pairs), strict=True):
        own.read = torch.from_numpy(rows).view(own.weight.dtype).view(len(rows), own.weight.shape[1])


class _Read(torch.autograd.Function):
    """Rows read of a part → a small table of them, whose gradient is the sparse gradient of the part."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, rows: Tensor, read: Tensor) -> Tensor:
        ctx.rows, ctx.shape = rows, weight.shape
        return read.view_as(read)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = gradients
        return _sparse(ctx.rows, gradient, ctx.shape), None, None


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


_read = cast(Callable[[Tensor, Tensor, Tensor], Tensor], _Read.apply)
_pool = cast(Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor], _Pool.apply)


def pooled(own: Lookups) -> Tensor:
    """Return the sum of the rows in each bag, shape (bags, columns)."""
    weight, slots, offsets, weights = own.weight, own.slots, own.offsets, own.weights
    device = weight.device
    if weights is not None:
        weights = weights.to(device, weight.dtype)
    if own.read is not None and own.distinct is not None and len(slots):
        return functional.embedding_bag(
            slots,
            _read(weight, own.distinct, own.read),
            offsets,
            mode="sum",
            include_last_offset=True,
            per_sample_weights=weights,
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
