"""Random shards: their stated features hold for the batches drawn, and their memory is bounded."""

from __future__ import annotations

import numpy as np
import pytest

from recshard.cost.shards import (
    MAX_GRADIENT_BYTES,
    MAX_WEIGHT_BYTES,
    Shards,
    draw_rows,
    random_shards,
    shard_features,
)
from tests.cost.test_cost_features import counted_histogram


def one_table(rows: int, pooling_factor: float, exponent: float) -> Shards:
    return Shards(
        np.array([0]), np.array([16]), np.array([rows]), np.array([pooling_factor]), np.array([exponent])
    )


@pytest.mark.parametrize(("rows", "exponent"), [(7, 0.5), (300, 0.0), (5000, 1.0), (5000, 1.6), (200_000, 0.9)])
def test_features_of_a_shard_are_what_drawn_batches_show(rows: int, exponent: float) -> None:
    rng = np.random.default_rng(0)
    batches = [np.bincount(draw_rows(rows, exponent, 512 * 10, rng), minlength=rows) for _ in range(40)]
    shown = np.mean([counted_histogram(counts) for counts in batches], axis=0)
    features = shard_features(one_table(rows, 10.0, exponent), batch_size=512)[0]
    assert list(features[:4]) == [16, rows, 10.0, rows * (16 * 4 + 4)]
    assert features[4:] == pytest.approx(shown, abs=0.02 if rows < 10 else 5e-3)


def test_hot_rows_are_scattered_and_none_is_out_of_range() -> None:
    drawn = draw_rows(1000, 1.2, 50_000, np.random.default_rng(0))
    assert drawn.min() >= 0
    assert drawn.max() < 1000
    hottest = np.argsort(-np.bincount(drawn, minlength=1000))[:20]
    assert np.abs(np.diff(np.sort(hottest))).max() > 20
    assert len(np.unique(draw_rows(1000, 0.0, 50_000, np.random.default_rng(0)))) == 1000


def test_no_shard_needs_more_memory_than_allowed() -> None:
    shards = random_shards(2000, 4096, np.random.default_rng(0))
    weights = np.bincount(shards.shard, shards.rows * (4 * shards.dim + 4))
    gradients = np.bincount(shards.shard, shards.pooling_factor * 4096 * shards.dim * 4)
    assert weights.max() <= MAX_WEIGHT_BYTES
    assert gradients.max() <= MAX_GRADIENT_BYTES * (1 + 1e-9)
    assert shards.count == 2000
    assert set(np.bincount(shards.shard)) == set(range(1, 41))


def test_a_seed_chooses_the_same_shards() -> None:
    left, right = (random_shards(50, 128, np.random.default_rng(9)) for _ in range(2))
    assert np.array_equal(left.rows, right.rows)
    assert np.array_equal(left.pooling_factor, right.pooling_factor)
