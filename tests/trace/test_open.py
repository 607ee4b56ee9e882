"""Opening a trace: the format follows from the name, several files are one trace, and mistakes are explained."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from recshard.errors import InputError
from recshard.trace import TextOptions, Trace, open_trace
from tests.trace.samples import read, refusal, samples_of


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.csv", "x,y\n1,2\n", {"x": [[1]], "y": [[2]]}),
        ("a.tsv", "x\ty\n1\t2\n", {"x": [[1]], "y": [[2]]}),
        ("a.libfm", "1 1:1 2:1\n", {"field_0": [[1]], "field_1": [[2]]}),
        ("a.txt", "1 1:1 2:1\n", {"field_0": [[1]], "field_1": [[2]]}),
        ("a.txt", "x,y\n1,2\n", {"x": [[1]], "y": [[2]]}),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_the_format_follows_from_the_name(
    tmp_path: Path, name: str, text: str, expected: dict[str, list[list[int]]], packed: bool
) -> None:
    path = tmp_path / (name + ".gz" if packed else name)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    assert read(path) == expected
    other = tmp_path / "log.day1"
    other.write_bytes(path.read_bytes())
    format = "libfm" if ":" in text else "text"
    assert read(other, format, delimiter="\t" if "\t" in text else None) == expected


def test_several_files_are_one_trace_in_the_order_given(tmp_path: Path) -> None:
    paths = []
    for number in (3, 1, 2):
        paths.append(tmp_path / f"{number}.csv")
        paths[-1].write_text("item\n" + f"{number}\n" * 3)
    trace = open_trace(paths)
    for batch_size in (1, 2, 4, 100):
        assert samples_of(trace, batch_size) == {"item": [[3]] * 3 + [[1]] * 3 + [[2]] * 3}


def test_files_with_other_features_are_no_part_of_a_trace(tmp_path: Path) -> None:
    for name in ("item", "user"):
        (tmp_path / f"{name}.csv").write_text(f"{name}\n1\n")
    with pytest.raises(InputError, match=r"user\.csv: has features user; accepted: those of .*item\.csv: item"):
        open_trace([tmp_path / "item.csv", tmp_path / "user.csv"])


def test_an_unknown_format_lists_the_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("1 2\n")
    assert "text|libfm|bags|parquet|dlrm|recipe" in refusal(path)
    assert "found 'parqet' (did you mean 'parquet'?); accepted: text, libfm, bags" in refusal(path, "parqet")


@pytest.mark.parametrize("name", ["nope.csv", "nope.csv.gz", "nope.parquet", "nope.pt", "nope.libfm", "no/pe.txt"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    assert f"{tmp_path / name}: no such file" in refusal(tmp_path / name)


def test_a_folder_without_parquet_is_refused(tmp_path: Path) -> None:
    assert "accepted: files, or a folder with .parquet files" in refusal(tmp_path)
    assert "is a folder" in refusal(tmp_path, "text")
    with pytest.raises(InputError, match="found no path"):
        open_trace([])


def test_a_folder_goes_with_a_data_set_only(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    with pytest.raises(InputError, match="data"):
        open_trace(tmp_path / "a.csv", data=tmp_path)
    with pytest.raises(InputError, match="synthetic"):
        open_trace("demo", data=tmp_path)


def test_every_trace_keeps_the_protocol(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    for trace in (open_trace("demo"), open_trace(tmp_path / "a.csv"), open_trace([tmp_path / "a.csv"] * 2)):
        assert isinstance(trace, Trace)


def test_columns_select_the_features_of_a_recipe() -> None:
    trace = open_trace("demo", options=TextOptions(columns=("id_00", "context_01")))
    assert trace.features == ("id_00", "context_01")


def test_the_room_is_entered_without_its_heavy_parts() -> None:
    heavy = ("torch", "pyarrow", "pandas", "numba", "pydantic")
    code = f"import sys, recshard.trace; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
