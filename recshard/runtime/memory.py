"""Memories: where a part's rows live, and how a tensor is made there.

`cuda` is the GPU's own memory, `uvm` pinned host memory that the GPU reads in place, `host` ordinary memory,
`file` a memory-mapped file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from recshard.errors import InputError, nearest
from recshard.runtime.file_rows import FileRoom, FileRows
from recshard.runtime.pinned import SAME_BYTES, pinned_zeros, seen_by_gpu

Kind = Literal["cuda", "uvm", "host", "file"]

KINDS: tuple[Kind, ...] = get_args(Kind)
_USUAL: dict[str, str] = {
    "hbm": "cuda", "uvm": "uvm", "host": "host", "dram": "host",
    "ssd": "file", "nvme": "file", "file": "file", "disk": "file",
}  # fmt: skip
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def memories(tier_names: Sequence[str], places: Mapping[str, str] | None = None) -> tuple[Kind, ...]:
    """Return the memory of each tier; without CUDA, `cuda` and `uvm` are host memory.

    Args:
        tier_names: of the plan, fast to slow.
        places: the memory of a tier, by its name, where it is not the usual one of that name.

    Raises:
        InputError: a tier without a usual memory that `places` does not name, or `places` names a tier or a memory
            that is not there.
    """
    given = dict(places or {})
    for tier, place in given.items():
        if tier not in tier_names:
            raise InputError(
                f"places: no tier '{tier}'{nearest(tier, tier_names)}; the plan's tiers: {', '.join(tier_names)}"
            )
        if place not in KINDS:
            raise InputError(
                f"places: tier '{tier}': found '{place}'{nearest(place, KINDS)}; accepted: {', '.join(KINDS)}"
            )
    found: list[Kind] = []
    for tier in tier_names:
        named = given.get(tier, _USUAL.get(tier))
        kind = next((k for k in KINDS if k == named), None)
        if kind is None:
            raise InputError(
                f"tier '{tier}': no usual memory of that name; known tiers: {', '.join(_USUAL)}; say where its "
                f"rows live with places={{'{tier}': …}}, one of {', '.join(KINDS)}"
            )
        found.append(kind if kind in ("host", "file") or torch.cuda.is_available() else "host")
    return tuple(found)


def dtype_of(table: str, dtype: str) -> torch.dtype:
    """Return torch's type for a table's declared dtype.

    Raises:
        InputError: int8, which has no arithmetic to train with.
    """
    if dtype not in DTYPES:
        raise InputError(
            f"table '{table}': dtype: found '{dtype}'; the runtime executes {', '.join(DTYPES)}; declare one of "
            "these, or export the plan to a system with quantised tables"
        )
    return DTYPES[dtype]


@dataclass(frozen=True, eq=False)
class Block:
    """A tensor in one of the memories.

    Attributes:
        kind: the memory.
        tensor: as lookups and updates see it: on the GPU for `cuda` and `uvm`.
        host: the same bytes as the CPU reads and writes them; for `cuda` it is `tensor`.
        file: where the bytes are, for `file`.
    """

    kind: Kind
    tensor: Tensor
    host: Tensor
    file: FileRows | None = None


@dataclass(frozen=True)
class Wanted:
    """A block to be made: its memory, shape and type."""

    kind: Kind
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def bytes(self) -> int:
        """Bytes that it takes."""
        return math.prod(self.shape) * self.dtype.itemsize


def allocate(wanted: Sequence[Wanted], room: FileRoom) -> list[Block]:
    """Return blocks of zeros; all files first, since a disk may be full.

    Raises:
        InputError: it is.
    """
    files = iter(room.make([block.bytes for block in wanted if block.kind == "file"]))
    return [_allocate(block, next(files) if block.kind == "file" else None) for block in wanted]


def _allocate(wanted: Wanted, file: FileRows | None) -> Block:
    if file is not None:
        count = math.prod(wanted.shape)
        tensor = torch.frombuffer(file.bytes, dtype=wanted.dtype, count=count).view(wanted.shape)
        return Block(wanted.kind, tensor, tensor, file)
    if wanted.kind == "uvm":
        pinned = pinned_zeros(wanted.shape, wanted.dtype)
        return Block(wanted.kind, seen_by_gpu(pinned), pinned)
    tensor = torch.zeros(wanted.shape, dtype=wanted.dtype, device="cuda" if wanted.kind == "cuda" else "cpu")
    return Block(wanted.kind, tensor, tensor)


def same_bytes(tensor: Tensor) -> Tensor:
    """Return a view of a tensor as whole numbers, which are copied bit by bit whatever they stand for."""
    return tensor.view(SAME_BYTES[tensor.dtype])
