"""`recshard plan`: from a profile and a topology to a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recshard.cli.output import Json, emit, print_json
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
    output: Annotated[Path, typer.Option("--output", "-o", help="The plan's folder.")],
    strategy: Annotated[
        str, typer.Option(help="recshard, search, milp, milp-paper, size, lookup or size-lookup.")
    ] = "recshard",
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
    solver_log: Annotated[
        Path | None, typer.Option(help="Where to keep what the MILP's solver printed.", show_default=False)
    ] = None,
    write_model: Annotated[
        Path | None,
        typer.Option(help="Where to write the MILP of the same problem, as .mps or .lp.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Split every table by row over the tiers of one device, so that the slowest device is as fast as possible."""
    from recshard.errors import DoesNotFit
    from recshard.files import check_writable
    from recshard.plan import make_plan, save_plan
    from recshard.plan.storage import MARKER
    from recshard.profile import load_profile
    from recshard.report.console import report_plan
    from recshard.topology import load_topology

    check_writable(output, MARKER)
    if write_model is not None:
        from recshard.strategy.milp.export import check_model_path

        check_model_path(write_model)
    try:
        made = make_plan(
            load_profile(profile),
            load_topology(topology),
            strategy,
            workload=workload(batch_size, training, traffic_multiplier, unseen),
            options=strategy_options(time_limit, seed, solver, split, min_dim, max_shards, solver_log),
        )
    except DoesNotFit as error:
        if as_json:
            found = error.explanation
            explained = {} if found is None else {"explanation": found.document()}
            print_json({"status": "infeasible", "reason": str(error)} | explained)
        raise
    save_plan(made, output)
    if write_model is not None:
        from recshard.strategy.milp.export import write_model as write

        write(made.sharded, write_model, "paper" if strategy == "milp-paper" else "tight")
    emit(as_json, made.summary, lambda: report_plan(made))
