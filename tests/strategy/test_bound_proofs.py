"""Every lower bound stays below the best of all placements, and none is weaker than what it generalises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from recshard.placement import Placement
from recshard.problem import FloatArray, PlacementProblem
from recshard.shards import WHOLE, SplitRules, cut, cut_evenly, most_shards
from recshard.strategy.bound import Bound, device_kinds, lower_bound, lower_bound_ms
from recshard.strategy.bound.curves import table_curves
from recshard.strategy.bound.kinds import find_kinds
from recshard.strategy.bound.lagrangian import lagrangian
from recshard.strategy.bound.maximise import first_point, maximise
from recshard.strategy.bound.pooled import pooled_bound_ms
from recshard.strategy.prices import memory_value_ms, shadow_prices
from recshard.strategy.waterfill import equal_slices, fill, fractional_split
from tests.problems import random_problem
from tests.strategy.brute_force import best_bottleneck, best_bottleneck_cut, best_bottleneck_shared

EXACT = 1 + 1e-9


@st.composite
def small_problems(
    draw: st.DrawFn, *, tables: int = 6, tiers: int = 4, shared: bool = False, dim: int = 32
) -> PlacementProblem:
    devices = draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    problem = random_problem(
        rng,
        tables=draw(st.integers(1, tables)),
        devices=devices,
        tiers=draw(st.integers(1, tiers)),
        slack=draw(st.sampled_from([1.02, 1.3, 2.0])),
        node_size=draw(st.integers(2, 3)) if shared else 1,
        equal_devices=draw(st.booleans()),
        network=draw(st.booleans()),
        state=draw(st.booleans()),
    )
    problem = replace(problem, dim=np.minimum(problem.dim, dim))
    if draw(st.booleans()):  # a table that nobody reads
        problem = replace(problem, accesses=problem.accesses * (rng.random(problem.tables) < 0.7))
    if draw(st.booleans()):  # a memory without a byte, before the slowest tier, which grows to make up for it
        empty = draw(st.integers(0, problem.tiers - 1))
        capacity = problem.pool_capacity.copy()
        last = problem.pool[:, -1]
        victims = np.setdiff1d(problem.pool[rng.integers(devices) : devices, empty], last)
        capacity[last] += capacity[victims].sum()
        capacity[victims] = 0.0
        problem = replace(problem, pool_capacity=capacity)
    return problem


@settings(max_examples=150, deadline=None)
@given(small_problems())
def test_no_assignment_beats_the_bound(problem: PlacementProblem) -> None:
    assert 0 <= lower_bound_ms(problem) <= best_bottleneck(problem) * EXACT


@settings(max_examples=40, deadline=None)
@given(small_problems(tables=4, tiers=3, shared=True))
def test_no_assignment_beats_the_bound_where_pools_are_shared(problem: PlacementProblem) -> None:
    # The linear programmes of the brute force have tolerances of their own.
    assert lower_bound_ms(problem) <= best_bottleneck_shared(problem) * (1 + 1e-6)


@settings(max_examples=40, deadline=None)
@given(
    small_problems(tables=3, tiers=3),
    st.sampled_from(["column", "row"]),
    st.integers(0, 3),
    st.sampled_from([4, 8]),
)
def test_no_way_to_cut_tables_beats_the_bound(
    problem: PlacementProblem, kind: str, limit: int, min_dim: int
) -> None:
    rules = SplitRules("column" if kind == "column" else "row", min_dim, limit)
    assert lower_bound_ms(problem, rules) <= best_bottleneck_cut(problem, rules) * EXACT
    assert lower_bound_ms(problem, rules) <= lower_bound_ms(problem) * (1 + 1e-5)


@st.composite
def larger_problems(draw: st.DrawFn, *, equal: bool) -> PlacementProblem:
    return random_problem(
        np.random.default_rng(draw(st.integers(0, 2**32 - 1))),
        tables=draw(st.integers(1, 40)),
        devices=draw(st.integers(2, 6)),
        tiers=draw(st.integers(1, 4)),
        rows=400,
        classes=50,
        node_size=draw(st.sampled_from([1, 2, 3])),
        equal_devices=equal,
        network=draw(st.booleans()),
    )


def free_rows_ms(problem: PlacementProblem, weight: FloatArray) -> float:
    """Return the weighted bound in which rows ignore their tables: slots filled by rising weighted slowness."""
    slots = sorted(
        (min(weight[d] / problem.bandwidth[d, k] for d, k in np.argwhere(problem.pool == p)), size)
        for p, size in enumerate(problem.pool_capacity)
    )
    order = np.argsort(-problem.class_density, kind="stable")
    size = (problem.class_rows * problem.row_bytes[problem.class_table])[order].astype(float)
    filled = np.concatenate([[0.0], np.cumsum(size)])
    read = np.concatenate([[0.0], np.cumsum(size * problem.class_density[order])])
    edge = np.concatenate([[0.0], np.cumsum([capacity for _, capacity in slots])])
    memory = np.dot(np.diff(np.interp(edge, filled, read)), [slowness for slowness, _ in slots])
    network = (problem.network_bytes[:, None] * (weight / problem.network_bandwidth)).min(axis=1).sum()
    return 1e3 * float(memory + network)


@settings(max_examples=60, deadline=None)
@given(larger_problems(equal=False), st.integers(0, 2**32 - 1))
def test_the_lagrangian_is_never_behind_rows_that_are_free_at_any_weights(
    problem: PlacementProblem, seed: int
) -> None:
    kinds, found = device_kinds(problem), lower_bound_ms(problem)
    for weight in np.random.default_rng(seed).dirichlet(np.ones(kinds.max() + 1), 10):
        each = weight[kinds] / np.bincount(kinds)[kinds]
        assert found >= free_rows_ms(problem, each) * (1 - 1e-6)


@settings(max_examples=40, deadline=None)
@given(larger_problems(equal=True), st.integers(1, 3))
@example(
    # No table reaches all fast memory, so rows that nobody reads stand there: no room gained for those behind.
    random_problem(
        np.random.default_rng(2200613775), 5, devices=6, tiers=4, rows=400, classes=50, node_size=3, network=True
    ),
    3,
)
def test_for_alike_devices_rents_prove_no_more_than_the_pooled_bound_where_it_is_exact(
    problem: PlacementProblem, copies: int
) -> None:
    kinds, curves = find_kinds(problem), table_curves(problem)
    assume(len(kinds.devices) == 1)
    most = np.full(problem.tables, min(copies, problem.devices))
    best, _ = maximise(lagrangian(problem, curves, kinds, most), first_point(problem, kinds, np.ones(1)))
    pooled, exact = pooled_bound_ms(problem, kinds, most)
    assert best >= pooled * (1 - 1e-5)
    if exact:
        assert best == pytest.approx(pooled, rel=1e-5)
    assert exact or problem.has_shared_pools


def problem_of(
    table_bytes: list[int], accesses: list[float], fast: list[float], bandwidth: list[list[float]]
) -> PlacementProblem:
    """Return a problem of uniformly read tables on devices with `fast` bytes before a slow tier without end."""
    tables, devices = len(table_bytes), len(fast)
    rows = np.array(table_bytes) // 64
    return PlacementProblem(
        batch_size=1,
        rows=rows,
        dim=np.full(tables, 16),
        row_bytes=np.full(tables, 64),
        row_state_bytes=np.zeros(tables, dtype=np.int64),
        access_bytes=np.full(tables, 64.0),
        accesses=np.array(accesses),
        class_start=np.arange(tables + 1),
        class_rows=rows,
        class_share=1.0 / rows,
        network_bytes=np.zeros(tables),
        bandwidth=np.array(bandwidth),
        pool=np.arange(2 * devices).reshape(devices, 2),
        pool_capacity=np.array([[size, 1e9] for size in fast]).ravel(),
        network_bandwidth=np.full(devices, np.inf),
    )


def test_a_table_larger_than_a_small_devices_fast_memory_raises_the_bound() -> None:
    # The hot table could fill all fast memory, but has one device's only; the rest is left to colder rows.
    problem = problem_of([6400] * 7, [100] + [50] * 6, [4000, 3000], [[1e6, 1e4], [1e6, 1e4]])
    kinds = find_kinds(problem)
    free = max(free_rows_ms(problem, np.array([w, 1 - w])) for w in np.linspace(0, 1, 1001))
    found = lower_bound(problem)
    assert len(kinds.devices) == 2
    assert free * 1.01 < found.ms <= best_bottleneck(problem) * EXACT


def test_a_table_too_large_for_a_device_is_not_counted_on_it() -> None:
    problem = problem_of([6400, 6400], [1000, 900], [6400, 6400], [[1e6, 1e4], [1e8, 1e6]])
    problem = replace(problem, pool_capacity=np.array([6400.0, 6400.0, 3200.0, 0.0]))
    assert lower_bound_ms(problem) == pytest.approx(best_bottleneck(problem))


def test_three_equal_tables_on_two_devices_prove_their_pair_by_pigeonhole() -> None:
    problem = problem_of([640] * 3, [100] * 3, [6400, 6400], [[1e6, 1e4]] * 2)
    found = lower_bound(problem)
    assert found == Bound(pytest.approx(best_bottleneck(problem)), "pigeonhole")
    assert lower_bound(problem, SplitRules("row")).by == "pooled"


def test_tables_that_meet_share_one_fast_memory() -> None:
    # Alone each has all the fast memory; two of them together have it once.
    problem = problem_of([6400] * 3, [100] * 3, [6400, 6400], [[1e6, 1e4]] * 2)
    alone = 1e3 * 6400 / 1e6
    found = lower_bound(problem)
    assert found.by == "pigeonhole"
    assert 2 * alone * 5 < found.ms <= best_bottleneck(problem) * EXACT


def test_cutting_the_largest_table_lowers_its_bound_by_the_number_of_shards() -> None:
    problem = problem_of([6400, 64], [1000, 1], [6400, 6400], [[1e6, 1e4]] * 2)
    whole, halves = lower_bound(problem), lower_bound(problem, SplitRules("column", 8))
    assert whole.by == "one table"
    assert halves.ms == pytest.approx(whole.ms / 2, rel=1e-2)


@settings(max_examples=40, deadline=None)
@given(small_problems(), st.data())
def test_more_memory_is_worth_no_less_the_more_there_is_of_it(
    problem: PlacementProblem, data: st.DataObject
) -> None:
    tier = data.draw(st.integers(0, problem.tiers - 1))
    size = float(problem.table_bytes.sum()) / 20
    little, much = (memory_value_ms(problem, WHOLE, tier, factor * size) for factor in (1, 4))
    noise = 1e-4 * lower_bound_ms(problem)
    assert 0 <= little <= much + noise


def test_memory_of_a_pooled_problem_is_worth_its_price() -> None:
    problem = problem_of([6400] * 8, list(range(100, 900, 100)), [12800, 12800], [[1e6, 1e4]] * 2)
    # 64 bytes more on each of two devices take up a row each of the hottest table left in slow memory.
    hottest_left = 400 / 6400  # reads a byte
    saved = 2 * 64 * hottest_left * 64 * (1 / 1e4 - 1 / 1e6) * 1e3 / 2
    assert memory_value_ms(problem, WHOLE, 0, 64.0) == pytest.approx(saved)


@settings(max_examples=60, deadline=None)
@given(larger_problems(equal=False), st.sampled_from(["none", "column", "row"]), st.integers(0, 2**32 - 1))
def test_shadow_prices_are_what_a_further_byte_saves(problem: PlacementProblem, kind: str, seed: int) -> None:
    rules = {"none": WHOLE, "column": SplitRules("column", 8, 2), "row": SplitRules("row", 8, 2)}[kind]
    shards = None if kind == "none" else cut_evenly(problem, most_shards(problem, rules), rules.kind)
    sharded = cut(problem, shards)
    device = np.random.default_rng(seed).integers(0, problem.devices, sharded.tables)
    rows, homeless = fill(sharded, device, equal_slices(problem))
    assume(homeless == 0)
    placement = Placement(device, rows, shards)
    price = shadow_prices(problem, placement)
    assert (price >= 0).all()
    assert (price[:, -1] == 0).all()
    own = np.zeros((problem.devices, problem.tiers))
    np.add.at(own, device, rows * sharded.row_bytes[:, None])
    for d in range(problem.devices):
        others = np.bincount(
            np.delete(problem.pool, d, axis=0).ravel(),
            weights=np.delete(own, d, axis=0).ravel(),
            minlength=len(problem.pool_capacity),
        )
        mine = own.copy()
        # Prices are asked for half a byte on. Savings are concave, so the slopes before and after enclose them.
        mine[d] = (problem.pool_capacity - others)[problem.pool[d]] + 0.5
        cost = fractional_split(sharded, device, mine).cost_ms[d]
        noise = 1e-9 * cost + 1e-12
        for k in range(problem.tiers):
            change = np.zeros_like(mine)
            change[d, k] = 0.25
            further = cost - fractional_split(sharded, device, mine + change).cost_ms[d]
            last = fractional_split(sharded, device, mine - change).cost_ms[d] - cost
            assert 0.999 * further - noise <= 0.25 * price[d, k] <= 1.001 * last + noise
