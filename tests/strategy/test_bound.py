"""Bounds and approximations stay on their side, whatever the devices and pools look like."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.errors import DoesNotFit
from recshard.problem import PlacementProblem
from recshard.strategy.greedy import GREEDY_COSTS, greedy
from recshard.strategy.grid import threshold_grid
from recshard.strategy.milp import milp
from recshard.strategy.milp.segments import icdf_steps, segments
from recshard.strategy.search import search
from recshard.strategy.stop import after_rounds
from tests.problems import random_problem
from tests.strategy.brute_force import best_bottleneck
from tests.strategy.solving import solving_here


@pytest.fixture(autouse=True, scope="module")
def _solve_here() -> Iterator[None]:
    with solving_here():
        yield


@st.composite
def problems(draw: st.DrawFn, tables: int = 40) -> PlacementProblem:
    return random_problem(
        np.random.default_rng(draw(st.integers(0, 2**32 - 1))),
        tables=draw(st.integers(2, tables)),
        devices=draw(st.integers(1, 6)),
        tiers=draw(st.integers(1, 4)),
        rows=400,
        classes=50,
        node_size=draw(st.sampled_from([1, 2, 3])),
        equal_devices=draw(st.booleans()),
        network=draw(st.booleans()),
    )


@settings(max_examples=60, deadline=None)
@given(problems())
def test_search_is_never_behind_a_baseline_nor_below_the_bound(problem: PlacementProblem) -> None:
    try:
        found = search(problem, after_rounds(60))
    except DoesNotFit:
        return
    assert found.lower_bound_ms <= found.bottleneck_ms
    for cost in GREEDY_COSTS.values():
        try:
            baseline = greedy(problem, cost)
        except DoesNotFit:
            continue
        assert baseline.lower_bound_ms == found.lower_bound_ms
        assert found.bottleneck_ms <= baseline.bottleneck_ms * (1 + 1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 3))
def test_a_model_with_few_segments_still_proves_a_valid_bound(seed: int, tiers: int) -> None:
    problem = random_problem(np.random.default_rng(seed), tables=4, devices=2, tiers=tiers, rows=300, classes=40)
    found = milp(problem, warm_start=False, variables=1)
    assert found.lower_bound_ms <= best_bottleneck(problem) * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(problems(tables=3), st.integers(3, 12), st.lists(st.floats(1e-6, 1e6), max_size=3))
def test_segments_lie_on_or_above_the_access_curve_and_icdf_steps_on_it(
    problem: PlacementProblem, most: int, near: list[float]
) -> None:
    for j in range(problem.tables):
        part = slice(problem.class_start[j], problem.class_start[j + 1])
        exact = np.concatenate([[0], np.cumsum(problem.class_rows[part] * problem.class_share[part])])
        corner = np.concatenate([[0], np.cumsum(problem.class_rows[part])])
        rows, share = segments(problem, j, most, np.array(near))
        assert len(rows) <= most
        assert rows.sum() == pytest.approx(problem.rows[j])
        outer = np.interp(
            corner, np.concatenate([[0], np.cumsum(rows)]), np.concatenate([[0], np.cumsum(rows * share)])
        )
        assert (outer >= exact - 1e-9).all()
        assert (np.diff(share) <= 1e-12).all()
        steps, covered = icdf_steps(problem, j, 100)
        assert covered == pytest.approx(np.interp(steps, corner, exact))
        assert (covered >= np.linspace(0, 1, 101) - 1e-9).all()


@settings(max_examples=40, deadline=None)
@given(problems(tables=6))
def test_the_grid_keeps_every_byte_and_all_traffic(problem: PlacementProblem) -> None:
    grid = threshold_grid(problem, thresholds=8)
    assert grid.size[:, -1] == pytest.approx(problem.table_bytes)
    assert grid.traffic[:, -1] == pytest.approx(problem.traffic)
    assert (np.diff(grid.size, axis=1) >= 0).all()
    assert (np.diff(grid.traffic, axis=1) >= -1e-9).all()
