"""Drift says how much moved, what luck explains of it, and refuses to compare what differs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from recshard.errors import InputError
from recshard.plan import make_plan
from recshard.profile import Profile
from recshard.profile.build import profile_trace
from recshard.profile.drift import drift, sampling_deviation
from recshard.replay import replay_plan, replay_profile
from recshard.tables import EmbeddingTable, TableSet
from recshard.topology import Group, Tier, Topology
from tests.traces import MemoryTrace

ROWS = 400
TABLES = TableSet((EmbeddingTable("t", ROWS, 16, features=("a",)),), 64)


def profile_of(ids: list[int]) -> Profile:
    return profile_trace(MemoryTrace({"a": [[i] for i in ids]}), TABLES)


@settings(max_examples=60, deadline=None)
@given(*[st.lists(st.integers(0, 20), min_size=1, max_size=60)] * 2)
def test_moved_is_the_total_variation_distance(old: list[int], new: list[int]) -> None:
    found = drift(profile_of(old), profile_of(new)).tables[0]
    share = [np.bincount(ids, minlength=21) / len(ids) for ids in (old, new)]
    assert found.moved == pytest.approx(np.abs(share[0] - share[1]).sum() / 2)
    assert found.new_rows == pytest.approx(sum(share[1][i] for i in range(21) if i not in old))


@given(st.integers(1, 300), st.integers(1, 300), st.data())
def test_the_deviation_is_that_of_drawing_without_replacement(old: int, new: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, old + new))
    values = np.arange(count + 1)
    mass = scipy_stats.hypergeom.pmf(values, old + new, count, old)
    expected = float(np.dot(mass, np.abs(values - count * old / (old + new))))
    found = sampling_deviation(np.array([count]), old, old + new)[0]
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_one_row_cannot_move_by_luck_and_a_table_out_of_use_has_moved_whole() -> None:
    assert drift(profile_of([3] * 50), profile_of([3] * 20)).by_luck == pytest.approx(0, abs=1e-9)
    trace = MemoryTrace({"a": [[], []]})
    unused = profile_trace(trace, TABLES)
    came, went = drift(unused, profile_of([1])).tables[0], drift(profile_of([1]), unused).tables[0]
    assert (came.moved, came.new_rows, went.moved, went.new_rows) == (1, 1, 1, 0)


def test_the_same_traffic_moves_by_luck_alone_and_other_traffic_by_more() -> None:
    rng = np.random.default_rng(0)
    weight = 1.0 / np.arange(1, ROWS + 1)
    weight /= weight.sum()
    old = profile_of(rng.choice(ROWS, 5_000, p=weight).tolist())
    same = drift(old, profile_of(rng.choice(ROWS, 3_000, p=weight).tolist()))
    assert same.moved == pytest.approx(same.by_luck, rel=0.1)
    other = drift(old, profile_of(rng.choice(ROWS, 3_000, p=weight[::-1]).tolist()))
    assert other.moved > 3 * other.by_luck
    assert other.tables[0].excess == other.tables[0].moved - other.tables[0].by_luck


def test_tables_that_differ_are_named() -> None:
    other = profile_trace(MemoryTrace({"a": [[1]]}), TableSet((EmbeddingTable("t", 9, features=("a",)),)))
    with pytest.raises(InputError, match=r"table 't': rows: found 9 in the new profile; accepted: 400"):
        drift(profile_of([1]), other)
    missing = profile_trace(MemoryTrace({"a": [[1]]}), TableSet((EmbeddingTable("u", 400, features=("a",)),)))
    with pytest.raises(InputError, match="table 't' is missing"):
        drift(profile_of([1]), missing)


def test_replaying_a_profile_is_replaying_its_trace() -> None:
    rng = np.random.default_rng(0)
    topology = Topology((Group(1, 2, (Tier("hbm", None, 1555e9, 0.2), Tier("uvm", None, 16e9, 4.0))),), name="x")
    plan = make_plan(profile_of((ROWS * rng.random(3_000) ** 3).astype(int).tolist()), topology)
    assert plan.is_split(0)
    ids = (ROWS * rng.random(2_000) ** 2).astype(int).tolist()
    found = replay_profile(plan, profile_of(ids))
    expected = replay_plan(plan, MemoryTrace({"a": [[i] for i in ids]}))
    assert (found.accesses == expected.accesses).all()
    assert found.samples == expected.samples
    with pytest.raises(InputError, match="not those of the plan"):
        replay_profile(plan, profile_trace(MemoryTrace({"a": [[1]]})))
