"""All tables of a plan in one process: features in, pooled rows of full width out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from recshard.plan.plan import Plan
from recshard.remap import TableRemap
from recshard.runtime.batch import Batch
from recshard.runtime.device import DeviceShards
from recshard.shards import Shards
from recshard.tables import TableSet


class TieredEmbeddingBagCollection(nn.Module):
    """The embedding bags of a model, their rows where a plan puts them.

    Takes the place of a `torch.nn.EmbeddingBag` a table: the same outputs, gradients and training, from rows that
    stand in several memories.

    Example:
        >>> bags = TieredEmbeddingBagCollection.from_plan(plan, weights=model.state_dict())
        >>> bags({"item": (rows, lengths)})["item"]  # shape (samples, dim)
    """

    def __init__(self, shards: DeviceShards, cuts: Shards) -> None:
        """Take the parts of all devices, and the shards of the plan."""
        super().__init__()
        self.shards = shards
        self._shards_of = shards_by_feature(cuts, shards.model)

    @classmethod
    def from_plan(
        cls,
        plan: Plan,
        *,
        places: Mapping[str, str] | None = None,
        folder: Path | None = None,
        direct: bool = False,
        remaps: Sequence[TableRemap] | None = None,
        mode: str | Mapping[str, str] = "sum",
    ) -> Self:
        """Return all tables of a plan; arguments and errors as `DeviceShards.from_plan`."""
        shards = DeviceShards.from_plan(
            plan, places=places, folder=folder, direct=direct, remaps=remaps, mode=mode
        )
        return cls(shards, plan.shards)

    @property
    def model(self) -> TableSet:
        """The tables."""
        return self.shards.model

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the pooled rows of every feature, shape (bags, dim).

        Args:
            batch: (rows, lengths) or (rows, lengths, weights) by feature, or a KeyedJaggedTensor.

        Raises:
            InputError: a batch that does not fit the model.
        """
        return put_together(self.shards(batch), self._shards_of)


def put_together(
    pooled: Mapping[tuple[str, int], Tensor], shards_of: Mapping[str, Sequence[Sequence[int]]]
) -> dict[str, Tensor]:
    """Return the pooled rows of every feature, shape (bags, dim): row shards added, column shards side by side.

    Args:
        pooled: by feature and shard, shape (bags, columns).
        shards_of: for every feature, from the first column to the last, the shards that have the same columns.
    """
    out = {}
    for feature, columns in shards_of.items():
        ranges = []
        for shards in columns:
            total = pooled[feature, shards[0]]
            for shard in shards[1:]:
                total = total + pooled[feature, shard]
            ranges.append(total)
        out[feature] = ranges[0] if len(ranges) == 1 else torch.cat(ranges, 1)
    return out


def shards_by_feature(plan_shards: Shards, model: TableSet) -> dict[str, list[list[int]]]:
    """Return for every feature, from the first column to the last, the shards that have the same columns."""
    found: dict[int, dict[int, list[int]]] = {}
    for s, (table, column) in enumerate(zip(plan_shards.table, plan_shards.first_column, strict=True)):
        found.setdefault(int(table), {}).setdefault(int(column), []).append(s)
    return {feature: [found[j][column] for column in sorted(found[j])] for feature, j in model.table_index.items()}
