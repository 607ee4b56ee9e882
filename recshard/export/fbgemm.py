"""Embedding specs for FBGEMM's table-batched operators: one list per device, an entry per part of a table.

FBGEMM knows three places for a table: `DEVICE` (HBM), `MANAGED` (UVM) and `HOST`. A table that is split becomes
one part in each of its tiers. `remap/*.npy` gives the rank of every row of such a table, hottest first; a part has
the ranks that leave `shard_number` when divided by `shards`, and of those the ones whose quotient is
`start` … `start + rows − 1`: the slot is the quotient − `start`.

A column shard is a table of its own dim, whose pooled output is the range `columns` of the table's. The outputs
of parts with equal `columns` add up to the table's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from recshard import files
from recshard.errors import InputError
from recshard.plan.plan import Plan
from recshard.remap import parts_of
from recshard.remap.storage import write_ranks

LOCATIONS = {"hbm": "DEVICE", "uvm": "MANAGED", "host": "HOST", "dram": "HOST"}
MARKER = "fbgemm.json"
VERSION = 3


def export_fbgemm(plan: Plan, path: str | Path, locations: Mapping[str, str] | None = None) -> dict[str, object]:
    """Write embedding specs and remap into the folder `path`, and return the document written.

    Args:
        locations: FBGEMM's `EmbeddingLocation` for tier names other than hbm, uvm, host and dram.

    Raises:
        InputError: a tier whose location is not known, or the folder cannot be written.
    """
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
        remaps = write_ranks(plan, folder / "remap")
        for part in parts_of(plan):
            table, remap = plan.tables.tables[part.table], remaps[part.table]
            devices[part.device].append(
                {
                    "name": part.name,
                    "table": table.name,
                    "table_rows": table.rows,
                    "features": list(table.features),
                    "rows": part.rows,
                    "dim": part.columns,
                    "columns": [part.first_column, part.first_column + part.columns],
                    "shard_number": part.shard_number,
                    "shards": part.shards,
                    "start": part.start,
                    "dtype": table.dtype,
                    "optimizer": table.optimizer,
                    "tier": part.tier,
                    "location": known[plan.tier_names[part.tier]],
                    "remap": None if remap is None else f"remap/{remap}",
                }
            )
        document: dict[str, object] = {
            "format_version": VERSION,
            "tiers": list(plan.tier_names),
            "devices": devices,
        }
        (folder / MARKER).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return document
