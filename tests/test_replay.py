"""Replays count every lookup once, in the tier where its row stands."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.errors import InputError
from recshard.plan import Plan, make_plan
from recshard.problem import Workload
from recshard.profile.build import profile_trace
from recshard.replay import replay_plan, replay_profile
from recshard.tables import EmbeddingTable, TableSet
from recshard.topology import Group, Tier, Topology
from recshard.trace.hashing import to_rows
from tests.plans import Kind, cut_case, homes, random_trace
from tests.traces import MemoryTrace

TOPOLOGY = Topology(
    (Group(1, 2, (Tier("hbm", None, 1e9, 0.2), Tier("cxl", None, 1e8, 0.3), Tier("uvm", 1e6, 1e7))),)
)


def planned(rng: np.random.Generator) -> tuple[Plan, MemoryTrace]:
    sizes = {"a": 40, "b": 25, "c": 60}
    tables = tuple(
        EmbeddingTable(name, size, 8, features=(name,), ids="hash" if name == "c" else "rows")
        for name, size in sizes.items()
    )

    def trace() -> MemoryTrace:
        draw = {
            name: [
                (rng.zipf(1.3, rng.integers(0, 5)) % (size if name != "c" else 10**9)).tolist() for _ in range(60)
            ]
            for name, size in sizes.items()
        }
        return MemoryTrace(draw)

    return make_plan(profile_trace(trace(), TableSet(tables, 32)), TOPOLOGY), trace()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_every_lookup_is_counted_in_the_tier_that_holds_its_row(seed: int) -> None:
    plan, trace = planned(np.random.default_rng(seed))
    replay = replay_plan(plan, trace)
    for j, table in enumerate(plan.tables.tables):
        hot = plan.hot_rows(j).tolist()
        order = hot + [row for row in range(table.rows) if row not in set(hot)]
        tier = dict(zip(order, np.repeat([0, 1, 2], plan.placement.rows[j]).tolist(), strict=True))
        ids = np.array([i for sample in trace.samples[table.name] for i in sample], dtype=np.int64)
        expected = [0, 0, 0]
        for row in to_rows(ids, table, table.name, "").tolist():
            expected[tier[row]] += 1
        assert replay.accesses[j].tolist() == expected
    summary = replay.summary()
    total = sum(count for device in summary["devices"] for count in device["accesses"].values())
    assert total == replay.lookups == sum(len(sample) for rows in trace.samples.values() for sample in rows)


def test_replaying_what_was_profiled_costs_what_was_planned() -> None:
    rng = np.random.default_rng(0)
    samples = {"a": [[int(i)] for i in np.repeat(np.arange(40), rng.integers(2, 30, 40))]}
    trace = MemoryTrace(samples)
    profile = profile_trace(trace, TableSet((EmbeddingTable("a", 40, 8, features=("a",)),), 32))
    plan = make_plan(profile, TOPOLOGY, workload=Workload(unseen=False))
    replay = replay_plan(plan, trace)
    assert replay.device_cost_ms == pytest.approx(plan.device_cost_ms)
    assert replay.slow_share == pytest.approx(plan.slow_share)


KINDS = st.sampled_from(["none", "column", "row", "both"])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), KINDS)
def test_every_lookup_of_a_cut_table_is_counted_in_each_shard_that_has_a_part_of_its_row(
    seed: int, kind: Kind
) -> None:
    rng = np.random.default_rng(seed)
    plan, other = cut_case(rng, kind).plan, random_trace(rng)
    replay = replay_plan(plan, other)
    expected, slow = np.zeros(plan.placement.rows.shape, dtype=np.int64), 0.0
    for j, table in enumerate(plan.tables.tables):
        ids = np.array([i for sample in other.samples[table.name] for i in sample], dtype=np.int64)
        rows = to_rows(ids, table, table.name, "").tolist()
        for s, home in zip(plan.shards_of(j), homes(plan, j), strict=True):
            for row in rows:
                if row in home:
                    expected[s, home[row][0]] += 1
                    slow += (home[row][0] > 0) * plan.shards.columns[s] / table.dim
    assert (replay.accesses == expected).all()
    assert replay.lookups == sum(len(sample) for rows in other.samples.values() for sample in rows)
    assert replay.slow_share == pytest.approx(slow / replay.lookups)
    counted = [list(device["accesses"].values()) for device in replay.summary()["devices"]]
    assert counted == [expected[plan.placement.device == d].sum(axis=0).tolist() for d in range(3)]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), KINDS, st.booleans())
def test_replaying_what_was_profiled_costs_what_was_planned_however_tables_are_cut(
    seed: int, kind: Kind, network: bool
) -> None:
    case = cut_case(np.random.default_rng(seed), kind, network=network)
    replay = replay_plan(case.plan, case.trace)
    assert replay.device_cost_ms == pytest.approx(case.plan.device_cost_ms, rel=1e-12)
    assert replay.slow_share == pytest.approx(case.plan.slow_share, rel=1e-12)
    counted = replay_profile(case.plan, case.profile)
    assert (counted.accesses == replay.accesses).all()
    assert counted.device_cost_ms == pytest.approx(case.plan.device_cost_ms, rel=1e-12)


def test_a_trace_of_another_model_is_refused_with_the_difference() -> None:
    plan, trace = planned(np.random.default_rng(1))
    missing = {name: rows for name, rows in trace.samples.items() if name != "b"}
    with pytest.raises(InputError, match=r"no feature 'b', which the plan's table 'b' serves"):
        replay_plan(plan, MemoryTrace(missing))
    extra = dict(trace.samples) | {"bb": trace.samples["b"]}
    with pytest.raises(InputError, match=r"no table for feature 'bb' \(did you mean 'b'\?\)"):
        replay_plan(plan, MemoryTrace(extra))
    outside = dict(trace.samples) | {"b": [[999]] * 60}
    with pytest.raises(InputError, match=r"'b'.*ID 999 .*25 rows.*hash"):
        replay_plan(plan, MemoryTrace(outside))
    with pytest.raises(InputError, match="empty"):
        replay_plan(plan, MemoryTrace({"a": [], "b": [], "c": []}))
