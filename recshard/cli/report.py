"""`recshard report`: what a plan says, once more."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recshard.cli.output import Json, emit


def command(
    plan: Annotated[Path, typer.Argument(help="A plan, as `recshard plan` writes it.")],
    as_json: Json = False,
) -> None:
    """Print a plan's report: its devices, the tables that matter most, the bound and the gap."""
    from recshard.plan import load_plan
    from recshard.report.console import report_plan

    loaded = load_plan(plan)
    emit(as_json, loaded.summary, lambda: report_plan(loaded))
