"""The cost network: an MLP per table, the sum over a shard's tables, and an MLP head that gives its cost.

The sum makes the cost the same in whatever order tables stand, and lets a shard have any number of them
(AutoShard, KDD '22; sizes as in DreamShard, NeurIPS '22).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recshard.cost.features import FEATURES


class CostNet(nn.Module):
    """Tables' features → cost of each shard, in units of a typical shard; above zero.

    The last step is softplus and not an exponential: far outside the training range the cost goes on growing
    in proportion to what a shard holds.
    """

    def __init__(self, hidden: int = 128, embedding: int = 32, head: int = 64) -> None:
        super().__init__()
        self.table = nn.Sequential(
            nn.Linear(len(FEATURES), hidden), nn.ReLU(), nn.Linear(hidden, embedding), nn.ReLU()
        )
        self.head = nn.Sequential(nn.Linear(embedding, head), nn.ReLU(), nn.Linear(head, 1))

    def forward(self, features: Tensor, shard: Tensor, shards: int) -> Tensor:
        """Return the cost of each shard, shape (shards,).

        Args:
            features: standardised features of all tables, shape (n, 21).
            shard: the shard of each table, 0 … shards − 1, shape (n,).
            shards: number of shards; one without tables costs what the head makes of nothing.
        """
        tables = self.table(features)
        held = tables.new_zeros(shards, tables.shape[1]).index_add(0, shard, tables)
        return nn.functional.softplus(self.head(held).squeeze(1))


def new_net(seed: int) -> CostNet:
    """Return a network with random weights: the same ones for the same seed, whatever torch drew before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return CostNet()
