"""A drop-in for TorchRec's `EmbeddingBagCollection` whose tables are the parts of a plan.

`DistributedModelParallel` shards the collection of parts within; the way to the parts and back stays around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torchrec.modules.embedding_modules import EmbeddingBagCollection
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor, KeyedTensor

from recshard.errors import InputError
from recshard.export.torchrec.layout import Layout, layout_of
from recshard.export.torchrec.transform import PartsTransform, embedding_bag_configs
from recshard.export.torchrec.weights import check_whole, part_of, put_back
from recshard.plan.plan import Plan
from recshard.remap import Part

PARTS = "parts"  # the attribute that holds the collection of parts: the end of its module path
_TYPES = {"float32": torch.float32, "float16": torch.float16}


class PartsEmbeddingBagCollection(nn.Module):
    """Pools the rows of a plan's tables, wherever they stand: features of raw rows in, pooled features out.

    Outputs are those of TorchRec's `EmbeddingBagCollection` of the whole tables, in the order of the tables. A
    batch that `transform` has already turned into one of the parts is taken as it is.

    Row-wise Adagrad has one state a row and part: with column shards it is one a shard, as TorchRec's own
    column-wise sharding has it, which is not quite the training of the uncut table.
    """

    def __init__(
        self,
        plan: Plan | Layout,
        *,
        pooling: str | Mapping[str, str] = "sum",
        is_weighted: bool = False,
        device: torch.device | None = None,
    ) -> None:
        """Build the parts, with weights drawn anew.

        Args:
            pooling: `sum` or `mean`, for all tables or by table name.
            is_weighted: whether batches have weights.
            device: where the parts stand until they are sharded; `meta`: nowhere.

        Raises:
            InputError: a plan that TorchRec cannot have, or types of weights that it cannot train.
        """
        super().__init__()
        self.layout = layout_of(plan)
        for table in self.layout.tables:
            if table.dtype not in _TYPES:
                raise InputError(
                    f"table '{table.name}': found weights of {table.dtype}; accepted by TorchRec's "
                    f"EmbeddingBagCollection: {', '.join(_TYPES)}"
                )
        self.transform = PartsTransform(self.layout, pooling)
        self._rows_held: torch.Tensor | None = None
        reserved = [part.name for part in self.layout.parts if hasattr(nn.ModuleDict(), part.name)]
        if reserved:
            raise InputError(f"table '{reserved[0]}': torch has another use for this name; rename the table")
        self.parts: Any = EmbeddingBagCollection(
            tables=embedding_bag_configs(self.layout), is_weighted=is_weighted, device=device
        )

    @classmethod
    def from_whole(
        cls, plan: Plan | Layout, weights: Mapping[str, torch.Tensor], **options: Any
    ) -> PartsEmbeddingBagCollection:
        """Return the module with the weights of the whole tables, by name, each of shape (rows, dim).

        `DistributedModelParallel` draws weights anew where it shards: there, call `load_whole` after it.

        Args:
            options: those of the class.

        Raises:
            InputError: weights of another model; names every difference.
        """
        made = cls(plan, **options)
        made.load_whole(weights)
        return made

    def forward(self, features: KeyedJaggedTensor) -> KeyedTensor:
        """Return the pooled output of every feature, values of shape (samples, Σ dim).

        Raises:
            InputError: a feature is missing or an ID is no row of its table.
        """
        parts = features if self.transform.is_of_parts(features) else self.transform(features)
        return self.transform.back(self.parts(parts), parts)

    def get_extra_state(self) -> torch.Tensor:
        """Return for `state_dict` which rows the parts hold, a number a table: their shapes do not tell."""
        if self._rows_held is None:
            self._rows_held = torch.tensor([remap.digest(remap.parts) for remap in self.layout.remaps])
        return self._rows_held

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Refuse in `load_state_dict` the parts of another plan, before any are written.

        Raises:
            InputError: they hold other rows than these.
        """
        for table, found, own in zip(self.layout.tables, state.tolist(), self.get_extra_state(), strict=True):
            if found != own:
                raise InputError(
                    f"table '{table.name}': the state dict is of another plan, whose parts hold other rows; "
                    "accepted: one of this plan; carry weights over whole, with to_whole and load_whole"
                )

    @torch.no_grad()
    def load_whole(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Take over the weights of the whole tables; where the parts are sharded, each process its own.

        Raises:
            InputError: weights of another model, with every difference named, or parts that stand nowhere yet, on
                the meta device. Nothing was changed then.
        """
        check_whole(self.layout, weights)
        self._check_placed()
        for part, own in self._own():
            if own is not None:
                own.copy_(part_of(self.layout, part, weights[self.layout.tables[part.table].name]))

    @torch.no_grad()
    def to_whole(self, group: dist.ProcessGroup | None = None) -> dict[str, torch.Tensor]:
        """Return the weights of the whole tables on the CPU; where the parts are sharded, every process calls it.

        Args:
            group: the processes over which they are sharded; None: all.

        Raises:
            InputError: parts that stand nowhere yet, on the meta device.
        """
        self._check_placed()
        layout = self.layout
        whole = {
            table.name: torch.empty(table.rows, table.dim, dtype=_TYPES[table.dtype]) for table in layout.tables
        }
        sharded = not isinstance(self.parts, EmbeddingBagCollection)
        for part, own in self._own():
            table = layout.tables[part.table]
            if sharded:
                own = self._received(part, own, _TYPES[table.dtype], group)
            if own is not None:
                put_back(layout, part, own, whole[table.name])
        return whole

    def _check_placed(self) -> None:
        nowhere = [part.name for part, own in self._own() if own is not None and own.is_meta]
        if nowhere:
            raise InputError(
                f"part '{nowhere[0]}': stands on the meta device and has no weights; accepted: a module that was "
                "built on a device, or that DistributedModelParallel has sharded"
            )

    def _own(self) -> Iterator[tuple[Part, torch.Tensor | None]]:
        """Yield every part with its weights, None where another process has them."""
        state = self.parts.state_dict()
        for part in self.layout.parts:
            weight = state[f"embedding_bags.{part.name}.weight"]
            if hasattr(weight, "local_shards"):
                mine = weight.local_shards()
                yield part, mine[0].tensor if mine else None
            else:
                yield part, weight

    def _received(
        self, part: Part, own: torch.Tensor | None, dtype: torch.dtype, group: dist.ProcessGroup | None
    ) -> torch.Tensor:
        """Return a part's weights as its own process has them."""
        nccl = dist.get_backend(group) == "nccl"
        device = torch.device("cuda", torch.cuda.current_device()) if nccl else torch.device("cpu")
        if own is None:
            weight = torch.empty(part.rows, part.columns, dtype=dtype, device=device)
        else:
            weight = own.detach().to(device).contiguous()
        source = part.device if group is None else dist.get_global_rank(group, part.device)
        dist.broadcast(weight, src=source, group=group)
        return weight
