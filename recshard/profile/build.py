"""From a trace to a profile, in one pass."""

from __future__ import annotations

from collections.abc import Callable

from recshard.profile.checkpoint import Checkpoint, fingerprint
from recshard.profile.partial import Partial
from recshard.profile.profile import Profile
from recshard.profile.profiler import Profiler
from recshard.tables import TableSet
from recshard.trace.ahead import ahead
from recshard.trace.base import DEFAULT_BATCH, Trace
from recshard.trace.concatenated import parts
from recshard.trace.memory import MemoryTrace
from recshard.trace.selection import declared_tables, sampled_share, source_of

Progress = Callable[[int, int], None]

_BATCH_MEMORY = 1 << 31  # bytes of memory that go with batches of the usual size


def profile_trace(
    trace: Trace,
    tables: TableSet | None = None,
    *,
    memory: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
) -> Profile:
    """Count every lookup of `trace`, within `memory` (`Profiler`): what does not fit goes to disk.

    Args:
        trace: read once, in batches.
        tables: the declared tables; what they leave out is inferred (design.md, "Spec files"). None: those that
            a synthetic trace's recipe declares.
        memory: bytes that counting may take; None: half of the machine's.
        threads: that count at once; None: one per processor.
        progress: called after every batch with its samples and lookups.
        checkpoint: keeps the counts of every input file that was read to its end, where there are several, and
            has those of files that need not be read again.

    Raises:
        InputError: the trace is empty or malformed, lacks a declared feature, or an ID is outside its table.
    """
    profiler = Profiler(
        declared_tables(trace) if tables is None else tables, memory=memory, threads=threads, name=trace.name
    )
    declared = profiler.start(trace.features)
    if checkpoint is None or len(parts(trace)) == 1:
        count(profiler, trace, progress)
        return profiler.finish(sampled_share(trace))
    whole: Partial | None = None
    for part in parts(trace):
        partial = checkpoint.finished(part, declared)
        if partial is None:
            before = fingerprint(part, declared)
            count(profiler, part, progress)
            partial = checkpoint.keep(profiler, part, declared, before)
        elif progress is not None:
            progress(partial.samples, 0)
        whole = partial if whole is None else whole.plus(partial)
    assert whole is not None
    return profiler.assembled(whole, (trace.name,), sampled_share(trace))


def count(profiler: Profiler, trace: Trace, progress: Progress | None = None) -> None:
    """Count all of a trace; the next batch is read while one is counted, but for batches that a program makes."""
    batches = trace.batches(_batch_size(profiler.memory))
    for batch in batches if isinstance(source_of(trace), MemoryTrace) else ahead(batches):
        profiler.update(batch)
        if progress is not None:
            progress(batch.samples, sum(len(bag.values) for bag in batch.bags.values()))


def _batch_size(memory: int) -> int:
    """Return samples per batch: fewer where little memory is allowed, and more, which is faster, where much is."""
    return max(1024, min(2 * DEFAULT_BATCH, DEFAULT_BATCH * memory // _BATCH_MEMORY))
