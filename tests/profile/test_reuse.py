"""Reuse histograms: those of plain Python, and the recipes made in the image of Meta's traces have Meta's."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard import content
from recshard.profile import REUSE_EDGES, access_histogram, reuse_histogram
from recshard.profile.build import profile_trace
from recshard.profile.counted import InMemory, count_of_counts
from recshard.profile.profile import TableStats
from recshard.tables import EmbeddingTable, TableSet
from recshard.trace import load_recipe
from recshard.trace.synthetic import SyntheticTrace
from tests.traces import MemoryTrace

DATA = Path(__file__).parents[3] / "shared" / "data"
EDGES = [0, *(2**b for b in range(16))]  # as Meta prints them; above the last there is one bin more

# The first block of Meta's locality statistics (dlrm_datasets, MIT), printed to three digits:
# fbgemm_t856_bs65536.pt of 2021 and fbgemm_t788_bs131072_0.pt of 2022. By bin, the share of distinct rows
# ("Histogram of col sizes") and that of lookups ("Ratio of index distribution at different column sizes").
PUBLISHED = {
    2021: (
        "0.473 0.152 0.139 0.112 0.072 0.032 0.011 0.005 0.002 0.001 0.000 0.000 0.000 0.000 0.000 0.000 0.000",
        "0.069 0.044 0.068 0.101 0.121 0.104 0.073 0.058 0.052 0.050 0.049 0.048 0.048 0.043 0.031 0.023 0.019",
    ),
    2022: (
        "0.342 0.144 0.149 0.138 0.112 0.068 0.029 0.010 0.004 0.002 0.001 0.001 0.000 0.000 0.000 0.000 0.000",
        "0.027 0.023 0.040 0.068 0.105 0.120 0.099 0.070 0.059 0.054 0.040 0.072 0.064 0.047 0.021 0.017 0.076",
    ),
}

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
    seen = np.flatnonzero(counts)
    stats = TableStats(*count_of_counts(InMemory(seen, counts[seen])))
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


def numbers(text: str) -> list[float]:
    return [float(word) for word in text.split()]


@pytest.mark.parametrize("year", PUBLISHED)
def test_published_histograms_are_those_of_the_files(year: int) -> None:
    path = DATA / f"meta_locality_{year}.txt"
    if not path.is_file():
        pytest.skip("Meta's published statistics are not beside the checkout")
    lines = path.read_text().splitlines()
    titles = ("Histogram of col sizes:", "Ratio of index distribution at different column sizes:")
    for title, copied in zip(titles, PUBLISHED[year], strict=True):
        begin = lines.index(title) + 1
        assert [float(line.rpartition(":")[2]) for line in lines[begin : begin + 17]] == numbers(copied)


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
@pytest.mark.parametrize("year", PUBLISHED)
def test_recipes_reuse_rows_as_metas_traces_do_for_other_seeds_too(
    year: int, seed: int | None, tmp_path: Path
) -> None:
    path = content.find(f"meta-{year}", "traces", "recipe")
    if seed is not None:  # both the tables and their lookups are drawn anew
        text = path.read_text().replace(f"seed = {year}", f"seed = {seed}")
        path = tmp_path / "other.toml"
        path.write_text(text)
    trace = load_recipe(path)
    assert isinstance(trace, SyntheticTrace)
    assert trace.seed == (year if seed is None else seed)
    profile = profile_trace(trace)
    rows, lookups = map(numbers, PUBLISHED[year])
    assert np.abs(reuse_histogram(profile) - rows).max() <= 0.02
    assert np.abs(access_histogram(profile) - lookups).max() <= 0.03
