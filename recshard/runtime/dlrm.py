"""A small DLRM: dense features and embedding bags, their pairwise dot products, one logit (arXiv 1906.00091)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from recshard.errors import InputError
from recshard.runtime.batch import Batch


class DLRM(nn.Module):
    """A click model over any module that pools embeddings, in tiers or not.

    Attributes:
        bags: batch → {feature: pooled rows, shape (samples, dim)}, such as a `TieredEmbeddingBagCollection`.
        features: which of its features are interacted, in this order.
        bottom: dense features → a vector of the width of the rows.
        top: that vector and all dot products of pairs → the logit.
        pairs: which vectors are multiplied with each other, shape (2, pairs).
    """

    pairs: Tensor

    def __init__(self, bags: nn.Module, features: Sequence[str], dim: int, dense: int, hidden: int = 64) -> None:
        """Build both towers.

        Args:
            bags: pools the rows of every one of `features`, all of them `dim` wide.
            dense: number of dense features.
            hidden: width of the towers' hidden layers.
        """
        super().__init__()
        self.bags, self.features = bags, tuple(features)
        vectors = len(self.features) + 1
        self.bottom = nn.Sequential(nn.Linear(dense, hidden), nn.ReLU(), nn.Linear(hidden, dim), nn.ReLU())
        pairs = vectors * (vectors - 1) // 2
        self.top = nn.Sequential(nn.Linear(dim + pairs, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.register_buffer("pairs", torch.tril_indices(vectors, vectors, offset=-1), persistent=False)

    def forward(self, dense: Tensor, batch: Batch) -> Tensor:
        """Return the logit of every sample, shape (samples,).

        Args:
            dense: shape (samples, dense features).
            batch: the bags of every feature, as `bags` takes them.

        Raises:
            InputError: features whose rows differ in width from the dense vector.
        """
        below = self.bottom(dense)
        pooled = self.bags(batch)
        vectors = [below]
        for feature in self.features:
            if pooled[feature].shape != below.shape:
                raise InputError(
                    f"DLRM: feature '{feature}' is pooled to shape {tuple(pooled[feature].shape)}; accepted: "
                    f"{tuple(below.shape)}, the same width for all, since they are multiplied with each other"
                )
            vectors.append(pooled[feature].to(below))
        stacked = torch.stack(vectors, 1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        first, second = self.pairs.unbind()
        logits: Tensor = self.top(torch.cat([below, products[:, first, second]], 1))
        return logits.squeeze(1)
