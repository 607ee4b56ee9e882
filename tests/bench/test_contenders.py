"""Rivals are the baselines on the plan's own problem, in steps of a size that measures something."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recshard.bench.contenders import contenders, default_batch_size
from recshard.errors import DoesNotFit
from recshard.placement import check_placement
from recshard.plan import Plan
from recshard.strategy.greedy import place_greedily
from tests.plans import cut_case


def plan_of(seed: int) -> Plan:
    return cut_case(np.random.default_rng(seed), "row").plan


@pytest.mark.parametrize("seed", range(5))
def test_rivals_are_the_baselines_on_the_plans_own_problem_with_whole_tables(seed: int) -> None:
    plan = replace(plan_of(seed), strategy="recshard")
    found = dict(contenders(plan))
    assert list(found) == ["recshard", "size", "lookup", "size-lookup"]
    assert found.pop("recshard") is plan
    for name, rival in found.items():
        if isinstance(rival, DoesNotFit):
            assert any(f"table '{table.name}'" in str(rival) for table in plan.tables.tables)
            continue
        assert rival.strategy == name
        check_placement(rival.problem, rival.placement)
        expected = place_greedily(plan.problem, name)
        assert np.array_equal(rival.placement.device, expected.device)
        assert not any(rival.needs_hot_rows(j) for j in range(len(plan.tables)))


def test_a_baseline_that_is_the_plan_itself_does_not_run_twice() -> None:
    plan = replace(plan_of(0), strategy="size")
    assert [name for name, _ in contenders(plan)] == ["size", "lookup", "size-lookup"]


def test_steps_are_of_a_size_at_which_the_busiest_device_makes_so_many_slow_accesses() -> None:
    plan = plan_of(1)
    size = default_batch_size(plan, [1, 2], 20)
    slow = np.zeros(plan.problem.devices)
    for s in range(len(plan.shards)):
        made = plan.sharded.accesses[s] * plan.access_share[s, 1:].sum()
        slow[plan.placement.device[s]] += made / plan.problem.batch_size
    assert size == min(round(20 / slow.max()), plan.problem.batch_size)


def test_a_step_is_never_larger_than_the_plans_own_nor_empty() -> None:
    plan = plan_of(2)
    assert default_batch_size(plan, [1, 2], 10**9) <= plan.problem.batch_size
    assert default_batch_size(plan, [1, 2], 1) >= 1
    assert 1 <= default_batch_size(plan, [], 100) <= plan.problem.batch_size
