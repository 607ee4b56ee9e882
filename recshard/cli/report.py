"""`recshard report`: what a plan says, once more."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recshard.cli.output import Json, emit, note


def command(
    plan: Annotated[Path, typer.Argument(help="A plan, as `recshard plan` writes it.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also as one HTML file.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Print a plan's report: its devices, the tables that matter most, the bound and the gap."""
    from recshard.plan import load_plan
    from recshard.report.console import report_plan
    from recshard.report.html import write_html

    loaded = load_plan(plan)
    if output is not None:
        write_html(loaded, output)
        note(f"report: {output}")
    emit(as_json, loaded.summary, lambda: report_plan(loaded))
