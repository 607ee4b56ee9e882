"""All tables of a plan in one process: features in, pooled rows of full width out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from torch import Tensor, nn

from recshard.plan.plan import Plan
from recshard.remap import TableRemap
from recshard.runtime.batch import Batch
from recshard.runtime.device import DeviceShards
from recshard.runtime.pooling import put_together, shards_by_feature
from recshard.runtime.weights import Weights, load_whole, modes_for
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
        folder: str | Path | None = None,
        direct: bool = False,
        remaps: Sequence[TableRemap] | None = None,
        mode: str | Mapping[str, str] | None = None,
        weights: Weights | None = None,
    ) -> Self:
        """Return all tables of a plan.

        Args:
            mode: `sum` or `mean`, of all tables or by name; None: that of the `nn.EmbeddingBag` where `weights`
                has one, else `sum`.
            weights: every table whole, as `load_whole` accepts; None: random.

        Other arguments and errors are those of `DeviceShards.from_plan` and `load_whole`.
        """
        shards = DeviceShards.from_plan(
            plan, places=places, folder=folder, direct=direct, remaps=remaps, random=weights is None,
            mode=modes_for(plan.tables, mode, weights),
        )  # fmt: skip
        module = cls(shards, plan.shards)
        if weights is not None:
            load_whole(module, weights)
        return module

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
