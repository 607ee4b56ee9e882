"""A plan on disk: `plan.json` for what has names, Parquet for what has rows (design.md, "Files on disk").

`tables.parquet` has a row per table: its arrays; `shards.parquet` a row per shard: what it has of its table, its
device, and rows and share of accesses per tier; `classes.parquet` the frequency classes that the strategy saw;
`hot_rows.parquet` the rows of tables that are split between tiers or cut by rows, hottest first, from which the
remap is made.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from recshard import files
from recshard.errors import InputError
from recshard.placement import InvalidPlacement, Placement, bottleneck_ms, check_placement
from recshard.plan.plan import Plan
from recshard.problem import IntArray, PlacementProblem
from recshard.shards import Shards, SplitRules
from recshard.strategy.history import Event
from recshard.strategy.stop import relative_gap
from recshard.tables import EmbeddingTable, TableSet

MARKER = "plan.json"
VERSION = 2
_TABLES = "tables.parquet"
_SHARDS = "shards.parquet"
_CLASSES = "classes.parquet"
_HOT_ROWS = "hot_rows.parquet"
_PER_TABLE = ("rows", "dim", "row_bytes", "row_state_bytes", "access_bytes", "accesses", "network_bytes")
_PER_SHARD = ("first_column", "columns", "part", "parts")


def save_plan(plan: Plan, path: str | Path) -> None:
    """Write `plan` to the folder `path`.

    Raises:
        InputError: the folder cannot be written, or something else stands there.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    problem, placement, shards = plan.problem, plan.placement, plan.shards
    with files.new_folder(path, MARKER) as folder:
        names = [t.name for t in plan.tables.tables]
        columns = {"table": pa.array(names)}
        columns |= {field: pa.array(getattr(problem, field)) for field in _PER_TABLE}
        hot = [plan.hot_rows(j) if plan.needs_hot_rows(j) else None for j in range(len(names))]
        columns["hot_rows"] = pa.array([0 if rows is None else len(rows) for rows in hot], pa.int64())
        pq.write_table(pa.table(columns), folder / _TABLES)
        columns = {"shard": pa.array(plan.shard_names), "table": pa.array([names[j] for j in shards.table])}
        columns |= {field: pa.array(getattr(shards, field), pa.int64()) for field in _PER_SHARD}
        columns["device"] = pa.array(placement.device, pa.int64())
        for k, tier in enumerate(plan.tier_names):
            columns[f"rows_{tier}"] = pa.array(placement.rows[:, k], pa.int64())
            columns[f"access_share_{tier}"] = pa.array(plan.access_share[:, k])
        pq.write_table(pa.table(columns), folder / _SHARDS)
        classes = {
            "table": pa.DictionaryArray.from_arrays(pa.array(problem.class_table), pa.array(names)),
            "rows": pa.array(problem.class_rows),
            "share": pa.array(problem.class_share),
        }
        pq.write_table(pa.table(classes), folder / _CLASSES)
        schema = pa.schema([("table", pa.string()), ("row", pa.int64())])
        with pq.ParquetWriter(folder / _HOT_ROWS, schema) as writer:
            for name, rows in zip(names, hot, strict=True):
                if rows is not None:
                    repeated = pa.DictionaryArray.from_arrays(np.zeros(len(rows), dtype=np.int32), [name])
                    part = pa.Table.from_arrays([repeated.cast(pa.string()), pa.array(rows)], schema=schema)
                    writer.write_table(part)
        (folder / MARKER).write_text(json.dumps(_document(plan), indent=1, ensure_ascii=False) + "\n")


def _document(plan: Plan) -> dict[str, object]:
    problem = plan.problem
    network = problem.network_bandwidth
    return {
        "format_version": VERSION,
        **plan.facts(),
        "history": [event.document() for event in plan.history],
        "split_rules": dataclasses.asdict(plan.rules),
        "tier_names": list(plan.tier_names),
        "batch_size": problem.batch_size,
        "tables": [dataclasses.asdict(t) for t in plan.tables.tables],
        "memory": {
            "bandwidth": problem.bandwidth.tolist(),
            "pool": problem.pool.tolist(),
            "pool_capacity": problem.pool_capacity.tolist(),
            "network_bandwidth": network.tolist() if np.isfinite(network).all() else None,
        },
    }


def load_plan(path: str | Path) -> Plan:
    """Return the plan in the folder `path`, its placement checked anew.

    Raises:
        InputError: no such folder, no plan, of another version, cut short, or with a placement that breaks a rule.
    """
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    folder = Path(path)
    document = files.read_json(folder, MARKER, "plan", VERSION)
    try:
        table = pq.read_table(folder / _TABLES)
        classes = pq.read_table(folder / _CLASSES)
        hot = table["hot_rows"].to_numpy()
        if pq.read_metadata(folder / _HOT_ROWS).num_rows != hot.sum():
            raise ValueError(f"{_HOT_ROWS} lacks rows")
        if not isinstance(document["batch_size"], int) or document["batch_size"] < 1:
            raise ValueError(f"batch_size is {document['batch_size']!r}")
        tables = tuple(
            EmbeddingTable(**(entry | {"features": tuple(entry["features"])})) for entry in document["tables"]
        )
        names = [t.name for t in tables]
        if table["table"].to_pylist() != names:
            raise ValueError(f"{_TABLES} and {MARKER} name different tables")
        index = {name: j for j, name in enumerate(names)}
        class_names = classes["table"].combine_chunks()
        order = np.array([index[name] for name in class_names.dictionary.to_pylist()], dtype=np.int64)
        class_table = order[class_names.indices.to_numpy()] if len(order) else np.zeros(0, dtype=np.int64)
        memory = document["memory"]
        devices = len(memory["bandwidth"])
        network = memory["network_bandwidth"]
        problem = PlacementProblem(
            batch_size=document["batch_size"],
            **{field: table[field].to_numpy() for field in _PER_TABLE},
            class_start=np.searchsorted(class_table, np.arange(len(tables) + 1)),
            class_rows=classes["rows"].to_numpy(),
            class_share=classes["share"].to_numpy(),
            bandwidth=np.array(memory["bandwidth"], dtype=np.float64),
            pool=np.array(memory["pool"], dtype=np.int64),
            pool_capacity=np.array(memory["pool_capacity"], dtype=np.float64),
            network_bandwidth=np.full(devices, np.inf) if network is None else np.array(network, dtype=np.float64),
        )
        tier_names = tuple(document["tier_names"])
        placement = _read_placement(folder / _SHARDS, index, tier_names)
        check_placement(problem, placement)
        if len(placement.rows) == len(tables):  # a shard for every table: nothing is cut
            placement = dataclasses.replace(placement, shards=None)
        return Plan(
            tables=TableSet(tables, document["batch_size"]),
            tier_names=tier_names,
            topology=document["topology"],
            problem=problem,
            placement=placement,
            hot_rows=_row_reader(folder, tables, hot),
            strategy=document["strategy"],
            status=document["status"],
            lower_bound_ms=document["lower_bound_ms"],
            gap=relative_gap(bottleneck_ms(problem, placement), document["lower_bound_ms"]),
            seconds=document["seconds"],
            notes=document["notes"],
            provenance=document["provenance"],
            history=tuple(_read_event(entry) for entry in document["history"]),
            rules=_read_rules(document["split_rules"]),
        )
    except InvalidPlacement as error:
        raise InputError(
            f"{folder}: the plan breaks a rule: {error}; make it again with `recshard plan`"
        ) from None
    except (OSError, ArrowException, KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{folder}: the plan is damaged ({error}); make it again with `recshard plan`") from None


def _read_event(entry: Mapping[str, Any]) -> Event:
    bottleneck = np.inf if entry["bottleneck_ms"] is None else float(entry["bottleneck_ms"])
    event = Event(float(entry["seconds"]), bottleneck, float(entry["lower_bound_ms"]), str(entry["by"]))
    if not (np.isfinite([event.seconds, event.lower_bound_ms]).all() and event.bottleneck_ms >= 0):
        raise ValueError(f"history has {dict(entry)}")
    return event


def _read_rules(entry: Mapping[str, Any]) -> SplitRules:
    try:
        return SplitRules(**entry)
    except InputError as error:
        raise ValueError(f"split_rules: {error}") from None


def _read_placement(path: Path, index: Mapping[str, int], tier_names: tuple[str, ...]) -> Placement:
    """Return what `shards.parquet` says; whether it is a placement is the checker's business."""
    import pyarrow.parquet as pq

    stored = pq.read_table(path)
    fields = (*_PER_SHARD, "device", *(f"rows_{tier}" for tier in tier_names))
    numbers = {field: stored[field].to_numpy() for field in fields}
    for field, values in numbers.items():
        if values.dtype != np.int64:  # as where a value is missing
            raise ValueError(f"{_SHARDS}: {field} has something else than whole numbers")
    table = np.array([index[name] for name in stored["table"].to_pylist()], dtype=np.int64)
    shards = Shards(table, *(numbers[field] for field in _PER_SHARD))
    rows = np.column_stack([numbers[f"rows_{tier}"] for tier in tier_names])
    return Placement(numbers["device"], rows, shards)


def _row_reader(folder: Path, tables: tuple[EmbeddingTable, ...], hot: IntArray) -> Callable[[int], IntArray]:
    def read(index: int) -> IntArray:
        import pyarrow.parquet as pq

        table = tables[index]
        part = pq.read_table(folder / _HOT_ROWS, columns=["row"], filters=[("table", "==", table.name)])
        rows: IntArray = part["row"].to_numpy()
        sound = len(rows) == hot[index] and len(np.unique(rows)) == len(rows)
        if not sound or (len(rows) and not 0 <= rows.min() <= rows.max() < table.rows):
            raise InputError(
                f"{folder / _HOT_ROWS}: the rows of table '{table.name}' are not {hot[index]} distinct ones of its"
                " own; make the plan again with `recshard plan`"
            )
        return rows

    return read
