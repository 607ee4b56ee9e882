"""A split table computes what the unsplit one does."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.remap import remap_table
from recshard.runtime.tiered import TieredEmbeddingBag


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_outputs_and_gradients_are_those_of_an_unsplit_embedding_bag(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, dim = int(rng.integers(1, 50)), int(rng.integers(1, 9))
    cuts = np.sort(rng.integers(0, rows + 1, 2))
    hot = rng.permutation(rows)[: rng.integers(0, rows + 1)]
    remap = remap_table(np.diff([0, *cuts, rows]), hot)
    whole = torch.nn.EmbeddingBag(rows, dim, mode="sum")
    tiered = TieredEmbeddingBag(whole.weight.detach(), remap)
    lengths = rng.integers(0, 4, 10)
    ids = torch.from_numpy(rng.integers(0, rows, int(lengths.sum())))
    offsets = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)[:-1]]))
    expected, found = whole(ids, offsets), tiered(ids, offsets)
    torch.testing.assert_close(found, expected)
    factor = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1))
    (expected * factor).sum().backward()
    (found * factor).sum().backward()
    with torch.no_grad():
        for part in tiered.parts:
            part.copy_(part.grad if part.grad is not None else torch.zeros_like(part))
    torch.testing.assert_close(tiered.merged_weight(), whole.weight.grad)


def test_merging_the_tiers_gives_the_table_back_bit_for_bit() -> None:
    weight = torch.randn(17, 3)
    remap = remap_table(np.array([5, 0, 12]), np.array([3, 16, 0]))
    assert torch.equal(TieredEmbeddingBag(weight, remap).merged_weight(), weight)
