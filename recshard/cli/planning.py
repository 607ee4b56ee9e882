"""Options that planning commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

if TYPE_CHECKING:
    from recshard.problem import Workload
    from recshard.strategy.run import StrategyOptions

TopologyName = Annotated[
    str, typer.Option("--topology", "-t", help="A topology.toml, or a preset (`recshard topology` lists them).")
]
TimeLimit = Annotated[
    float | None,
    typer.Option(help="Seconds per strategy (default: recshard and search 10, milp 60).", show_default=False),
]
Seed = Annotated[int, typer.Option(help="Of all random choices.")]
Solver = Annotated[str, typer.Option(help="MILP solver, any that PuLP knows: highs, cbc, gurobi …")]
Split = Annotated[
    str, typer.Option(help="How tables may be cut when one device is not enough for them: none, column or row.")
]
MinDim = Annotated[
    int, typer.Option(help="Least columns of a column shard; shards are cut at multiples of 4 columns.")
]
MaxShards = Annotated[int, typer.Option(help="Most shards of one table; 0: no limit.")]
BatchSize = Annotated[
    int | None,
    typer.Option(help="Samples per step over all devices (default: tables.toml's).", show_default=False),
]
Training = Annotated[bool, typer.Option("--training/--inference", help="Whether gradients cross the network too.")]
TrafficMultiplier = Annotated[float, typer.Option(help="Bytes moved per byte of weights accessed.")]
Unseen = Annotated[
    bool,
    typer.Option(
        "--unseen/--no-unseen", help="Whether Good–Turing corrects for rows that the trace did not show."
    ),
]


def workload(batch_size: int | None, training: bool, traffic_multiplier: float, unseen: bool) -> Workload:
    """Return the workload that the options describe."""
    from recshard.problem import Workload

    return Workload(batch_size, training, traffic_multiplier, unseen)


def strategy_options(
    time_limit: float | None,
    seed: int,
    solver: str,
    split: str,
    min_dim: int,
    max_shards: int,
    solver_log: Path | None = None,
) -> StrategyOptions:
    """Return the strategy options that were given; raise InputError for those out of range."""
    from recshard.cli.progress import planning
    from recshard.shards import SplitKind, SplitRules
    from recshard.strategy.run import StrategyOptions

    rules = SplitRules(cast("SplitKind", split), min_dim, max_shards)
    return StrategyOptions(time_limit, seed, solver, rules, solver_log, planning())
