"""Rates are measured through the runtime, and a slow memory has to be slower."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recshard.bench.calibrate import Gauge, Load, NotSlower, Rate, check_slower, load_of, one_memory
from recshard.bench.contenders import at_rates
from recshard.placement import check_placement
from tests.plans import cut_case

LOAD = Load(tables=3, rows=2000, lookups=100, columns=16, dtype="float32", access_bytes=64.0, samples=30)


def rate(kind: str, reads_per_s: float) -> Rate:
    return Rate(kind, reads_per_s, LOAD)


@pytest.mark.parametrize("kind", ["host", "file"])
def test_a_rate_is_that_of_lookups_through_the_runtime(tmp_path: Path, kind: str) -> None:
    gauge = Gauge(kind, LOAD, tmp_path, np.random.default_rng(0))
    for _ in range(3):
        gauge.step()
    found = gauge.rate()
    assert found.reads_per_s > 0
    assert found.bytes_per_s == found.reads_per_s * 64.0


def test_the_tables_of_a_gauge_are_a_valid_plan() -> None:
    plan = one_memory(LOAD)
    check_placement(plan.problem, plan.placement)
    assert plan.bottleneck_ms == pytest.approx(1e3 * 3 * 100 * 64.0)  # at one byte per second


def test_a_gauge_is_asked_for_what_a_device_is_asked_for_on_average() -> None:
    plan = at_rates(cut_case(np.random.default_rng(3), "none", devices=2).plan, np.ones(3), 64_000)
    load = load_of(plan, ("host", "file", "file"), "file")
    parts = np.count_nonzero(plan.placement.rows[:, 1:])
    served = float((plan.problem.accesses[:, None] * plan.access_share)[:, 1:].sum())
    assert load.tables == max(1, round(parts / 2))
    assert load.lookups == pytest.approx(served / parts, abs=1)
    assert load.samples == 64_000
    weights = plan.problem.accesses / plan.problem.accesses.sum()
    assert load.access_bytes == pytest.approx(weights @ plan.problem.access_bytes)


def test_costs_here_are_those_of_the_plans_formula_at_measured_rates() -> None:
    plan = cut_case(np.random.default_rng(4), "none").plan
    rates = np.array([1e9, 2e6, 1e6])
    here = at_rates(plan, rates, 3 * plan.problem.batch_size)
    expected = np.zeros(3)
    for s in range(len(plan.shards)):
        traffic = 3 * plan.problem.accesses[s] * plan.problem.access_bytes[s] * plan.access_share[s]
        expected[plan.placement.device[s]] += 1e3 * (traffic / rates).sum()
    assert here.device_cost_ms == pytest.approx(expected)


def test_a_slow_memory_that_is_not_slower_is_an_error_with_both_rates() -> None:
    with pytest.raises(NotSlower, match=r"tier 'uvm' \(file\) serves 600 lookups/s and tier 'hbm' \(host\) 1,000"):
        check_slower({"hbm": "host", "uvm": "file"}, {"host": rate("host", 1000), "file": rate("file", 600)})
    check_slower({"hbm": "host", "uvm": "file"}, {"host": rate("host", 1000), "file": rate("file", 400)})
    assert NotSlower.exit_status == 1


def test_tiers_that_all_stand_in_one_memory_are_an_error() -> None:
    with pytest.raises(NotSlower, match=r"all tiers stand in one memory .*--place uvm=file"):
        check_slower({"hbm": "host", "uvm": "host"}, {"host": rate("host", 1000)})
    with pytest.raises(
        NotSlower, match=r"all tiers stand in one memory \(file\).*a faster one .*--place hbm=host"
    ):
        check_slower({"hbm": "file", "uvm": "file"}, {"file": rate("file", 10)})
    check_slower({"hbm": "host"}, {"host": rate("host", 1000)})


def test_a_tier_in_between_may_share_the_memory_of_the_fastest() -> None:
    rates = {"host": rate("host", 1000), "file": rate("file", 10)}
    check_slower({"hbm": "host", "dram": "host", "ssd": "file"}, rates)
    with pytest.raises(NotSlower, match="tier 'ssd'"):
        check_slower({"hbm": "host", "dram": "host", "ssd": "file"}, rates | {"file": replace(rates["host"])})
