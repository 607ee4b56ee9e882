"""What shards contribute, put together: row shards added, column shards side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from recshard.remap import TableRemap
from recshard.shards import Shards
from recshard.tables import TableSet


def put_together(
    pooled: Mapping[tuple[str, int], Tensor], shards_of: Mapping[str, Sequence[Sequence[int]]]
) -> dict[str, Tensor]:
    """Return the pooled rows of every feature, shape (bags, dim).

    Args:
        pooled: by feature and shard, shape (bags, columns).
        shards_of: for every feature, from the first column to the last, the shards that have the same columns.
    """
    return {
        feature: side_by_side([[pooled[feature, shard] for shard in shards] for shards in columns])
        for feature, columns in shards_of.items()
    }


def side_by_side(ranges: Sequence[Sequence[Tensor]]) -> Tensor:
    """Return the sums of the tensors of each range of columns, beside each other."""
    sums = []
    for tensors in ranges:
        total = tensors[0]
        for tensor in tensors[1:]:
            total = total + tensor
        sums.append(total)
    return sums[0] if len(sums) == 1 else torch.cat(sums, 1)


def shards_by_feature(plan_shards: Shards, model: TableSet) -> dict[str, list[list[int]]]:
    """Return for every feature, from the first column to the last, the shards that have the same columns."""
    found: dict[int, dict[int, list[int]]] = {}
    for s, (table, column) in enumerate(zip(plan_shards.table, plan_shards.first_column, strict=True)):
        found.setdefault(int(table), {}).setdefault(int(column), []).append(s)
    return {feature: [found[j][column] for column in sorted(found[j])] for feature, j in model.table_index.items()}


def shards_in(remap: TableRemap) -> list[list[int]]:
    """Return, from the first column of a table to the last, the shards that have the same columns."""
    return [list(dict.fromkeys(part.shard for part in cover)) for cover in remap.covers]
