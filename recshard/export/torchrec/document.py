"""The export on disk: `torchrec.json` for what has names, `remap/*.npy` for the ranks of rows.

A part is a table of its own for TorchRec, with an input `feature@part` for every feature of its table. Ranks,
`shard_number`, `shards` and `start` say which rows a part has, as in the export for FBGEMM; outputs of parts with
equal `columns` add up, those of different `columns` stand side by side. `sharding` is TorchRec's `ShardingPlan` as
data. A table's `cache` is the share of a step's distinct rows (`miss_rate`) that a cache of this share of its rows
(`load_factor`) lacks, linear in between.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np

from recshard import files
from recshard.errors import InputError
from recshard.export.torchrec.curve import CacheCurve
from recshard.export.torchrec.layout import Layout, check_names, kernels_of, layout_with
from recshard.plan.plan import Plan
from recshard.profile.sound import check_table
from recshard.remap import Part, TableRemap, parts_of
from recshard.remap.storage import read_ranks, write_ranks
from recshard.tables import Dtype, EmbeddingTable, Ids, Optimizer

MARKER = "torchrec.json"
VERSION = 1
_WORDS = {"dtype": get_args(Dtype), "optimizer": get_args(Optimizer), "ids": get_args(Ids)}
_NUMBERS = ("device", "rows", "shard_number", "shards", "start")


def export_torchrec(plan: Plan, path: str | Path, kernels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Write the layout of a plan and its remap into the folder `path`, and return the document written.

    Args:
        kernels: TorchRec's compute kernel for tier names other than hbm, uvm, host and dram.

    Raises:
        InputError: a tier, a name or a number of columns that TorchRec cannot have, or the folder cannot be
            written.
    """
    parts = parts_of(plan)
    remaps = tuple(
        TableRemap(table.name, table.rows, tuple(part for part in parts if part.table == j), None)
        for j, table in enumerate(plan.tables.tables)
    )
    layout = layout_with(plan, remaps, kernels)
    with files.new_folder(path, MARKER) as folder:
        (folder / "remap").mkdir()
        names = write_ranks(plan, folder / "remap")
        document = _document(layout, [None if name is None else f"remap/{name}" for name in names])
        (folder / MARKER).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return document


def _document(layout: Layout, remaps: list[str | None]) -> dict[str, Any]:
    tables = []
    for j, (table, remap, curve) in enumerate(zip(layout.tables, remaps, layout.curves, strict=True)):
        thin = curve.thinned()
        cache = {
            "lookups": thin.lookups,
            "cacheability": curve.cacheability,
            "load_factor": thin.load_factor.tolist(),
            "miss_rate": thin.miss_rate.tolist(),
        }
        entry = dataclasses.asdict(table) | {"features": list(table.features), "remap": remap}
        tables.append(entry | {"lookups_per_sample": layout.lookups_per_sample[j], "cache": cache})
    parts = [
        {
            "name": part.name,
            "table": layout.tables[part.table].name,
            "features": layout.keys(part),
            "rows": part.rows,
            "dim": part.columns,
            "columns": [part.first_column, part.first_column + part.columns],
            "device": part.device,
            "tier": layout.tier_names[part.tier],
            "compute_kernel": layout.kernels[part.tier],
            "shard": part.shard,
            "shard_number": part.shard_number,
            "shards": part.shards,
            "start": part.start,
        }
        for part in layout.parts
    ]
    return {
        "format_version": VERSION,
        "devices": layout.devices,
        "tiers": dict(zip(layout.tier_names, layout.kernels, strict=True)),
        "tables": tables,
        "parts": parts,
        "sharding": layout.sharding,
    }


def load_torchrec(path: str | Path) -> Layout:
    """Return the layout in the folder `path`, its remap memory-mapped, everything checked anew.

    Raises:
        InputError: no such folder, no export for TorchRec, of another version, cut short, or with parts that do
            not hold every element of every table once.
    """
    folder = Path(path)
    document = files.read_json(folder, MARKER, "TorchRec export", VERSION)
    try:
        layout = _layout(folder, document)
        check_names(layout)
        written = json.loads(json.dumps(_document(layout, [entry["remap"] for entry in document["tables"]])))
        for field in ("parts", "sharding"):
            if document[field] != written[field]:
                raise ValueError(f"{field} contradict each other")
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(
            f"{folder / MARKER}: the export is damaged ({error}); make it again with `recshard export`"
        ) from None
    return layout


def _layout(folder: Path, document: dict[str, Any]) -> Layout:
    tiers: dict[str, str] = document["tiers"]
    devices = document["devices"]
    if not isinstance(devices, int) or isinstance(devices, bool) or devices < 1:
        raise ValueError(f"devices is {devices!r}; accepted: a whole number from 1")
    names = [entry["name"] for entry in document["tables"]]
    parts = [_part(entry, names, list(tiers), devices) for entry in document["parts"]]
    tables, remaps, curves, lookups = [], [], [], []
    for j, entry in enumerate(document["tables"]):
        fields = {field.name: entry[field.name] for field in dataclasses.fields(EmbeddingTable)}
        table = EmbeddingTable(**(fields | {"features": tuple(entry["features"])}))
        check_table(table, _WORDS)
        mine = tuple(part for part in parts if part.table == j)
        needed = _check_parts(table, TableRemap(table.name, table.rows, mine, None))
        file = f"remap/{j:04d}.npy" if needed else None
        if entry["remap"] != file:
            raise ValueError(f"table '{table.name}': remap is {entry['remap']!r}; accepted: {file!r}")
        ranks = read_ranks(folder / file, table.rows) if file else None
        tables.append(table)
        remaps.append(TableRemap(table.name, table.rows, mine, ranks))
        curves.append(_curve(table.name, entry["cache"]))
        lookups.append(float(entry["lookups_per_sample"]))
        if not 0 <= lookups[-1] < np.inf:
            raise ValueError(f"table '{table.name}': lookups_per_sample is {lookups[-1]}; accepted: 0 or more")
    if [part for remap in remaps for part in remap.parts] != parts:
        raise ValueError("parts are not in the order of the tables")
    known = kernels_of(tuple(tiers), tiers)
    return Layout(tuple(tables), tuple(tiers), known, devices, tuple(remaps), tuple(curves), tuple(lookups))


def _part(entry: dict[str, Any], tables: list[str], tiers: list[str], devices: int) -> Part:
    numbers = {field: entry[field] for field in _NUMBERS}
    first, end = entry["columns"]
    for field, value in (numbers | {"shard": entry["shard"], "columns": first, "dim": end}).items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ValueError(f"part '{entry['name']}': {field} is {value!r}; accepted: a whole number from 0")
    if numbers["device"] >= devices:
        raise ValueError(f"part '{entry['name']}': device is {numbers['device']}; accepted: 0 to {devices - 1}")
    return Part(
        name=str(entry["name"]),
        table=tables.index(entry["table"]),
        shard=entry["shard"],
        tier=tiers.index(entry["tier"]),
        first_column=first,
        columns=end - first,
        **numbers,
    )


def _check_parts(table: EmbeddingTable, remap: TableRemap) -> bool:
    """Check that parts hold every element of a table once, and return whether they need its ranks.

    Raises:
        ValueError: they do not; names the table.
    """
    columns, needed = 0, False
    for cover in remap.covers:
        found = [(part.shard_number, part.start, part.rows) for part in cover]
        expected = []
        shards = cover[0].shards
        for number in range(shards):
            start = 0
            for part in (part for part in cover if part.shard_number == number):
                expected.append((number, start, part.rows))
                start += part.rows
            if start != len(range(number, table.rows, shards)):
                raise ValueError(f"parts of table '{table.name}' do not hold every row once")
        same = {(part.first_column, part.columns, part.shards) for part in cover}
        if found != expected or len(same) > 1 or cover[0].first_column != columns or cover[0].columns < 1:
            raise ValueError(f"parts of table '{table.name}' do not hold every element once")
        columns += cover[0].columns
        needed |= len(cover) > 1
    if columns != table.dim:
        raise ValueError(f"parts of table '{table.name}' have {columns} columns; accepted: {table.dim}")
    return needed


def _curve(table: str, entry: dict[str, Any]) -> CacheCurve:
    factor = np.array(entry["load_factor"], dtype=np.float64)
    miss = np.array(entry["miss_rate"], dtype=np.float64)
    lookups = float(entry["lookups"])
    sound = (
        factor.shape == miss.shape
        and len(factor) >= 2
        and (factor[0], factor[-1], miss[0], miss[-1]) == (0, 1, 1, 0)
        and (np.diff(factor) >= 0).all()
        and (np.diff(miss) <= 0).all()
        and 0 <= lookups < np.inf
    )
    if not sound:
        raise ValueError(f"cache of table '{table}' is not a curve from 1 down to 0")
    return CacheCurve(lookups, factor, miss)
