"""Plans whose tables are cut: shares, bytes and names by shard, and storage that keeps every shard."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.errors import InputError
from recshard.placement import device_costs, pool_bytes
from recshard.plan import load_plan, save_plan
from tests.plans import SIZES, Kind, cut_case, homes

KINDS = st.sampled_from(["none", "column", "row", "both"])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), KINDS, st.booleans())
def test_devices_share_out_all_accesses_and_all_bytes(seed: int, kind: Kind, unseen: bool) -> None:
    plan = cut_case(np.random.default_rng(seed), kind, unseen=unseen, network=True).plan
    tiers = [device["tiers"] for device in plan.devices]
    shares = [entry["access_share"] for tier in tiers for entry in tier.values()]
    assert sum(shares) == pytest.approx(1)
    fast = sum(tier["hbm"]["access_share"] for tier in tiers)
    assert plan.slow_share == pytest.approx(1 - fast)
    stored = pool_bytes(plan.problem, plan.placement)
    for d, tier in enumerate(tiers):
        assert [entry["bytes"] for entry in tier.values()] == stored[plan.problem.pool[d]].tolist()
    assert plan.device_cost_ms == pytest.approx(device_costs(plan.problem, plan.placement))
    assert sorted(name for device in plan.devices for name in device["tables"]) == sorted(plan.shard_names)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), KINDS)
def test_shards_are_named_and_counted_by_what_they_are(seed: int, kind: Kind) -> None:
    plan = cut_case(np.random.default_rng(seed), kind).plan
    cuts = {entry["table"]: entry for entry in plan.summary()["tables_cut"]}
    for j, table in enumerate(plan.tables.tables):
        names = [plan.shard_names[s] for s in plan.shards_of(j)]
        if table.name not in cuts:
            assert names == [table.name]
            continue
        count = len(names)
        assert cuts[table.name]["shards"] == count > 1
        if cuts[table.name]["kind"] == "row":
            assert names == [f"{table.name}[{part}/{count}]" for part in range(1, count + 1)]
        else:
            edges = [name.removeprefix(f"{table.name}[").removesuffix("]").split(":") for name in names]
            covered = [column for first, end in edges for column in range(int(first), int(end))]
            assert covered == list(range(table.dim))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), KINDS)
def test_a_cut_plan_reads_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, seed: int, kind: Kind
) -> None:
    plan = cut_case(np.random.default_rng(seed), kind, network=True).plan
    path = tmp_path_factory.mktemp("plan") / "plan"
    save_plan(plan, path)
    again = load_plan(path)
    assert again.summary() == plan.summary()
    assert (again.placement.rows == plan.placement.rows).all()
    assert (again.placement.device == plan.placement.device).all()
    for field in ("table", "first_column", "columns", "part", "parts"):
        assert (getattr(again.shards, field) == getattr(plan.shards, field)).all()
    for j in range(len(SIZES)):
        if plan.needs_hot_rows(j):
            assert homes(again, j) == homes(plan, j)
        else:
            assert len(again.hot_rows(j)) == 0
    frame = pd.read_parquet(path / "shards.parquet")
    assert frame["shard"].tolist() == plan.shard_names


def test_a_table_cut_by_rows_keeps_its_hot_rows_also_where_every_shard_is_in_one_tier(tmp_path: Path) -> None:
    for seed in range(100):
        plan = cut_case(np.random.default_rng(seed), "row").plan
        whole = [
            j
            for j in range(len(SIZES))
            if len(plan.shards_of(j)) > 1 and not any(plan.is_split(s) for s in plan.shards_of(j))
        ]
        if whole:
            break
    assert whole
    save_plan(plan, tmp_path / "plan")
    assert homes(load_plan(tmp_path / "plan"), whole[0]) == homes(plan, whole[0])


DAMAGE = {
    "a shard lost": (lambda frame: frame.iloc[1:], "breaks a rule"),
    "a shard twice": (lambda frame: frame.iloc[[0, *range(len(frame))]], "breaks a rule"),
    "another order": (lambda frame: frame.iloc[::-1], "breaks a rule"),
    "columns that overlap": (lambda frame: frame.assign(first_column=0), "breaks a rule"),
    "parts that are none": (lambda frame: frame.assign(parts=7), "breaks a rule"),
    "no columns": (lambda frame: frame.assign(columns=0), "breaks a rule"),
    "an unknown table": (lambda frame: frame.assign(table="x"), "damaged"),
    "an unknown device": (lambda frame: frame.assign(device=99), "breaks a rule"),
    "a number missing": (
        lambda frame: frame.assign(part=frame["part"].where(frame["part"] != 0)),
        "whole numbers",
    ),
    "text for a number": (lambda frame: frame.assign(parts="1"), "whole numbers"),
    "a column missing": (lambda frame: frame.drop(columns="columns"), "damaged"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damaged_shards_are_refused_in_one_sentence(tmp_path: Path, what: str) -> None:
    rng = np.random.default_rng(0)
    plan = cut_case(rng, "both").plan
    while {entry["kind"] for entry in plan.tables_cut} != {"row", "column"}:
        plan = cut_case(rng, "both").plan
    save_plan(plan, tmp_path / "plan")
    path = tmp_path / "plan" / "shards.parquet"
    damage, said = DAMAGE[what]
    damage(pd.read_parquet(path)).to_parquet(path)
    with pytest.raises(InputError, match=rf"{said}.*make it again") as refused:
        load_plan(tmp_path / "plan")
    assert "\n" not in str(refused.value)
