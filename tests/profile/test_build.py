"""Profiles count every lookup exactly, infer what is left out, and say what cannot be."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.errors import InputError
from recshard.profile import load_profile, save_profile
from recshard.profile.build import profile_trace
from recshard.profile.profile import expected_reached
from recshard.tables import EmbeddingTable, TableSet, load_tables
from recshard.trace.hashing import to_rows
from tests.traces import MemoryTrace

bags = st.lists(st.lists(st.integers(0, 30), max_size=4), min_size=1, max_size=40)


@settings(max_examples=100, deadline=None)
@given(bags, st.sampled_from(["rows", "mod", "hash"]))
def test_every_row_is_counted_as_plain_python_counts_it(samples: list[list[int]], ids: str) -> None:
    rows = 31 if ids == "rows" else 11
    table = EmbeddingTable("t", rows, features=("a", "b"), ids=ids)
    trace = MemoryTrace({"a": samples, "b": samples[::-1]})
    profile = profile_trace(trace, TableSet((table,)))
    expected: Counter[int] = Counter()
    for sample in samples:
        expected.update(to_rows(np.array(sample, dtype=np.int64), table, "a", "").tolist())
    expected = Counter({row: 2 * count for row, count in expected.items()})  # both features look the same IDs up
    found_rows, found_counts = profile.hot_rows(0)
    assert dict(zip(found_rows.tolist(), found_counts.tolist(), strict=True)) == expected
    assert found_rows.tolist() == sorted(expected, key=lambda row: (-expected[row], row))
    stats = profile.stats[0]
    of_counts = Counter(expected.values())
    assert dict(zip(stats.class_count.tolist(), stats.class_rows.tolist(), strict=True)) == of_counts
    assert (np.diff(stats.class_count) < 0).all()
    assert stats.lookups == sum(expected.values()) == profile.lookups
    assert profile.occupancy(0) == len(expected) / rows


@settings(max_examples=60, deadline=None)
@given(bags)
def test_pooling_factor_and_coverage_are_means_over_samples(samples: list[list[int]]) -> None:
    profile = profile_trace(MemoryTrace({"a": samples}))
    present = [len(sample) for sample in samples if sample]
    feature = profile.features[0]
    assert feature.coverage == len(present) / len(samples)
    assert feature.pooling_factor == pytest.approx(np.mean(present) if present else 0.0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2**62), max_size=300), st.integers(1, 50))
def test_collisions_are_counted_over_ids_and_over_accesses(ids: list[int], rows: int) -> None:
    table = EmbeddingTable("t", rows, features=("a",), ids="hash")
    profile = profile_trace(MemoryTrace({"a": [ids]}), TableSet((table,)))
    homes: dict[int, set[int]] = {}
    home = dict(zip(ids, to_rows(np.array(ids, dtype=np.int64), table, "a", "").tolist(), strict=True))
    for raw, row in home.items():
        homes.setdefault(row, set()).add(raw)
    shared = {row for row, owners in homes.items() if len(owners) > 1}
    hashing = profile.stats[0].hashing
    assert hashing is not None
    assert hashing.distinct_ids == len(home)
    assert hashing.collided_ids == sum(len(homes[row]) for row in shared)
    assert hashing.collided_accesses == sum(home[raw] in shared for raw in ids)


def test_hashed_ids_reach_as_many_rows_as_the_formula_expects() -> None:
    rows, ids = 20_000, 15_000
    table = EmbeddingTable("t", rows, features=("a",), ids="hash")
    raw = (np.arange(ids) * 7 + 3).tolist()
    reached = profile_trace(MemoryTrace({"a": [raw]}), TableSet((table,))).stats[0].seen_rows
    expected = expected_reached(ids, rows)
    assert expected == pytest.approx(rows * (1 - (1 - 1 / rows) ** ids))
    assert abs(reached - expected) < 5 * np.sqrt(expected)


def test_ids_that_fill_a_quarter_of_their_range_are_rows_and_others_are_hashed() -> None:
    trace = MemoryTrace({"dense": [[0], [3], [7], [7]], "sparse": [[10], [20], [3000], [10]]})
    dense, sparse = profile_trace(trace).tables.tables
    assert (dense.rows, dense.ids, dense.dim, dense.dtype, dense.optimizer) == (
        8,
        "rows",
        64,
        "float32",
        "rowwise_adagrad",
    )
    assert (sparse.rows, sparse.ids) == (6, "hash")


def test_inferred_tables_are_written_beside_the_profile_and_read_back(tmp_path: Path) -> None:
    trace = MemoryTrace({"a": [[0, 1], [2]], "b": [[5000], []]})
    profile = profile_trace(trace, TableSet((EmbeddingTable("a", 10, dim=8, features=("a",)),), 128))
    save_profile(profile, tmp_path / "p")
    assert load_tables(tmp_path / "p.tables.toml") == profile.tables
    again = load_profile(tmp_path / "p")
    assert again.tables == profile.tables
    assert again.features == profile.features
    for j in range(2):
        assert (again.hot_rows(j)[0] == profile.hot_rows(j)[0]).all()
        assert (again.stats[j].class_count == profile.stats[j].class_count).all()
    classes = pd.read_parquet(tmp_path / "p" / "classes.parquet")
    assert (classes["count"] * classes["rows"]).sum() == profile.lookups
    assert pd.read_parquet(tmp_path / "p" / "rows.parquet")["count"].sum() == profile.lookups


def test_an_id_outside_its_table_names_table_feature_id_and_rows_and_offers_hash_or_mod() -> None:
    table = EmbeddingTable("films", 10, features=("seen",))
    with pytest.raises(InputError) as caught:
        profile_trace(MemoryTrace({"seen": [[3], [12]]}, name="log.csv"), TableSet((table,)))
    for word in ("log.csv", "'films'", "'seen'", "12", "10 rows", "hash", "mod"):
        assert word in str(caught.value)


def test_a_declared_feature_that_the_trace_lacks_is_named_with_the_nearest() -> None:
    table = EmbeddingTable("item", 10, features=("itme",))
    with pytest.raises(InputError, match=r"no feature 'itme'.*did you mean 'item'"):
        profile_trace(MemoryTrace({"item": [[3]]}), TableSet((table,)))


def test_an_empty_trace_is_refused() -> None:
    with pytest.raises(InputError, match="empty"):
        profile_trace(MemoryTrace({"item": []}))


@pytest.mark.parametrize("victim", ["profile.json", "classes.parquet", "rows.parquet"])
def test_a_damaged_profile_is_refused_by_name(tmp_path: Path, victim: str) -> None:
    save_profile(profile_trace(MemoryTrace({"a": [[0, 1, 1], [2]]})), tmp_path / "p")
    path = tmp_path / "p" / victim
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match=r"make (it|the profile) again"):
        load_profile(tmp_path / "p")


def test_counts_that_do_not_add_up_are_refused(tmp_path: Path) -> None:
    save_profile(profile_trace(MemoryTrace({"a": [[0, 1, 1], [2]]})), tmp_path / "p")
    classes = pd.read_parquet(tmp_path / "p" / "classes.parquet")
    classes.loc[0, "count"] += 1
    classes.to_parquet(tmp_path / "p" / "classes.parquet")
    with pytest.raises(InputError, match=r"'a' do not add up"):
        load_profile(tmp_path / "p")


def test_something_else_at_the_output_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="left as it is"):
        save_profile(profile_trace(MemoryTrace({"a": [[0]]})), tmp_path / "p")
    assert (tmp_path / "p" / "thesis.tex").read_text() == "years of work"
