"""`recshard replay`: a plan on a trace that it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recshard.cli.output import Json, emit
from recshard.cli.progress import reading
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
    plan: Annotated[Path, typer.Argument(help="A plan, as `recshard plan` writes it.")],
    traces: Traces,
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
    """Count which tier of which device serves every lookup of a trace."""
    from recshard.plan import load_plan
    from recshard.replay import replay_plan
    from recshard.report.console import replay_report

    loaded = load_plan(plan)
    trace = open_for_command(
        traces, format, data, samples, columns, delimiter, names, header, encoding, separator, strings
    )
    with reading("replay", trace) as progress:
        replay = replay_plan(loaded, trace, progress=progress)
    emit(as_json, replay.summary, lambda: replay_report(replay))
