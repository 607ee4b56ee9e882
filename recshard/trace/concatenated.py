"""Several traces as one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from recshard.trace.base import DEFAULT_BATCH, Batch, Trace
from recshard.trace.rebatch import rebatch


@dataclass(frozen=True)
class Concatenated:
    """Traces with the same features, one after the other."""

    traces: tuple[Trace, ...]

    @property
    def name(self) -> str:
        return f"{self.traces[0].name} … {self.traces[-1].name}"

    @property
    def features(self) -> tuple[str, ...]:
        return self.traces[0].features

    def batches(self, batch_size: int = DEFAULT_BATCH) -> Iterator[Batch]:
        return rebatch((batch for trace in self.traces for batch in trace.batches(batch_size)), batch_size)


def parts(trace: Trace) -> tuple[Trace, ...]:
    """Return the traces that make up `trace`, in order: those of several files, or itself alone."""
    return trace.traces if isinstance(trace, Concatenated) else (trace,)
