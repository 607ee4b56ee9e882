"""Options that planning commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from recshard.problem import Workload
    from recshard.strategy.run import StrategyOptions

TopologyName = Annotated[
    str, typer.Option("--topology", "-t", help="A topology.toml, or a preset (`recshard topology` lists them).")
]
TimeLimit = Annotated[
    float | None, typer.Option(help="Seconds per strategy (default: search 10, milp 60).", show_default=False)
]
Seed = Annotated[int, typer.Option(help="Of all random choices.")]
Solver = Annotated[str, typer.Option(help="MILP solver, any that PuLP knows: highs, cbc, gurobi …")]
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


def strategy_options(time_limit: float | None, seed: int, solver: str) -> StrategyOptions:
    """Return the strategy options that were given."""
    from recshard.strategy.run import StrategyOptions

    return StrategyOptions(time_limit, seed, solver)
