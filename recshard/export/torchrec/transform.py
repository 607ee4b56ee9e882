"""The way to the parts and back: rows of the tables → slots of the parts, and pooled parts → pooled features."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torchrec.modules.embedding_configs import DataType, EmbeddingBagConfig, PoolingType
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor, KeyedTensor

from recshard.errors import InputError, nearest
from recshard.export.torchrec.layout import Layout, layout_of
from recshard.plan.plan import Plan
from recshard.remap import Part
from recshard.runtime.batch import read_batch

_TYPES = {
    "float32": DataType.FP32,
    "float16": DataType.FP16,
    "bfloat16": DataType.BF16,
    "int8": DataType.INT8,
}
_POOLINGS = ("sum", "mean")


def embedding_bag_configs(plan: Plan | Layout) -> list[EmbeddingBagConfig]:
    """Return a TorchRec table for every part, in the order of the tables; a split table is its hot and cold part.

    All of them pool by sum: a mean is of all the parts of a bag, and is taken by `PartsTransform.back`.
    """
    layout = layout_of(plan)
    return [
        EmbeddingBagConfig(
            name=part.name,
            num_embeddings=part.rows,
            embedding_dim=part.columns,
            feature_names=layout.keys(part),
            data_type=_TYPES[layout.tables[part.table].dtype],
            pooling=PoolingType.SUM,
        )
        for part in layout.parts
    ]


class PartsTransform:
    """Turns a batch of the model's features, IDs being rows, into a batch of its parts, and pooled parts back.

    It runs on the CPU, in a single kernel a feature: batches on other devices travel there and back, so it is best
    called where batches are loaded.
    """

    def __init__(self, plan: Plan | Layout, pooling: str | Mapping[str, str] = "sum") -> None:
        """Prepare for a plan.

        Args:
            pooling: `sum` or `mean`, for all tables or by table name.

        Raises:
            InputError: another pooling, or one for a table that is not in the plan.
        """
        self.layout = layout_of(plan)
        names = [table.name for table in self.layout.tables]
        chosen = dict.fromkeys(names, pooling) if isinstance(pooling, str) else dict(pooling)
        for name, word in chosen.items():
            if name not in names:
                raise InputError(
                    f"pooling: found table '{name}'{nearest(name, names)}; accepted: the plan's tables"
                )
            if word not in _POOLINGS:
                raise InputError(f"pooling of table '{name}': found '{word}'; accepted: {', '.join(_POOLINGS)}")
        self.pooling = {name: chosen.get(name, "sum") for name in names}

    def __call__(self, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """Return the batch for the parts: keys `feature@part`, values slots, weights those of the lookups.

        Raises:
            InputError: a feature is missing, a batch size of its own for every feature, IDs or lengths that are no
                whole numbers or do not fit together, or an ID that is no row.
        """
        layout = self.layout
        self._check(features)
        found = read_batch(features, features.keys(), layout.feature_names)
        slots: dict[str, torch.Tensor] = {}
        lengths: dict[str, torch.Tensor] = {}
        weights: dict[str, torch.Tensor] = {}
        weighted = features.weights_or_none() is not None
        for table, remap in zip(layout.tables, layout.remaps, strict=True):
            for feature in table.features:
                bags = found[feature]
                for routed in remap.route(bags.values, bags.offsets):
                    key = f"{feature}@{routed.part.name}"
                    slots[key] = torch.from_numpy(routed.slots)
                    lengths[key] = torch.from_numpy(np.diff(routed.offsets))
                    if bags.weights is not None:
                        own = bags.weights
                        if routed.lookups is not None:
                            own = own[torch.from_numpy(routed.lookups).to(own.device)]
                        weights[key] = own
        keys, device = layout.all_keys, features.device()
        return KeyedJaggedTensor(
            keys=keys,
            values=torch.cat([slots[key] for key in keys]).to(device),
            weights=torch.cat([weights[key] for key in keys]) if weighted else None,
            lengths=torch.cat([lengths[key] for key in keys]).to(device),
            stride=features.stride(),
        )

    def back(self, pooled: KeyedTensor, parts: KeyedJaggedTensor) -> KeyedTensor:
        """Return the pooled output of every feature, in the order of the tables, from those of the parts.

        A mean divides by the number of a bag's lookups, weighted or not, as FBGEMM does.

        Args:
            pooled: what an `EmbeddingBagCollection` of the parts returns.
            parts: what it was given.
        """
        layout = self.layout
        columns = pooled.to_dict()
        lengths = dict(zip(parts.keys(), parts.lengths().view(len(parts.keys()), -1), strict=True))
        values = []
        for table, remap in zip(layout.tables, layout.remaps, strict=True):
            for feature in table.features:
                pieces = [_total([columns[_key(feature, part)] for part in cover]) for cover in remap.covers]
                output = pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)
                if self.pooling[table.name] == "mean":
                    lookups = _total([lengths[_key(feature, part)] for part in remap.covers[0]])
                    output = output / lookups.clamp(min=1).unsqueeze(1).to(output.dtype)
                values.append(output)
        return KeyedTensor(
            keys=layout.feature_names,
            length_per_key=[table.dim for table in layout.tables for _ in table.features],
            values=torch.cat(values, dim=1),
        )

    def is_of_parts(self, features: KeyedJaggedTensor) -> bool:
        """Return whether a batch is of the parts already."""
        return bool(features.keys() == self.layout.all_keys)

    def _check(self, features: KeyedJaggedTensor) -> None:
        found = features.keys()
        missing = [name for name in self.layout.feature_names if name not in found]
        if missing:
            raise InputError(
                f"batch: features are missing: {', '.join(missing)}; found: {', '.join(found)}; accepted: a batch "
                "with every feature of the plan"
            )
        if features.variable_stride_per_key():
            raise InputError(
                "batch: found a batch size for every feature; accepted: one for all, so that parts can be added up"
            )


def _key(feature: str, part: Part) -> str:
    return f"{feature}@{part.name}"


def _total(tensors: list[torch.Tensor]) -> torch.Tensor:
    total = tensors[0]
    for tensor in tensors[1:]:
        total = total + tensor
    return total
