"""`recshard verify`: the instance library, checked claim by claim."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recshard.cli.output import Json, emit, note


def command(
    names: Annotated[
        list[str] | None, typer.Argument(help="Instances (default: all).", metavar="[NAME]...", show_default=False)
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="A folder of instances of your own.", show_default=False)
    ] = None,
    solve: Annotated[
        str, typer.Option(help="MILP solvers that solve the small instances again: highs,cbc,scip.")
    ] = "",
    time_limit: Annotated[float, typer.Option(help="Seconds per solver.")] = 120.0,
    update: Annotated[
        float | None,
        typer.Option(
            help="Search so many seconds per instance first; write down what is better, and what --solve proves.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the search of --update.")] = 0,
    as_json: Json = False,
) -> None:
    """Build every instance from its recipe; check its best placement, its bound and its solvers' proofs."""
    from recshard.errors import InputError
    from recshard.instances import instance_names, open_instance, update_instance, verify_instance
    from recshard.report.instances import instances_report
    from recshard.strategy.solvers.names import solver_name

    for name, value in (("time limit", time_limit), ("update", 1.0 if update is None else update)):
        if not value > 0:
            raise InputError(f"{name}: found {value} s; accepted: seconds above zero")
    solvers = [solver.strip() for solver in solve.split(",") if solver.strip()]
    for solver in solvers:
        solver_name(solver)
    instances = [open_instance(name, folder) for name in names or instance_names(folder)]
    if not instances:
        raise InputError(f"{folder}: no instances; accepted: folders with an instance.toml each")
    verdicts = []
    for instance in instances:
        if update is not None:
            instance = update_instance(instance, update, seed, solvers, time_limit)
        verdicts.append(verify_instance(instance, () if update is not None else solvers, time_limit))
        note(f"{instance.name}: {'; '.join(verdicts[-1].troubles) or verdicts[-1].verdict}")
    emit(as_json, lambda: {"instances": [v.as_json() for v in verdicts]}, lambda: instances_report(verdicts))
    if any(verdict.troubles for verdict in verdicts):
        raise typer.Exit(1)
