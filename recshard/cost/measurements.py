"""Measured shards: what was looked up, how long it took, and both on disk.

A folder: `measurements.json` says how it was measured (nothing that tells which machine), `tables.parquet` has a
row for every table, `shards.parquet` for every shard.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from recshard.cost.shards import Shards, shard_features
from recshard.errors import InputError
from recshard.files import new_folder, read_json
from recshard.problem import FloatArray

FORMAT_VERSION = 1
_JSON = "measurements.json"
_TABLES = "tables.parquet"
_SHARDS = "shards.parquet"
T = TypeVar("T", int, str)
_KIND = "folder of measurements"
_TABLE_COLUMNS = ("shard", "dim", "rows", "pooling_factor", "exponent")
_SHARD_COLUMNS = ("forward_ms", "backward_ms")


@dataclass(frozen=True)
class Measurements:
    """Shards and their measured times, s shards of n tables in all.

    Attributes:
        shards: the tables.
        forward_ms: time of the lookup, shape (s,).
        backward_ms: time of the gradient and the optimizer's update of the rows reached, shape (s,).
        tier: the kind of memory that was read, such as `host`.
        batch_size: samples in a batch.
        optimizer: the optimizer that updated the rows.
        repetitions: batches timed per shard; the times are their medians.
        threads: threads that torch used.
        torch: version of torch.
        seed: of the random choice of shards and batches.
    """

    shards: Shards
    forward_ms: FloatArray
    backward_ms: FloatArray
    tier: str
    batch_size: int
    optimizer: str
    repetitions: int
    threads: int
    torch: str
    seed: int

    @property
    def total_ms(self) -> FloatArray:
        """Time of a shard's whole step, shape (s,)."""
        return self.forward_ms + self.backward_ms

    @cached_property
    def features(self) -> FloatArray:
        """Features of all tables, shape (n, 21)."""
        return shard_features(self.shards, self.batch_size)


def save_measurements(measurements: Measurements, folder: str | Path) -> None:
    """Write measurements to a folder, whole or not at all; older measurements there are replaced.

    Raises:
        InputError: the folder holds something else, or cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    about = {
        "format_version": FORMAT_VERSION,
        "shards": measurements.shards.count,
        "tier": measurements.tier,
        "batch_size": measurements.batch_size,
        "optimizer": measurements.optimizer,
        "repetitions": measurements.repetitions,
        "threads": measurements.threads,
        "torch": measurements.torch,
        "seed": measurements.seed,
    }
    with new_folder(folder, _JSON) as target:
        pq.write_table(pa.table({c: getattr(measurements.shards, c) for c in _TABLE_COLUMNS}), target / _TABLES)
        pq.write_table(pa.table({c: getattr(measurements, c) for c in _SHARD_COLUMNS}), target / _SHARDS)
        (target / _JSON).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def load_measurements(folder: str | Path) -> Measurements:
    """Return the measurements in a folder.

    Raises:
        InputError: no such folder, no measurements, another format version, or columns that do not fit.
    """
    about = read_json(folder, _JSON, _KIND, FORMAT_VERSION)
    source = Path(folder) / _JSON
    tables = _read_columns(Path(folder) / _TABLES, _TABLE_COLUMNS)
    times = _read_columns(Path(folder) / _SHARDS, _SHARD_COLUMNS)
    shards = Shards(
        shard=tables["shard"].astype(np.int64),
        dim=tables["dim"].astype(np.int64),
        rows=tables["rows"].astype(np.int64),
        pooling_factor=tables["pooling_factor"].astype(np.float64),
        exponent=tables["exponent"].astype(np.float64),
    )
    count = len(times["forward_ms"])
    if not np.array_equal(np.unique(shards.shard), np.arange(count)) or (np.diff(shards.shard) < 0).any():
        raise InputError(
            f"{Path(folder) / _TABLES}: its shards are not 0 … {count - 1} in rising order, one for every row of "
            f"{_SHARDS}; measure again"
        )
    if any(not (np.isfinite(t).all() and (t > 0).all()) for t in times.values()):
        raise InputError(f"{Path(folder) / _SHARDS}: found a time that is not above zero; measure again")
    return Measurements(
        shards=shards,
        forward_ms=times["forward_ms"].astype(np.float64),
        backward_ms=times["backward_ms"].astype(np.float64),
        tier=_entry(about, "tier", str, source),
        batch_size=_entry(about, "batch_size", int, source),
        optimizer=_entry(about, "optimizer", str, source),
        repetitions=_entry(about, "repetitions", int, source),
        threads=_entry(about, "threads", int, source),
        torch=_entry(about, "torch", str, source),
        seed=_entry(about, "seed", int, source),
    )


def _entry(about: dict[str, Any], key: str, kind: type[T], source: Path) -> T:
    value = about.get(key)
    if not isinstance(value, kind):
        raise InputError(f"{source}: {key}: found {value!r}; accepted: {kind.__name__}; measure again")
    return value


def _read_columns(path: Path, columns: Sequence[str]) -> dict[str, FloatArray]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path}: cannot be read as Parquet: {error}") from None
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        raise InputError(f"{path}: column '{missing[0]}' is missing; found: {', '.join(table.column_names)}")
    return {name: table[name].to_numpy() for name in columns}
