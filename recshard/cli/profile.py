"""`recshard profile`: from a trace to a profile."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recshard.cli.output import Json, emit, note
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

if TYPE_CHECKING:
    from recshard.profile import Profile
    from recshard.profile.checkpoint import Checkpoint
    from recshard.tables import TableSet
    from recshard.trace import Trace

Memory = Annotated[
    float | None,
    typer.Option(
        help="GiB that counting may take; what does not fit goes to disk (default: half of the machine's).",
        show_default=False,
    ),
]
Threads = Annotated[
    int | None, typer.Option(help="That count at once (default: one per processor).", show_default=False)
]


def command(
    traces: Traces,
    output: Annotated[Path, typer.Option("--output", "-o", help="The profile's folder.")],
    tables: Annotated[
        Path | None,
        typer.Option(help="tables.toml; what it leaves out is inferred from the trace.", show_default=False),
    ] = None,
    sample: Annotated[float, typer.Option(help="Share of the samples to count, chosen at random.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of the choice of samples.")] = 0,
    memory: Memory = None,
    threads: Threads = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Take up an interrupted run: finished input files are not read again.")
    ] = False,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Address of a dask.distributed scheduler, whose workers count.", show_default=False),
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
    from recshard.errors import InputError
    from recshard.files import check_ours, check_writable
    from recshard.profile import save_profile
    from recshard.profile.checkpoint import Checkpoint, partial_beside
    from recshard.profile.storage import MARKER, summary, tables_beside
    from recshard.report.profiles import profile_report
    from recshard.tables import WRITTEN, load_tables
    from recshard.trace import sample as sample_of
    from recshard.trace.concatenated import parts

    check_writable(output, MARKER)
    check_ours(tables_beside(output), WRITTEN)
    trace = open_for_command(
        traces, format, data, samples, columns, delimiter, names, header, encoding, separator, strings
    )
    trace = sample_of(trace, sample, seed)
    declared = load_tables(tables) if tables is not None else None
    if scheduler is not None:
        if resume or threads is not None:
            wrong = "resume" if resume else "threads"
            raise InputError(f"{wrong}: goes with counting here; leave --{wrong} or --scheduler out")
        profile = _on_cluster(trace, scheduler, declared, memory)
        save_profile(profile, output)
    else:
        if resume and len(parts(trace)) == 1:
            raise InputError(
                "resume: counts are kept by input file, and here there is one; leave --resume out (with "
                "--samples, files are read as one)"
            )
        checkpoint = Checkpoint(partial_beside(output), resume=resume)
        if checkpoint.removed:
            note(f"profile: removed the counts of {checkpoint.removed} files that an interrupted run had kept")
        profile = _here(trace, declared, memory, threads, checkpoint)
        if resume:
            note(f"resumed: {checkpoint.resumed} input files were finished before and not read again")
        save_profile(profile, output)
        checkpoint.remove()
    note(f"tables, filled in: {tables_beside(output)}")
    emit(as_json, lambda: summary(profile), lambda: profile_report(profile))


def gibibytes(memory: float | None) -> int | None:
    """Return the bytes that `--memory` stands for.

    Raises:
        InputError: not a number above zero.
    """
    from recshard.errors import InputError

    if memory is None:
        return None
    if not 0 < memory < 2**40:
        raise InputError(f"memory: found {memory}; accepted: a number of GiB above zero")
    return int(memory * 2**30)


def _here(
    trace: Trace, declared: TableSet | None, memory: float | None, threads: int | None, checkpoint: Checkpoint
) -> Profile:
    from recshard.profile.build import profile_trace

    try:
        with reading("profile", trace) as progress:
            profile = profile_trace(
                trace,
                declared,
                memory=gibibytes(memory),
                threads=threads,
                progress=progress,
                checkpoint=checkpoint,
            )
    except BaseException:
        if checkpoint.kept:
            note(f"profile: the counts of finished files are kept in {checkpoint.folder}; --resume takes them up")
        raise
    return profile


def _on_cluster(trace: Trace, scheduler: str, declared: TableSet | None, memory: float | None) -> Profile:
    from recshard.profile.cluster import profile_on_cluster

    note(f"profile: counting on {scheduler}")
    return profile_on_cluster(trace, scheduler, declared, memory=gibibytes(memory))
