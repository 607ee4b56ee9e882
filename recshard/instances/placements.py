"""Best known placements on disk: a Parquet row per shard, with the names of its table and of the tiers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recshard.errors import InputError
from recshard.placement import Placement
from recshard.shards import Shards

_SHARD = ("first_column", "columns", "part", "parts")


def save_placement(
    placement: Placement, names: list[str], dim: list[int], tiers: tuple[str, ...], path: Path
) -> None:
    """Write a placement.

    Args:
        names, dim: of the tables, in order.
        tiers: their names, fast to slow.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    count = len(names)
    whole = Shards(
        np.arange(count), np.zeros(count, int), np.array(dim), np.zeros(count, int), np.ones(count, int)
    )
    shards = placement.shards or whole
    columns = {"table": pa.array([names[j] for j in shards.table])}
    columns |= {field: pa.array(getattr(shards, field)) for field in _SHARD}
    columns["device"] = pa.array(placement.device)
    columns |= {f"rows_{tier}": pa.array(placement.rows[:, k]) for k, tier in enumerate(tiers)}
    pq.write_table(pa.table(columns), path)


def load_placement(path: Path, names: list[str], tiers: tuple[str, ...]) -> Placement:
    """Return the placement of the tables `names` on `tiers` that `save_placement` wrote.

    Raises:
        InputError: the file is missing or damaged, or is about other tables or tiers.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    index = {name: j for j, name in enumerate(names)}
    try:
        read = pq.read_table(path)
        table = np.array([index[name] for name in read["table"].to_pylist()], dtype=np.int64)
        shards = Shards(table, *(read[field].to_numpy() for field in _SHARD))
        rows = np.column_stack([read[f"rows_{tier}"].to_numpy() for tier in tiers])
        device = read["device"].to_numpy()
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as a placement of this instance: {error}") from None
    whole = table.tolist() == list(range(len(names))) and bool((shards.parts == 1).all())
    return Placement(device, rows, None if whole else shards)
