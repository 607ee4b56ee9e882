"""Features of planned table parts: against brute force over single rows, and against drawn batches."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import poisson

from recshard.cost.features import FEATURES, part_features, reuse_histogram, whole_table_features
from recshard.reuse_bins import REUSE_BINS
from recshard.shards import cut, cut_evenly
from tests.problems import random_problem

EDGES = [0, *(2**b for b in range(REUSE_BINS - 1)), np.inf]


def exact_histogram(rates: np.ndarray) -> np.ndarray:
    """One row after another, by scipy's Poisson distribution."""
    expected = np.zeros(REUSE_BINS)
    for rate in rates:
        expected += np.diff(poisson.cdf(EDGES, rate))
    return expected / expected.sum() if expected.sum() > 0 else expected


def counted_histogram(counts: np.ndarray) -> np.ndarray:
    met = counts[counts > 0]
    return np.array([((low < met) & (met <= high)).mean() for low, high in pairwise(EDGES)])


def one_group(rates: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return reuse_histogram(rates, rows.astype(float), np.zeros(len(rates), dtype=np.int64), 1)[0]


@pytest.mark.parametrize("rate", [1e-7, 1e-4, 0.02, 0.7, 1.0, 3.3, 64.5, 900.0, 32_700.0, 32_768.0, 33_100.0, 1e6])
def test_histogram_of_equal_rows_is_the_poisson_distribution(rate: float) -> None:
    found = one_group(np.array([rate]), np.array([5]))
    assert found == pytest.approx(exact_histogram(np.array([rate])), abs=1e-3)


def test_histogram_is_what_drawn_batches_show() -> None:
    rng = np.random.default_rng(0)
    rates, rows = np.array([300.0, 20.0, 1.5, 0.05]), np.array([3, 40, 500, 6000])
    each = np.repeat(rates, rows)
    share = each / each.sum()
    drawn = [
        np.bincount(rng.choice(len(each), round(each.sum()), p=share), minlength=len(each)) for _ in range(600)
    ]
    shown = np.mean([counted_histogram(counts) for counts in drawn], axis=0)
    assert one_group(rates, rows) == pytest.approx(shown, abs=2e-3)


@given(seed=st.integers(0, 10_000), tiers=st.integers(1, 3))
def test_parts_are_what_their_single_rows_add_up_to(seed: int, tiers: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, tables=3, tiers=tiers)
    cuts = np.sort(rng.integers(0, problem.rows[:, None] + 1, (3, tiers - 1)), axis=1)
    rows = np.diff(np.hstack([np.zeros((3, 1), dtype=np.int64), cuts, problem.rows[:, None]]), axis=1)
    features = part_features(problem, rows)
    for j in range(3):
        part = slice(problem.class_start[j], problem.class_start[j + 1])
        rates = problem.accesses[j] * np.repeat(problem.class_share[part], problem.class_rows[part])
        for k, tier_rates in enumerate(np.split(rates, cuts[j])):
            if len(tier_rates) == 0:
                assert (features[j, k] == 0).all()
                continue
            assert features[j, k, :4] == pytest.approx(
                [
                    problem.dim[j],
                    len(tier_rates),
                    tier_rates.sum() / problem.batch_size,
                    len(tier_rates) * problem.row_bytes[j],
                ]
            )
            assert features[j, k, 4:] == pytest.approx(exact_histogram(tier_rates), abs=1e-3)


def test_parts_of_a_table_share_out_its_pooling_factor() -> None:
    problem = random_problem(np.random.default_rng(3), tables=6, rows=1000, classes=20)
    half = problem.rows // 2
    parts = part_features(problem, np.column_stack([half, problem.rows - half]))
    assert parts[:, :, 2].sum(axis=1) == pytest.approx(problem.accesses / problem.batch_size)


@given(seed=st.integers(0, 10_000))
def test_a_column_shard_is_its_table_with_fewer_columns(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), tables=3, state=True)
    shards = cut_evenly(problem, np.minimum([2, 1, 3], problem.dim // 4), "column")
    whole = whole_table_features(problem)[shards.table]
    found = whole_table_features(cut(problem, shards))
    assert found[:, 0].tolist() == shards.columns.tolist()
    assert found[:, 1:3] == pytest.approx(whole[:, 1:3])
    assert found[:, 3] == pytest.approx(problem.rows[shards.table] * (4 * shards.columns + 4))
    assert found[:, 4:] == pytest.approx(whole[:, 4:])


@given(seed=st.integers(0, 10_000))
def test_a_row_shard_is_a_table_of_the_rows_it_is_dealt(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), tables=3)
    shards = cut_evenly(problem, np.minimum([3, 1, 4], problem.rows), "row")
    found = whole_table_features(cut(problem, shards))
    for s, j in enumerate(shards.table):
        mine = slice(problem.class_start[j], problem.class_start[j + 1])
        rates = problem.accesses[j] * np.repeat(problem.class_share[mine], problem.class_rows[mine])
        dealt = rates[shards.part[s] :: shards.parts[s]]
        numbers = [problem.dim[j], len(dealt), dealt.sum() / problem.batch_size, len(dealt) * problem.row_bytes[j]]
        assert found[s, :4] == pytest.approx(numbers)
        assert found[s, 4:] == pytest.approx(exact_histogram(dealt), abs=1e-3)


def test_a_shard_without_rows_has_no_features() -> None:
    problem = random_problem(np.random.default_rng(0), tables=1)
    more = int(problem.rows[0]) + 2
    found = whole_table_features(cut(problem, cut_evenly(problem, np.array([more]), "row")))
    assert (found[:-2, 1] == 1).all()
    assert (found[-2:] == 0).all()


def test_features_of_another_batch_size_are_those_of_the_problem_at_that_size() -> None:
    problem = random_problem(np.random.default_rng(4), rows=300)
    larger = replace(problem, batch_size=problem.batch_size * 32, accesses=problem.accesses * 32)
    assert whole_table_features(problem, larger.batch_size) == pytest.approx(whole_table_features(larger))


def test_a_table_never_accessed_has_no_reuse_and_no_pooling_factor() -> None:
    problem = random_problem(np.random.default_rng(5), tables=2)
    silent = replace(problem, accesses=np.array([0.0, problem.accesses[1]]))
    features = whole_table_features(silent)
    assert (features[0, 2:3] == 0).all()
    assert (features[0, 4:] == 0).all()
    assert features[1, 4:].sum() == pytest.approx(1)


def test_there_are_21_features() -> None:
    assert len(FEATURES) == 21
