"""How far a command has got: reading a trace, a bar on a terminal and plain lines elsewhere; planning, lines."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from recshard.cli.output import note

if TYPE_CHECKING:
    from recshard.strategy.history import Event
    from recshard.trace.base import Trace

_EVERY_SECONDS = 5.0


@contextmanager
def reading(what: str, trace: Trace) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback that takes the samples and lookups of each batch and shows rows, rate and time left."""
    from recshard.trace.extent import expected_samples

    total = expected_samples(trace)
    if sys.stderr.isatty():
        with _bar(what, total) as advance:
            yield advance
    else:
        yield _lines(what, total)


@contextmanager
def _bar(what: str, total: int | None) -> Iterator[Callable[[int, int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=12),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("left, {task.completed:,.0f} rows, {task.fields[rate]}"),
    )
    begin = time.perf_counter()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total, rate="– rows/s")

        def advance(samples: int, lookups: int) -> None:
            seconds = time.perf_counter() - begin
            done = progress.tasks[0].completed + samples
            progress.update(task, advance=samples, rate=f"{done / seconds:,.0f} rows/s")

        yield advance


def _lines(what: str, total: int | None) -> Callable[[int, int], None]:
    begin = said = time.perf_counter()
    done = lookups_done = 0

    def advance(samples: int, lookups: int) -> None:
        nonlocal said, done, lookups_done
        done, lookups_done = done + samples, lookups_done + lookups
        now = time.perf_counter()
        if now - said < _EVERY_SECONDS:
            return
        said = now
        seconds = now - begin
        left = ""
        if total:
            share = min(1.0, done / total)
            left = f", {share:.0%}, about {seconds * (1 - share) / share:,.0f} s left"
        note(f"{what}: {done:,} rows, {_rate(done, lookups_done, seconds)}{left}")

    return advance


def _rate(rows: float, lookups: int, seconds: float) -> str:
    return f"{rows / seconds:,.0f} rows/s, {lookups / seconds / 1e6:.1f} million lookups/s"


def planning() -> Callable[[Event], None]:
    """Return a callback that says what a strategy found and proved: its first incumbent, then every few seconds.

    A strategy is quiet while nothing gets better. The callback may serve one strategy after the other.
    """
    said = -_EVERY_SECONDS

    def watch(event: Event) -> None:
        nonlocal said
        if 0 <= event.seconds - said < _EVERY_SECONDS or not math.isfinite(event.bottleneck_ms):
            return
        said = event.seconds
        found = (
            f"the slowest device takes {event.bottleneck_ms:.6g} ms, the bound is {event.lower_bound_ms:.6g} ms"
        )
        note(f"{event.by}: after {event.seconds:.1f} s {found}")

    return watch
