"""A profile whose numbers cannot be is refused in one message."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import recshard as rs
from recshard.errors import InputError
from recshard.profile.build import profile_trace


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("profiles") / "profile"
    rs.save_profile(profile_trace(rs.take(rs.open_trace("demo"), slice(0, 512))), path)
    return path


@pytest.mark.parametrize("column", ["count", "rows"])
@pytest.mark.parametrize("value", [2**62, 2**63 - 1, -5, 0])
def test_counts_that_overflow_or_are_none_are_refused(
    saved: Path, tmp_path: Path, column: str, value: int
) -> None:
    path = copied(saved, tmp_path)
    table = pq.read_table(path / "classes.parquet")
    numbers = table[column].to_pylist()
    numbers[0] = value
    place = table.schema.get_field_index(column)
    pq.write_table(table.set_column(place, column, pa.array(numbers, pa.int64())), path / "classes.parquet")
    with pytest.raises(InputError, match=r"make (it|the profile) again"):
        rs.load_profile(path)


def test_counts_that_wrap_around_to_the_right_sum_are_refused(saved: Path, tmp_path: Path) -> None:
    path = copied(saved, tmp_path)
    table = pq.read_table(path / "classes.parquet")
    count, rows = table["count"].to_pylist(), table["rows"].to_pylist()
    # 2⁶² × 4 is nothing in 64 bits.
    count, rows = [2**62, *count], [4, *rows]
    names = [table["table"][0].as_py(), *table["table"].to_pylist()]
    wrapped = pa.table({"table": pa.array(names), "count": pa.array(count), "rows": pa.array(rows)})
    pq.write_table(wrapped.cast(table.schema), path / "classes.parquet")
    with pytest.raises(InputError, match="do not add up"):
        rs.load_profile(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [("samples", True), ("batch_size", 10**400), ("batch_size", 0), ("sampled", -3.0), ("sampled", float("nan"))],
)
def test_numbers_of_the_whole_profile_are_checked(saved: Path, tmp_path: Path, field: str, value: object) -> None:
    path = copied(saved, tmp_path)
    document = json.loads((path / "profile.json").read_text())
    (path / "profile.json").write_text(json.dumps(document | {field: value}))
    with pytest.raises(InputError, match=field):
        rs.load_profile(path)


@pytest.mark.parametrize(("field", "value"), [("rows", 10**30), ("dim", -4), ("dim", 0), ("rows", float("nan"))])
def test_numbers_of_tables_are_checked(saved: Path, tmp_path: Path, field: str, value: object) -> None:
    path = copied(saved, tmp_path)
    document = json.loads((path / "profile.json").read_text())
    document["tables"][0][field] = value
    (path / "profile.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=f"{field} of table"):
        rs.load_profile(path)


def copied(saved: Path, to: Path) -> Path:
    path = to / "copy"
    path.mkdir()
    for file in saved.iterdir():
        (path / file.name).write_bytes(file.read_bytes())
    return path
