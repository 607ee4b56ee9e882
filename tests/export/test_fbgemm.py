"""An export says where every element of every table stands: weights laid out by it read back whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.export import export_plan
from tests.plans import Kind, cut_case

KINDS = st.sampled_from(["none", "column", "row", "both"])
LOCATIONS = ["DEVICE", "HOST", "MANAGED"]


def laid_out(folder: Path, part: dict[str, Any], weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that a part holds, by its files alone, and their weights in the part's order."""
    rows = np.arange(len(weight))
    if part["remap"] is not None:
        ranks = np.load(folder / part["remap"])
        slot = ranks // part["shards"] - part["start"]
        mine = (ranks % part["shards"] == part["shard_number"]) & (slot >= 0) & (slot < part["rows"])
        rows = rows[mine][np.argsort(slot[mine])]
        assert (np.sort(slot[mine]) == np.arange(len(rows))).all()
    first, end = part["columns"]
    return rows, weight[rows, first:end]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), KINDS)
def test_every_element_of_every_table_is_in_exactly_one_part(
    tmp_path_factory: pytest.TempPathFactory, seed: int, kind: Kind
) -> None:
    rng = np.random.default_rng(seed)
    plan = cut_case(rng, kind).plan
    folder = tmp_path_factory.mktemp("export") / "specs"
    document: Any = export_plan(plan, "fbgemm", folder)
    named = {table.name: rng.random((table.rows, table.dim)) for table in plan.tables.tables}
    read = {name: np.zeros_like(weight) for name, weight in named.items()}
    for d, device in enumerate(document["devices"]):
        for part in device:
            rows, weight = laid_out(folder, part, named[part["table"]])
            assert weight.shape == (part["rows"], part["dim"])
            read[part["table"]][rows, slice(*part["columns"])] += weight
            shard = plan.shard_names.index(part["name"].partition("@")[0])
            assert plan.placement.device[shard] == d
            assert plan.placement.rows[shard, part["tier"]] == part["rows"]
            assert part["location"] == LOCATIONS[part["tier"]]
    for name, weight in named.items():
        assert (read[name] == weight).all()
    written = {str(path.relative_to(folder)) for path in (folder / "remap").iterdir()}
    assert written == {part["remap"] for device in document["devices"] for part in device} - {None}
