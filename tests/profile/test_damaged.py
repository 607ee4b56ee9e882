"""A profile whose numbers cannot be is refused in one message."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import recshard as rs
from recshard.errors import InputError
from recshard.problem import build_problem, check_problem
from recshard.profile.build import profile_trace
from recshard.topology import Group, Tier, Topology
from tests.traces import MemoryTrace

ONE = Topology((Group(1, 1, (Tier("hbm", 1e12, 1e9),)),))


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
    [
        ("samples", True),
        ("samples", -1),
        ("samples", 10**400),
        ("batch_size", 10**400),
        ("batch_size", 0),
        ("batch_size", float("nan")),
        ("sampled", -3.0),
        ("sampled", 0),
        ("sampled", 1.5),
        ("sampled", True),
        ("sampled", "all"),
        ("sampled", 10**400),
        ("sampled", float("nan")),
    ],
)
def test_numbers_of_the_whole_profile_are_checked(saved: Path, tmp_path: Path, field: str, value: object) -> None:
    path = copied(saved, tmp_path)
    document = json.loads((path / "profile.json").read_text())
    (path / "profile.json").write_text(json.dumps(document | {field: value}))
    with pytest.raises(InputError, match=field):
        rs.load_profile(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rows", 10**30),
        ("rows", 0),
        ("rows", True),
        ("rows", float("nan")),
        ("dim", -4),
        ("dim", 0),
        ("dim", 64.0),
        ("dtype", "float23"),
        ("optimizer", ["adam"]),
        ("ids", None),
    ],
)
def test_numbers_of_tables_are_checked(saved: Path, tmp_path: Path, field: str, value: object) -> None:
    path = copied(saved, tmp_path)
    document = json.loads((path / "profile.json").read_text())
    document["tables"][0][field] = value
    (path / "profile.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=rf"{field} of table .*found .*; accepted: .*make it again"):
        rs.load_profile(path)


@pytest.mark.parametrize("value", [float("nan"), -1, True, 10**400, "many", None])
@pytest.mark.parametrize("of", ["tables", "features"])
def test_lookups_are_those_of_the_counts_and_lengths(saved: Path, tmp_path: Path, of: str, value: object) -> None:
    path = copied(saved, tmp_path)
    document = json.loads((path / "profile.json").read_text())
    document[of][0]["lookups"] = value
    (path / "profile.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=f"of {of[:-1]} .*do not add up"):
        rs.load_profile(path)


def test_more_rows_than_a_table_has_are_refused(saved: Path, tmp_path: Path) -> None:
    path = copied(saved, tmp_path)
    document = json.loads((path / "profile.json").read_text())
    document["tables"][0]["rows"] = document["tables"][0]["seen_rows"] - 1
    (path / "profile.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"rows of table .*: found \d+ that were looked up; accepted: up to"):
        rs.load_profile(path)


@pytest.mark.parametrize("column", ["length", "samples"])
@pytest.mark.parametrize("value", [-1, 2**62, None])
def test_lengths_that_cannot_be_are_refused(saved: Path, tmp_path: Path, column: str, value: int | None) -> None:
    path = copied(saved, tmp_path)
    table = pq.read_table(path / "lengths.parquet")
    numbers = table[column].to_pylist()
    numbers[0] = value
    place = table.schema.get_field_index(column)
    pq.write_table(table.set_column(place, column, pa.array(numbers, pa.int64())), path / "lengths.parquet")
    with pytest.raises(InputError, match=r"of (table|feature) .*found .*; accepted: .*make it again"):
        rs.load_profile(path)


@pytest.mark.parametrize("value", [float("nan"), -1, True, "few"])
def test_collisions_are_counts(tmp_path: Path, value: object) -> None:
    path = tmp_path / "profile"
    rs.save_profile(profile_trace(MemoryTrace({"a": [[7, 10**9], [7]]})), path)
    document = json.loads((path / "profile.json").read_text())
    document["tables"][0]["hashing"]["collided_ids"] = value
    (path / "profile.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match="collided_ids of table 'a'"):
        rs.load_profile(path)


@pytest.mark.parametrize(("count", "rows"), [(2**62, 4), (2**62, 2), (2**63 - 1, 2), (-1, 2), (0, 1)])
def test_counts_that_overflow_are_not_saved(saved: Path, tmp_path: Path, count: int, rows: int) -> None:
    profile = rs.load_profile(saved)
    wrong = replace(profile.stats[0], class_count=np.array([count]), class_rows=np.array([rows]))
    with pytest.raises(InputError, match="profile: not saved: count"):
        rs.save_profile(replace(profile, stats=(wrong, *profile.stats[1:])), tmp_path / "profile")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("batch_size", [10**400, 0, -1, True, float("nan"), 1e400])
def test_a_batch_size_beyond_all_measure_is_refused(saved: Path, tmp_path: Path, batch_size: int) -> None:
    with pytest.raises(InputError, match=r"batch size: found .*; accepted: a whole number"):
        build_problem(rs.load_profile(saved), ONE, rs.Workload(batch_size=batch_size))
    (tmp_path / "tables.toml").write_text(f'batch_size = {10**18}\n[[tables]]\nname = "a"\n')
    with pytest.raises(InputError, match=r"batch_size.*found 10+; accepted: a whole number of 1 or more, at most"):
        rs.load_tables(tmp_path / "tables.toml")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("multiplier", [1e308, 1e100, float("inf"), float("nan"), 0.0, -1.0])
def test_traffic_beyond_all_measure_is_refused(saved: Path, multiplier: float) -> None:
    workload = rs.Workload(traffic_multiplier=multiplier)
    with pytest.raises(InputError, match=r"found .*; accepted: "):
        check_problem(build_problem(rs.load_profile(saved), ONE, workload))


def copied(saved: Path, to: Path) -> Path:
    path = to / "copy"
    path.mkdir()
    for file in saved.iterdir():
        (path / file.name).write_bytes(file.read_bytes())
    return path
