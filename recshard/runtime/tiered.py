"""An embedding bag whose rows stand in several tiers, reached through a remap."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recshard.remap import Remap


class TieredEmbeddingBag(nn.Module):
    """Sum-pooled lookups over one table that is split by row.

    In its first form every tier is a parameter in host memory; the result and the gradients are those of an
    unsplit `nn.EmbeddingBag`.
    """

    tier: Tensor
    slot: Tensor

    def __init__(self, weight: Tensor, remap: Remap) -> None:
        """Divide `weight`, shape (rows, dim), among the tiers that `remap` names."""
        super().__init__()
        self.register_buffer("tier", torch.from_numpy(remap.tier))
        self.register_buffer("slot", torch.from_numpy(remap.slot))
        parts = []
        for k in range(int(remap.tier.max()) + 1):
            mine = torch.nonzero(torch.eq(self.tier, k)).flatten()
            part = torch.empty(len(mine), weight.shape[1], dtype=weight.dtype)
            part[self.slot[mine].long()] = weight[mine]
            parts.append(nn.Parameter(part))
        self.parts = nn.ParameterList(parts)

    def forward(self, rows: Tensor, offsets: Tensor) -> Tensor:
        """Return the sums of each bag's rows, shape (bags, dim), as `nn.EmbeddingBag(mode="sum")` does.

        Args:
            rows: rows of the unsplit table, int64, shape (lookups,).
            offsets: where each bag begins, int64, shape (bags,).
        """
        bag = torch.bucketize(torch.arange(len(rows)), offsets, right=True) - 1
        pooled = torch.zeros(len(offsets), self.parts[0].shape[1], dtype=self.parts[0].dtype)
        tier, slot = self.tier[rows], self.slot[rows]
        for k, part in enumerate(self.parts):
            mine = torch.nonzero(torch.eq(tier, k)).flatten()
            pooled = pooled.index_add(0, bag[mine], part[slot[mine].long()])
        return pooled

    def merged_weight(self) -> Tensor:
        """Return the unsplit table again, shape (rows, dim), bit for bit."""
        weight = torch.empty(len(self.tier), self.parts[0].shape[1], dtype=self.parts[0].dtype)
        for k, part in enumerate(self.parts):
            mine = torch.nonzero(torch.eq(self.tier, k)).flatten()
            weight[mine] = part.detach()[self.slot[mine].long()]
        return weight
