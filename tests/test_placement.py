"""The validity checker rejects a placement broken in any one way; costs agree with plain arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.placement import InvalidPlacement, Placement, check_placement, device_costs, shard_access_share
from recshard.problem import PlacementProblem
from recshard.strategy.result import split_exactly
from tests.problems import random_problem


@st.composite
def placed(draw: st.DrawFn) -> tuple[PlacementProblem, Placement]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    problem = random_problem(
        rng,
        tables=draw(st.integers(1, 8)),
        devices=draw(st.integers(1, 4)),
        tiers=draw(st.integers(1, 3)),
        slack=3.0,
        node_size=draw(st.sampled_from([1, 2])),
        network=draw(st.booleans()),
    )
    # So much memory that any assignment fits.
    problem = replace(problem, pool_capacity=problem.pool_capacity + float(problem.table_bytes.sum()))
    placement = split_exactly(problem, rng.integers(0, problem.devices, problem.tables))
    assert placement is not None
    return problem, placement


@settings(max_examples=50, deadline=None)
@given(placed())
def test_a_split_by_waterfilling_is_valid(case: tuple[PlacementProblem, Placement]) -> None:
    check_placement(*case)


@settings(max_examples=100, deadline=None)
@given(placed(), st.data())
def test_a_placement_broken_in_any_one_way_is_rejected(
    case: tuple[PlacementProblem, Placement], data: st.DataObject
) -> None:
    problem, placement = case
    j = data.draw(st.integers(0, problem.tables - 1))
    k = data.draw(st.integers(0, problem.tiers - 1))
    device, rows = placement.device.copy(), placement.rows.copy()
    how = data.draw(
        st.sampled_from(
            ["row lost", "row invented", "negative", "device too high", "device negative", "overfull",
             "table missing", "tier missing", "not whole"]
        )
    )  # fmt: skip
    if how == "row lost":
        rows[j, np.argmax(rows[j])] -= 1
    elif how == "row invented":
        rows[j, k] += 1
    elif how == "negative":
        excess = rows[j, k] + 1
        rows[j, k] -= excess
        if problem.tiers > 1:  # the sum still right: only the sign is wrong
            rows[j, (k + 1) % problem.tiers] += excess
    elif how == "device too high":
        device[j] = problem.devices
    elif how == "device negative":
        device[j] = -1
    elif how == "overfull":
        pool = problem.pool[device[j], int(np.argmax(rows[j]))]
        capacity = problem.pool_capacity.copy()
        held = sum(
            rows[i, t] * problem.row_bytes[i]
            for i in range(problem.tables)
            for t in range(problem.tiers)
            if problem.pool[device[i], t] == pool
        )
        capacity[pool] = held - 1
        problem = replace(problem, pool_capacity=capacity)
    elif how == "table missing":
        device, rows = device[:-1], rows[:-1]
    elif how == "tier missing":
        rows = rows[:, :-1]
    else:
        with pytest.raises(InvalidPlacement):
            check_placement(problem, Placement(device, rows + 0.0))
        return
    with pytest.raises(InvalidPlacement):
        check_placement(problem, Placement(device, rows))


@settings(max_examples=30, deadline=None)
@given(placed())
def test_device_costs_are_the_sum_over_rows(case: tuple[PlacementProblem, Placement]) -> None:
    problem, placement = case
    expected = np.zeros(problem.devices)
    for j in range(problem.tables):
        d = placement.device[j]
        part = slice(problem.class_start[j], problem.class_start[j + 1])
        share = np.repeat(problem.class_share[part], problem.class_rows[part])
        tier = np.repeat(np.arange(problem.tiers), placement.rows[j])
        seconds = problem.accesses[j] * share * problem.access_bytes[j] / problem.bandwidth[d, tier]
        expected[d] += 1e3 * (seconds.sum() + problem.network_bytes[j] / problem.network_bandwidth[d])
    assert device_costs(problem, placement) == pytest.approx(expected, rel=1e-9)
    assert shard_access_share(problem, placement).sum(axis=1) == pytest.approx(np.ones(problem.tables))
