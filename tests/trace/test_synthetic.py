"""Synthetic traces: the same however they are read, and as skewed, pooled and covered as their recipe says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recshard import content
from recshard.trace import Trace, declared_tables, load_recipe, open_trace, write_parquet
from recshard.trace.synthetic import CHUNK, SyntheticTrace
from tests.trace.samples import samples_of


def made(tmp_path: Path, text: str) -> SyntheticTrace:
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    trace = load_recipe(path)
    assert isinstance(trace, SyntheticTrace)
    return trace


def one_table(tmp_path: Path, samples: int = 100_000, **keys: object) -> SyntheticTrace:
    lines = "\n".join(f"{key} = {value}" for key, value in {"rows": 1000, **keys}.items())
    return made(tmp_path, f'samples = {samples}\n[[tables]]\nname = "item"\n{lines}\n')


def values_of(trace: Trace, feature: str = "item") -> np.ndarray:
    return np.concatenate([batch.bags[feature].values for batch in trace.batches()])


def lengths_of(trace: Trace, feature: str = "item") -> np.ndarray:
    return np.concatenate([batch.bags[feature].lengths for batch in trace.batches()])


@pytest.mark.parametrize("batch_size", [1000, CHUNK - 1, CHUNK, 10**6])
def test_a_trace_is_the_same_whatever_batches_it_is_read_in(tmp_path: Path, batch_size: int) -> None:
    trace = one_table(tmp_path, 2 * CHUNK + 5, pooling_factor=2.5, coverage=0.5)
    assert samples_of(trace, batch_size) == samples_of(trace)
    assert len(lengths_of(trace)) == 2 * CHUNK + 5


def test_the_seed_decides_everything(tmp_path: Path) -> None:
    text = 'samples = 500\nseed = {}\n[[families]]\nname = "f"\ncount = 3\nrows = [10, 1000]\n'
    first, again, other = (made(tmp_path, text.format(seed)) for seed in (1, 1, 2))
    assert first == again
    assert samples_of(first) == samples_of(again) != samples_of(other)


def test_chunks_and_tables_share_no_random_numbers(tmp_path: Path) -> None:
    trace = made(
        tmp_path,
        f'samples = {2 * CHUNK}\n[[tables]]\nname = "a"\nrows = 1000\n[[tables]]\nname = "b"\nrows = 1000\n',
    )
    a, b = values_of(trace, "a"), values_of(trace, "b")
    for one, two in ((a[:CHUNK], a[CHUNK:]), (a[:CHUNK], b[:CHUNK])):
        assert (one == two).mean() < 0.1


@pytest.mark.parametrize("coverage", [0.0, 0.2, 1.0])
def test_a_feature_is_present_in_the_share_of_samples_that_its_coverage_says(
    tmp_path: Path, coverage: float
) -> None:
    present = (lengths_of(one_table(tmp_path, coverage=coverage, pooling_factor=3)) > 0).mean()
    assert present == pytest.approx(coverage, abs=5 * np.sqrt(coverage * (1 - coverage) / 100_000))


@pytest.mark.parametrize("pooling_factor", [1.0, 1.5, 20.0])
def test_pooling_factors_are_means_over_present_samples_and_at_least_one(
    tmp_path: Path, pooling_factor: float
) -> None:
    lengths = lengths_of(one_table(tmp_path, pooling_factor=pooling_factor, coverage=0.5))
    present = lengths[lengths > 0]
    assert present.mean() == pytest.approx(pooling_factor, abs=5 * np.sqrt((pooling_factor - 1) / len(present)))
    assert present.min() == 1 or pooling_factor > 5


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0, 1.2, 2.0])
def test_the_hottest_rows_take_the_share_of_a_bounded_power_law(tmp_path: Path, exponent: float) -> None:
    rows, samples = 1000, 200_000
    counts = np.bincount(values_of(one_table(tmp_path, samples, exponent=exponent)), minlength=rows)
    assert len(counts) == rows
    # The power law's density, integrated numerically over every rank.
    grid = np.linspace(1, rows + 1, 2_000 * rows + 1)
    density = grid**-exponent
    mass = ((density[1:] + density[:-1]) / 2).reshape(rows, -1).sum(axis=1)
    share = mass / mass.sum()
    falling = np.sort(counts)[::-1] / samples
    for hottest in (1, 10, 100, 500):
        expected = share[:hottest].sum()
        # Sorting by count favours lucky rows by up to a few deviations of a single row's count.
        luck = 4 * np.sqrt(hottest * expected / samples) if exponent else 4 * hottest / np.sqrt(rows * samples)
        assert falling[:hottest].sum() == pytest.approx(expected, abs=5 * np.sqrt(expected / samples) + luck)


def test_hot_rows_are_scattered_over_the_table(tmp_path: Path) -> None:
    counts = np.bincount(values_of(one_table(tmp_path, exponent=1.2)), minlength=1000)
    hottest = np.sort(np.argsort(-counts)[:20])
    assert hottest[0] < 200
    assert hottest[-1] > 800
    assert np.diff(hottest).min() > 1


@pytest.mark.parametrize("rows", [1, 2, 3, 10, 97, 1000])
def test_every_row_can_be_reached_and_no_other(tmp_path: Path, rows: int) -> None:
    assert set(values_of(one_table(tmp_path, rows=rows, exponent=0)).tolist()) == set(range(rows))


def test_large_tables_stay_within_their_rows(tmp_path: Path) -> None:
    values = values_of(one_table(tmp_path, rows=3_000_000_000, exponent=0.2))
    assert values.min() >= 0
    assert values.max() < 3_000_000_000
    assert len(np.unique(values)) > 0.95 * len(values)


def test_raw_ids_are_as_many_as_asked_and_are_hashed(tmp_path: Path) -> None:
    trace = one_table(tmp_path, rows=50, raw_ids=300, exponent=0.0)
    values = values_of(trace)
    assert len(np.unique(values)) == 300
    assert values.min() >= 0
    assert values.max() > 10**15
    tables = declared_tables(trace)
    assert tables is not None
    assert tables.tables[0].ids == "hash"


def test_members_of_a_family_stay_within_its_ranges(tmp_path: Path) -> None:
    trace = made(
        tmp_path,
        'samples = 5\nbatch_size = 3\n[[families]]\nname = "f"\ncount = 200\nrows = [10, 100_000]\n'
        "dim = [16, 32]\n"
        'dtype = "float16"\nexponent = [0.5, 1.5]\npooling_factor = [1, 9]\ncoverage = [0.1, 0.2]\n',
    )
    assert trace.features == tuple(f"f_{i:03d}" for i in range(200))
    assert trace.tables.batch_size == 3
    rows = np.array([part.table.rows for part in trace.parts])
    assert rows.min() >= 10
    assert rows.max() <= 100_000
    assert (rows < 1000).mean() == pytest.approx(0.5, abs=0.15)  # log-uniform: half of them below the middle
    assert {part.table.dim for part in trace.parts} == {16, 32}
    assert {part.table.dtype for part in trace.parts} == {"float16"}
    for part in trace.parts:
        assert 0.5 <= part.exponent <= 1.5
        assert 1 <= part.pooling_factor <= 9
        assert 0.1 <= part.coverage <= 0.2


def test_another_family_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    text = 'samples = 500\n[[families]]\nname = "f"\ncount = 3\nrows = [10, 1000]\nexponent = [0.5, 1.5]\n'
    alone = made(tmp_path, text)
    beside = made(tmp_path, text + text.partition("\n")[2].replace('"f"', '"g"'))
    assert beside.parts[:3] == alone.parts
    assert {f: s for f, s in samples_of(beside).items() if f[0] == "f"} == samples_of(alone)


def test_a_written_trace_is_the_recipe_s(tmp_path: Path) -> None:
    trace = one_table(tmp_path, 20_000, pooling_factor=2.5, coverage=0.5)
    assert write_parquet(trace, tmp_path / "log.parquet") == 20_000
    assert samples_of(open_trace(tmp_path / "log.parquet")) == samples_of(trace)


def test_the_bundled_demo_is_a_small_model_with_the_habits_of_large_ones() -> None:
    trace = open_trace("demo")
    tables = declared_tables(trace)
    assert tables is not None
    assert len(tables) >= 40
    rows = [table.rows for table in tables.tables]
    assert max(rows) > 1000 * min(rows)
    batch = next(trace.batches())
    pooling = [bag.lengths.sum() / (bag.lengths > 0).sum() for bag in batch.bags.values()]
    coverage = [(bag.lengths > 0).mean() for bag in batch.bags.values()]
    assert max(pooling) > 2
    assert min(coverage) < 0.7


@pytest.mark.parametrize("name", content.names("traces"))
def test_every_bundled_recipe_loads_and_says_what_it_is(name: str) -> None:
    text = (content.content_dir("traces") / f"{name}.toml").read_text()
    assert text.startswith("description = ")
    load_recipe(name)
