"""Embedding specs for FBGEMM's table-batched operators: one list per device, a part per table and tier.

FBGEMM knows three places for a table: `DEVICE` (HBM), `MANAGED` (UVM) and `HOST`. A split table becomes one part
in each of its tiers; `remap/*.npy` gives, row by row, the tier and the slot in that tier's part.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from recshard import files
from recshard.errors import InputError, nearest
from recshard.plan.plan import Plan
from recshard.remap import remap_table

TARGETS = ("fbgemm",)
LOCATIONS = {"hbm": "DEVICE", "uvm": "MANAGED", "host": "HOST", "dram": "HOST"}
MARKER = "fbgemm.json"
VERSION = 1


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
            parts = [(k, int(n)) for k, n in enumerate(plan.placement.rows[j]) if n]
            remap_file = None
            if len(parts) > 1:
                remap = remap_table(plan.placement.rows[j], plan.hot_rows(j))
                remap_file = f"remap/{j:04d}"
                np.save(folder / f"{remap_file}.tier.npy", remap.tier, allow_pickle=False)
                np.save(folder / f"{remap_file}.slot.npy", remap.slot, allow_pickle=False)
            for k, rows in parts:
                devices[plan.placement.device[j]].append(
                    {
                        "table": table.name,
                        "features": list(table.features),
                        "rows": rows,
                        "dim": table.dim,
                        "dtype": table.dtype,
                        "optimizer": table.optimizer,
                        "tier": k,
                        "location": known[plan.tier_names[k]],
                        "remap": remap_file,
                    }
                )
        document: dict[str, object] = {
            "format_version": VERSION,
            "tiers": list(plan.tier_names),
            "devices": devices,
        }
        (folder / MARKER).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return document
