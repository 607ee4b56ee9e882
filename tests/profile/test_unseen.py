"""Good–Turing: what is promised of rows that a sample did not show."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.profile.unseen import expected_shares


@st.composite
def counts(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    levels = draw(st.lists(st.integers(1, 10_000), min_size=1, max_size=40, unique=True))
    rows = draw(st.lists(st.integers(1, 1000), min_size=len(levels), max_size=len(levels)))
    return np.array(sorted(levels, reverse=True)), np.array(rows), draw(st.integers(0, 100_000))


@settings(max_examples=300, deadline=None)
@given(counts())
def test_shares_add_up_to_one_and_fall_from_hot_to_unseen(case: tuple[np.ndarray, np.ndarray, int]) -> None:
    count, rows, unseen = case
    share, rest = expected_shares(count, rows, unseen)
    assert np.dot(share, rows) + rest * unseen == pytest.approx(1.0)
    assert (np.diff(share) <= 1e-15).all()
    assert 0 <= rest <= share[-1] * (1 + 1e-9)


@settings(max_examples=100, deadline=None)
@given(counts())
def test_unseen_rows_get_at_most_the_share_of_rows_seen_once(case: tuple[np.ndarray, np.ndarray, int]) -> None:
    count, rows, unseen = case
    _, rest = expected_shares(count, rows, unseen)
    once = int(rows[-1]) if count[-1] == 1 else 0
    assert rest * unseen <= once / np.dot(count, rows) + 1e-12


def test_where_every_row_was_seen_counts_stand_as_they_are() -> None:
    share, rest = expected_shares(np.array([5, 2, 1]), np.array([1, 2, 3]), 0)
    assert share == pytest.approx(np.array([5, 2, 1]) / 12)
    assert rest == 0.0


def test_a_small_sample_predicts_slow_accesses_better_than_its_raw_counts() -> None:
    """A tenth of a power-law trace, the hottest fifth of the rows kept fast, replayed on the rest."""
    rng = np.random.default_rng(1)
    rows = 50_000
    weight = 1.0 / np.arange(1, rows + 1) ** 0.8
    ids = rng.choice(rows, size=400_000, p=weight / weight.sum())
    sample = np.bincount(ids[:40_000], minlength=rows)
    rest = np.bincount(ids[40_000:], minlength=rows)
    order = np.argsort(-sample, kind="stable")
    kept = order[: rows // 5]
    true_slow = 1 - rest[kept].sum() / rest.sum()
    raw_slow = 1 - sample[kept].sum() / sample.sum()
    count, class_rows = np.unique(sample[sample > 0], return_counts=True)
    share, unseen_share = expected_shares(count[::-1], class_rows[::-1], int((sample == 0).sum()))
    per_row = np.concatenate([np.repeat(share, class_rows[::-1]), np.full(int((sample == 0).sum()), unseen_share)])
    estimated_slow = 1 - per_row[: rows // 5].sum()
    assert abs(estimated_slow - true_slow) < 0.5 * abs(raw_slow - true_slow)
