"""Counting is exact whatever the memory: dense or sparse, on one thread or two, in memory or on disk."""

from __future__ import annotations

from collections import Counter as PlainCounter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.errors import InputError
from recshard.profile import load_profile, profiler, save_profile, spill
from recshard.profile.build import profile_trace
from recshard.profile.counted import Dense, InMemory, count_of_counts, hashed, hottest_first, last_key
from recshard.profile.counter import Allowance, Counter
from recshard.profile.lengths import LengthCounter, Lengths
from recshard.profile.profiler import Profiler
from recshard.profile.sorting import rising_order
from recshard.profile.spill import SpillFolder, merge, merge_groups
from recshard.tables import EmbeddingTable, TableSet
from recshard.trace import load_recipe
from recshard.trace.base import Bag, Batch
from recshard.trace.hashing import to_rows
from recshard.trace.synthetic import SyntheticTrace

AMPLE = 1 << 40


def drawn(rng: np.random.Generator, distinct: int, top: int, lookups: int) -> np.ndarray:
    """IDs of which some are much more common than others."""
    ids = rng.integers(0, top, distinct, endpoint=True)
    return ids[(distinct * rng.random(lookups) ** 3).astype(np.int64)]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 20_000),
    st.sampled_from([100, 5_000, 10**6, 2**62]),
    st.sampled_from([40_000, 200_000, AMPLE]),
)
def test_a_counter_agrees_with_numpy_whatever_it_may_take(
    seed: int, distinct: int, top: int, allowed: int
) -> None:
    rng = np.random.default_rng(seed)
    ids = drawn(rng, distinct, top, 3 * distinct)
    allowance = Allowance(allowed)
    counter = Counter(None, allowance)
    folder = SpillFolder()
    for part in np.array_split(ids, 5):
        done = 0
        while done < len(part):
            done = counter.add(part, done)
            if done < len(part):
                counter.runs.append(folder.write(counter.empty()))
        assert allowance.taken == counter.bytes
        assert allowance.taken <= max(allowed, 30_000)
    counter.runs.append(folder.write(counter.empty()))
    chunks = list(merge_groups(counter.runs, folder))
    expected, counts = np.unique(ids, return_counts=True)
    assert np.concatenate([keys for keys, _ in chunks]).tolist() == expected.tolist()
    assert np.concatenate([found for _, found in chunks]).tolist() == counts.tolist()


def test_a_small_range_of_ids_is_counted_densely_and_a_wide_one_is_not() -> None:
    narrow, wide = Counter(None, Allowance(AMPLE)), Counter(None, Allowance(AMPLE))
    rng = np.random.default_rng(0)
    narrow.add(rng.integers(0, 5_000, 10_000))
    wide.add(rng.integers(0, 2**60, 10_000))
    assert narrow.is_dense
    assert not wide.is_dense
    # An ID far beyond the range makes dense counters sparse again, and nothing is lost.
    narrow.add(np.array([2**61, 3]))
    assert not narrow.is_dense
    found = narrow.result(last=False)
    assert isinstance(found, InMemory)
    ids, counts = found.ordered()
    assert counts.sum() == 10_002
    assert ids[-1] == 2**61


def test_a_declared_table_stops_at_an_id_outside() -> None:
    counter = Counter(10, Allowance(AMPLE))
    assert counter.add(np.array([1, 2, 10, 3])) == 2


def test_lanes_count_apart_and_are_added_up() -> None:
    counter = Counter(50_000, Allowance(AMPLE))
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 50_000, (2, 100_000))
    counter.add(first)
    assert counter.is_dense
    assert counter.add_lane()
    counter.add(second, lane=1)
    expected = np.unique(np.concatenate([first, second]), return_counts=True)
    for last in (False, True):
        chunks = list(counter.result(last=last).chunks())
        assert np.concatenate([rows for rows, _ in chunks]).tolist() == expected[0].tolist()
        assert np.concatenate([counts for _, counts in chunks]).tolist() == expected[1].tolist()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 40), max_size=30).map(sorted), min_size=1, max_size=9),
    st.integers(1, 7),
    st.integers(2, 4),
)
def test_merged_runs_are_the_sum_of_all_and_tell_how_often_a_key_stood(
    lists: list[list[int]], batch: int, most: int
) -> None:
    """Keys repeat inside a run, as rows of hashed IDs do, and across the batches of a run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spill, "BATCH", batch)
        patch.setattr(spill, "MOST_RUNS", most)
        folder = SpillFolder()
        runs = [folder.write([(np.array(k, dtype=np.int64), np.arange(len(k)) + 1)]) for k in lists]
        expected: PlainCounter[int] = PlainCounter()
        stood: PlainCounter[int] = PlainCounter()
        for keys in lists:
            for position, key in enumerate(keys):
                expected[key] += position + 1
                stood[key] += 1
        found = [(k, c, n) for chunk in merge(runs) for k, c, n in zip(*(a.tolist() for a in chunk), strict=True)]
        assert found == [(key, expected[key], stood[key]) for key in sorted(expected)]
        grouped = [(k, c) for chunk in merge_groups(runs, folder) for k, c in zip(*map(list, chunk), strict=True)]
        assert grouped == [(key, expected[key]) for key in sorted(expected)]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3_000), st.integers(1, 2_000), st.booleans(), st.booleans())
def test_hashed_ids_add_up_by_row_in_memory_and_on_disk(
    seed: int, distinct: int, rows: int, in_memory: bool, kept: bool
) -> None:
    rng = np.random.default_rng(seed)
    keys = np.unique(rng.integers(0, 2**50, distinct))
    counts = rng.integers(1, 100, len(keys))
    table = EmbeddingTable("t", rows, features=("t",), ids="hash")
    folder = SpillFolder()
    found = hashed(
        InMemory(keys, counts),
        rows,
        lambda ids: to_rows(ids, table, "t", ""),
        lambda: folder,
        9 * rows if in_memory else 80 * 100,
        lambda _: kept,
    )
    if not in_memory and 9 * rows > 8_000:
        assert not isinstance(found.rows, InMemory)
    row = to_rows(keys, table, "t", "")
    total = np.bincount(row, weights=counts, minlength=rows).astype(np.int64)
    owners = np.bincount(row, minlength=rows)
    chunks = list(found.rows.chunks())
    assert np.concatenate([r for r, _ in chunks]).tolist() == np.flatnonzero(total).tolist()
    assert np.concatenate([c for _, c in chunks]).tolist() == total[total > 0].tolist()
    assert found.collided_ids == owners[owners > 1].sum()
    assert found.collided_accesses == total[owners > 1].sum()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 100_000) | st.integers(1, 5), min_size=1, max_size=200), st.integers(1, 300))
def test_rows_come_hottest_first_however_few_may_be_held(counts: list[int], pairs: int) -> None:
    rows = np.arange(len(counts)) * 3
    counted = InMemory(rows, np.array(counts))
    classes = count_of_counts(counted)
    counters = np.zeros(3 * len(counts), dtype=np.uint32)
    counters[rows] = counts
    dense = Dense(counters)
    assert [c.tolist() for c in count_of_counts(dense)] == [c.tolist() for c in classes]
    assert last_key(dense) == last_key(counted) == rows[-1]
    assert dense.pairs == len(counts)
    assert dict(zip(*(c.tolist() for c in classes), strict=True)) == PlainCounter(counts)
    chunks = list(hottest_first(counted, *classes, pairs))
    found = [(r, c) for chunk in chunks for r, c in zip(*(a.tolist() for a in chunk), strict=True)]
    assert found == sorted(zip(rows.tolist(), counts, strict=True), key=lambda pair: (-pair[1], pair[0]))


@given(st.lists(st.integers(0, 5) | st.integers(0, 2**63 - 1), max_size=60))
def test_the_rising_order_is_that_of_a_stable_sort(numbers: list[int]) -> None:
    expected = sorted(range(len(numbers)), key=numbers.__getitem__)
    assert rising_order(np.array(numbers, dtype=np.int64)).tolist() == expected


@given(st.lists(st.integers(0, 8) | st.integers(4_090, 10_000), max_size=50), st.floats(0.01, 1))
def test_lengths_are_an_exact_distribution(lengths: list[int], share: float) -> None:
    counter = LengthCounter()
    for part in np.array_split(np.array(lengths, dtype=np.int64), 3):
        counter.add(part)
    found = counter.result()
    assert found.all_samples == len(lengths)
    assert found.lookups == sum(lengths)
    some = sorted(n for n in lengths if n)
    assert found.present == len(some)
    if some:
        percentile = found.percentile(share)
        assert percentile in some
        assert sum(n <= percentile for n in some) >= share * len(some) - 1e-9
        assert sum(n < percentile for n in some) < share * len(some) + 1e-9
    assert found.plus(found) == Lengths(found.length, 2 * found.samples)


def demo(samples: int) -> SyntheticTrace:
    recipe = load_recipe("demo")
    assert isinstance(recipe, SyntheticTrace)
    return SyntheticTrace(recipe.name, samples, recipe.seed, recipe.parts, recipe.batch_size)


@pytest.mark.parametrize("declared", [True, False])
def test_a_profile_is_the_same_bytes_however_little_memory_and_however_many_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, declared: bool
) -> None:
    trace = demo(20_000)
    tables = trace.tables if declared else TableSet(())
    assert profile_trace(trace, tables).tables.tables[0].dim == (16 if declared else 64)
    save_profile(profile_trace(trace, tables, threads=1), tmp_path / "ample")
    monkeypatch.setattr(profiler, "LEAST_MEMORY", 1)
    spilled = profile_trace(trace, tables, memory=4 << 20, threads=2)
    save_profile(spilled, tmp_path / "scant")
    for name in ("profile.json", "classes.parquet", "rows.parquet", "lengths.parquet"):
        assert (tmp_path / "ample" / name).read_bytes() == (tmp_path / "scant" / name).read_bytes(), name
    again = load_profile(tmp_path / "scant")
    for j in range(len(again.tables)):
        assert all((a == b).all() for a, b in zip(again.hot_rows(j), spilled.hot_rows(j), strict=True))


def test_a_little_memory_does_go_to_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "LEAST_MEMORY", 1)
    counting = Profiler(memory=1 << 20)
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2**40, 200_000)
    counting.update(Batch(1, {"a": Bag(values, np.array([len(values)]))}))
    assert len(counting.partial().counts[0]) > 1


def test_a_profiler_counts_on_after_it_was_asked() -> None:
    counting = Profiler(threads=1)
    batch = Batch(2, {"a": Bag(np.array([1, 1, 5]), np.array([2, 1]))})
    counting.update(batch)
    once = counting.profile()
    counting.update(batch)
    twice = counting.profile()
    assert once.hot_rows(0)[1].tolist() == [2, 1]
    assert twice.hot_rows(0)[1].tolist() == [4, 2]
    assert (once.samples, twice.samples) == (2, 4)


def test_features_that_change_between_batches_are_refused() -> None:
    counting = Profiler(name="loader")
    counting.update(Batch(1, {"a": Bag(np.array([1]), np.array([1]))}))
    with pytest.raises(InputError, match=r"loader: after 1 samples: found features b; accepted: .*: a"):
        counting.update(Batch(1, {"b": Bag(np.array([1]), np.array([1]))}))


def test_too_little_memory_is_refused() -> None:
    with pytest.raises(InputError, match=r"memory: found 0.000977 GiB; accepted: 0.125 GiB or more"):
        Profiler(memory=2**20)


def test_icdf_takes_shares_as_they_are_written() -> None:
    counting = Profiler(threads=1)
    counting.update(Batch(1, {"a": Bag(np.arange(100), np.array([100]))}))
    profile = counting.profile()
    assert [profile.rows_for(0, k / 100) for k in range(101)] == list(range(101))


def test_top_rows_are_as_many_as_asked_for_in_whatever_pieces_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "LEAST_MEMORY", 1)
    counting = Profiler(memory=1 << 18)
    ids = np.repeat(np.arange(3_000), 1 + np.arange(3_000) % 7)
    counting.update(Batch(1, {"a": Bag(ids, np.array([len(ids)]))}))
    rows, counts = counting.profile().top_rows(0, 1_000)
    assert len(rows) == 1_000
    assert counts.tolist() == sorted(1 + np.arange(3_000) % 7, reverse=True)[:1_000]


@pytest.mark.parametrize("outlier", [200_000, 2**61])
def test_no_lookup_is_lost_where_features_share_a_table_and_its_range_grows(outlier: int) -> None:
    table = TableSet((EmbeddingTable("t", 0, features=("a", "b"), ids=None),))
    rng = np.random.default_rng(0)
    for _ in range(10):
        counting = Profiler(table, threads=2)
        first, second = rng.integers(0, 60_000, (2, 1_000_000))
        few = np.append(rng.integers(0, 60_000, 200), outlier)
        for a, b in ((first, few[:1]), (second, few)):
            counting.update(Batch(1, {"b": Bag(b, np.array([len(b)])), "a": Bag(a, np.array([len(a)]))}))
        assert counting.profile().lookups == 2_000_000 + 202


def test_a_dominant_table_is_counted_by_two_threads_at_once() -> None:
    counting = Profiler(TableSet((EmbeddingTable("t", 60_000, features=("a",)),)), threads=2)
    ids = np.random.default_rng(0).integers(0, 60_000, 1_000_000)
    for _ in range(2):
        counting.update(Batch(1, {"a": Bag(ids, np.array([len(ids)]))}))
    (counter,) = counting._counters
    assert counter.lanes == 2
    rows, counts = counting.finish().hot_rows(0)
    assert (counts == 2 * np.bincount(ids)[rows]).all()


def test_many_tables_in_little_memory_end_or_are_refused() -> None:
    bags = {f"t{k}": Bag(np.arange(800) * 10**9, np.array([800])) for k in range(2_300)}
    counting = Profiler(memory=1 << 27, threads=1)
    counting.update(Batch(1, bags))
    assert counting.profile().lookups == 2_300 * 800
    more = bags | {f"u{k}": bags["t0"] for k in range(400)}
    with pytest.raises(InputError, match=r"memory: found 0.125 GiB; accepted: .* for 2700 tables"):
        Profiler(memory=1 << 27).update(Batch(1, more))


def test_after_a_refused_batch_or_the_end_nothing_more_is_counted() -> None:
    tables = TableSet((EmbeddingTable("x", 10, features=("x",)), EmbeddingTable("y", 10, features=("y",))))
    counting = Profiler(tables)
    one = np.array([1])
    with pytest.raises(InputError, match="outside its 10 rows"):
        counting.update(Batch(1, {"x": Bag(one, one), "y": Bag(np.array([99]), one)}))
    for refused in (counting.profile, lambda: counting.update(Batch(1, {"x": Bag(one, one), "y": Bag(one, one)}))):
        with pytest.raises(InputError, match="a batch was refused"):
            refused()
    done = Profiler(tables)
    done.update(Batch(1, {"x": Bag(one, one), "y": Bag(one, one)}))
    assert done.finish().lookups == 2
    for refused in (done.profile, done.finish):
        with pytest.raises(InputError, match="was finished"):
            refused()


@pytest.mark.parametrize("lookups", [1_000, 300_000])
def test_an_id_outside_its_table_is_found_by_every_way_of_counting(lookups: int) -> None:
    ids = np.random.default_rng(0).integers(0, 90_000, lookups)
    ids[lookups // 2] = 90_000
    counting = Profiler(TableSet((EmbeddingTable("t", 90_000, features=("a",)),)), threads=2)
    with pytest.raises(InputError, match="ID 90000 is outside its 90000 rows"):
        counting.update(Batch(1, {"a": Bag(ids, np.array([lookups]))}))


def test_table_lengths_are_over_all_features_of_a_table() -> None:
    counting = Profiler(TableSet((EmbeddingTable("t", 9, features=("a", "b")),)))
    bags = {"a": Bag(np.array([1, 2]), np.array([2, 0, 0])), "b": Bag(np.array([3, 3]), np.array([1, 1, 0]))}
    counting.update(Batch(3, bags))
    lengths = counting.profile().stats[0].lengths
    assert (lengths.length.tolist(), lengths.samples.tolist()) == ([0, 1, 3], [1, 1, 1])


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.floats(0, 1))
def test_icdf_is_the_fewest_rows_that_cover_a_share(counts: list[int], share: float) -> None:
    ids = np.repeat(np.arange(len(counts)), counts)
    counting = Profiler(threads=1)
    counting.update(Batch(1, {"a": Bag(ids, np.array([len(ids)]))}))
    profile = counting.profile()
    falling = sorted(counts, reverse=True)
    expected = next(k for k in range(len(falling) + 1) if sum(falling[:k]) >= share * sum(falling))
    assert profile.rows_for(0, share) == expected
    assert profile.top_rows(0, 3)[1].tolist() == falling[:3]
