"""Embedding specs for FBGEMM's table-batched operators: one list per device, a part per shard and tier.

FBGEMM knows three places for a table: `DEVICE` (HBM), `MANAGED` (UVM) and `HOST`. A table that is split becomes
one part in each of its tiers; `remap/*.npy` gives, row by row of the table, the tier and the slot in that tier's
part.

A column shard is a table of its own dim, whose pooled output is the range `columns` of the table's. The outputs
of row shards add up to the table's: `remap/*.part.npy` gives, row by row of the table, the shard that is to look
it up; tier and slot are those on that shard's device.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from recshard import files
from recshard.errors import InputError, nearest
from recshard.plan.plan import Plan
from recshard.remap import Remap, remap_parts, remap_table

TARGETS = ("fbgemm",)
LOCATIONS = {"hbm": "DEVICE", "uvm": "MANAGED", "host": "HOST", "dram": "HOST"}
MARKER = "fbgemm.json"
VERSION = 2


def export_plan(
    plan: Plan, to: str, path: str | Path, *, locations: Mapping[str, str] | None = None
) -> dict[str, object]:
    """Write what the target needs into the folder `path`, and return the document written.

    Args:
        to: `fbgemm`.
        locations: FBGEMM's `EmbeddingLocation` for tier names other than hbm, uvm, host and dram.

    Raises:
        InputError: unknown target, or a tier whose location is not known.
    """
    if to not in TARGETS:
        raise InputError(f"export target: found '{to}'{nearest(to, TARGETS)}; accepted: {', '.join(TARGETS)}")
    known = LOCATIONS | dict(locations or {})
    for tier in plan.tier_names:
        if tier not in known:
            raise InputError(
                f"tier '{tier}': FBGEMM has no such memory; known tiers: {', '.join(sorted(known))}; rename the "
                "tier in the topology, or say which location it stands for"
            )
    devices: list[list[dict[str, object]]] = [[] for _ in range(plan.problem.devices)]
    with files.new_folder(path, MARKER) as folder:
        (folder / "remap").mkdir()
        for j, table in enumerate(plan.tables.tables):
            remap_of = _write_remaps(plan, j, folder)
            for s in plan.shards_of(j):
                first, columns = int(plan.shards.first_column[s]), int(plan.shards.columns[s])
                for k in np.flatnonzero(plan.placement.rows[s]):
                    devices[plan.placement.device[s]].append(
                        {
                            "table": table.name,
                            "shard": plan.shard_names[s],
                            "features": list(table.features),
                            "rows": int(plan.placement.rows[s, k]),
                            "dim": columns,
                            "columns": [first, first + columns],
                            "part": int(plan.shards.part[s]),
                            "parts": int(plan.shards.parts[s]),
                            "dtype": table.dtype,
                            "optimizer": table.optimizer,
                            "tier": int(k),
                            "location": known[plan.tier_names[k]],
                            "remap": remap_of.get(s),
                        }
                    )
        document: dict[str, object] = {
            "format_version": VERSION,
            "tiers": list(plan.tier_names),
            "devices": devices,
        }
        (folder / MARKER).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return document


def _write_remaps(plan: Plan, table: int, folder: Path) -> dict[int, str]:
    """Write what says where the rows of a table stand, and return each shard's file, without its ending.

    A table or column shard that stands in one tier, its rows in their own order, needs none.
    """
    mine = plan.shards_of(table)
    if not plan.needs_hot_rows(table):
        return {}
    hot = plan.hot_rows(table)
    if plan.shards.parts[mine[0]] > 1:
        parts = remap_parts(plan.placement.rows[mine.start : mine.stop], hot)
        name = f"remap/{table:04d}"
        np.save(folder / f"{name}.part.npy", parts.part, allow_pickle=False)
        _save(folder, name, parts.home)
        return dict.fromkeys(mine, name)
    remap_of = {}
    for number, s in enumerate(mine):
        if plan.is_split(s):
            remap_of[s] = f"remap/{table:04d}" + (f"-{number}" if len(mine) > 1 else "")
            _save(folder, remap_of[s], remap_table(plan.placement.rows[s], hot))
    return remap_of


def _save(folder: Path, name: str, remap: Remap) -> None:
    np.save(folder / f"{name}.tier.npy", remap.tier, allow_pickle=False)
    np.save(folder / f"{name}.slot.npy", remap.slot, allow_pickle=False)
