"""`recshard measure`: time fused lookups on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recshard.cli.output import Json, emit, every_few_seconds


def command(
    output: Annotated[Path, typer.Option("--output", "-o", help="The measurements' folder.")],
    shards: Annotated[
        int, typer.Option(help="Random shards to time; 400 take about a minute and a half on two cores.")
    ] = 300,
    seed: Annotated[int, typer.Option(help="Of shards and batches.", min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Time fused multi-table lookups, forward and backward with optimizer, in this machine's host memory."""
    import numpy as np
    from rich.text import Text

    from recshard.cost import measure_shards, save_measurements
    from recshard.files import check_writable

    check_writable(output, "measurements.json")
    measured = measure_shards(shards, seed, progress=every_few_seconds("measure", "batches"))
    save_measurements(measured, output)
    extent = [float(q) for q in np.percentile(measured.total_ms, (0, 50, 100))]
    document = {"measurements": str(output), "shards": shards, "tier": measured.tier, "total_ms": extent}
    emit(
        as_json,
        lambda: document,
        lambda: Text(
            f"{output}: {shards} shards in {measured.tier} memory, {extent[0]:.3g} … {extent[2]:.3g} ms a "
            f"batch (median {extent[1]:.3g})"
        ),
    )
