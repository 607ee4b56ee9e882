"""Delimited text: what is in the file is what comes out, and what is wrong is named by line and column."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from recshard.trace import TextOptions, open_trace
from tests.trace.samples import read, refusal, samples_of, zstd


def written(tmp_path: Path, content: str | bytes, name: str = "log.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_columns_are_what_pandas_reads(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"user": rng.integers(0, 10**12, 5000), "item": rng.integers(0, 50, 5000)})
    frame["item"] = frame["item"].where(rng.random(5000) < 0.8).astype("Int64")
    path = tmp_path / "log.csv"
    frame.to_csv(path, index=False)
    expected = {
        name: [[] if pd.isna(value) else [int(value)] for value in column] for name, column in frame.items()
    }
    assert read(path) == expected


@pytest.mark.parametrize("batch_size", [1, 7, 1000, 10**6])
def test_batches_of_any_size_hold_the_same_samples(tmp_path: Path, batch_size: int) -> None:
    lines = "".join(f"{i},{'|'.join(map(str, range(i % 4)))}\n" for i in range(3000))
    trace = open_trace(written(tmp_path, "user,items\n" + lines), None, TextOptions(separator="|"))
    assert samples_of(trace, batch_size) == {
        "user": [[i] for i in range(3000)],
        "items": [list(range(i % 4)) for i in range(3000)],
    }


def test_a_trace_can_be_read_again(tmp_path: Path) -> None:
    trace = open_trace(written(tmp_path, "user\n3\n4\n"))
    assert samples_of(trace) == samples_of(trace) == {"user": [[3], [4]]}


def test_an_empty_value_is_an_absent_feature(tmp_path: Path) -> None:
    assert read(written(tmp_path, "user,item\n1,2\n,3\n4,\n")) == {"user": [[1], [], [4]], "item": [[2], [3], []]}


def test_a_separator_makes_a_column_multi_hot(tmp_path: Path) -> None:
    path = written(tmp_path, "tags\n1|2\n\n|7|\n8\n")
    assert read(path, separator="|") == {"tags": [[1, 2], [], [7], [8]]}


def test_names_replace_a_header(tmp_path: Path) -> None:
    path = written(tmp_path, "1,2\n")
    assert read(path, names=("user", "item")) == {"user": [[1]], "item": [[2]]}


def test_names_stand_in_for_a_header_that_is_skipped(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b\n1,2\n")
    assert read(path, names=("user", "item"), header=True) == {"user": [[1]], "item": [[2]]}


def test_header_names_may_be_quoted_marked_or_missing(tmp_path: Path) -> None:
    path = written(tmp_path, b'\xef\xbb\xbf"user, id",\r\n1,2\r\n')
    assert read(path) == {"user, id": [[1]], "column_2": [[2]]}


def test_only_the_chosen_columns_are_features_and_only_they_are_checked(tmp_path: Path) -> None:
    path = written(tmp_path, "time,item,user\nnoon,2,1\n")
    assert read(path, columns=("user", "item")) == {"user": [[1]], "item": [[2]]}


@pytest.mark.parametrize(("name", "delimiter"), [("log.tsv", None), ("log.csv", "\t"), ("log.csv", "|")])
def test_delimiters_are_given_or_follow_from_the_name(tmp_path: Path, name: str, delimiter: str | None) -> None:
    path = written(tmp_path, "user,item\n1,2\n".replace(",", delimiter or "\t"), name)
    assert read(path, delimiter=delimiter) == {"user": [[1]], "item": [[2]]}


def test_gzip_is_read_whatever_the_file_is_called(tmp_path: Path) -> None:
    packed = gzip.compress(b"user\n1\n") + gzip.compress(b"2\n")
    for name in ("log.csv.gz", "log.csv"):
        assert read(written(tmp_path, packed, name)) == {"user": [[1], [2]]}


def test_a_name_has_one_id_in_every_encoding(tmp_path: Path) -> None:
    ids = [
        read(written(tmp_path, f"town\n{town}\n".encode(encoding)), encoding=encoding, strings=("town",))["town"]
        for encoding in ("utf-8", "latin-1", "utf-16")
        for town in ("Zürich",)
    ]
    assert ids[0] == ids[1] == ids[2]


def test_strings_are_ids_of_their_own(tmp_path: Path) -> None:
    path = written(tmp_path, 'word\na\n"b,c"\na\n\n12\n')
    first, second, third, absent, number = read(path, strings=("word",))["word"]
    assert first == third != second
    assert absent == []
    assert number != [12]
    assert min(first + second + number) >= 0


def test_the_first_batch_comes_before_the_last_line_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recshard.trace.text.BLOCK_BYTES", 1 << 12)
    path = written(tmp_path, "user\n" + "1234567\n" * 50_000 + "oops\n")
    batches = open_trace(path).batches(1000)
    assert next(batches).bags["user"].values.tolist() == [1234567] * 1000
    assert "line 50002" in refusal(path)


@pytest.mark.parametrize("found", ["bob", "-5", "1.5", "0x1F", "+7", "99999999999999999999", "١٢"])
def test_what_is_no_id_is_named_with_file_line_column_and_way_out(tmp_path: Path, found: str) -> None:
    message = refusal(written(tmp_path, f"user,item\n1,2\n\n3,{found}\n4,5\n"))
    for part in ("log.csv", "line 4", "'item'", found, "whole numbers from 0", "--strings"):
        assert part in message


def test_what_is_no_id_inside_a_list_is_named_too(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, "tags\n1|2\n3|x|4\n"), separator="|")
    assert "line 3" in message
    assert "'x'" in message


@pytest.mark.parametrize("line", ["5", "5,6,7"])
@pytest.mark.parametrize("names", [(), ("user", "item")])
def test_a_line_with_another_number_of_columns_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, names: tuple[str, ...]
) -> None:
    monkeypatch.setattr("recshard.trace.text.BLOCK_BYTES", 1 << 12)
    first = "" if names else "user,item\n"
    message = refusal(written(tmp_path, first + "1,2\n" * 5000 + line + "\n"), names=names)
    assert f"line {5001 if names else 5002}:" in message
    assert f"found {line.count(',') + 1} columns" in message
    assert "accepted: 2 (user, item)" in message


def test_a_misspelt_column_gets_a_suggestion(tmp_path: Path) -> None:
    path = written(tmp_path, "user,item\n1,2\n")
    for option in ("columns", "strings"):
        message = refusal(path, **{option: ("itme",)})
        assert "'itme' (did you mean 'item'?)" in message
        assert "present: user, item" in message


def test_bytes_of_another_encoding_are_named_with_their_line(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, b"town\nBern\nGen\xe8ve\n"), strings=("town",))
    assert "line 3" in message
    assert "e8" in message
    assert "--encoding" in message


def test_zstd_is_read_whatever_the_file_is_called(tmp_path: Path) -> None:
    packed = zstd(b"user\ttown\n1\tBern\n") + zstd(b"2\tUri\n")
    for name in ("log.tsv.zst", "log.tsv"):
        assert read(written(tmp_path, packed, name), columns=("user",)) == {"user": [[1], [2]]}
    message = refusal(written(tmp_path, zstd(b"town\nBern\nGen\xe8ve\n")), strings=("town",))
    assert "line 3" in message


def test_a_cut_zstd_is_refused(tmp_path: Path) -> None:
    packed = zstd("".join(f"{i * 7919 % 10007}\n" for i in range(50_000)).encode())
    assert "is the file whole?" in refusal(written(tmp_path, packed[: len(packed) // 2]), names=("user",))


def test_a_cut_gzip_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress("".join(f"{i * 7919 % 10007}\n" for i in range(50_000)).encode())
    assert "is the file whole?" in refusal(written(tmp_path, b"" + packed[: len(packed) // 2]), names=("user",))


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"delimiter": "::"}, "delimiter"),
        ({"separator": ","}, "separator"),
        ({"separator": ""}, "separator"),
        ({"encoding": "klingon"}, "klingon"),
        ({"encoding": "base64"}, "base64"),
        ({"header": False}, "--names"),
        ({"names": ("a", "a")}, "twice"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, options: dict[str, object], part: str) -> None:
    assert part in refusal(written(tmp_path, "user,item\n1,2\n"), **options)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    assert "empty" in refusal(written(tmp_path, ""))
    assert read(written(tmp_path, "user,item")) == {"user": [], "item": []}
