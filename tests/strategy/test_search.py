"""Search keeps to memory whatever it tries on its way, and to its seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recshard.placement import check_placement
from recshard.problem import PlacementProblem
from recshard.shards import SplitRules
from recshard.strategy.search import search
from recshard.strategy.stop import after_rounds
from tests.problems import random_problem


def unequal_slow_tiers(seed: int) -> PlacementProblem:
    """Return ten tables for two devices, one of which has room for a quarter of them only."""
    problem = random_problem(np.random.default_rng(seed), tables=10, devices=2, equal_rows=True)
    model = float(problem.table_bytes.sum())
    return replace(problem, pool_capacity=np.array([128.0, 64 * (0.25 * model // 64), 128.0, 10 * model]))


@pytest.mark.parametrize("seed", range(20))
def test_what_fits_at_the_start_still_fits_after_many_kicks(seed: int) -> None:
    problem = unequal_slow_tiers(seed)
    first, last = search(problem, after_rounds(1)), search(problem, after_rounds(300))
    check_placement(problem, last.placement)
    assert last.lower_bound_ms <= last.bottleneck_ms <= first.bottleneck_ms * (1 + 1e-12)
    assert all(event.bottleneck_ms >= last.lower_bound_ms for event in last.history)


def test_shards_of_one_table_never_stand_all_on_one_device() -> None:
    for seed in range(6):
        problem = random_problem(np.random.default_rng(seed), tables=5, devices=2, slack=3.0)
        shards = search(problem, after_rounds(40), rules=SplitRules("row")).placement.shards
        device = search(problem, after_rounds(40), rules=SplitRules("row")).placement.device
        for j in range(problem.tables if shards is not None else 0):
            assert shards is not None
            mine = device[shards.table == j]
            assert len(mine) == 1 or len(set(mine.tolist())) > 1


def test_traffic_next_to_nothing_is_placed_like_any_other() -> None:
    problem = random_problem(np.random.default_rng(3), tables=8, devices=3, slack=2.0)
    tiny = replace(problem, accesses=problem.accesses * 1e-300)
    check_placement(tiny, search(tiny, after_rounds(20)).placement)


@pytest.mark.parametrize("case", ["pools", "many devices", "column", "row"])
def test_the_same_seed_and_rounds_give_the_same_bytes(case: str) -> None:
    rng = np.random.default_rng(4)
    if case == "many devices":
        problem = random_problem(rng, tables=200, devices=70, slack=3.0)
    else:
        problem = random_problem(rng, tables=30, devices=4, tiers=3, node_size=2, slack=2.0)
    rules = SplitRules("row" if case == "row" else "column" if case == "column" else "none", min_dim=8)
    first, again = (search(problem, after_rounds(60), seed=7, rules=rules) for _ in range(2))
    assert (first.placement.device == again.placement.device).all()
    assert (first.placement.rows == again.placement.rows).all()
    assert first.bottleneck_ms == again.bottleneck_ms
