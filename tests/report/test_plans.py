"""Reports of plans name shards and say which tables are cut."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from recshard.plan import Plan
from recshard.report.console import cut_sentence, report_plan
from recshard.report.figures import table_rows
from recshard.report.html import write_html
from tests.plans import Kind, cut_case


def printed(plan: Plan) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(report_plan(plan))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["column", "row", "both"])
def test_a_report_shows_shards_by_name_and_says_what_is_cut(kind: Kind, tmp_path: Path) -> None:
    plan = cut_case(np.random.default_rng(3), kind).plan
    text = printed(plan)
    assert f"costliest of {len(plan.shards)} shards of 4 tables" in text
    assert sum(name in text for name in plan.shard_names) >= min(10, len(plan.shard_names))
    sentence = cut_sentence(plan)
    assert sentence in text.replace("\n", " ")
    for entry in plan.tables_cut:
        assert f"{entry['table']} ({entry['shards']} by {entry['kind']}s)" in sentence
    write_html(plan, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert sentence in page
    assert "<th>shards" in page


def test_a_report_of_whole_tables_does_not_speak_of_shards(tmp_path: Path) -> None:
    plan = cut_case(np.random.default_rng(3), "none").plan
    write_html(plan, tmp_path / "report.html")
    assert "shard" not in printed(plan) + (tmp_path / "report.html").read_text()


def test_of_many_cut_tables_the_report_names_some_and_counts_the_rest() -> None:
    plan = cut_case(np.random.default_rng(3), "both").plan
    assert len(plan.tables_cut) > 2
    assert f" and {len(plan.tables_cut) - 2} more tables." in cut_sentence(plan, most=2)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["none", "column", "row", "both"]))
def test_the_bars_of_a_cut_table_add_up_to_its_rows(seed: int, kind: Kind) -> None:
    plan = cut_case(np.random.default_rng(seed), kind).plan
    rows = table_rows(plan)
    assert rows.sum(axis=1) == pytest.approx(plan.problem.rows)
    for j in range(4):
        mine = list(plan.shards_of(j))
        elements = plan.placement.rows[mine] * plan.shards.columns[mine, None]
        assert rows[j] * plan.problem.dim[j] == pytest.approx(elements.sum(axis=0))
