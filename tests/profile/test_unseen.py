"""Good–Turing: what is promised of rows that a sample did not show, or showed by luck."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import poisson

from recshard.profile.unseen import expected_shares


@st.composite
def counts(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    levels = draw(st.lists(st.integers(1, 10 ** draw(st.integers(1, 15))), min_size=1, max_size=9, unique=True))
    rows = draw(st.lists(st.integers(1, 1000), min_size=len(levels), max_size=len(levels)))
    return np.array(sorted(levels, reverse=True)), np.array(rows), draw(st.integers(0, 100_000))


def classes(counts_per_row: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Return counts, falling, the rows with each, and the rows never seen."""
    count, rows = np.unique(counts_per_row[counts_per_row > 0], return_counts=True)
    return count[::-1], rows[::-1], int((counts_per_row == 0).sum())


def hottest_first(counts_per_row: np.ndarray) -> np.ndarray:
    """Return the expected share of every row, in the order in which rows are kept fast."""
    count, rows, unseen = classes(counts_per_row)
    share, rest = expected_shares(count, rows, unseen)
    return np.concatenate([np.repeat(share, rows), np.full(unseen, rest)])


@settings(max_examples=300, deadline=None)
@given(counts())
def test_shares_add_up_to_one_and_fall_from_hot_to_unseen(case: tuple[np.ndarray, np.ndarray, int]) -> None:
    count, rows, unseen = case
    share, rest = expected_shares(count, rows, unseen)
    assert np.dot(share, rows) + rest * unseen == pytest.approx(1.0)
    assert (np.diff(share) <= 1e-15).all()
    assert (share > 0).all()
    assert 0 <= rest <= share[-1] * (1 + 1e-9)
    assert rest == 0 or unseen > 0


@settings(max_examples=100, deadline=None)
@given(counts(), st.integers(2, 50))
def test_a_table_of_many_copies_gives_each_its_part(case: tuple[np.ndarray, np.ndarray, int], copies: int) -> None:
    count, rows, unseen = case
    share, rest = expected_shares(count, rows, unseen)
    part, part_rest = expected_shares(count, rows * copies, unseen * copies)
    assert part * copies * rows == pytest.approx(share * rows, rel=1e-3, abs=1e-6)
    assert part_rest * copies * unseen == pytest.approx(rest * unseen, rel=1e-3, abs=1e-6)


def test_counts_that_luck_cannot_explain_stand_as_they_are() -> None:
    count = np.array([10**9, 10**7, 10**5, 10**3])
    share, rest = expected_shares(count, np.array([1, 1, 1, 1]), 100)
    assert (np.abs(share * count.sum() - count) < np.sqrt(count)).all()
    assert rest * 100 < 1e-9


def test_rows_that_only_luck_tells_apart_get_equal_shares() -> None:
    """Lookups drawn evenly: most rows seen zero to four times, a few up to nine times."""
    shares = hottest_first(np.random.default_rng(3).poisson(2.0, 20_000))
    assert shares == pytest.approx(np.full(20_000, 1 / 20_000), rel=0.05)


def test_ids_that_occur_once_each_say_nothing_of_those_not_met() -> None:
    share, rest = expected_shares(np.array([1]), np.array([100]), 900)
    assert share == pytest.approx([1e-3], rel=0.01)
    assert rest == pytest.approx(1e-3, rel=0.01)


def test_rows_that_nothing_reaches_get_nothing() -> None:
    """A hashed table: every row that an ID reaches was seen hundreds of times, half of the rows never."""
    share, rest = expected_shares(np.array([900, 400, 300]), np.array([3, 5, 8]), 16)
    assert rest * 16 < 1e-4
    assert np.dot(share, [3, 5, 8]) == pytest.approx(1.0, abs=1e-4)


def test_shares_are_the_posterior_means_where_the_rates_are_known() -> None:
    """Half of the rows have the rate 1/2 and half the rate 10; Bayes' rule gives each count's mean rate."""
    rng = np.random.default_rng(4)
    sample = rng.poisson(np.repeat([0.5, 10.0], 100_000))
    count, rows, unseen = classes(sample)
    share, rest = expected_shares(count, rows, unseen)
    levels = np.append(count, 0)
    slow, fast = poisson.pmf(levels, 0.5), poisson.pmf(levels, 10.0)
    expected = (0.5 * slow + 10.0 * fast) / (slow + fast) / sample.sum()
    common = np.append(rows, unseen) > 1000
    assert np.append(share, rest)[common] == pytest.approx(expected[common], rel=0.1)


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.1])
def test_shares_are_those_of_the_textbook_iteration(exponent: float) -> None:
    """Plain expectation maximisation on Poisson probabilities, every count and 300 rates, run for long."""
    rng = np.random.default_rng(5)
    weight = np.arange(1, 2001) ** -exponent
    sample = rng.poisson(4000 * weight / weight.sum())
    count, rows, unseen = classes(sample)
    levels, number = np.append(count, 0), np.append(rows, unseen)
    rates = np.linspace(0.0, 2 * np.sqrt(count[0]), 300) ** 2 / 4
    likelihood = poisson.pmf(levels[:, None], rates)
    mixture = np.full(300, 1 / 300)
    for _ in range(5000):
        mixture *= likelihood.T @ (number / (likelihood @ mixture)) / number.sum()
    mean = likelihood @ (mixture * rates) / (likelihood @ mixture)
    share, rest = expected_shares(count, rows, unseen)
    textbook = np.cumsum(mean * number) / np.dot(mean, number)
    assert np.cumsum(np.append(share, rest) * number) == pytest.approx(textbook, abs=0.005)


@pytest.mark.parametrize("exponent", [0.0, 0.3, 0.8, 1.2])
@pytest.mark.parametrize("lookups", [100_000, 1_000_000])
def test_a_sample_predicts_slow_accesses_far_better_than_its_raw_counts(exponent: float, lookups: int) -> None:
    """A tenth of a power-law trace, the sample's hottest rows kept fast, replayed on the rest."""
    rng = np.random.default_rng(1)
    rows = 20_000
    weight = rng.permutation(np.arange(1, rows + 1) ** -exponent)
    sample, rest = (rng.multinomial(part * lookups // 10, weight / weight.sum()) for part in (1, 9))
    order = np.argsort(-sample, kind="stable")
    shares = hottest_first(sample)
    for kept in (rows // 20, rows // 5, rows // 2):
        true = 1 - rest[order[:kept]].sum() / rest.sum()
        raw = 1 - sample[order[:kept]].sum() / sample.sum()
        assert abs(1 - shares[:kept].sum() - true) < 0.2 * abs(raw - true)


def test_the_benchmark_replays_as_plain_python_does() -> None:
    bench = runpy.run_path(str(Path(__file__).parents[2] / "analysis" / "bench_unseen.py"))
    rng = np.random.default_rng(6)
    rows = 41
    row, sample = rng.zipf(1.5, 3000) % rows, rng.integers(0, 1000, 3000)
    draw = bench["sampler"](row, sample, rows, 1000, 0.1)(rng)
    assert (sum(draw) == np.bincount(row, minlength=rows)).all()
    hottest = sorted(range(rows), key=lambda r: (-draw.sample[r], r))
    replayed = [int(draw.first[r] + draw.second[r]) for r in hottest]
    shares = hottest_first(draw.sample)
    outcomes = bench["outcome"](draw)
    for (true, (raw, estimate, ties), noise), kept in zip(outcomes, (3, 9, 21), strict=True):
        assert true == pytest.approx(sum(replayed[kept:]) / sum(replayed))
        assert raw == pytest.approx(sum(draw.sample[r] for r in hottest[kept:]) / sum(draw.sample))
        assert estimate == pytest.approx(shares[kept:].sum())
        same = [r for r in range(rows) if draw.sample[hottest[r]] == draw.sample[hottest[kept - 1]]]
        mean = sum(replayed[r] for r in same) / len(same)
        assert ties == pytest.approx(1 - (sum(replayed[: same[0]]) + mean * (kept - same[0])) / sum(replayed))
        halves = [sum(int(part[r]) for r in hottest[kept:]) / int(sum(part)) for part in draw[1:]]
        assert noise == pytest.approx(abs(halves[0] - halves[1]) / 2)
