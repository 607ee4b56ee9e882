"""What every command prints: one JSON object or a report on standard output, all else on standard error."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recshard.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a report.")]

_EVERY_SECONDS = 5.0


def emit(as_json: bool, document: Callable[[], dict[str, Any]], report: Callable[[], RenderableType]) -> None:
    """Print a command's result, in one of its two forms; the other is not made."""
    if as_json:
        print_json(document())
        return
    from rich.console import Console

    console = Console(highlight=False)
    # Redirected output has no width of its own; tables must not be folded to 80 columns there.
    if not console.is_terminal:
        console.width = 160
    shown = report()
    with _standard_output():
        console.print(shown)


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON object on standard output."""
    text = json.dumps(_finite(document), ensure_ascii=False, allow_nan=False)
    with _standard_output():
        print(text)


@contextmanager
def _standard_output() -> Iterator[None]:
    """Write out: a reader who has seen enough, such as `head`, is no error; a full disk is."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that nothing is tried again at exit
        if not isinstance(error, BrokenPipeError):
            raise InputError(f"standard output: cannot be written: {error.strerror}") from None


def _finite(value: Any) -> Any:
    """Return `value` as JSON can say it: what is not a finite number is null."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def note(message: str) -> None:
    """Say on standard error what goes on."""
    print(message, file=sys.stderr, flush=True)


def note_report(report: RenderableType) -> None:
    """Show on standard error what explains a failure, so that standard output stays empty."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        console.width = 160
    console.print(report)


def every_few_seconds(what: str, unit: str) -> Callable[[int, int], None]:
    """Return a progress callback that says on standard error, every few seconds, how many are done of how many."""
    said = time.perf_counter()

    def progress(done: int, total: int) -> None:
        nonlocal said
        now = time.perf_counter()
        if now - said >= _EVERY_SECONDS:
            said = now
            note(f"{what}: {done:,} of {total:,} {unit}")

    return progress
