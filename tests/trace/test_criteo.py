"""Criteo text: every category is the number its hex digits write, and what is none is named."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.trace import open_trace
from tests.trace.samples import Samples, read, refusal, samples_of, zstd

IDS = st.none() | st.integers(0, 2**32 - 1)
CATEGORIES = [f"cat_{k}" for k in range(26)]


def line(categories: list[str], label: str = "1\t") -> str:
    return label + "\t".join(["7", "", "-2", *"0123456789"]) + "\t" + "\t".join(categories) + "\n"


def random_lines(samples: int, seed: int = 0) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    ids, absent = rng.integers(0, 2**32, (samples, 26)), rng.random((samples, 26)) < 0.2
    return [
        ["" if gone else f"{value:08x}" for value, gone in zip(*row, strict=True)]
        for row in zip(ids.tolist(), absent.tolist(), strict=True)
    ]


def plainly(rows: list[list[str]]) -> Samples:
    return {name: [[int(row[k], 16)] if row[k] else [] for row in rows] for k, name in enumerate(CATEGORIES)}


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
@pytest.mark.parametrize("label", ["0\t", ""])
@pytest.mark.parametrize("name", ["train.txt", "day_0", "day_0.gz", "day_0.zst"])
def test_categories_are_what_python_reads_of_their_hex(
    tmp_path: Path, pack: Callable[[bytes], bytes], label: str, name: str
) -> None:
    rows = random_lines(300)
    path = tmp_path / name
    path.write_bytes(pack("".join(line(row, label) for row in rows).encode()))
    assert read(path) == read(path, "criteo") == plainly(rows)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.none() | st.integers(0, 2**32 - 1), min_size=26, max_size=26), min_size=1), st.booleans()
)
def test_every_number_of_32_bits_comes_back_in_either_case(rows: list[list[int | None]], upper: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "day_3"
        written = [["" if id is None else f"{id:08X}" if upper else f"{id:08x}" for id in row] for row in rows]
        path.write_text("".join(map(line, written)))
        assert samples_of(open_trace(path), 3) == plainly(written)


@pytest.mark.parametrize("batch_size", [1, 7, 100, 10_000])
def test_blocks_do_not_show_in_the_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_size: int
) -> None:
    monkeypatch.setattr("recshard.trace.text.BLOCK_BYTES", 1 << 12)
    rows = random_lines(250)
    path = tmp_path / "day_1"
    path.write_text("".join(map(line, rows)))
    assert samples_of(open_trace(path), batch_size) == plainly(rows)


def test_a_name_of_other_text_does_not_hide_it(tmp_path: Path) -> None:
    rows = random_lines(2)
    path = tmp_path / "day_0.tsv"
    path.write_text("".join(map(line, rows)))
    assert read(path) == plainly(rows)
    names = tuple(f"c{k}" for k in range(40))
    assert read(path, names=names, columns=("c0",)) == {"c0": [[1], [1]]}
    assert "whole numbers" in refusal(path, "text", names=names, columns=("c15", "c16", "c17", "c18"))


def test_only_the_chosen_categories_are_read(tmp_path: Path) -> None:
    path = tmp_path / "day_0"
    rows = random_lines(1)
    rows += [["oops", *rows[0][1:]]]
    path.write_text("".join(map(line, rows)))
    every = plainly(rows[:1] * 2)
    assert read(path, columns=("cat_9", "cat_2")) == {"cat_9": every["cat_9"], "cat_2": every["cat_2"]}
    assert "no column 'cat_26' (did you mean 'cat_" in refusal(path, columns=("cat_26",))


@pytest.mark.parametrize(
    "found", ["68fd1e6", "68fd1e644", "68fd1e6g", "-8fd1e64", "0x68fd1e", "68fd1e6é", "12 45678"]
)
def test_what_is_no_hex_is_named_with_line_and_column(tmp_path: Path, found: str) -> None:
    rows = random_lines(3)
    rows[2][5] = found
    path = tmp_path / "day_0"
    path.write_text("".join(map(line, rows)))
    message = refusal(path)
    for part in ("day_0: line 3, column 'cat_5'", repr(found), "8 hex digits or nothing", "--columns"):
        assert part in message


def test_lines_of_another_width_are_named(tmp_path: Path) -> None:
    path = tmp_path / "day_0"
    path.write_text("1\t2\t3\n")
    assert "line 1: found 3 columns; accepted: 40" in refusal(path, "criteo")
    path.write_text("".join(map(line, random_lines(2))) + "1\t2\n")
    assert "line 3: found 2 columns; accepted: 40" in refusal(path)
