"""Profiling on a dask.distributed cluster: parts of a trace counted apart, counts merged in a tree.

Workers read the files themselves, by the same paths. Counting is exact and adding is associative, so the profile
is the same, bit for bit, however the trace is cut and whichever worker dies on the way: the scheduler has lost
parts counted again.
"""

from __future__ import annotations

import importlib
import re

from recshard.errors import InputError
from recshard.profile.build import count
from recshard.profile.partial import Partial, add_up, loaded
from recshard.profile.profile import Profile
from recshard.profile.profiler import Profiler
from recshard.profile.spill import SpillFolder
from recshard.tables import TableSet
from recshard.trace.base import Trace
from recshard.trace.partition import partitions
from recshard.trace.selection import declared_tables, sampled_share

_CONNECT_SECONDS = 15
_ADDRESS = r"((tcp|tls|ucx|ws|wss)://)?[^/:]+:[0-9]+|(tcp|tls)://\[[0-9a-fA-F:]+\]:[0-9]+"


def profile_on_cluster(
    trace: Trace, scheduler: str, tables: TableSet | None = None, *, memory: int | None = None
) -> Profile:
    """Count every lookup of `trace` on the workers of a cluster.

    Args:
        trace: of files that every worker can read.
        scheduler: address of a dask.distributed scheduler, such as `tcp://10.0.0.1:8786`.
        tables: as for `profile_trace`.
        memory: bytes that one worker's counting, and putting the profile together here, may take.

    Raises:
        InputError: no dask.distributed, no scheduler at that address, workers that keep dying, or what
            `profile_trace` raises.
    """
    try:
        distributed = importlib.import_module("distributed")
    except ImportError:
        raise InputError("scheduler: dask.distributed is not installed; pip install 'recshard[cluster]'") from None

    if not re.fullmatch(_ADDRESS, scheduler):
        raise InputError(
            f"scheduler: found '{scheduler}'; accepted: an address such as tcp://host:8786, as `dask "
            "scheduler` prints it"
        )
    profiler = Profiler(declared_tables(trace) if tables is None else tables, memory=memory, name=trace.name)
    declared = profiler.start(trace.features)
    try:
        client = distributed.Client(scheduler, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(
            f"scheduler: {scheduler}: no dask scheduler answers there ({error}); accepted: an address such as "
            "tcp://host:8786, as `dask scheduler` prints it"
        ) from None
    with client:
        level = [
            client.submit(count_part, part, declared, memory, trace.name, pure=False) for part in partitions(trace)
        ]
        while len(level) > 1:
            pairs = [level[k : k + 2] for k in range(0, len(level), 2)]
            level = [p[0] if len(p) == 1 else client.submit(merge_parts, *p, pure=False) for p in pairs]
        try:
            partial: Partial = level[0].result()
        except distributed.KilledWorker as error:
            raise InputError(
                f"scheduler: {scheduler}: workers died again and again while counting ({error}); give them more "
                "memory, or count with less (--memory)"
            ) from None
    return profiler.assembled(partial, (trace.name,), sampled_share(trace))


def count_part(part: Trace, tables: TableSet, memory: int | None, name: str) -> Partial:
    """Return the counts of a part of a trace, in memory; runs on a worker."""
    profiler = Profiler(tables, memory=memory, threads=1, name=name)
    profiler.start(part.features)
    count(profiler, part)
    return _in_memory(profiler.partial())


def merge_parts(left: Partial, right: Partial) -> Partial:
    """Return the counts of two parts, added up; runs on a worker."""
    return _in_memory(left.plus(right))


def _in_memory(partial: Partial) -> Partial:
    counts = tuple((loaded(add_up(parts, SpillFolder)),) for parts in partial.counts)
    return Partial(partial.samples, partial.features, partial.tables, counts)
