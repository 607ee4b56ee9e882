"""The rival without a plan for rows: a device's tables in one file, behind an LRU page cache."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recshard.bench.lru import PAGE, PageCache
from recshard.bench.steps import Rows
from recshard.errors import InputError
from recshard.plan.plan import Plan
from recshard.problem import IntArray
from recshard.remap import TableRemap
from recshard.runtime.memory import dtype_of
from recshard.tables import WEIGHT_BYTES
from recshard.units import format_bytes

_CHUNK = 1 << 26  # bytes written at once

Weights = Callable[[int, int, int], Tensor]


class PagedShards:
    """The shards of one device, whole and in the order of their rows, in pages of a file.

    Attributes:
        cache: its counts say what was read.
        bytes: of the file.
    """

    def __init__(
        self, plan: Plan, device: int, remaps: Sequence[TableRemap], folder: Path, frames: int, weights: Weights
    ) -> None:
        """Write the file.

        Args:
            remaps: of all tables; they say which rows a row shard has.
            frames: pages of memory; where a row is larger, as many as it needs.
            weights: gives `weights(shard, first, end)`, rows of a shard in the order of the table's rows, shape
                (end − first, columns).

        Raises:
            InputError: the file cannot be written, or not be read past the page cache.
        """
        self._plan, self._remaps = plan, remaps
        self._shards = np.flatnonzero(plan.placement.device == device)
        self._base, self.bytes = layout(plan, device)
        self._local = {int(s): _local_rows(plan, remaps, int(s)) for s in self._shards}
        path = folder / f"device-{device}.pages"
        try:
            with path.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, self.bytes)
                for s in self._shards:
                    self._write(file, int(s), weights)
                file.flush()
                os.fsync(file.fileno())  # or reads past the page cache would wait for what is yet to be written
        except OSError as error:
            path.unlink(missing_ok=True)
            raise InputError(
                f"{folder}: no room for the file of the page cache: {error.strerror or error}; needed: "
                f"{format_bytes(self.bytes)}; choose another --folder, or make a smaller model (fewer rows in "
                "tables.toml)"
            ) from None
        widest = max(row_bytes_of(plan, int(s)) for s in self._shards)
        self.cache = PageCache(path, self.bytes // PAGE, max(frames, -(-widest // PAGE) + 1))

    def forward(self, rows: Rows) -> dict[tuple[str, int], Tensor]:
        """Return the pooled sums of every feature and shard of this device, shape (bags, columns)."""
        wanted: list[tuple[str, int, IntArray, IntArray, IntArray]] = []
        for s in self._shards:
            table = int(self._plan.shards.table[s])
            size = row_bytes_of(self._plan, int(s))
            for feature in self._plan.tables.tables[table].features:
                own, offsets = self._own(int(s), *rows[feature])
                begin = self._base[int(s)] + own * size
                wanted.append((feature, int(s), begin, np.full(len(own), size), offsets))
        read = self.cache.read(np.concatenate([w[2] for w in wanted]), np.concatenate([w[3] for w in wanted]))
        found: dict[tuple[str, int], Tensor] = {}
        at = 0
        for feature, shard, begin, sizes, offsets in wanted:
            end = at + int(sizes.sum())
            columns = int(self._plan.shards.columns[shard])
            declared = self._plan.tables.tables[self._plan.shards.table[shard]]
            vectors = torch.from_numpy(read[at:end]).view(dtype_of(declared.name, declared.dtype))
            found[feature, shard] = torch.nn.functional.embedding_bag(
                torch.arange(len(begin)), vectors.view(len(begin), columns), torch.from_numpy(offsets), mode="sum",
                include_last_offset=True,
            )  # fmt: skip
            at = end
        return found

    def close(self) -> None:
        """Close the file."""
        self.cache.close()

    def _own(self, shard: int, rows: IntArray, lengths: IntArray) -> tuple[IntArray, IntArray]:
        """Return which of its rows a shard is asked for, and where each bag begins, and the end."""
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        local = self._local[shard]
        if local is None:
            return rows, offsets
        mine = local[rows] >= 0
        before = np.concatenate([[0], np.cumsum(mine)])
        return local[rows[mine]], before[offsets]

    def _write(self, file: Any, shard: int, weights: Weights) -> None:
        rows, size = int(self._plan.sharded.rows[shard]), row_bytes_of(self._plan, shard)
        file.seek(self._base[shard])
        for first in range(0, rows, max(_CHUNK // size, 1)):
            end = min(rows, first + max(_CHUNK // size, 1))
            file.write(weights(shard, first, end).contiguous().view(torch.uint8).numpy().tobytes())
        file.write(bytes(-(rows * size) % PAGE))


def layout(plan: Plan, device: int) -> tuple[dict[int, int], int]:
    """Return where each shard of a device begins in its file, and the file's bytes; each begins with a page."""
    base, end = {}, 0
    for s in np.flatnonzero(plan.placement.device == device):
        base[int(s)] = end
        end += -(-int(plan.sharded.rows[s]) * row_bytes_of(plan, int(s)) // PAGE) * PAGE
    return base, end


def row_bytes_of(plan: Plan, shard: int) -> int:
    """Return the bytes of weights of one row of a shard."""
    return int(plan.shards.columns[shard]) * WEIGHT_BYTES[plan.tables.tables[plan.shards.table[shard]].dtype]


def _local_rows(plan: Plan, remaps: Sequence[TableRemap], shard: int) -> IntArray | None:
    """Return, for each row of the table, which of the shard's rows it is, −1 where none; None: every row is."""
    part, parts = plan.shards.part[shard], plan.shards.parts[shard]
    if parts == 1:
        return None
    ranks = remaps[plan.shards.table[shard]].ranks
    assert ranks is not None, "a table that is cut by rows has ranks"
    mine = ranks % parts == part
    return np.where(mine, np.cumsum(mine) - 1, -1)
