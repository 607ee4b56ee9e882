"""Parquet: columns of every accepted type give the IDs that were written, and the writer gives them back."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.errors import InputError
from recshard.trace import Batch, open_trace, write_parquet
from tests.trace.samples import read, refusal, samples_of
from tests.traces import MemoryTrace

IDS = st.integers(0, 2**63 - 1)


def written(tmp_path: Path, columns: dict[str, pa.Array], row_group: int = 1 << 20) -> Path:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=row_group)
    return path


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()])
def test_integers_of_every_width_are_ids(tmp_path: Path, kind: pa.DataType) -> None:
    path = written(
        tmp_path, {"one": pa.array([1, None, 100], kind), "many": pa.array([[1, 2], [], None], pa.list_(kind))}
    )
    assert read(path) == {"one": [[1], [], [100]], "many": [[1, 2], [], []]}


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_(pa.int64(), 2)], ids=str
)
def test_lists_of_every_kind_are_several_ids(tmp_path: Path, kind: pa.DataType) -> None:
    assert read(written(tmp_path, {"many": pa.array([[1, 2], None, [3, 4]], kind)})) == {
        "many": [[1, 2], [], [3, 4]]
    }


def test_a_null_in_a_list_is_absent(tmp_path: Path) -> None:
    path = written(tmp_path, {"many": pa.array([[1, None, 2], [None], [3]])})
    assert read(path) == {"many": [[1, 2], [], [3]]}


def test_strings_have_one_id_however_they_are_stored(tmp_path: Path) -> None:
    words = pa.array(["a", "Zürich", None, "a", ""])
    plain = read(written(tmp_path, {"word": words}))["word"]
    for other in (words.dictionary_encode(), words.cast(pa.large_string())):
        assert read(written(tmp_path, {"word": other}))["word"] == plain
    lists = read(written(tmp_path, {"word": pa.array([["a", "Zürich"], [], ["a", ""]])}))["word"]
    assert [id for sample in lists for id in sample] == [id for sample in plain for id in sample]
    assert plain[0] == plain[3] != plain[1]
    assert plain[2] == []


def test_dictionaries_of_integers_are_their_values(tmp_path: Path) -> None:
    assert read(written(tmp_path, {"one": pa.array([7, 9, None, 7]).dictionary_encode()})) == {
        "one": [[7], [9], [], [7]]
    }


@pytest.mark.parametrize("batch_size", [1, 5, 64, 1000])
def test_row_groups_do_not_show_in_the_batches(tmp_path: Path, batch_size: int) -> None:
    rows = [list(range(i % 4)) for i in range(300)]
    path = written(tmp_path, {"many": pa.array(rows), "one": pa.array(range(300))}, row_group=7)
    assert samples_of(open_trace(path), batch_size) == {"many": rows, "one": [[i] for i in range(300)]}


@settings(max_examples=30, deadline=None)
@given(samples=st.lists(st.tuples(st.lists(IDS, max_size=4), st.lists(IDS, max_size=2)), min_size=1, max_size=30))
def test_what_is_written_is_what_is_read(samples: list[tuple[list[int], list[int]]]) -> None:
    trace = MemoryTrace({"a": [a for a, _ in samples], "b": [b for _, b in samples]})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "deep" / "log.parquet"
        assert write_parquet(trace, path) == len(samples)
        assert samples_of(open_trace(path)) == samples_of(trace)
        assert [file.name for file in path.parent.iterdir()] == ["log.parquet"]


def test_a_writer_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    class Torn(MemoryTrace):
        def batches(self, batch_size: int = 1) -> Iterator[Batch]:
            yield from super().batches(batch_size)
            raise InputError("torn")

    path = tmp_path / "log.parquet"
    write_parquet(MemoryTrace({"a": [[1]]}), path)
    with pytest.raises(InputError, match="torn"):
        write_parquet(Torn({"a": [[2], [3]]}), path)
    assert read(path) == {"a": [[1]]}
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_is_its_files_by_name(tmp_path: Path) -> None:
    for number in (2, 0, 1):
        pq.write_table(pa.table({"a": [number]}), tmp_path / f"part_{number}.parquet")
    (tmp_path / "_SUCCESS").touch()
    assert read(tmp_path) == {"a": [[0], [1], [2]]}


def parts(tmp_path: Path, *tables: dict[str, pa.Array]) -> Path:
    for number, columns in enumerate(tables):
        pq.write_table(pa.table(columns), tmp_path / f"part_{number}.parquet")
    return tmp_path


def test_subfolders_and_patterns_are_their_files_by_path(tmp_path: Path) -> None:
    for day in (3, 1, 2):
        for part in (1, 0):
            path = tmp_path / f"date=2024-05-0{day}" / f"part-{part}.parquet"
            path.parent.mkdir(exist_ok=True)
            pq.write_table(pa.table({"a": [10 * day + part]}), path)
    every = {"a": [[10], [11], [20], [21], [30], [31]]}
    for path in (tmp_path, tmp_path / "*", tmp_path / "**/*.parquet", tmp_path / "date=*/part-?.parquet"):
        assert read(path, "parquet") == every
    assert read(tmp_path) == read(tmp_path / "date=*") == every


def test_columns_are_found_by_name_in_every_file(tmp_path: Path) -> None:
    folder = parts(tmp_path, {"a": pa.array([1]), "b": pa.array([2])}, {"b": pa.array([4]), "a": pa.array([3])})
    assert read(folder) == {"a": [[1], [3]], "b": [[2], [4]]}


def test_files_with_other_columns_are_refused_unless_all_have_those_selected(tmp_path: Path) -> None:
    folder = parts(tmp_path, {"a": pa.array([1]), "b": pa.array([2])}, {"c": pa.array([4]), "a": pa.array([3])})
    assert "part_1.parquet: lacks b and also has c; accepted: the columns of" in refusal(folder)
    assert "part_1.parquet: lacks b; accepted" in refusal(folder, columns=("b",))
    assert read(folder, columns=("a",)) == {"a": [[1], [3]]}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array([1]), pa.array(["x"])),
        (pa.array([["x"]]), pa.array([1], pa.int32())),
        (pa.array([[1]]), pa.array(["x"]).dictionary_encode()),
        (pa.array([1]).dictionary_encode(), pa.array([["x"]], pa.large_list(pa.large_string()))),
    ],
    ids=lambda column: str(column.type),
)
def test_a_column_of_integers_here_and_strings_there_is_refused_before_it_is_read(
    tmp_path: Path, first: pa.Array, second: pa.Array
) -> None:
    none = pa.array([None], pa.null())
    folder = parts(tmp_path, {"a": none, "b": first}, {"a": none, "b": none}, {"a": none, "b": second})
    with pytest.raises(InputError) as caught:
        open_trace(folder)
    for part in ("part_0.parquet", "part_2.parquet: column 'b'", "int", "string", "--columns"):
        assert part in str(caught.value)
    assert read(folder, columns=("a",)) == {"a": [[], [], []]}


def test_widths_and_lists_may_differ_between_files(tmp_path: Path) -> None:
    folder = parts(tmp_path, {"a": pa.array([1], pa.int8())}, {"a": pa.array([None])}, {"a": pa.array([[2, 3]])})
    assert read(folder) == {"a": [[1], [], [2, 3]]}


@pytest.mark.parametrize(
    ("column", "parts"),
    [
        (pa.array([1, 2, -3]), ("row 3", "column 'a'", "-3", "--columns")),
        (pa.array([[1], [2, -3]]), ("row 2", "column 'a'", "-3", "--columns")),
        (pa.array([7, -3]).dictionary_encode(), ("row 2", "column 'a'", "-3", "--columns")),
        (pa.array([1, 2**63], pa.uint64()), ("row 2", "column 'a'", str(2**63))),
        (pa.array([1.0]), ("column 'a'", "double", "integers, strings")),
        (pa.array([[1.0]]), ("column 'a'", "double", "integers, strings")),
        (pa.array([True]), ("column 'a'", "bool")),
        (pa.array([{"x": 1}]), ("column 'a'", "struct")),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_what_is_no_id_is_named(tmp_path: Path, column: pa.Array, parts: tuple[str, ...]) -> None:
    message = refusal(written(tmp_path, {"a": column}))
    for part in ("log.parquet", *parts):
        assert part in message


def test_rows_are_counted_over_row_groups(tmp_path: Path) -> None:
    ids = np.arange(200_000)
    ids[150_000] = -1
    assert "row 150001," in refusal(written(tmp_path, {"a": pa.array(ids)}, row_group=1000))


def test_a_misspelt_column_gets_a_suggestion(tmp_path: Path) -> None:
    path = written(tmp_path, {"user": pa.array([1]), "price": pa.array([0.5])})
    assert read(path, columns=("user",)) == {"user": [[1]]}
    message = refusal(path, columns=("usr",))
    assert "'usr' (did you mean 'user'?)" in message
    assert "present: user, price" in message


def test_what_is_no_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    path.write_bytes(b"PAR1 and nothing else")
    assert "cannot be read as Parquet" in refusal(path)
