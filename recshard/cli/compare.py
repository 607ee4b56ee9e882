"""`recshard compare`: strategies side by side on one profile."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recshard.cli.output import Json, emit, note
from recshard.cli.planning import (
    BatchSize,
    MaxShards,
    MinDim,
    Seed,
    Solver,
    Split,
    TimeLimit,
    TopologyName,
    TrafficMultiplier,
    Training,
    Unseen,
    strategy_options,
    workload,
)


def command(
    profile: Annotated[Path, typer.Argument(help="A profile, as `recshard profile` writes it.")],
    topology: TopologyName,
    strategies: Annotated[
        str, typer.Option(help="Names, separated by commas.")
    ] = "recshard,search,milp,size,lookup,size-lookup",
    time_limit: TimeLimit = None,
    seed: Seed = 0,
    solver: Solver = "highs",
    split: Split = "none",
    min_dim: MinDim = 32,
    max_shards: MaxShards = 0,
    batch_size: BatchSize = None,
    training: Training = True,
    traffic_multiplier: TrafficMultiplier = 1.0,
    unseen: Unseen = True,
    as_json: Json = False,
) -> None:
    """Plan with several strategies and compare what they promise."""
    from recshard.plan import compare_strategies
    from recshard.profile import load_profile
    from recshard.report.comparison import comparison_row
    from recshard.report.console import comparison_report
    from recshard.topology import load_topology

    rows = []
    for name, outcome in compare_strategies(
        load_profile(profile),
        load_topology(topology),
        [name.strip() for name in strategies.split(",")],
        workload=workload(batch_size, training, traffic_multiplier, unseen),
        options=strategy_options(time_limit, seed, solver, split, min_dim, max_shards),
    ):
        rows.append(comparison_row(name, outcome))
        note(f"{name}: done")
    title = f"{profile} on {topology}"
    emit(as_json, lambda: {"strategies": rows}, lambda: comparison_report(rows, title))
    if all(row["status"] == "infeasible" for row in rows):
        raise typer.Exit(1)
