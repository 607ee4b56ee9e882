"""Parquet: scalar and list columns of integers and strings; and the writer that `synth` uses."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from recshard.errors import InputError, nearest
from recshard.trace.base import DEFAULT_BATCH, Bag, Batch, Trace
from recshard.trace.columns import Place, to_bag
from recshard.trace.rebatch import rebatch

_WAY_OUT = "leave the column out (--columns), or convert it"


@dataclass(frozen=True)
class ParquetTrace:
    """A Parquet file; every column read is a feature, a null an absent one, a list several IDs.

    Strings are names and are hashed to IDs.
    """

    path: Path
    features: tuple[str, ...]

    @property
    def name(self) -> str:
        return str(self.path)

    def batches(self, batch_size: int = DEFAULT_BATCH) -> Iterator[Batch]:
        return rebatch(self._chunks(), batch_size)

    def _chunks(self) -> Iterator[Batch]:
        import pyarrow.parquet as pq
        from pyarrow import ArrowException

        row = 1
        try:
            with pq.ParquetFile(self.path) as file:
                for chunk in file.iter_batches(DEFAULT_BATCH, columns=list(self.features)):
                    place = Place(self.name, row, "row", _WAY_OUT)
                    bags = {name: to_bag(chunk.column(name), name, place, strings=True) for name in self.features}
                    yield Batch(chunk.num_rows, bags)
                    row += chunk.num_rows
        except (ArrowException, OSError) as error:
            raise InputError(f"{self.path}: cannot be read as Parquet: {error}") from None


def open_parquet(path: Path, columns: tuple[str, ...]) -> ParquetTrace:
    """Return the trace in a Parquet file, of all its columns or of those given.

    Raises:
        InputError: missing or no Parquet file, or a column that is not there.
    """
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    try:
        present = tuple(pq.read_schema(path).names)
    except (ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot be read as Parquet: {error}") from None
    if len(set(present)) < len(present):
        twice = next(name for name in present if present.count(name) > 1)
        raise InputError(f"{path}: column '{twice}' is there twice; columns need names of their own")
    for column in columns:
        if column not in present:
            raise InputError(
                f"{path}: no column '{column}'{nearest(column, present)}; present: {', '.join(present)}"
            )
    return ParquetTrace(path, columns or present)


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
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
        try:
            with pq.ParquetWriter(temporary, schema) as writer:
                for batch in trace.batches():
                    samples += batch.samples
                    columns = [_list_column(batch.bags[feature]) for feature in trace.features]
                    writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
            Path(temporary).chmod(0o644)
            os.replace(temporary, target)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror or error}") from None
    return samples


def _list_column(bag: Bag) -> object:
    import numpy as np
    import pyarrow as pa

    offsets = np.concatenate([[0], np.cumsum(bag.lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(bag.values))
