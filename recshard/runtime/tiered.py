"""One embedding bag whose rows stand in several memories, reached through a remap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from recshard.errors import InputError, nearest
from recshard.plan.plan import Plan
from recshard.remap import TableRemap, remap_of
from recshard.runtime.batch import read_bags
from recshard.runtime.file_rows import FileRoom
from recshard.runtime.memory import DTYPES, KINDS, Kind, allocate, dtype_of, memories
from recshard.runtime.pooling import shards_in, side_by_side
from recshard.runtime.table_parts import TableParts, wanted_parts
from recshard.runtime.weights import Shape, check_embedding_bag, check_model, shape_of, whole_table, write_table


class TieredEmbeddingBag(nn.Module):
    """A table in several memories that answers as the `torch.nn.EmbeddingBag` it was made from.

    Example:
        >>> tiered = TieredEmbeddingBag.from_plan(plan, "item", bag)
        >>> torch.equal(tiered.to_embedding_bag().weight, bag.weight)
        True
    """

    def __init__(
        self,
        remap: TableRemap,
        weight: Tensor,
        kinds: Sequence[Kind],
        *,
        mode: str = "sum",
        include_last_offset: bool = False,
        folder: str | Path | None = None,
        direct: bool = False,
    ) -> None:
        """Put a table into its parts.

        Args:
            remap: where its rows go.
            weight: the whole table, shape (rows, dim); copied.
            kinds: the memory of each tier.
            mode: `sum` or `mean`.
            include_last_offset: whether offsets end with the number of lookups.
            folder, direct: as `DeviceShards.from_plan`.

        Raises:
            InputError: a table of another shape than the remap's, an unknown mode, or a full disk.
        """
        super().__init__()
        self.include_last_offset = include_last_offset
        found = shape_of(weight)
        dim = max(part.first_column + part.columns for part in remap.parts)
        if (found.rows, found.dim) != (remap.rows, dim) or found.dtype not in DTYPES.values():
            raise InputError(
                f"table '{remap.table}': weight: found {str(weight.dtype).removeprefix('torch.')} of shape "
                f"{tuple(weight.shape)}; accepted: {', '.join(DTYPES)} of shape ({remap.rows}, {dim})"
            )
        tiers = 1 + max(part.tier for part in remap.parts)
        if len(kinds) < tiers or not set(kinds) <= set(KINDS):
            raise InputError(
                f"table '{remap.table}': kinds: found {tuple(kinds)}; accepted: one of {', '.join(KINDS)} for "
                f"each of {tiers} tiers"
            )
        room = FileRoom(folder)
        blocks = allocate(wanted_parts(remap.parts, kinds, weight.dtype), room)
        self.table = TableParts(remap, dim, remap.parts, blocks, room, mode=mode, direct=direct)
        write_table(self.table, weight)

    @classmethod
    def from_plan(
        cls,
        plan: Plan,
        table: str,
        bag: nn.EmbeddingBag,
        *,
        places: Mapping[str, str] | None = None,
        folder: str | Path | None = None,
        direct: bool = False,
    ) -> Self:
        """Return an `nn.EmbeddingBag` put into the tiers that a plan has for its table.

        Raises:
            InputError: no such table, another shape or dtype than the plan's, or an `nn.EmbeddingBag` with an
                option that lookups in parts do not have.
        """
        names = [t.name for t in plan.tables.tables]
        if table not in names:
            raise InputError(f"plan: no table '{table}'{nearest(table, names)}; accepted: {', '.join(names)}")
        declared = plan.tables.tables[names.index(table)]
        check_embedding_bag(table, bag)
        expected = Shape(declared.rows, declared.dim, dtype_of(table, declared.dtype))
        check_model({table: expected}, {table: shape_of(bag.weight)}, "nn.EmbeddingBag")
        return cls(
            remap_of(plan, names.index(table)), bag.weight.detach(), memories(plan.tier_names, places),
            mode=bag.mode, include_last_offset=bag.include_last_offset, folder=folder, direct=direct,
        )  # fmt: skip

    def to_embedding_bag(self) -> nn.EmbeddingBag:
        """Return an `nn.EmbeddingBag` with the same rows, bit by bit, and sparse gradients."""
        return nn.EmbeddingBag.from_pretrained(
            whole_table(self.table), freeze=False, mode=self.table.mode, sparse=True,
            include_last_offset=self.include_last_offset,
        )  # fmt: skip

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """Return the pooled rows, shape (bags, dim); arguments as those of `nn.EmbeddingBag`.

        Args:
            input: rows, shape (n,) with `offsets`, or (bags, lookups) without.
            offsets: where each bag begins, and with `include_last_offset` the end, shape (bags,) or (bags + 1,).
            per_sample_weights: of each lookup, of the shape of `input`; sum only.

        Raises:
            InputError: shapes that do not fit, offsets that fall, or a row beyond the table.
        """
        name, weights = self.table.remap.table, per_sample_weights
        if input.ndim == 2:
            if offsets is not None:
                raise InputError(f"table '{name}': offsets with bags of equal size (two dimensions); give none")
            if weights is not None and weights.shape != input.shape:
                raise InputError(
                    f"table '{name}': per_sample_weights: found shape {tuple(weights.shape)}; accepted: that of "
                    f"the input, {tuple(input.shape)}"
                )
            lengths = torch.full((input.shape[0],), input.shape[1])
            return self._pool(input.reshape(-1), lengths, None if weights is None else weights.reshape(-1))
        if offsets is not None and offsets.ndim != 1:
            raise InputError(
                f"table '{name}': offsets: found shape {tuple(offsets.shape)}; accepted: one dimension"
            )
        if offsets is None or input.ndim != 1:
            raise InputError(
                f"table '{name}': found input of shape {tuple(input.shape)} "
                f"{'without' if offsets is None else 'with'} offsets; accepted: one dimension with "
                "offsets, or two without"
            )
        end = offsets.new_tensor([len(input)])
        bounds = offsets if self.include_last_offset else torch.cat([offsets, end])
        if not len(bounds) or bounds[0] != 0 or bounds[-1] != len(input):
            raise InputError(
                f"table '{name}': offsets: found {_ends(offsets)}; accepted: from 0 on"
                + (f", to {len(input)}, the number of lookups, at the end" if self.include_last_offset else "")
            )
        return self._pool(input, bounds.diff(), weights)

    def _pool(self, rows: Tensor, lengths: Tensor, weights: Tensor | None) -> Tensor:
        remap = self.table.remap
        pooled = self.table(read_bags(remap.table, rows, lengths, weights))
        return side_by_side([[pooled[shard] for shard in shards] for shards in shards_in(remap)])


def _ends(offsets: Tensor) -> str:
    return f"from {int(offsets[0])} to {int(offsets[-1])}" if len(offsets) else "none"
