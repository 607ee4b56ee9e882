"""`recshard export`: a plan for the systems that people train on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recshard.cli.output import Json, emit
from recshard.cli.tiers import words_by_tier


def command(
    plan: Annotated[Path, typer.Argument(help="A plan, as `recshard plan` writes it.")],
    to: Annotated[str, typer.Option(help="fbgemm or torchrec.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write.")],
    location: Annotated[
        list[str] | None,
        typer.Option(
            help="TIER=PLACE: what a tier stands for that the target does not know by name: FBGEMM's DEVICE, "
            "MANAGED, MANAGED_CACHING or HOST, or TorchRec's fused or fused_uvm.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write what the target needs: a part for every shard and tier of a table, and the remap of its rows."""
    from rich.text import Text

    from recshard.export import export_plan
    from recshard.plan import load_plan

    places = words_by_tier("--location", location or [], "PLACE", "ssd=fused_uvm")
    document = export_plan(load_plan(plan), to, output, locations=places)
    emit(as_json, lambda: document, lambda: Text(f"{output}: written for {to}"))
