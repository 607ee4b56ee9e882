"""The default strategy, and cuts: what is near the bound, what a cut gains, what is proven."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.errors import DoesNotFit, InputError
from recshard.placement import bottleneck_ms, check_placement, device_costs
from recshard.problem import PlacementProblem
from recshard.shards import SplitRules, most_shards
from recshard.strategy.bound import lower_bound_ms
from recshard.strategy.combined import neighbourhoods, recshard
from recshard.strategy.history import Event
from recshard.strategy.run import StrategyOptions, run_strategy
from recshard.strategy.search import search
from recshard.strategy.stop import after_rounds, any_of, at_gap
from tests.problems import random_problem
from tests.strategy.brute_force import best_bottleneck


def many_tables(seed: int = 3, tables: int = 120, devices: int = 8, hot: float = 0.0) -> PlacementProblem:
    """Return a problem of many rows, whose first table alone costs at least `hot` times the average device."""
    rng = np.random.default_rng(seed)
    drawn = random_problem(rng, tables=tables, devices=devices, rows=100_000, classes=60, slack=1.5)
    row_bytes = np.full(tables, 256)
    model = float((drawn.rows * row_bytes).sum())
    problem = replace(
        drawn,
        dim=np.full(tables, 64),
        row_bytes=row_bytes,
        access_bytes=np.full(tables, 256.0),
        bandwidth=np.tile([1e9, 5e7], (devices, 1)),
        pool=np.arange(2 * devices).reshape(devices, 2),
        pool_capacity=np.tile([0.1 * model / devices, model], devices),
    )
    while lower_bound_ms(problem) < hot * lower_bound_ms(problem, SplitRules("row")):
        problem = replace(problem, accesses=problem.accesses * np.where(np.arange(tables) == 0, 1.2, 1.0))
    return problem


def test_search_comes_within_a_thousandth_of_the_bound_where_tables_are_many() -> None:
    for seed in range(3):
        problem = many_tables(seed)
        found = search(problem, any_of(after_rounds(400), at_gap(1e-4)))
        assert found.gap < 1e-3


@pytest.mark.parametrize("kind", ["column", "row"])
def test_a_table_twice_as_hot_as_a_device_is_cut_and_the_bottleneck_falls_accordingly(kind: str) -> None:
    problem = many_tables(hot=2.0)
    rules = SplitRules("row" if kind == "row" else "column", min_dim=8)
    whole = search(problem, any_of(after_rounds(300), at_gap(1e-3)))
    found = search(problem, any_of(after_rounds(300), at_gap(1e-3)), rules=rules)
    check_placement(problem, found.placement)
    # Uncut, the hot table alone is the bound; cut, the pooled one is, and both are reached.
    assert whole.bottleneck_ms == pytest.approx(lower_bound_ms(problem), rel=2e-3)
    assert found.bottleneck_ms == pytest.approx(lower_bound_ms(problem, rules), rel=2e-3)
    assert found.bottleneck_ms < whole.bottleneck_ms / 1.9
    shards = found.placement.shards
    assert shards is not None
    count = np.bincount(shards.table)
    assert count[0] >= 2
    assert (count <= most_shards(problem, rules)).all()


def test_nothing_is_cut_where_whole_tables_reach_the_bound() -> None:
    problem = many_tables()
    found = search(problem, any_of(after_rounds(600), at_gap(1e-4)), rules=SplitRules("row"))
    assert found.gap <= 1e-3
    assert found.placement.shards is None


def test_no_table_is_cut_into_more_shards_than_the_rules_allow() -> None:
    problem = many_tables(hot=4.0)
    found = search(problem, after_rounds(60), rules=SplitRules("row", max_shards=2))
    assert found.placement.shards is not None
    assert np.bincount(found.placement.shards.table).max() == 2
    assert found.lower_bound_ms <= found.bottleneck_ms


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_the_default_strategy_is_never_behind_search_and_proves_no_more_than_is_true(
    seed: int, equal: bool
) -> None:
    problem = random_problem(
        np.random.default_rng(seed),
        tables=5,
        devices=2,
        rows=4000,
        slack=1.5,
        equal_devices=equal,
        equal_rows=True,
    )
    try:
        searched = search(problem, after_rounds(60), seed=1)
    except DoesNotFit:
        return
    found = recshard(problem, 20.0, after_rounds(60), seed=1)
    optimum = best_bottleneck(problem)
    assert found.bottleneck_ms <= searched.bottleneck_ms * (1 + 1e-12)
    assert searched.lower_bound_ms * (1 - 1e-12) <= found.lower_bound_ms <= optimum * (1 + 1e-9)
    assert found.bottleneck_ms >= optimum * (1 - 1e-9)
    costs = [(event.bottleneck_ms, event.lower_bound_ms) for event in found.history]
    assert costs == sorted(costs, key=lambda pair: (-pair[0], pair[1]))
    assert costs[-1][0] == pytest.approx(found.bottleneck_ms, rel=1e-9)


def test_the_milp_mends_what_a_search_without_time_leaves() -> None:
    problem = many_tables(tables=16, devices=3)
    hurried = search(problem, after_rounds(0))
    found = recshard(problem, 15.0, after_rounds(0))
    assert found.bottleneck_ms < hurried.bottleneck_ms
    assert int(str(found.notes["milps_that_helped"])) >= 1


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_every_neighbourhood_holds_the_slowest_device(seed: int, devices: int) -> None:
    problem = random_problem(np.random.default_rng(seed), tables=8, devices=devices, slack=2.0)
    found = search(problem, after_rounds(1))
    slowest = int(np.argmax(device_costs(problem, found.placement)))
    sets = list(neighbourhoods(problem, found.placement))
    assert all(slowest in chosen and len(set(chosen.tolist())) == len(chosen) for chosen in sets)
    assert devices == 1 or any(len(chosen) == devices for chosen in sets)


@pytest.mark.parametrize("strategy", ["recshard", "search", "milp", "size"])
@pytest.mark.parametrize("kind", ["column", "row"])
def test_every_strategy_takes_rules_and_is_measured_against_the_bound_under_them(strategy: str, kind: str) -> None:
    problem = many_tables(tables=12, devices=2, hot=1.3)
    rules = SplitRules("row" if kind == "row" else "column", min_dim=16)
    found = run_strategy(strategy, problem, StrategyOptions(time_limit=4.0, rules=rules))
    check_placement(problem, found.placement)
    assert found.bottleneck_ms == pytest.approx(bottleneck_ms(problem, found.placement))
    assert found.lower_bound_ms == pytest.approx(lower_bound_ms(problem, rules), rel=1e-8)
    assert found.lower_bound_ms <= found.bottleneck_ms


def test_an_absent_solver_is_refused_before_anything_is_searched() -> None:
    with pytest.raises(InputError, match="present"):
        run_strategy("recshard", many_tables(), StrategyOptions(solver="higsh"))


def test_the_log_of_every_milp_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    found = recshard(many_tables(tables=16, devices=3), 6.0, after_rounds(0), log=log)
    assert log.read_text().count("devices ") >= int(str(found.notes["milps"])) >= 1
    with pytest.raises(InputError, match="uses no solver"):
        run_strategy("search", many_tables(), StrategyOptions(solver_log=log))


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan"), float("inf")])
def test_a_time_limit_that_is_none_is_refused(limit: float) -> None:
    with pytest.raises(InputError, match="time limit"):
        StrategyOptions(time_limit=limit)


def test_a_table_cut_as_far_as_allowed_sets_the_bound_with_the_state_of_every_row() -> None:
    problem = many_tables(hot=6.0)
    state = np.full(problem.tables, 4)
    problem = replace(problem, row_bytes=problem.row_bytes + state, row_state_bytes=state)
    rules = SplitRules("column", min_dim=32)
    found = search(problem, any_of(after_rounds(200), at_gap(1e-4)), rules=rules)
    assert found.placement.shards is not None
    assert np.bincount(found.placement.shards.table)[0] == 2
    assert found.gap < 1e-3


@pytest.mark.parametrize("strategy", ["recshard", "search"])
def test_who_watches_is_told_of_every_event_as_it_comes(strategy: str) -> None:
    told: list[Event] = []
    found = run_strategy(strategy, many_tables(), StrategyOptions(time_limit=1.0, watch=told.append))
    assert [event.seconds for event in told] == [event.seconds for event in found.history]
    assert len(told) > 1
