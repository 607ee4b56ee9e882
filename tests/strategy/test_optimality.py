"""Small problems, compared with every assignment there is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.errors import DoesNotFit
from recshard.placement import bottleneck_ms, check_placement
from recshard.problem import PlacementProblem
from recshard.strategy.bound import lower_bound_ms
from recshard.strategy.milp import Formulation, milp
from recshard.strategy.search import search
from recshard.strategy.stop import after_rounds
from tests.problems import random_problem
from tests.strategy.brute_force import best_bottleneck, best_bottleneck_shared
from tests.strategy.solving import solving_here

TOLERANCE = 2e-6  # of the solver


@pytest.fixture(autouse=True, scope="module")
def _solve_here() -> Iterator[None]:
    with solving_here():
        yield


@st.composite
def small_problems(draw: st.DrawFn, *, shared: bool = False, equal_rows: bool = False) -> PlacementProblem:
    devices = draw(st.integers(1, 3))
    return random_problem(
        np.random.default_rng(draw(st.integers(0, 2**32 - 1))),
        tables=draw(st.integers(1, 4 if shared else 6)),
        devices=devices,
        tiers=draw(st.integers(2, 3) if shared else st.integers(1, 3)),
        slack=draw(st.sampled_from([1.05, 1.3, 2.0])),
        node_size=devices if shared else 1,
        equal_devices=draw(st.booleans()),
        equal_rows=equal_rows,
        network=draw(st.booleans()),
    )


@settings(max_examples=60, deadline=None)
@given(small_problems())
def test_the_tight_milp_equals_brute_force_and_nothing_is_below_the_bound(problem: PlacementProblem) -> None:
    optimum = best_bottleneck(problem)
    assert lower_bound_ms(problem) <= optimum * (1 + 1e-9)
    found = milp(problem, warm_start=False, time_limit=60)
    assert found.notes["model_bottleneck_ms"] == pytest.approx(optimum, rel=TOLERANCE)
    assert found.lower_bound_ms <= optimum * (1 + 1e-9)
    # Whole rows can only cost more than rows that may be cut.
    assert found.bottleneck_ms >= optimum * (1 - 1e-9)
    try:
        searched = search(problem, after_rounds(40))
    except DoesNotFit:
        return  # a start is not promised where memory is nearly full
    assert searched.bottleneck_ms >= optimum * (1 - 1e-9)
    assert searched.lower_bound_ms <= optimum * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(small_problems(equal_rows=True))
def test_with_rows_of_one_size_the_milp_placement_itself_is_optimal(problem: PlacementProblem) -> None:
    found = milp(problem, warm_start=False, time_limit=60)
    assert found.bottleneck_ms == pytest.approx(best_bottleneck(problem), rel=TOLERANCE)
    # What the solver proved of the model is proven of the placement.
    assert found.gap <= 1e-4


@settings(max_examples=25, deadline=None)
@given(small_problems(shared=True, equal_rows=True))
def test_memory_shared_by_a_node_is_divided_as_well_as_a_linear_programme_does(problem: PlacementProblem) -> None:
    optimum = best_bottleneck_shared(problem)
    assert lower_bound_ms(problem) <= optimum * (1 + 1e-9)
    found = milp(problem, warm_start=False, time_limit=60)
    assert found.notes["model_bottleneck_ms"] == pytest.approx(optimum, rel=TOLERANCE)
    # Each device's slice of a pool ends inside a row; at most one row per table and tier moves down for that.
    lost = 1e3 * max(
        float((problem.traffic * problem.class_share[problem.class_start[:-1]]).max()) / problem.bandwidth.min(),
        0.0,
    )
    assert optimum * (1 - 1e-6) <= found.bottleneck_ms <= optimum * (1 + 1e-6) + lost * problem.tiers


@settings(max_examples=25, deadline=None)
@given(small_problems())
def test_the_two_formulations_agree_within_the_coarsening_of_100_steps(problem: PlacementProblem) -> None:
    tight = milp(problem, "tight", warm_start=False, time_limit=60)
    paper = milp(problem, "paper", warm_start=False, time_limit=60)
    check_placement(problem, paper.placement)
    # Each step of the ICDF holds a hundredth of a table's accesses, and is rounded up to whole rows.
    step = 0.0
    for j in range(problem.tables):
        hottest = problem.class_share[problem.class_start[j]]
        step += problem.traffic[j] * (0.01 + hottest)
    step *= 1e3 / problem.bandwidth.min() * problem.tiers
    model = float(str(tight.notes["model_bottleneck_ms"]))
    reference = float(str(paper.notes["model_bottleneck_ms"]))
    assert model <= reference * (1 + TOLERANCE)
    assert reference <= model + step


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["tight", "paper"]))
def test_a_slowest_tier_of_any_size_leaves_the_model_right(seed: int, formulation: Formulation) -> None:
    problem = random_problem(np.random.default_rng(seed), tables=4, devices=2, tiers=2, equal_rows=True)
    capacity = problem.pool_capacity.copy()
    capacity[problem.pool[:, -1]] = float(problem.table_bytes.sum())
    roomy = replace(problem, pool_capacity=capacity)
    capacity = capacity.copy()
    capacity[problem.pool[:, -1]] = 1e13
    vast = replace(problem, pool_capacity=capacity)
    expected = milp(roomy, formulation, warm_start=False, time_limit=60).notes["model_bottleneck_ms"]
    found = milp(vast, formulation, warm_start=False, time_limit=60).notes["model_bottleneck_ms"]
    assert found == pytest.approx(expected, rel=1e-5)
    assert formulation == "paper" or found == pytest.approx(best_bottleneck(vast), rel=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_devices_filled_to_the_last_byte_are_packed_by_search(seed: int) -> None:
    problem = full_to_the_last_byte(seed, devices=6)
    check_placement(problem, search(problem, after_rounds(10)).placement)


@pytest.mark.parametrize("seed", range(4))
def test_devices_filled_to_the_last_byte_are_packed_by_the_milp_alone(seed: int) -> None:
    """Four devices: of six, the solver takes anything from one to many seconds to find the one way there is."""
    problem = full_to_the_last_byte(seed, devices=4)
    check_placement(problem, milp(problem, time_limit=60, warm_start=False).placement)


def full_to_the_last_byte(seed: int, devices: int) -> PlacementProblem:
    """Return four tables a device that together fill it, in any order."""
    rng = np.random.default_rng(seed)
    cuts = [np.sort(rng.choice(np.arange(1, 100), 3, replace=False)) for _ in range(devices)]
    rows = np.concatenate([np.diff([0, *cut, 100]) for cut in cuts])
    return one_tier(rng.permutation(rows), devices=devices, rows_each=100)


def one_tier(rows: np.ndarray, devices: int, rows_each: int) -> PlacementProblem:
    """Return tables of equal rows for devices that hold `rows_each` of them, all accesses alike."""
    tables = len(rows)
    return PlacementProblem(
        batch_size=1,
        rows=rows.astype(np.int64),
        dim=np.full(tables, 1),
        row_bytes=np.full(tables, 4),
        row_state_bytes=np.zeros(tables, dtype=np.int64),
        access_bytes=np.full(tables, 4.0),
        accesses=np.ones(tables),
        class_start=np.arange(tables + 1),
        class_rows=rows.astype(np.int64),
        class_share=1.0 / rows,
        network_bytes=np.zeros(tables),
        bandwidth=np.full((devices, 1), 1e6),
        pool=np.arange(devices)[:, None],
        pool_capacity=np.full(devices, 4.0 * rows_each),
        network_bandwidth=np.full(devices, np.inf),
    )


@settings(max_examples=30, deadline=None)
@given(small_problems())
def test_search_gives_the_same_bytes_for_the_same_seed_and_rounds(problem: PlacementProblem) -> None:
    try:
        first = search(problem, after_rounds(40), seed=7)
    except DoesNotFit:
        return
    again = search(problem, after_rounds(40), seed=7)
    assert (first.placement.device == again.placement.device).all()
    assert (first.placement.rows == again.placement.rows).all()
    assert first.bottleneck_ms == bottleneck_ms(problem, first.placement)
