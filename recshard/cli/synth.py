"""`recshard synth`: a trace from a recipe, or its profile directly."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from recshard.cli.output import Json, emit
from recshard.cli.profile import Memory, Threads, gibibytes
from recshard.cli.progress import reading


def command(
    recipe: Annotated[str, typer.Argument(help="A bundled recipe of a synthetic model, or a TOML file.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The trace, as Parquet; its tables beside it.", show_default=False),
    ] = None,
    profile: Annotated[
        Path | None, typer.Option(help="The profile's folder, made without writing the trace.", show_default=False)
    ] = None,
    samples: Annotated[str, typer.Option(help="START:STOP:STEP as in Python, of the recipe's samples.")] = ":",
    expected: Annotated[
        bool,
        typer.Option(
            "--expected",
            help="Compute the profile to be expected instead of drawing lookups: seconds for billions of rows; it "
            "does not know which rows are hot.",
        ),
    ] = False,
    memory: Memory = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Write the trace that a recipe describes, with its tables as OUTPUT.tables.toml, or its profile, or both."""
    from rich.text import Text

    from recshard.errors import InputError
    from recshard.files import check_ours, check_writable, write_text
    from recshard.profile import save_profile
    from recshard.profile.build import profile_trace
    from recshard.profile.expected import expected_profile
    from recshard.profile.storage import MARKER
    from recshard.tables import WRITTEN, format_tables
    from recshard.trace import declared_tables, open_trace, parse_samples, take, write_parquet
    from recshard.trace.recipe import synthetic

    if output is None and profile is None:
        raise InputError("synth: nothing to write; accepted: --output TRACE, --profile PROFILE, or both")
    if profile is not None:
        check_writable(profile, MARKER)
    if expected and (output is not None or samples != ":"):
        raise InputError(
            "synth: --expected makes a profile of all of the recipe's samples; accepted: --profile alone with it"
        )
    trace = take(open_trace(recipe, "recipe"), parse_samples(samples))
    tables = declared_tables(trace)
    if tables is None:
        raise InputError(f"{recipe}: describes a data set, not a synthetic model; profile it with --data")
    document: dict[str, Any] = {"recipe": recipe}
    if output is not None:
        beside = output.with_name(output.name + ".tables.toml")
        check_ours(beside, WRITTEN)
        document["samples"] = write_parquet(trace, output)
        write_text(beside, format_tables(tables))
        document |= {"trace": str(output), "tables": str(beside)}
    if profile is not None:
        if expected:
            made = expected_profile(synthetic(recipe))
        else:
            with reading("profile", trace) as progress:
                made = profile_trace(trace, tables, memory=gibibytes(memory), threads=threads, progress=progress)
        save_profile(made, profile)
        document |= {"profile": str(profile), "samples": made.samples}
    written = ", ".join(f"{key} {document[key]}" for key in ("trace", "tables", "profile") if key in document)
    emit(as_json, lambda: document, lambda: Text(f"{document['samples']:,} samples: {written}"))
