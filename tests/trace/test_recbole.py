"""RecBole's atomic files: tokens are features, by the types in the header."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.trace import TextOptions, open_trace
from recshard.trace.hashing import hash_strings
from tests.trace.samples import read, refusal, samples_of, zstd

IDS = st.integers(0, 2**63 - 1)
HEADER = "user_id:token\titem_list:token_seq\trating:float\tvector:float_seq\n"


def written(tmp_path: Path, text: str, name: str = "ml.inter") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def hashed(*words: str) -> list[int]:
    return hash_strings(pa.array(words)).tolist()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.none() | IDS, st.lists(IDS, max_size=4)), max_size=20), st.integers(1, 25))
def test_tokens_are_features_and_floats_are_none(
    rows: list[tuple[int | None, list[int]]], batch_size: int
) -> None:
    lines = [
        f"{'' if user is None else user}\t{' '.join(map(str, items))}\t4.5\t0.1 0.2\n" for user, items in rows
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), HEADER + "".join(lines))
        assert samples_of(open_trace(path), batch_size) == {
            "user_id": [[] if user is None else [user] for user, _ in rows],
            "item_list": [items for _, items in rows],
        }


@pytest.mark.parametrize("name", ["ml.inter", "ml.user", "ml.item", "ml.inter.gz", "ml.item.zst"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
def test_atomic_files_are_known_by_name(tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / name
    path.write_bytes(pack(b"a:token\n1\n"))
    assert read(path) == read(path, "recbole") == {"a": [[1]]}


def test_columns_that_begin_with_names_are_strings(tmp_path: Path) -> None:
    path = written(tmp_path, "town:token\ttags:token_seq\tn:token\nBern\tred 7\t5\n12\t  \t6\n")
    bern, twelve = hashed("Bern", "12")
    assert read(path) == {"town": [[bern], [twelve]], "tags": [hashed("red", "7"), []], "n": [[5], [6]]}


def test_a_token_has_one_id_in_all_files_and_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recshard.trace.text.BLOCK_BYTES", 1 << 10)
    numbers = [str(i) for i in range(1000)]
    written(tmp_path, "a:token\n" + "\n".join(numbers) + "\n", "1.inter")
    written(tmp_path, "a:token\nx\n" + "\n".join(numbers) + "\n", "2.inter")
    assert read(tmp_path / "*.inter")["a"] == [[id] for id in hashed(*numbers, "x", *numbers)]


def test_a_name_after_numbers_is_an_error_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recshard.trace.text.BLOCK_BYTES", 1 << 10)
    path = written(tmp_path, "a:token\tb:token\n" + "1\t2\n" * 1000 + "1\tx\n")
    message = refusal(path)
    for part in (
        "ml.inter: line 1002, column 'b': found 'x'",
        "the first tokens of 'b' are numbers",
        "--strings b",
    ):
        assert part in message
    two, x = hashed("2", "x")
    assert read(path, strings=("b",)) == {"a": [[1]] * 1001, "b": [[two]] * 1000 + [[x]]}


def test_only_the_chosen_columns_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER + "1\t2 3\t4.5\t\n")
    assert read(path, columns=("item_list",)) == {"item_list": [[2, 3]]}
    assert "'item_lst' (did you mean 'item_list'?)" in refusal(path, columns=("item_lst",))
    assert "columns: column 'rating' holds float; accepted: columns of tokens" in refusal(
        path, columns=("rating",)
    )
    assert "strings: no column 'x'" in refusal(path, strings=("x",))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("user\titem\n1\t2\n", "line 1: found the column 'user'; accepted: NAME:TYPE"),
        ("user:int\n1\n", "line 1: found the column 'user:int'"),
        (":token\n1\n", "line 1: found the column ':token'"),
        ("a:token\ta:float\n1\t2\n", "column 'a' is there twice"),
        ("a:float\n1\n", "found no column of type token or token_seq"),
        ("", "is empty"),
        ("a:token\tb:token\n1\n", "line 2: found 1 columns; accepted: 2 (a, b)"),
        ("a:token\n-1\n1\n", ""),
    ],
)
def test_what_is_no_atomic_file_is_refused(tmp_path: Path, text: str, part: str) -> None:
    path = written(tmp_path, text)
    if part:
        assert part in refusal(path)
    else:
        assert read(path) == {"a": [[id] for id in hashed("-1", "1")]}


def test_encodings_hold_here_too(tmp_path: Path) -> None:
    path = tmp_path / "towns.item"
    path.write_bytes("town:token\nZürich\n".encode("latin-1"))
    trace = open_trace(path, None, TextOptions(encoding="latin-1"))
    assert samples_of(trace) == {"town": [hashed("Zürich")]}
