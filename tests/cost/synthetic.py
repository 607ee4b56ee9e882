"""Measurements with invented times, for tests that train."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from recshard.cost.measurements import Measurements
from recshard.cost.shards import random_shards


def synthetic_measurements(count: int, seed: int = 0) -> Measurements:
    """Return shards whose cost has an overhead per table and bytes that reused rows make cheaper."""
    shards = random_shards(count, 256, np.random.default_rng(seed))
    blank = Measurements(
        shards=shards,
        forward_ms=np.ones(count),
        backward_ms=np.ones(count),
        tier="host",
        batch_size=256,
        optimizer="rowwise_adagrad",
        repetitions=1,
        threads=1,
        torch="2.0",
        seed=seed,
    )
    features = blank.features
    megabytes = features[:, 2] * 256 * features[:, 0] * 4 / 1e6
    cost = 0.3 + megabytes * (0.2 + 3 * features[:, 4])
    forward = np.bincount(shards.shard, cost)
    return replace(blank, forward_ms=forward, backward_ms=2 * forward)
