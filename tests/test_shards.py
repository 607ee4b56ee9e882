"""Shards are their tables: nothing is lost by cutting but what cutting is said to cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.errors import InputError
from recshard.placement import InvalidPlacement, Placement, check_placement, device_costs, pool_bytes
from recshard.problem import PlacementProblem
from recshard.shards import SplitRules, cut, cut_evenly, most_shards
from tests.problems import random_problem


@st.composite
def cuttings(draw: st.DrawFn) -> tuple[PlacementProblem, SplitRules, np.ndarray]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    problem = random_problem(
        rng, devices=draw(st.integers(1, 3)), network=draw(st.booleans()), state=draw(st.booleans())
    )
    rules = SplitRules(draw(st.sampled_from(["none", "column", "row"])), draw(st.sampled_from([1, 4, 8])))
    most = most_shards(problem, rules)
    return problem, rules, rng.integers(1, np.minimum(most, 6) + 1)


@settings(max_examples=100, deadline=None)
@given(cuttings())
def test_row_shards_deal_out_the_ranks_of_a_table_one_by_one(
    cutting: tuple[PlacementProblem, SplitRules, np.ndarray],
) -> None:
    problem, _, count = cutting
    count = np.minimum(count, problem.rows)
    shards = cut_evenly(problem, count, "row")
    sharded = cut(problem, shards)
    for s in range(len(shards)):
        j = int(shards.table[s])
        mine = slice(problem.class_start[j], problem.class_start[j + 1])
        accesses = problem.accesses[j] * np.repeat(problem.class_share[mine], problem.class_rows[mine])
        dealt = accesses[shards.part[s] :: shards.parts[s]]
        own = slice(sharded.class_start[s], sharded.class_start[s + 1])
        found = sharded.accesses[s] * np.repeat(sharded.class_share[own], sharded.class_rows[own])
        assert found == pytest.approx(dealt)
        assert sharded.rows[s] == len(dealt)
        assert (sharded.class_rows[own] > 0).all()
        assert sharded.network_bytes[s] == problem.network_bytes[j]


@settings(max_examples=100, deadline=None)
@given(cuttings())
def test_column_shards_add_up_to_their_table_but_for_the_state_of_rows(
    cutting: tuple[PlacementProblem, SplitRules, np.ndarray],
) -> None:
    problem, rules, count = cutting
    count = np.minimum(count, most_shards(problem, replace(rules, kind="column")))
    shards = cut_evenly(problem, count, "column")
    sharded = cut(problem, shards)
    total = np.bincount(shards.table, sharded.traffic)
    assert total == pytest.approx(problem.traffic)
    assert np.bincount(shards.table, sharded.network_bytes) == pytest.approx(problem.network_bytes)
    extra = (count - 1) * problem.rows * problem.row_state_bytes
    assert (np.bincount(shards.table, sharded.table_bytes) == problem.table_bytes + extra).all()
    assert (shards.columns >= np.minimum(rules.min_dim, problem.dim[shards.table])).all()


@settings(max_examples=100, deadline=None)
@given(cuttings(), st.integers(0, 2**32 - 1))
def test_shards_on_one_device_and_tier_cost_what_their_tables_cost_there(
    cutting: tuple[PlacementProblem, SplitRules, np.ndarray], seed: int
) -> None:
    problem, rules, count = cutting
    problem = replace(problem, network_bytes=np.zeros(problem.tables))
    rng = np.random.default_rng(seed)
    device, tier = rng.integers(0, problem.devices, problem.tables), rng.integers(0, problem.tiers, problem.tables)
    whole = np.zeros((problem.tables, problem.tiers), dtype=np.int64)
    whole[np.arange(problem.tables), tier] = problem.rows
    shards = cut_evenly(problem, count, rules.kind)
    rows = np.zeros((len(shards), problem.tiers), dtype=np.int64)
    rows[np.arange(len(shards)), tier[shards.table]] = cut(problem, shards).rows
    placed = Placement(device[shards.table], rows, shards)
    assert device_costs(problem, placed) == pytest.approx(device_costs(problem, Placement(device, whole)))
    roomy = replace(problem, pool_capacity=np.full(len(problem.pool_capacity), 1e12))
    check_placement(roomy, placed)
    extra = float(((count - 1) * problem.rows * problem.row_state_bytes).sum()) if rules.kind == "column" else 0.0
    assert pool_bytes(roomy, placed).sum() == problem.table_bytes.sum() + extra


@pytest.mark.parametrize(
    ("field", "value"), [("first_column", 4), ("columns", 12), ("part", 1), ("parts", 2), ("table", 1)]
)
def test_shards_that_are_not_their_tables_are_refused(field: str, value: int) -> None:
    problem = random_problem(np.random.default_rng(1), tables=2, devices=1)
    problem = replace(problem, dim=np.full(2, 16), pool_capacity=np.full(2, 1e12))
    shards = cut_evenly(problem, np.array([2, 1]), "column")
    rows = np.zeros((3, 2), dtype=np.int64)
    rows[:, 1] = problem.rows[shards.table]
    check_placement(problem, Placement(np.zeros(3, dtype=np.int64), rows, shards))
    broken = getattr(shards, field).copy()
    broken[0] = value
    with pytest.raises(InvalidPlacement, match="shards"):
        check_placement(problem, Placement(np.zeros(3, dtype=np.int64), rows, replace(shards, **{field: broken})))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"kind": "columns"}, "did you mean 'column'"),
        ({"min_dim": 0}, "least dim"),
        ({"max_shards": -1}, "most shards"),
    ],
)
def test_rules_that_make_no_sense_are_refused(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        SplitRules(**cast(Any, arguments))
