"""Parquet: scalar and list columns of integers and strings; and the writer that `synth` uses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from recshard.errors import InputError, nearest
from recshard.files import new_file
from recshard.trace.base import DEFAULT_BATCH, Bag, Batch, Trace
from recshard.trace.columns import Place, is_text, to_bag
from recshard.trace.rebatch import rebatch

if TYPE_CHECKING:
    import pyarrow as pa

_BUFFER_BYTES = 1 << 20  # of a column at a time
_WAY_OUT = "leave the column out (--columns), or convert it"


@dataclass(frozen=True)
class ParquetTrace:
    """A Parquet file; every column read is a feature, a null an absent one, a list several IDs.

    Strings are names and are hashed to IDs.

    Attributes:
        path: of the file.
        features: columns that are read.
        group: the one row group that is read; None: all.
        first_row: of that group, counted from 0.
    """

    path: Path
    features: tuple[str, ...]
    group: int | None = None
    first_row: int = 0

    @property
    def name(self) -> str:
        return str(self.path)

    def batches(self, batch_size: int = DEFAULT_BATCH) -> Iterator[Batch]:
        return rebatch(self._chunks(batch_size), batch_size)

    def _chunks(self, rows: int) -> Iterator[Batch]:
        import pyarrow.parquet as pq
        from pyarrow import ArrowException

        row = 1 + self.first_row
        groups = None if self.group is None else [self.group]
        try:
            # Pages are read as they are needed, not whole row groups beforehand: memory stays that of a batch.
            with pq.ParquetFile(self.path, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file:
                for chunk in file.iter_batches(rows, row_groups=groups, columns=list(self.features)):
                    place = Place(self.name, row, "row", _WAY_OUT)
                    bags = {name: to_bag(chunk.column(name), name, place, strings=True) for name in self.features}
                    yield Batch(chunk.num_rows, bags)
                    row += chunk.num_rows
        except (ArrowException, OSError) as error:
            raise InputError(f"{self.path}: cannot be read as Parquet: {error}") from None


def row_groups(trace: ParquetTrace) -> list[ParquetTrace]:
    """Return the row groups of a Parquet file, each as a trace of its own.

    Raises:
        InputError: the file cannot be read.
    """
    sizes = _row_group_sizes(trace.path)
    first = [sum(sizes[:k]) for k in range(len(sizes))]
    return [replace(trace, group=k, first_row=first[k]) for k in range(len(sizes))] or [trace]


def rows_in(trace: ParquetTrace) -> int:
    """Return the rows that are read of a Parquet file."""
    sizes = _row_group_sizes(trace.path)
    return sum(sizes) if trace.group is None else sizes[trace.group]


def _row_group_sizes(path: Path) -> list[int]:
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    try:
        metadata = pq.read_metadata(path)
    except (ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot be read as Parquet: {error}") from None
    return [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]


def open_parquet(paths: Sequence[Path], columns: tuple[str, ...]) -> list[ParquetTrace]:
    """Return the traces in Parquet files, of all the columns of the first or of those given.

    Columns are found by name, whatever their order in a file. Keys in the names of folders (`date=2024-05-01/`)
    are no columns.

    Raises:
        InputError: missing or no Parquet file, a column that is not there, files with other columns, or a column
            that holds integers in one file and strings in another.
    """
    schemas = [_schema(path) for path in paths]
    present = tuple(schemas[0].names)
    for column in columns:
        if column not in present:
            raise InputError(
                f"{paths[0]}: no column '{column}'{nearest(column, present)}; present: {', '.join(present)}"
            )
    features = columns or present
    typed: dict[str, tuple[Path, pa.DataType]] = {}
    for path, schema in zip(paths, schemas, strict=True):
        missing = [column for column in features if column not in schema.names]
        extra = [] if columns else [column for column in schema.names if column not in features]
        if missing or extra:
            lists = [
                f"{what} {', '.join(names)}" for what, names in (("lacks", missing), ("also has", extra)) if names
            ]
            raise InputError(
                f"{path}: {' and '.join(lists)}; accepted: the columns of {paths[0]}, in any order; select "
                "columns that all files have (--columns)"
            )
        for column in features:
            kind = schema.field(column).type
            if not _family(kind):
                continue
            first, expected = typed.setdefault(column, (path, kind))
            if _family(kind) != _family(expected):
                raise InputError(
                    f"{path}: column '{column}' holds {kind}, but {expected} in {first}; accepted: integers in "
                    f"all files, or strings in all; {_WAY_OUT}"
                )
    return [ParquetTrace(path, features) for path in paths]


def _schema(path: Path) -> pa.Schema:
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    try:
        schema = pq.read_schema(path)
    except (ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot be read as Parquet: {error}") from None
    if len(set(schema.names)) < len(schema.names):
        twice = next(name for name in schema.names if schema.names.count(name) > 1)
        raise InputError(f"{path}: column '{twice}' is there twice; columns need names of their own")
    return schema


def _family(kind: pa.DataType) -> str:
    """Return `integer` or `string`, of elements too; nothing for types that are neither, or all null."""
    import pyarrow as pa

    while not pa.types.is_dictionary(kind) and kind.num_fields == 1 and hasattr(kind, "value_type"):
        kind = kind.value_type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind):
        return "integer"
    return "string" if is_text(kind) else ""


def write_parquet(trace: Trace, path: str | Path) -> int:
    """Write a trace as a Parquet file of list columns, whole or not at all; return its samples.

    Raises:
        InputError: the file cannot be written, or what `trace` raises.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = Path(path)
    schema = pa.schema([(feature, pa.list_(pa.int64())) for feature in trace.features])
    samples = 0
    with new_file(target) as temporary, pq.ParquetWriter(temporary, schema) as writer:
        for batch in trace.batches():
            samples += batch.samples
            columns = [_list_column(batch.bags[feature]) for feature in trace.features]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    return samples


def _list_column(bag: Bag) -> object:
    import numpy as np
    import pyarrow as pa

    offsets = np.concatenate([[0], np.cumsum(bag.lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(bag.values))
