"""Ranks: the processes of a group, one a device, that exchange flat tensors and go on together or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from recshard.errors import InputError, RecshardError
from recshard.problem import IntArray

_AT_ONCE = 1 << 26  # bytes added up at once


class Ranks:
    """The processes of a group.

    Attributes:
        rank: this process.
        size: of the group.
        device: where the group's backend wants tensors: this process's GPU for nccl, else the CPU.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        """Take a group; None: all processes.

        Raises:
            InputError: torch.distributed was not initialised.
        """
        if not (dist.is_available() and dist.is_initialized()):
            raise InputError(
                "torch.distributed is not initialised; call torch.distributed.init_process_group in every process "
                "first, or use TieredEmbeddingBagCollection for a plan that one process executes"
            )
        self.group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        on_gpu = dist.get_backend(group) == "nccl"
        self.device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")

    def tell(self, numbers: Sequence[int] | IntArray) -> IntArray:
        """Return the numbers that every rank tells, which are equally many, shape (ranks, numbers)."""
        own = torch.as_tensor(np.asarray(numbers, dtype=np.int64)).to(self.device)
        told = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(told, own, group=self.group)
        found: IntArray = torch.stack(told).cpu().numpy()
        return found

    def exchange(self, tensor: Tensor, sent: Sequence[int], received: Sequence[int]) -> Tensor:
        """Return what all ranks send to this one, in their order; shape (sum of `received`,).

        Args:
            tensor: what goes to the first rank, to the second, and so on, shape (sum of `sent`,).
            sent, received: how much of it goes to each rank, and comes from each.
        """
        out = tensor.new_empty(sum(received), device=self.device)
        dist.all_to_all_single(
            out, tensor.to(self.device).contiguous(), list(received), list(sent), group=self.group
        )
        return out

    def exchange_numbers(self, numbers: IntArray, sent: Sequence[int], received: Sequence[int]) -> IntArray:
        """Return the whole numbers that all ranks send to this one: `exchange` for arrays."""
        found: IntArray = self.exchange(torch.from_numpy(numbers), sent, received).cpu().numpy()
        return found

    def collect(self, tensor: Tensor) -> None:
        """Add up on rank 0, in place, what ranks hold of a tensor: each byte is held by one, and 0 on the others.

        On other ranks the tensor is as good as gone.
        """
        root = 0 if self.group is None else dist.get_global_rank(self.group, 0)
        for piece in torch.split(tensor.view(-1).view(torch.uint8), _AT_ONCE):
            moved = piece.to(self.device)
            dist.reduce(moved, root, group=self.group)
            if self.rank == 0 and moved is not piece:
                piece.copy_(moved)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Run a block that may fail on some ranks; where it did, every rank raises, and none waits for another.

        Raises:
            InputError: it failed elsewhere; has the message of the first rank where it did.
        """
        message: str | None = "an error that is not recshard's; see its own output"
        try:
            yield
            message = None
        except RecshardError as error:
            message = str(error)
            raise
        finally:
            failed = self._failures(message)
        if failed:
            rank, reason = failed[0]
            others = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
            raise InputError(f"rank {rank}{others}: {reason}")

    def _failures(self, message: str | None) -> list[tuple[int, str]]:
        """Return the ranks that failed, with their messages."""
        text = np.frombuffer((message or "").encode(), dtype=np.uint8)
        sizes = self.tell([-1 if message is None else len(text)])[:, 0]
        if (sizes < 0).all():
            return []
        padded = np.zeros(sizes.max(), dtype=np.int64)
        padded[: len(text)] = text
        told = self.tell(padded)
        return [(r, bytes(told[r, :n].astype(np.uint8)).decode()) for r, n in enumerate(sizes.tolist()) if n >= 0]


class _Exchange(torch.autograd.Function):
    """`Ranks.exchange`; gradients take the way back."""

    @staticmethod
    def forward(
        ctx: Any, tensor: Tensor, with_it: Tensor, ranks: Ranks, sent: list[int], received: list[int], scale: float
    ) -> Tensor:
        ctx.ranks, ctx.sent, ctx.received, ctx.scale = ranks, sent, received, scale
        ctx.save_for_backward(with_it)
        ctx.device = tensor.device
        return ranks.exchange(tensor, sent, received)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None, None]:
        back = ctx.ranks.exchange(gradients[0], ctx.received, ctx.sent).to(ctx.device)
        (with_it,) = ctx.saved_tensors
        return back if ctx.scale == 1.0 else back * ctx.scale, torch.zeros_like(with_it), None, None, None, None


_exchange = cast(Callable[[Tensor, Tensor, Ranks, list[int], list[int], float], Tensor], _Exchange.apply)


def exchange_with_gradient(
    tensor: Tensor,
    ranks: Ranks,
    sent: Sequence[int],
    received: Sequence[int],
    *,
    with_it: Tensor | None = None,
    scale: float = 1.0,
) -> Tensor:
    """Return `Ranks.exchange` of a tensor, differentiable on every rank, also where nothing is sent.

    Backward is an exchange too, in which every rank must take part: so the result asks for a gradient wherever
    gradients are on.

    Args:
        with_it: a tensor that gets a gradient of zeros, so that exchanges it came from have their backward after
            this one on every rank.
        scale: of the gradients that come back.
    """
    if with_it is None:
        with_it = torch.zeros((), requires_grad=True)
    return _exchange(tensor, with_it, ranks, list(sent), list(received), scale)
