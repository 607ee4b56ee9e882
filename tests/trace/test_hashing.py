"""Raw IDs to rows, and strings to raw IDs: the same on every machine, and even."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.errors import InputError
from recshard.tables import EmbeddingTable, Ids
from recshard.trace.hashing import hash_strings, to_rows


def table(rows: int, ids: Ids) -> EmbeddingTable:
    return EmbeddingTable("emb", rows, ids=ids)


def splitmix64(x: int) -> int:
    """The published function, on Python's integers."""
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def fnv_1a(text: str) -> int:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value % 2**63


@settings(deadline=None)  # the first call compiles
@given(ids=st.lists(st.integers(0, 2**63 - 1)), rows=st.integers(1, 2**40))
def test_rows_are_what_the_documented_functions_say(ids: list[int], rows: int) -> None:
    array = np.array(ids, dtype=np.int64)
    assert to_rows(array, table(rows, "hash"), "f", "t").tolist() == [splitmix64(i) % rows for i in ids]
    assert to_rows(array, table(rows, "mod"), "f", "t").tolist() == [i % rows for i in ids]


@settings(deadline=None)
@given(words=st.lists(st.text()))
def test_strings_are_hashed_as_documented(words: list[str]) -> None:
    words = [word for word in words if word.isprintable()]
    assert hash_strings(pa.array(words, pa.string())).tolist() == [fnv_1a(word) for word in words]


def test_known_strings_keep_their_ids() -> None:
    # Published FNV-1a values of "" and "foobar", less the top bit.
    assert hash_strings(pa.array(["", "foobar"])).tolist() == [0x4BF29CE484222325, 0x05944171F73967E8]


def test_a_slice_of_strings_is_hashed_as_itself() -> None:
    words = pa.array(["a", "bc", "def", "g"])
    assert hash_strings(words[1:3]).tolist() == hash_strings(pa.array(["bc", "def"])).tolist()


@pytest.mark.parametrize("stride", [1, 2, 1024, 999_983, 2**40])
def test_hashing_spreads_any_regular_ids_evenly(stride: int) -> None:
    rows, ids = 1000, 200_000
    counts = np.bincount(to_rows(np.arange(ids) * stride, table(rows, "hash"), "f", "t"), minlength=rows)
    chi_square = float(((counts - ids / rows) ** 2).sum() / (ids / rows))
    # Its standard deviation is √(2·rows): five of them on either side.
    assert abs(chi_square - rows) < 5 * np.sqrt(2 * rows)


def test_as_many_ids_as_rows_leave_one_in_e_empty() -> None:
    rows = 100_000
    reached = len(np.unique(to_rows(np.arange(rows), table(rows, "hash"), "f", "t")))
    assert reached / rows == pytest.approx(1 - (1 - 1 / rows) ** rows, abs=0.005)


def test_an_id_outside_the_table_is_named_with_the_ways_out() -> None:
    ids = np.array([0, 9, 10, 11])
    assert to_rows(ids[:2], table(10, "rows"), "f", "log.csv").tolist() == [0, 9]
    with pytest.raises(InputError) as caught:
        to_rows(ids, table(10, "rows"), "clicked", "log.csv")
    for part in ("log.csv", "'emb'", "'clicked'", "ID 10 ", "10 rows", 'ids = "hash"', 'ids = "mod"'):
        assert part in str(caught.value)
