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
from collections.abc import Mapping, Sequence
from pathlib import Path

from recshard import files
from recshard.export.tiers import Places
from recshard.plan.plan import Plan
from recshard.remap import parts_of
from recshard.remap.storage import rank_files, write_ranks

LOCATIONS = Places(
    "FBGEMM",
    "location",
    {"hbm": "DEVICE", "uvm": "MANAGED", "host": "HOST", "dram": "HOST"},
    ("DEVICE", "MANAGED", "MANAGED_CACHING", "HOST"),
)
MARKER = "fbgemm.json"
VERSION = 4


def export_fbgemm(plan: Plan, path: str | Path, locations: Mapping[str, str] | None = None) -> dict[str, object]:
    """Write embedding specs and remap into the folder `path`, and return the document written.

    Args:
        locations: FBGEMM's `EmbeddingLocation` for tier names other than hbm, uvm, host and dram.

    Raises:
        InputError: a tier whose location is not known, or the folder cannot be written.
    """
    known = LOCATIONS.of(plan.tier_names, locations)
    with files.new_folder(path, MARKER) as folder:
        (folder / "remap").mkdir()
        document = _document(plan, known, write_ranks(plan, folder / "remap"))
        (folder / MARKER).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return document


def document_of(plan: Plan, locations: Mapping[str, str] | None = None) -> dict[str, object]:
    """Return the document that `export_fbgemm` writes, without writing anything.

    Raises:
        InputError: a tier whose location is not known.
    """
    return _document(plan, LOCATIONS.of(plan.tier_names, locations), rank_files(plan))


def _document(plan: Plan, locations: Mapping[str, str], ranks: Sequence[str | None]) -> dict[str, object]:
    devices: list[list[dict[str, object]]] = [[] for _ in range(plan.problem.devices)]
    for part in parts_of(plan):
        table, file = plan.tables.tables[part.table], ranks[part.table]
        devices[part.device].append(
            {
                "name": part.name,
                "table": table.name,
                "table_rows": table.rows,
                "table_dim": table.dim,
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
                "location": locations[plan.tier_names[part.tier]],
                "remap": None if file is None else f"remap/{file}",
            }
        )
    return {"format_version": VERSION, "tiers": list(plan.tier_names), "devices": devices}
