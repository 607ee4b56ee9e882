"""When to stop searching: small callables that see the search's progress."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from recshard.errors import InputError


@dataclass(frozen=True)
class Progress:
    """Where a search stands: rounds done, rounds since the last improvement, the best cost and the bound."""

    rounds: int
    stagnant: int
    bottleneck_ms: float
    lower_bound_ms: float

    @property
    def gap(self) -> float:
        """How far the best cost lies above the bound (design.md)."""
        return relative_gap(self.bottleneck_ms, self.lower_bound_ms)


Stop = Callable[[Progress], bool]


def relative_gap(bottleneck_ms: float, lower_bound_ms: float) -> float:
    """Return (bottleneck − bound) ÷ bound; 0 where nothing costs anything, infinite where nothing is proven."""
    if bottleneck_ms <= lower_bound_ms:
        return 0.0
    return (bottleneck_ms - lower_bound_ms) / lower_bound_ms if lower_bound_ms > 0 else float("inf")


def after_seconds(limit: float) -> Stop:
    """Stop once `limit` seconds have passed since this call.

    Raises:
        InputError: the limit is not above zero, or not finite.
    """
    if not 0 < limit < math.inf:
        raise InputError(f"time limit: found {limit} s; accepted: a finite number of seconds above zero")
    end = time.perf_counter() + limit
    return lambda progress: time.perf_counter() >= end


def after_rounds(limit: int) -> Stop:
    """Stop after `limit` rounds: the same work, and so the same result, on every machine."""
    return lambda progress: progress.rounds >= limit


def at_gap(target: float) -> Stop:
    """Stop once the gap is at most `target`."""
    return lambda progress: progress.gap <= target


def when_stagnant(limit: int) -> Stop:
    """Stop after `limit` rounds without an improvement."""
    return lambda progress: progress.stagnant >= limit


def any_of(*stops: Stop) -> Stop:
    """Stop as soon as one of `stops` says so."""
    return lambda progress: any(stop(progress) for stop in stops)


def all_of(*stops: Stop) -> Stop:
    """Stop once all of `stops` say so."""
    return lambda progress: all(stop(progress) for stop in stops)
