"""Recommended hash sizes keep what they promise, and are no larger than they need to be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recshard.errors import InputError
from recshard.profile.build import profile_trace
from recshard.profile.hash_size import collided_share, hash_sizes, resized, rows_for_collisions
from recshard.profile.profile import expected_ids, expected_reached
from recshard.tables import EmbeddingTable, TableSet
from tests.traces import MemoryTrace


@given(st.integers(2, 10**8), st.floats(0.001, 0.99))
def test_the_size_is_the_least_that_meets_the_target(ids: int, target: float) -> None:
    rows = rows_for_collisions(ids, target)
    assert collided_share(ids, rows) <= target
    assert rows == 1 or collided_share(ids, rows - 1) > target


@given(st.integers(2, 1000), st.integers(2, 1000))
def test_collided_share_is_the_formula(ids: int, rows: int) -> None:
    assert collided_share(ids, rows) == pytest.approx(1 - (1 - 1 / rows) ** (ids - 1))


@given(st.integers(1, 10**6), st.integers(2, 10**6))
def test_the_number_of_ids_is_the_inverse_of_the_rows_reached(ids: int, rows: int) -> None:
    if ids > 3 * rows:
        return
    reached = expected_reached(ids, rows)
    assert expected_ids(reached, rows) == pytest.approx(ids, rel=1e-6)
    assert expected_ids(rows, rows) == float("inf")


def test_a_recommended_size_measures_what_it_promises() -> None:
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 2**50, 20_000)[(20_000 * rng.random(100_000)).astype(int)]
    trace = MemoryTrace({"a": [raw.tolist()]})
    small = TableSet((EmbeddingTable("a", 5_000, features=("a",), ids="hash"),))
    sizes = hash_sizes(profile_trace(trace, small), 0.1)
    assert sizes[0].collided == pytest.approx(sizes[0].expected, abs=0.01)
    assert sizes[0].rows > 5_000
    assert sizes[0].freed_bytes == (5_000 - sizes[0].rows) * small.tables[0].row_bytes
    again = profile_trace(trace, resized(small, sizes))
    hashing = again.stats[0].hashing
    assert hashing is not None
    assert hashing.collided_accesses / again.lookups == pytest.approx(0.1, abs=0.01)
    assert hashing.collided_ids / hashing.distinct_ids == pytest.approx(0.1, abs=0.01)
    assert again.occupancy(0) == pytest.approx(sizes[0].occupancy_then, abs=0.01)


def test_of_ids_that_are_rows_nothing_is_claimed() -> None:
    profile = profile_trace(MemoryTrace({"a": [[0, 1, 2]]}))
    size = hash_sizes(profile, 0.1)[0]
    assert (size.distinct_ids, size.collided, size.expected, size.rows, size.freed_bytes) == (
        None,
        None,
        None,
        3,
        0,
    )


@pytest.mark.parametrize(
    ("target", "growth", "words"), [(0, 1, "target: found 0"), (0.1, 0.5, "growth: found 0.5")]
)
def test_what_makes_no_sense_is_refused(target: float, growth: float, words: str) -> None:
    tables = TableSet((EmbeddingTable("a", 50, features=("a",), ids="hash"),))
    with pytest.raises(InputError, match=words):
        hash_sizes(profile_trace(MemoryTrace({"a": [[0, 1, 2]]}), tables), target, growth)
