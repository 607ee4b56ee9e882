"""`user item item …` lines: one user and a bag of items."""

from __future__ import annotations

from pathlib import Path

import pytest

from recshard.trace import open_trace
from tests.trace.samples import read, refusal, samples_of


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "user_items.txt"
    path.write_text(text)
    return path


def test_a_line_is_a_user_and_a_bag_of_items(tmp_path: Path) -> None:
    path = written(tmp_path, "1 2 3\n4\n\n5  6\t7 \n")
    assert read(path, "bags") == {"user": [[1], [4], [], [5]], "item": [[2, 3], [], [], [6, 7]]}


def test_features_can_be_named_and_selected(tmp_path: Path) -> None:
    path = written(tmp_path, "1 2 3\n")
    assert read(path, "bags", names=("reader", "book")) == {"reader": [[1]], "book": [[2, 3]]}
    assert read(path, "bags", columns=("item",)) == {"item": [[2, 3]]}


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_batches_of_any_size_hold_the_same_samples(tmp_path: Path, batch_size: int) -> None:
    lines = [[u, *range(u % 5)] for u in range(200)]
    path = written(tmp_path, "".join(" ".join(map(str, line)) + "\n" for line in lines))
    expected = {"user": [line[:1] for line in lines], "item": [line[1:] for line in lines]}
    assert samples_of(open_trace(path, "bags"), batch_size) == expected


def test_a_bag_may_be_long(tmp_path: Path) -> None:
    items = list(range(300_000))
    assert read(written(tmp_path, f"1 {' '.join(map(str, items))}\n"), "bags")["item"] == [items]


@pytest.mark.parametrize("found", ["-2", "x", "1.5"])
def test_what_is_no_id_is_named_with_its_line(tmp_path: Path, found: str) -> None:
    message = refusal(written(tmp_path, f"1 2\n3 4 {found}\n"), "bags")
    assert "user_items.txt: line 2" in message
    assert found in message


def test_a_line_beyond_all_measure_is_refused(tmp_path: Path) -> None:
    assert "a line is longer than 4 MiB" in refusal(written(tmp_path, "1 " * 5_000_000), "bags")
