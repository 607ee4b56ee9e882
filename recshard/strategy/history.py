"""History: the incumbent and the proven bound over the time that a strategy takes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Event:
    """A better incumbent or a better bound.

    Attributes:
        seconds: since the strategy began.
        bottleneck_ms: least bottleneck so far, infinite before there is one.
        lower_bound_ms: greatest bound so far.
        by: what brought it, such as `search` or `milp`.
    """

    seconds: float
    bottleneck_ms: float
    lower_bound_ms: float
    by: str

    def document(self) -> dict[str, object]:
        """Return the event as JSON has it; null where there is no incumbent yet."""
        return {
            "seconds": self.seconds,
            "bottleneck_ms": self.bottleneck_ms if math.isfinite(self.bottleneck_ms) else None,
            "lower_bound_ms": self.lower_bound_ms,
            "by": self.by,
        }


@dataclass
class History:
    """Events in the order of time; only improvements are kept.

    Attributes:
        begin: when the strategy began, by `time.perf_counter`.
        events: so far.
        watch: is told of every event as it comes.
    """

    begin: float = field(default_factory=time.perf_counter)
    events: list[Event] = field(default_factory=list)
    watch: Callable[[Event], None] | None = None

    @property
    def bottleneck_ms(self) -> float:
        """Least bottleneck so far."""
        return self.events[-1].bottleneck_ms if self.events else math.inf

    @property
    def lower_bound_ms(self) -> float:
        """Greatest bound so far."""
        return self.events[-1].lower_bound_ms if self.events else 0.0

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.perf_counter() - self.begin

    def find(self, bottleneck_ms: float, by: str) -> None:
        """Take note of an incumbent, if it is better than the last."""
        if bottleneck_ms < self.bottleneck_ms:
            self._add(Event(self.seconds, bottleneck_ms, self.lower_bound_ms, by))

    def prove(self, lower_bound_ms: float, by: str) -> None:
        """Take note of a bound, if it is better than the last."""
        if lower_bound_ms > self.lower_bound_ms:
            self._add(Event(self.seconds, self.bottleneck_ms, lower_bound_ms, by))

    def _add(self, event: Event) -> None:
        self.events.append(event)
        if self.watch is not None:
            self.watch(event)

    def document(self) -> list[dict[str, object]]:
        """Return the events as JSON has them; null where there is no incumbent yet."""
        return [event.document() for event in self.events]
