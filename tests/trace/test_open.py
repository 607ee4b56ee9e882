"""Opening a trace: the format follows from the name, several files are one trace, and mistakes are explained."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from recshard.errors import InputError
from recshard.trace import TextOptions, Trace, open_trace
from tests.trace.samples import read, refusal, samples_of, zstd


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.csv", "x,y\n1,2\n", {"x": [[1]], "y": [[2]]}),
        ("a.tsv", "x\ty\n1\t2\n", {"x": [[1]], "y": [[2]]}),
        ("a.libfm", "1 1:1 2:1\n", {"field_0": [[1]], "field_1": [[2]]}),
        ("a.txt", "1 1:1 2:1\n", {"field_0": [[1]], "field_1": [[2]]}),
        ("a.txt", "x,y\n1,2\n", {"x": [[1]], "y": [[2]]}),
        ("a.inter", "x:token\ty:float\n1\t2\n", {"x": [[1]]}),
    ],
)
@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".zst", zstd)])
def test_the_format_follows_from_the_name(
    tmp_path: Path,
    name: str,
    text: str,
    expected: dict[str, list[list[int]]],
    suffix: str,
    pack: Callable[[bytes], bytes],
) -> None:
    path = tmp_path / (name + suffix)
    path.write_bytes(pack(text.encode()))
    assert read(path) == expected
    other = tmp_path / "log.day1"
    other.write_bytes(path.read_bytes())
    format = {".libfm": "libfm", ".inter": "recbole"}.get(Path(name).suffix, "libfm" if ":" in text else "text")
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


def test_binary_formats_are_recognised_by_their_first_bytes(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "part-0")
    assert read(tmp_path / "part-0") == {"a": [[1]]}
    tensors = (torch.tensor([5, 6]), torch.tensor([0, 1, 2]), torch.tensor([[1, 1]]))
    for zipped in (True, False):
        torch.save(tensors, tmp_path / "bin_0", _use_new_zipfile_serialization=zipped)
        assert read(tmp_path / "bin_0") == {"table_000": [[5], [6]]}
    (tmp_path / "cut").write_bytes((tmp_path / "part-0").read_bytes()[:20].replace(b"PAR1", b"PK\x03\x04"))
    assert "is the file whole?" in refusal(tmp_path / "cut")


def test_a_pattern_is_its_matches_in_order_of_their_paths(tmp_path: Path) -> None:
    for number in (2, 0, 1):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "log.csv").write_text(f"item\n{number}\n")
    (tmp_path / "1" / "notes.md").touch()
    for pattern in ("*/log.csv", "**/*.csv", "[012]/lo?.csv"):
        assert read(tmp_path / pattern) == {"item": [[0], [1], [2]]}
    assert samples_of(open_trace([tmp_path / "2" / "*.csv", tmp_path / "0" / "*"])) == {"item": [[2], [0]]}


def test_a_pattern_without_matches_is_refused(tmp_path: Path) -> None:
    for format in (None, "text"):
        assert f"{tmp_path}/*.csv: no file matches this pattern" in refusal(tmp_path / "*.csv", format)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_refused_since_it_cannot_be_read_again(tmp_path: Path) -> None:
    for name in ("log.csv", "log"):
        os.mkfifo(tmp_path / name)
        assert f"{name}: is a pipe or a device; accepted: files" in refusal(tmp_path / name)


def test_a_file_may_be_called_like_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "log[1].csv").write_text("item\n1\n")
    (tmp_path / "log1.csv").write_text("item\n2\n")
    assert read(tmp_path / "log[1].csv") == {"item": [[1]]}


def test_an_unknown_format_lists_the_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("1 2\n")
    assert "text|criteo|recbole|libfm|bags|parquet|arrays|dlrm|recipe" in refusal(path)
    assert "found 'parqet' (did you mean 'parquet'?); accepted: text, criteo" in refusal(path, "parqet")


@pytest.mark.parametrize("name", ["nope.csv", "nope.csv.gz", "nope.parquet", "nope.pt", "nope.libfm", "no/pe.txt"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    assert f"{tmp_path / name}: no such file" in refusal(tmp_path / name)


def test_a_folder_without_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "_temporary").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "_temporary" / "part-0.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / ".part-0.parquet")
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
