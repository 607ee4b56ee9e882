"""`recshard plan`: from a profile and a topology to a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recshard.cli.output import Json, emit, print_json
from recshard.cli.planning import (
    BatchSize,
    Seed,
    Solver,
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
        str, typer.Option(help="search, milp, milp-paper, size, lookup or size-lookup.")
    ] = "search",
    time_limit: TimeLimit = None,
    seed: Seed = 0,
    solver: Solver = "highs",
    batch_size: BatchSize = None,
    training: Training = True,
    traffic_multiplier: TrafficMultiplier = 1.0,
    unseen: Unseen = True,
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
    try:
        made = make_plan(
            load_profile(profile),
            load_topology(topology),
            strategy,
            workload=workload(batch_size, training, traffic_multiplier, unseen),
            options=strategy_options(time_limit, seed, solver),
        )
    except DoesNotFit as error:
        if as_json:
            found = error.explanation
            explained = {} if found is None else {"explanation": found.document()}
            print_json({"status": "infeasible", "reason": str(error)} | explained)
        raise
    save_plan(made, output)
    emit(as_json, made.summary, lambda: report_plan(made))
