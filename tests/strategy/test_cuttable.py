"""What is said of models that do not fit although tables may be cut, and of cuts that would help."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.placement import check_placement
from recshard.problem import PlacementProblem
from recshard.shards import SplitRules, cut
from recshard.strategy.cuttable import cutting, explain_cut, finely_cut
from recshard.strategy.feasible import explain
from recshard.strategy.search import search
from recshard.strategy.stop import after_rounds
from tests.problems import random_problem


def crowded(seed: int, slack: float, tables: int = 4, devices: int = 3) -> PlacementProblem:
    """Return a problem whose memories hold `slack` times the model, the same on every device."""
    problem = random_problem(
        np.random.default_rng(seed), tables=tables, devices=devices, rows=400, equal_rows=True
    )
    room = 64 * np.ceil(slack * problem.table_bytes.sum() / devices / 64)
    return replace(problem, dim=np.full(tables, 16), pool_capacity=np.tile([128.0, room], devices))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["column", "row"]))
def test_what_is_too_large_in_all_is_short_by_what_is_missing_whatever_is_cut(seed: int, kind: str) -> None:
    problem = crowded(seed, 0.8)
    rules = SplitRules("row" if kind == "row" else "column", 4)
    found = explain_cut(problem, rules)
    assert found is not None
    assert found.kind in ("total", "one table")
    remedy = next(remedy for remedy in found.remedies if remedy.change == "capacity")
    capacity = problem.pool_capacity.copy()
    capacity[1::2] += remedy.bytes
    # The shards are those of the memory as it is: with more of it coarser ones may be asked for.
    shards = finely_cut(problem, rules)
    assert explain(cut(replace(problem, pool_capacity=capacity), shards)) is None
    assert not remedy.is_least or remedy.bytes == 0


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1.05, 1.3]))
def test_cuts_that_are_said_to_help_do(seed: int, slack: float) -> None:
    problem = crowded(seed, slack)
    if explain(problem) is None:
        return
    (remedy,) = cutting(problem, SplitRules())
    words = remedy.rules.split()
    named = dict(zip(words[::2], words[1::2], strict=True))
    rules = SplitRules("row" if named["--split"] == "row" else "column", int(named.get("--min-dim", 32)))
    assert explain_cut(problem, rules) is None
    roomier = replace(problem, pool_capacity=problem.pool_capacity + 512)  # for rows that straddle tiers
    check_placement(roomier, search(roomier, after_rounds(5), rules=rules).placement)


def test_a_table_too_wide_for_the_rules_is_named_with_the_rules_that_would_do() -> None:
    problem = crowded(1, 1.3, tables=1)
    found = explain_cut(problem, SplitRules("column", min_dim=16))
    assert found is not None
    assert found.kind == "one table"
    assert [remedy.rules for remedy in found.remedies if remedy.change == "split"] == ["--split row"]


@pytest.mark.parametrize("devices", [1, 4])
def test_no_cut_is_offered_where_memory_lacks_in_all_or_there_is_one_device(devices: int) -> None:
    assert cutting(crowded(2, 0.9, devices=devices), SplitRules()) == ()
