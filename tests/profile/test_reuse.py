"""Reuse histograms: those of plain Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.profile import REUSE_EDGES, access_histogram, reuse_histogram
from recshard.profile.build import count_of_counts, hottest_first, profile_trace
from recshard.tables import EmbeddingTable, TableSet
from tests.traces import MemoryTrace

EDGES = [0, *(2**b for b in range(16))]  # as Meta prints them; above the last there is one bin more

near_an_edge = st.builds(lambda edge, step: max(0, edge + step), st.sampled_from(EDGES), st.integers(-1, 1))


def by_plain_python(counts: list[int]) -> tuple[list[float], list[float]]:
    """Return the shares of distinct rows and of lookups by bin, one row after another."""
    rows, lookups = [0] * 17, [0] * 17
    for count in counts:
        if count:
            bin_ = next((b for b in range(16) if EDGES[b] < count <= EDGES[b + 1]), 16)
            rows[bin_] += 1
            lookups[bin_] += count
    return [r / max(sum(rows), 1) for r in rows], [n / max(sum(lookups), 1) for n in lookups]


@given(st.lists(near_an_edge | st.integers(0, 10**6), max_size=60))
def test_histograms_of_counts_and_of_a_table_are_those_of_plain_python(counted: list[int]) -> None:
    rows, lookups = by_plain_python(counted)
    counts = np.array(counted, dtype=np.int64)
    stats = count_of_counts(hottest_first(counts)[1])
    for given_as in (counts, stats):
        assert reuse_histogram(given_as).tolist() == pytest.approx(rows)
        assert access_histogram(given_as).tolist() == pytest.approx(lookups)


def test_histogram_of_a_table_is_that_of_numpy() -> None:
    counts = np.random.default_rng(3).zipf(1.3, 20_000).clip(max=10**6)
    edges = [0.5, *(REUSE_EDGES + 0.5), np.inf]
    assert reuse_histogram(counts) == pytest.approx(np.histogram(counts, edges)[0] / len(counts))
    assert access_histogram(counts) == pytest.approx(np.histogram(counts, edges, weights=counts)[0] / counts.sum())


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, most) for most in (5, 5, 40)]), min_size=1, max_size=80))
def test_histogram_of_a_profile_pools_the_rows_of_all_tables(samples: list[tuple[int, int, int]]) -> None:
    trace = MemoryTrace({name: [[s[f]] for s in samples] for f, name in enumerate("abc")})
    profile = profile_trace(trace, TableSet(tuple(EmbeddingTable(n, 41, features=(n,)) for n in "abc")))
    counted = [c for f in range(3) for c in Counter(s[f] for s in samples).values()]
    rows, lookups = by_plain_python(counted)
    assert reuse_histogram(profile).tolist() == pytest.approx(rows)
    assert access_histogram(profile).tolist() == pytest.approx(lookups)


def test_histograms_of_nothing_are_zeros() -> None:
    nothing = np.zeros(5, dtype=np.int64)
    assert not reuse_histogram(nothing).any()
    assert not access_histogram(nothing).any()
