"""`recshard check`: the learned cost of a plan beside the optimiser's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recshard.cli.output import Json, emit


def command(
    plan: Annotated[Path, typer.Argument(help="A plan, as `recshard plan` writes it.")],
    cost_model: Annotated[
        str, typer.Option(help="A cost model's folder, as `recshard train` writes it, or a bundled name.")
    ] = "cost-host",
    treat: Annotated[
        list[str] | None,
        typer.Option(help="TIER=KIND: judge a tier as the kind of memory a model knows.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Put a learned model's cost per device beside the optimiser's; exit status 1 where they disagree."""
    from recshard.check import check_plan
    from recshard.errors import InputError
    from recshard.plan import load_plan
    from recshard.report.console import check_report

    treat_as = {}
    for pair in treat or []:
        tier, equals, kind = pair.partition("=")
        if not (tier and equals and kind):
            raise InputError(f"treat: found '{pair}'; accepted: TIER=KIND, such as hbm=host")
        treat_as[tier] = kind
    result = check_plan(load_plan(plan), cost_model, treat_as)
    emit(as_json, result.document, lambda: check_report(result))
    if result.verdict == "disagrees":
        raise typer.Exit(1)
