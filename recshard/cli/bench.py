"""`recshard bench`: a plan and its rivals, executed on this machine's memories and timed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recshard.cli.output import Json, emit, note
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
from recshard.cli.tiers import words_by_tier


def command(
    plan: Annotated[Path, typer.Argument(help="A plan, as `recshard plan` writes it.")],
    traces: Traces,
    steps: Annotated[int, typer.Option(min=1, help="Steps that count, after the warm-up.")] = 30,
    warm_up: Annotated[int, typer.Option("--warm-up", min=0, help="Steps before those that count.")] = 5,
    batch_size: Annotated[
        int | None,
        typer.Option(
            "--batch-size",
            min=1,
            help="Samples per step over all devices (default: some 2,000 slow accesses by a device).",
            show_default=False,
        ),
    ] = None,
    place: Annotated[
        list[str] | None,
        typer.Option(
            help="TIER=MEMORY: the memory that stands for a tier: cuda, uvm (pinned host memory that the GPU "
            "reads), host or file (past the page cache). Default with a GPU: hbm is cuda, uvm is uvm; without: "
            "the fastest tier is host, every other one file.",
            show_default=False,
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where files are made and removed again (default: the system's for temporary files)."),
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
    """Execute a plan, the three baselines and an LRU page cache on this machine's real memories, and time them."""
    from recshard.bench.run import bench_plan
    from recshard.plan import load_plan
    from recshard.report.benching import bench_report

    places = words_by_tier("--place", place or [], "MEMORY", "uvm=file")
    loaded = load_plan(plan)
    trace = open_for_command(
        traces, format, data, samples, columns, delimiter, names, header, encoding, separator, strings
    )
    found = bench_plan(
        loaded,
        trace,
        steps=steps,
        warm_up=warm_up,
        batch_size=batch_size,
        places=places,
        folder=folder,
        say=note,
    )
    emit(as_json, found.summary, lambda: bench_report(found))
