"""`recshard synth`: a trace from a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recshard.cli.output import Json, emit


def command(
    recipe: Annotated[str, typer.Argument(help="A bundled recipe of a synthetic model, or a TOML file.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The trace, as Parquet; its tables beside it.")],
    samples: Annotated[str, typer.Option(help="START:STOP:STEP as in Python, of the recipe's samples.")] = ":",
    as_json: Json = False,
) -> None:
    """Write the trace that a recipe describes, and the tables that it declares as OUTPUT.tables.toml."""
    from rich.text import Text

    from recshard.errors import InputError
    from recshard.files import write_text
    from recshard.tables import format_tables
    from recshard.trace import declared_tables, open_trace, parse_samples, take, write_parquet

    trace = open_trace(recipe, "recipe")
    tables = declared_tables(trace)
    if tables is None:
        raise InputError(f"{recipe}: describes a data set, not a synthetic model; profile it with --data")
    written = write_parquet(take(trace, parse_samples(samples)), output)
    beside = output.with_name(output.name + ".tables.toml")
    write_text(beside, format_tables(tables))
    document = {"recipe": recipe, "trace": str(output), "tables": str(beside), "samples": written}
    emit(as_json, lambda: document, lambda: Text(f"{output}: {written:,} samples; tables: {beside}"))
