"""libFM text: fields as features, or a line as one bag."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trace.samples import read, refusal


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "log.libfm"
    path.write_text(text)
    return path


def test_every_field_is_a_feature_and_keeps_its_raw_ids(tmp_path: Path) -> None:
    path = written(tmp_path, "1 3:1 40:1\n-1\t5:1  41:0.5 \r\n")
    assert read(path) == {"field_0": [[3], [5]], "field_1": [[40], [41]]}
    assert read(path, names=("user", "item")) == {"user": [[3], [5]], "item": [[40], [41]]}


def test_a_value_of_zero_is_absent_and_all_others_are_present(tmp_path: Path) -> None:
    path = written(tmp_path, "1 3:0 4:-2.5e-3\n1 5:1 6:0.0\n")
    assert read(path) == {"field_0": [[], [5]], "field_1": [[4], []]}


def test_one_name_reads_each_line_as_one_bag(tmp_path: Path) -> None:
    path = written(tmp_path, "1 3:1 4:0 5:2\n0\n-1 7:1\n")
    assert read(path, names=("words",)) == {"words": [[3, 5], [], [7]]}


def test_a_first_line_of_any_length_tells_the_fields(tmp_path: Path) -> None:
    path = written(tmp_path, "1 " + " ".join(f"{i}:1" for i in range(20_000)) + "\n")
    assert read(path, names=("words",))["words"] == [list(range(20_000))]


def test_a_line_with_more_entries_is_named_with_the_way_out(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, "1 3:1 4:1\n1 3:1 4:1 5:1\n"))
    assert "line 2: found 3 entries; the first line has 2" in message
    assert "--names ids" in message


@pytest.mark.parametrize("entry", ["x:1", "-7:1", "7:1e", "7", "7:1:1", ":1", "99999999999999999999:1"])
def test_what_is_no_entry_is_named_with_its_line(tmp_path: Path, entry: str) -> None:
    message = refusal(written(tmp_path, f"1 3:1\n1 {entry}\n"))
    assert "log.libfm: line 2" in message
    assert entry.split(":")[0] in message


def test_names_must_fit_the_fields(tmp_path: Path) -> None:
    assert "found 3; accepted: 2" in refusal(written(tmp_path, "1 3:1 4:1\n"), names=("a", "b", "c"))
