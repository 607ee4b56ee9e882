"""The solver's report: what it says agrees with the plan, in every form, made or loaded."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from recshard.errors import InputError
from recshard.placement import pool_bytes
from recshard.plan import Plan, load_plan, make_plan, save_plan, solving
from recshard.plan.solving import solver_report
from recshard.report.console import report_plan
from recshard.report.html import write_html
from recshard.report.solving import solver_section, solver_sentences
from recshard.shards import SplitRules
from recshard.strategy.history import Event
from recshard.strategy.run import StrategyOptions
from tests.plan.test_plan import small_profile, topology
from tests.plans import Kind, cut_case

QUICK = StrategyOptions(time_limit=1)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(small_profile(), topology(shared="node"), "search", options=QUICK)


def printed(plan: Plan, width: int = 80) -> str:
    file = io.StringIO()
    Console(file=file, width=width).print(solver_section(plan.solver))
    return file.getvalue()


def with_events(plan: Plan, count: int) -> Plan:
    events = tuple(Event(float(i), 100.0 - i, 1.0 + i / 100, "search") for i in range(count))
    return replace(plan, history=(Event(0.0, math.inf, 0.5, "search"), *events))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["none", "column", "row", "both"]), st.booleans())
def test_a_document_is_json_and_agrees_with_the_plan(seed: int, kind: Kind, network: bool) -> None:
    plan = cut_case(np.random.default_rng(seed), kind, network=network).plan
    document = plan.solver.document()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    costs = [device["cost_ms"] for device in document["devices"]]
    assert costs == pytest.approx(plan.device_cost_ms.tolist())
    for device in document["devices"]:
        assert device["cost_ms"] + device["slack_ms"] == pytest.approx(plan.bottleneck_ms)
    assert min(device["slack_ms"] for device in document["devices"]) == 0
    last = document["events"][-1]
    assert (last["bottleneck_ms"], last["by"]) == (plan.bottleneck_ms, "plan")


def test_every_pool_stands_in_the_document_once(plan: Plan) -> None:
    pools = plan.solver.document()["pools"]
    assert len(pools) == len(plan.problem.pool_capacity) == 4  # three devices' own, and one that they share
    assert [pool["shared"] for pool in pools] == [False, False, False, True]
    assert pools[-1]["devices"] == [0, 1, 2]
    free = sum(pool["free_bytes"] for pool in pools)
    left = plan.problem.pool_capacity - pool_bytes(plan.problem, plan.placement)
    assert free == np.floor(left).sum()


def test_a_loaded_plan_gives_the_same_report(plan: Plan, tmp_path: Path) -> None:
    ruled = replace(with_events(plan, 3), rules=SplitRules("column", 8, 2))
    for number, case in enumerate((plan, ruled)):
        save_plan(case, tmp_path / str(number))
        again = load_plan(tmp_path / str(number))
        assert again.history == case.history
        assert again.rules == case.rules
        assert again.solver.document() == case.solver.document()
        assert again.summary() == case.summary()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("history", [{"seconds": "soon", "bottleneck_ms": 1.0, "lower_bound_ms": 1.0, "by": "search"}]),
        ("history", [{"seconds": math.nan, "bottleneck_ms": 1.0, "lower_bound_ms": 1.0, "by": "search"}]),
        ("history", 7),
        ("split_rules", {"kind": "diagonal"}),
    ],
)
def test_a_plan_with_a_damaged_history_is_refused(plan: Plan, tmp_path: Path, key: str, value: object) -> None:
    save_plan(plan, tmp_path / "plan")
    path = tmp_path / "plan" / "plan.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(InputError, match="make it again"):
        load_plan(tmp_path / "plan")


def test_the_frames_have_a_row_per_device_and_per_event(plan: Plan) -> None:
    frame = plan.solver.frame()
    assert list(frame.index) == [0, 1, 2]
    per_tier = [f"{tier}_{what}" for tier in ("hbm", "uvm") for what in ("free_bytes", "shared_by", "ms_per_gb")]
    assert list(frame.columns) == ["cost_ms", "slack_ms", *per_tier]
    assert frame["uvm_shared_by"].tolist() == [3, 3, 3]
    assert frame["hbm_shared_by"].tolist() == [1, 1, 1]
    history = with_events(plan, 5).solver.history_frame()
    assert len(history) == 7
    assert math.isnan(history["bottleneck_ms"].iloc[0])
    assert history["by"].iloc[-1] == "plan"


def test_the_console_says_the_sentences_within_80_columns(plan: Plan) -> None:
    many = with_events(plan, 20)
    text = printed(many)
    assert max(map(len, text.splitlines())) <= 80
    lines = text.splitlines()
    assert sum("│" in line for line in lines) == 8
    assert "8 of 22 events" in text
    assert next(i for i, line in enumerate(lines) if "┏" in line) <= 11  # sentences stay compact
    joined = " ".join(printed(many, 1000).split())
    for sentence in solver_sentences(many.solver):
        assert sentence in joined
    assert "more hbm on every device would save" in joined
    assert "by so much the proven bound" in joined


def test_reports_have_the_solver_section(plan: Plan, tmp_path: Path) -> None:
    file = io.StringIO()
    Console(file=file, width=1000).print(report_plan(plan))
    write_html(plan, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    for sentence in solver_sentences(plan.solver):
        assert sentence in file.getvalue()
        assert sentence.replace("'", "&#39;") in page
    assert page.count("<svg") == 3


def test_where_one_table_sets_the_bound_the_report_names_it_and_says_how_to_cut_it() -> None:
    plan = make_plan(small_profile(), topology(devices=4, fast=1e6), "search", options=QUICK)
    assert plan.solver.bound_by == "one table"
    table = plan.solver.bound_table
    text = " ".join(solver_sentences(plan.solver))
    assert f"More hbm would not help: table '{table}' alone sets the bound; cutting it (--split " in text
    alone = plan.solver.document()["cutting"]
    cut = make_plan(
        small_profile(),
        topology(devices=4, fast=1e6),
        "search",
        options=replace(QUICK, rules=SplitRules(alone["kind"], alone["min_dim"], alone["max_shards"])),
    )
    assert cut.lower_bound_ms == pytest.approx(alone["bound_ms"])


def test_a_bound_that_the_milp_raised_is_said_to_be_its_own(plan: Plan) -> None:
    found = plan.solver.prices
    assert found is not None
    raised = found.bound.ms * 1.01
    by_milp = replace(plan, lower_bound_ms=raised, history=(Event(1.0, 2 * raised, raised, "milp"),))
    assert plan.solver.bound_by == found.bound.by
    assert by_milp.solver.bound_by == "milp"
    text = " ".join(solver_sentences(by_milp.solver))
    assert "the MILP proved the bound" in text
    assert "the bound that holds without a MILP" in text


def test_large_problems_are_not_priced(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solving, "MOST_CLASSES", 1)
    report = solver_report(plan)
    assert report.prices is None
    document = report.document()
    assert document["more_memory"] is None
    assert document["devices"][0]["ms_per_gb"] is None
    assert report.frame()["hbm_ms_per_gb"].isna().all()
    assert not any("would" in sentence for sentence in solver_sentences(report))


def test_baselines_have_a_report_of_one_event() -> None:
    plan = make_plan(small_profile(), topology(), "lookup")
    assert [event.by for event in plan.solver.events] == ["plan"]
    assert plan.solver.exchanges_judged is None
    assert "events" not in printed(plan)
