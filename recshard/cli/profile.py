"""`recshard profile`: from a trace to a profile."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recshard.cli.output import Json, counting, emit, note
from recshard.cli.reading import (
    Columns,
    Data,
    Delimiter,
    Encoding,
    Format,
    Header,
    Names,
    Samples,
    Separator,
    Strings,
    Traces,
    open_for_command,
)


def command(
    traces: Traces,
    output: Annotated[Path, typer.Option("--output", "-o", help="The profile's folder.")],
    tables: Annotated[
        Path | None,
        typer.Option(help="tables.toml; what it leaves out is inferred from the trace.", show_default=False),
    ] = None,
    format: Format = None,
    data: Data = None,
    samples: Samples = ":",
    columns: Columns = "",
    delimiter: Delimiter = None,
    names: Names = "",
    header: Header = None,
    encoding: Encoding = "utf-8",
    separator: Separator = None,
    strings: Strings = "",
    as_json: Json = False,
) -> None:
    """Count how often every row of every table is used."""
    from recshard.files import check_writable
    from recshard.profile import save_profile
    from recshard.profile.build import profile_trace
    from recshard.profile.storage import MARKER, summary, tables_beside
    from recshard.report.console import profile_report
    from recshard.tables import load_tables

    check_writable(output, MARKER)
    trace = open_for_command(
        traces, format, data, samples, columns, delimiter, names, header, encoding, separator, strings
    )
    declared = load_tables(tables) if tables is not None else None
    profile = profile_trace(trace, declared, progress=counting("profile"))
    save_profile(profile, output)
    note(f"tables, filled in: {tables_beside(output)}")
    emit(as_json, lambda: summary(profile), lambda: profile_report(profile))
