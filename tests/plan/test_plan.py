"""Plans fit, are stored whole, and say plainly why a model does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from recshard.errors import DoesNotFit, InputError
from recshard.placement import check_placement
from recshard.plan import compare_strategies, load_plan, make_plan, save_plan
from recshard.problem import Workload, build_problem
from recshard.profile import Profile
from recshard.profile.build import profile_trace
from recshard.strategy.run import STRATEGIES, StrategyOptions
from recshard.tables import EmbeddingTable, TableSet
from recshard.topology import Group, Tier, Topology
from tests.traces import MemoryTrace

QUICK = StrategyOptions(time_limit=5)


def small_profile(seed: int = 0) -> Profile:
    rng = np.random.default_rng(seed)
    sizes = {"user": 500, "item": 300, "word": 80, "day": 7}
    samples = {
        name: [(rng.zipf(1.5, rng.integers(0, 4)) % size).tolist() for _ in range(400)]
        for name, size in sizes.items()
    }
    tables = tuple(EmbeddingTable(name, size, 16, features=(name,)) for name, size in sizes.items())
    return profile_trace(MemoryTrace(samples), TableSet(tables, 64))


def topology(devices: int = 3, fast: float | None = None, slow: float = 1e6, **slowest: str) -> Topology:
    hbm = Tier("hbm", fast, 1e9, None if fast is not None else 0.2)
    return Topology((Group(1, devices, (hbm, Tier("uvm", slow, 1e7, **slowest))),))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_gives_a_valid_plan_with_a_proven_bound(strategy: str) -> None:
    plan = make_plan(small_profile(), topology(), strategy, options=QUICK)
    check_placement(plan.problem, plan.placement)
    assert 0 < plan.lower_bound_ms <= plan.bottleneck_ms
    assert plan.gap == pytest.approx(plan.bottleneck_ms / plan.lower_bound_ms - 1)
    assert (plan.status == "optimal") == (plan.gap <= 1e-4)


def test_a_share_of_the_model_is_divided_over_devices_or_nodes() -> None:
    profile = small_profile()
    problem = build_problem(profile, topology(devices=4))
    assert problem.pool_capacity[problem.pool[:, 0]].sum() == pytest.approx(0.2 * profile.tables.model_bytes)
    shared = Topology((Group(2, 2, (Tier("hbm", None, 1e9, 0.2), Tier("uvm", None, 1e7, 1.5, "node"))),))
    problem = build_problem(profile, shared)
    assert problem.pool[:, 1].tolist()[0] == problem.pool[1, 1] != problem.pool[2, 1]
    assert problem.pool_capacity[problem.pool[0, 1]] == pytest.approx(1.5 * profile.tables.model_bytes / 2)


def test_a_tier_that_a_device_lacks_holds_nothing_there() -> None:
    big = Group(1, 1, (Tier("hbm", 1e4, 1e9), Tier("uvm", 1e6, 1e7)))
    slow = Group(1, 1, (Tier("uvm", 1e6, 1e7),))
    plan = make_plan(small_profile(), Topology((big, slow)), "milp", options=QUICK)
    assert plan.tier_names == ("hbm", "uvm")
    assert plan.devices[1]["tiers"]["hbm"]["rows"] == 0
    assert plan.placement.rows[plan.placement.device == 0, 0].sum() > 0


def test_the_workload_scales_costs_and_the_network_adds_to_them() -> None:
    profile = small_profile()
    plain = make_plan(profile, topology())
    tripled = make_plan(profile, topology(), workload=Workload(traffic_multiplier=3.0))
    assert tripled.bottleneck_ms == pytest.approx(3 * plain.bottleneck_ms)
    doubled = make_plan(profile, topology(), workload=Workload(batch_size=128))
    assert doubled.bottleneck_ms == pytest.approx(2 * plain.bottleneck_ms)
    wired = Topology(topology().groups, network_bandwidth=1e9)
    training = build_problem(profile, wired)
    inference = build_problem(profile, wired, Workload(training=False))
    # Two thirds of a batch's pooled outputs belong to the other two devices; gradients come back the same way.
    assert inference.network_bytes == pytest.approx(64 * 16 * 4 * np.ones(4) * 2 / 3)
    assert training.network_bytes == pytest.approx(2 * inference.network_bytes)
    assert make_plan(profile, wired).bottleneck_ms > plain.bottleneck_ms


def test_without_the_estimate_unseen_rows_are_promised_to_stay_cold() -> None:
    rng = np.random.default_rng(3)
    samples = {"a": [[int(i)] for i in rng.zipf(1.2, 2000) % 100_000]}
    profile = profile_trace(MemoryTrace(samples), TableSet((EmbeddingTable("a", 100_000, features=("a",)),)))
    raw = make_plan(profile, topology(slow=1e9), workload=Workload(unseen=False))
    corrected = make_plan(profile, topology(slow=1e9), workload=Workload(unseen=True))
    assert corrected.slow_share > raw.slow_share


def test_a_model_that_does_not_fit_says_which_memory_is_short_and_by_how_much() -> None:
    profile = small_profile()
    model = profile.tables.model_bytes
    with pytest.raises(
        DoesNotFit, match=r"all memories \(hbm \+ uvm, 1 device\) hold .* short by 100 B; .* 'user'"
    ):
        make_plan(profile, topology(devices=1, fast=0.0, slow=model - 100.0))
    with pytest.raises(DoesNotFit, match=r"table 'user' alone needs 34\.0 KB.*short by 14\.0 KB"):
        make_plan(profile, topology(devices=9, fast=5e3, slow=15e3))


def test_tables_that_cannot_stand_together_are_named_with_what_would_help() -> None:
    profile = small_profile()  # user takes 34.0 KB and item 20.4 KB, so the two devices have 54.4 KB for 60.3 KB
    with pytest.raises(DoesNotFit, match=r"topology 'topology': .*'uvm'") as caught:
        make_plan(profile, topology(devices=2, fast=0.0, slow=26e3))
    found = caught.value.explanation
    assert found is not None
    more = found.remedies[0].bytes
    assert make_plan(profile, topology(devices=2, fast=0.0, slow=26e3 + more)).bottleneck_ms > 0
    with pytest.raises(DoesNotFit):
        make_plan(profile, topology(devices=2, fast=0.0, slow=26e3 + more - 1))


def test_a_baseline_that_cannot_keep_tables_whole_names_the_table() -> None:
    with pytest.raises(DoesNotFit, match=r"'size' baseline keeps tables whole, and table 'user' needs 34\.0 KB"):
        make_plan(small_profile(), topology(fast=20e3, slow=20e3), "size")


def test_options_out_of_range_are_refused() -> None:
    profile = small_profile()
    with pytest.raises(InputError, match=r"time limit: found 0.*above zero"):
        make_plan(profile, topology(), options=StrategyOptions(time_limit=0))
    with pytest.raises(InputError, match=r"strategy: found 'serach' \(did you mean 'search'\?\)"):
        make_plan(profile, topology(), "serach")
    with pytest.raises(
        InputError, match=r"solver: found 'hihgs' \(did you mean 'highs'\?\); present here: .*highs"
    ):
        make_plan(profile, topology(), "milp", options=StrategyOptions(solver="hihgs"))
    with pytest.raises(InputError, match=r"batch size: found 0"):
        make_plan(profile, topology(), workload=Workload(batch_size=0))


def test_comparing_goes_on_where_one_strategy_finds_nothing() -> None:
    outcomes = dict(compare_strategies(small_profile(), topology(fast=20e3, slow=20e3), ["size", "search"]))
    assert isinstance(outcomes["size"], DoesNotFit)
    assert outcomes["search"].bottleneck_ms > 0


def test_cbc_agrees_with_highs() -> None:
    profile = small_profile()
    highs = make_plan(profile, topology(), "milp", options=QUICK)
    cbc = make_plan(profile, topology(), "milp", options=StrategyOptions(time_limit=20, solver="cbc"))
    assert cbc.bottleneck_ms == pytest.approx(highs.bottleneck_ms, rel=1e-3)


def test_a_plan_reads_back_as_it_was_written(tmp_path: Path) -> None:
    plan = make_plan(small_profile(), topology(shared="node"), "search", options=QUICK)
    save_plan(plan, tmp_path / "plan")
    again = load_plan(tmp_path / "plan")
    assert again.summary() == plan.summary()
    assert again.tables == plan.tables
    assert (again.placement.rows == plan.placement.rows).all()
    for field in ("class_rows", "class_share", "class_start", "pool", "bandwidth", "accesses"):
        assert (getattr(again.problem, field) == getattr(plan.problem, field)).all()
    for j in range(4):
        if plan.is_split(j):
            assert (again.hot_rows(j) == plan.hot_rows(j)).all()
    assert again.placement.shards is None
    tables = pd.read_parquet(tmp_path / "plan" / "tables.parquet")
    shards = pd.read_parquet(tmp_path / "plan" / "shards.parquet")
    assert shards[["rows_hbm", "rows_uvm"]].sum(axis=1).tolist() == tables["rows"].tolist()


@pytest.mark.parametrize(
    "victim", ["plan.json", "tables.parquet", "shards.parquet", "classes.parquet", "hot_rows.parquet"]
)
def test_a_damaged_plan_is_refused_by_name(tmp_path: Path, victim: str) -> None:
    save_plan(make_plan(small_profile(), topology()), tmp_path / "plan")
    path = tmp_path / "plan" / victim
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match=r"make (it|the plan) again"):
        load_plan(tmp_path / "plan")


def test_a_plan_that_lost_hot_rows_is_refused(tmp_path: Path) -> None:
    save_plan(make_plan(small_profile(), topology()), tmp_path / "plan")
    path = tmp_path / "plan" / "hot_rows.parquet"
    rows = pd.read_parquet(path)
    rows.head(20).to_parquet(path)
    with pytest.raises(InputError, match="lacks rows"):
        load_plan(tmp_path / "plan")
    rows.assign(row=0).to_parquet(path)
    split = next(j for j in range(4) if make_plan(small_profile(), topology()).is_split(j))
    with pytest.raises(InputError, match="distinct"):
        load_plan(tmp_path / "plan").hot_rows(split)


def test_a_plan_that_was_tampered_with_is_refused(tmp_path: Path) -> None:
    save_plan(make_plan(small_profile(), topology()), tmp_path / "plan")
    frame = pd.read_parquet(tmp_path / "plan" / "shards.parquet")
    frame.loc[0, "rows_hbm"] += 1
    frame.to_parquet(tmp_path / "plan" / "shards.parquet")
    with pytest.raises(InputError, match="breaks a rule"):
        load_plan(tmp_path / "plan")


def test_another_format_version_is_refused(tmp_path: Path) -> None:
    save_plan(make_plan(small_profile(), topology()), tmp_path / "plan")
    path = tmp_path / "plan" / "plan.json"
    for version in (1, 99):
        document = json.loads(path.read_text()) | {"format_version": version}
        path.write_text(json.dumps(document))
        with pytest.raises(InputError, match=rf"format_version {version}; accepted: 2; make the plan again"):
            load_plan(tmp_path / "plan")


def test_the_same_seed_gives_the_same_plan() -> None:
    profile = small_profile()
    options = StrategyOptions(time_limit=30, seed=5)
    first = make_plan(profile, topology(), "search", options=options)
    second = make_plan(profile, topology(), "search", options=options)
    assert (first.placement.device == second.placement.device).all()
    assert (first.placement.rows == second.placement.rows).all()
