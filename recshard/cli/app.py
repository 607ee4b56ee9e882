"""The program: every command under its name, and errors as one message with the exit status they stand for."""

from __future__ import annotations

import signal
import sys

import typer

from recshard.cli import (
    bench,
    check,
    compare,
    demo,
    drift,
    export,
    hash,
    measure,
    plan,
    profile,
    replay,
    report,
    synth,
    topology,
    train,
    verify,
)
from recshard.cli.output import note_report
from recshard.errors import DoesNotFit, RecshardError

app = typer.Typer(
    name="recshard",
    help="Plans where the rows of embedding tables live, and proves how good the plan is.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for module in (
    *(demo, synth, profile, hash, drift, plan, check, replay, compare, report, export, topology, measure, train),
    *(bench, verify),
):
    app.command(module.__name__.rpartition(".")[2])(module.command)


def _terminated(number: int, frame: object) -> None:
    """Leave as on an interrupt, so that half-written outputs are removed."""
    sys.exit(128 + number)


def main() -> None:
    """Run the command line; errors that a user can cause become one message and the exit status they stand for."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        app()
    except RecshardError as error:
        print(f"recshard: {error}", file=sys.stderr)
        if isinstance(error, DoesNotFit) and error.explanation is not None:
            from recshard.report.infeasible import infeasible_report

            note_report(infeasible_report(error.explanation))
        sys.exit(error.exit_status)
    except MemoryError as error:
        print(f"recshard: out of memory ({error}); counting takes 8 bytes a row of every table", file=sys.stderr)
        sys.exit(1)
