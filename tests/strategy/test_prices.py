"""Prices are what exact water-filling and brute force say that more memory and more cuts are worth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.placement import Placement
from recshard.problem import FloatArray, PlacementProblem
from recshard.shards import WHOLE, SplitRules
from recshard.strategy.bound import lower_bound_ms
from recshard.strategy.prices import NOTHING, find_prices, unit_bytes
from recshard.strategy.waterfill import equal_slices, fill
from tests.problems import random_problem
from tests.strategy.brute_force import best_bottleneck_shared


def own_cost_ms(problem: PlacementProblem, tables: list[int], bandwidth: FloatArray, room: list[float]) -> float:
    """Return what tables cost a device at best, in plain Python: hottest bytes first, fastest memory first."""
    pieces = []
    for j in tables:
        for c in range(problem.class_start[j], problem.class_start[j + 1]):
            reads = problem.accesses[j] * problem.class_share[c] * problem.access_bytes[j] / problem.row_bytes[j]
            pieces.append((reads, float(problem.class_rows[c] * problem.row_bytes[j])))
    cost, left, k = 0.0, list(room), 0
    for reads, size in sorted(pieces, reverse=True):
        while size > 1e-9:
            while k + 1 < len(left) and left[k] <= 0:
                k += 1
            taken = min(size, left[k]) if k + 1 < len(left) else size
            cost += 1e3 * taken * reads / bandwidth[k]
            left[k] -= taken
            size -= taken
    return cost


def placed(problem: PlacementProblem, rng: np.random.Generator) -> Placement | None:
    device = rng.integers(0, problem.devices, problem.tables)
    rows, homeless = fill(problem, device, equal_slices(problem))
    return None if homeless else Placement(device, rows)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 4), st.booleans())
def test_a_device_saves_its_shadow_price_a_byte(seed: int, tiers: int, equal: bool) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, tables=6, tiers=tiers, equal_devices=equal, state=True)
    placement = placed(problem, rng)
    if placement is None:
        return
    prices = find_prices(problem, placement, WHOLE).per_gb_ms / 1e9
    step = 0.01  # bytes
    for d in range(problem.devices):
        mine = np.flatnonzero(placement.device == d).tolist()
        room = problem.pool_capacity[problem.pool[d]] + 0.5  # prices are those of the byte that comes next
        for k in range(tiers - 1):
            less, here, more = (
                own_cost_ms(problem, mine, problem.bandwidth[d], (room + by * (np.arange(tiers) == k)).tolist())
                for by in (-step, 0.0, step)
            )
            # On the edge between two classes either side's slope is right: costs are convex.
            noise = 1e-12 * here / step
            assert (here - more) / step - noise <= prices[d, k] * (1 + 1e-9)
            assert prices[d, k] * (1 - 1e-9) <= (less - here) / step + noise
        assert prices[d, -1] == 0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2]), st.booleans())
def test_a_bound_falls_by_what_memory_is_said_to_save_and_still_holds(
    seed: int, node_size: int, equal: bool
) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, tables=5, tiers=3, node_size=node_size, equal_devices=equal)
    placement = placed(problem, rng)
    if placement is None:
        return
    prices = find_prices(problem, placement, WHOLE)
    assert [value.tier for value in prices.memory] == [0, 1]
    for value in prices.memory:
        assert value.more_bytes == unit_bytes(problem, value.tier)
        capacity = problem.pool_capacity.copy()
        for d in range(problem.devices):
            capacity[problem.pool[d, value.tier]] += value.more_bytes
        roomier = replace(problem, pool_capacity=capacity)
        fallen = prices.bound.ms - value.saves_ms
        assert fallen == pytest.approx(lower_bound_ms(roomier), rel=2 * NOTHING)
        assert value.saves_ms >= 0
        assert fallen <= best_bottleneck_shared(roomier) * (1 + 2 * NOTHING)


def one_large_table(dim: int = 64) -> PlacementProblem:
    """Return a problem in which table 2 is worth more than both devices together, and fast memory holds all."""
    problem = random_problem(np.random.default_rng(1), tables=4, tiers=2, equal_rows=True)
    accesses = np.array([1.0, 1.0, 1000.0, 1.0])
    capacity = np.where(np.isin(np.arange(4), problem.pool[:, 0]), 1e5, problem.pool_capacity)
    widths = np.full(4, dim)
    return replace(
        problem,
        accesses=accesses,
        pool_capacity=capacity,
        dim=widths,
        row_bytes=widths * 4,
        access_bytes=widths * 4.0,
    )


def test_where_one_table_sets_the_bound_only_cutting_it_helps() -> None:
    problem = one_large_table()
    placement = placed(problem, np.random.default_rng(0))
    assert placement is not None
    prices = find_prices(problem, placement, WHOLE)
    assert (prices.bound.by, prices.table) == ("one table", 2)
    assert [value.saves_ms for value in prices.memory] == [0.0]
    assert prices.cutting is not None
    assert prices.cutting.rules == SplitRules("column")
    assert prices.cutting.bound_ms == pytest.approx(lower_bound_ms(problem, SplitRules("column")))
    assert prices.cutting.bound_ms < 0.6 * prices.bound.ms


def test_where_columns_are_too_few_for_two_shards_narrower_ones_or_rows_are_proposed() -> None:
    for dim, rules in ((16, SplitRules("column", 4)), (4, SplitRules("row"))):
        problem = one_large_table(dim)
        placement = placed(problem, np.random.default_rng(0))
        assert placement is not None
        cutting = find_prices(problem, placement, WHOLE).cutting
        assert cutting is not None
        assert cutting.rules == rules


def test_where_all_memory_sets_the_bound_no_cut_is_proposed() -> None:
    rng = np.random.default_rng(5)
    problem = random_problem(rng, tables=30, rows=200, classes=20)
    placement = placed(problem, rng)
    assert placement is not None
    prices = find_prices(problem, placement, WHOLE)
    assert prices.bound.by == "pooled"
    assert prices.cutting is None
    assert prices.table is None
