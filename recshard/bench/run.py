"""The bench itself: every contender looks up the same steps, device by device, in turns."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recshard.bench.calibrate import Gauge, Load, NotSlower, Rate, check_slower, load_of, seconds_of
from recshard.bench.contenders import at_rates, contenders, default_batch_size
from recshard.bench.counted import Counted
from recshard.bench.lru import PAGE
from recshard.bench.paged import PagedShards
from recshard.bench.places import WORDS, cache_bytes, check_disk, check_room, places_of
from recshard.bench.result import LRU, Bench, Outcome
from recshard.bench.steps import Endless, Excerpt, Rows, rows_of
from recshard.cost.train import one_thread
from recshard.errors import DoesNotFit, InputError
from recshard.plan.plan import Plan
from recshard.problem import FloatArray
from recshard.remap import remap_of
from recshard.replay import replay_plan
from recshard.runtime.device import DeviceShards
from recshard.runtime.memory import Kind, dtype_of
from recshard.runtime.table_parts import TableParts
from recshard.strategy.run import BASELINES
from recshard.trace.base import Batch, Trace

STEPS = 30
WARM_UP = 5
_FIRST_ROUNDS = 12  # of calibration, before plans are made
_READS = 2048  # of slow rows by the busiest device in a step of the size that is taken by itself

Say = Callable[[str], None]


@dataclass(frozen=True)
class _Contender:
    """A plan or a page cache, made and ready to run.

    Attributes:
        name: as in the report.
        plan: at measured rates.
        look_up: of each device, its lookups of one step; None: the device has no tables.
        features: of each device, those that it looks up.
        caches: of each device, the page cache behind it; empty for plans.
    """

    name: str
    plan: Plan
    look_up: Sequence[Callable[[Any], object] | None]
    features: Sequence[frozenset[str]]
    caches: Sequence[PagedShards | None] = ()


def bench_plan(
    plan: Plan,
    trace: Trace,
    *,
    steps: int = STEPS,
    warm_up: int = WARM_UP,
    batch_size: int | None = None,
    places: Mapping[str, str] | None = None,
    folder: Path | None = None,
    seed: int = 0,
    say: Say = lambda _: None,
) -> Bench:
    """Execute a plan, the baselines and an LRU page cache on this machine's memories, and time them.

    Args:
        plan: its tables, problem and assignment are those of the rivals too.
        trace: steps are consecutive samples of it.
        steps: that count; all contenders run each of them.
        warm_up: steps before that.
        batch_size: samples per step over all devices; None: see `default_batch_size`.
        places: the memory of a tier, by name: cuda, uvm, host or file.
        folder: where files are made, and removed again; None: the system's for temporary files.
        seed: of the lookups that calibrate.
        say: is told what goes on.

    Raises:
        InputError: a trace, place or number that does not fit, or too little room.
        NotSlower: the memory that stands for a slow tier is not slower than the fast one.
    """
    for what, number, least in (("steps", steps, 1), ("warm-up", warm_up, 0), ("batch size", batch_size or 1, 1)):
        if number < least:
            raise InputError(f"bench: {what}: found {number}; accepted: a whole number from {least}")
    where = places_of(plan.tier_names, places or {})
    kinds = tuple(where.values())
    for tier, kind in where.items():
        say(f"bench: tier '{tier}' is {WORDS[kind]}")
    slow = [k for k, kind in enumerate(kinds) if kind != kinds[0]]
    for table in plan.tables.tables:
        dtype_of(table.name, table.dtype)
    size = batch_size or default_batch_size(plan, slow, _READS)
    plans, left_out = _split(contenders(plan))
    if plan.strategy in BASELINES:
        left_out["recshard"] = (
            f"a plan of '{plan.strategy}' does not know which rows are hot; bench one of recshard's"
        )
    with ExitStack() as stack:
        room = stack.enter_context(_scratch(folder))
        if "file" in kinds:
            check_disk(room)
        has_cache = kinds[0] == "host" and "file" in kinds
        if not has_cache:
            left_out[LRU] = "it caches the pages of a file in host memory; no tiers stand there"
        here = at_rates(plan, np.ones(len(kinds)), size)
        loads = {kind: load_of(here, kinds, kind) for kind in dict.fromkeys(kinds)}
        check_room(
            list(plans.values()),
            kinds,
            room,
            paged=plan if has_cache else None,
            measured={kind: load.bytes for kind, load in loads.items()},
        )
        source = Endless(trace, size)
        first = next(source)
        replay_plan(plan, Excerpt(trace.name, trace.features, [first]))  # says what does not fit, before the work
        # Two threads that wait for each other are at the mercy of whatever else runs.
        stack.enter_context(one_thread())
        gauges = _gauges(loads, room, seed)
        rates = _rates(gauges, 0, say)
        check_slower(where, rates)
        made = []
        for name, one in plans.items():
            say(f"bench: makes the tables of '{name}'")
            made.append(_made(name, one, where, room))
        batches, full = [first], None
        if has_cache:
            say("bench: makes the file of the page cache")
            paged = _paged(plan, kinds, room, seed)
            stack.callback(_close, paged)
            made.append(paged)
            full = _fill(paged, first, source, say)
            batches = []
        cache_samples = source.taken if has_cache else 0
        batches += [next(source) for _ in range(warm_up + steps - len(batches))]
        times_ms = _run(made, gauges, batches, warm_up, trace.name, say)
        rates = _rates(gauges, _FIRST_ROUNDS + warm_up, say)
        doubt = _doubt(where, rates)
        counted = Counted(trace.name, trace.features, batches[warm_up:], size, rates, kinds)
        outcomes = tuple(_outcome(one, counted, ms) for one, ms in zip(made, times_ms, strict=True))
    return Bench(
        trace=trace.name,
        places=where,
        rates=rates,
        batch_size=size,
        warm_up=warm_up,
        outcomes=outcomes,
        left_out=left_out,
        cache_full=full,
        cache_samples=cache_samples,
        passes=source.passes,
        doubt=doubt,
    )


def _doubt(places: Mapping[str, Kind], rates: Mapping[Kind, Rate]) -> str | None:
    """Return why times say little: rates that were apart before steps ran may come together while they do."""
    try:
        check_slower(places, rates)
    except NotSlower as error:
        return str(error)
    return None


def _split(found: Iterator[tuple[str, Plan | DoesNotFit]]) -> tuple[dict[str, Plan], dict[str, str]]:
    plans, reasons = {}, {}
    for name, one in found:
        if isinstance(one, DoesNotFit):
            reasons[name] = str(one)
        else:
            plans[name] = one
    return plans, reasons


@contextmanager
def _scratch(folder: Path | None) -> Iterator[Path]:
    """Yield a folder for files that go with it; so do the folders above it that were not there."""
    missing = [] if folder is None else [f for f in (folder, *folder.parents) if not f.exists()]
    try:
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
            scratch = tempfile.TemporaryDirectory(prefix="recshard-bench-", dir=folder, ignore_cleanup_errors=True)
        except FileExistsError:
            raise InputError(f"{folder}: found a file; accepted: a folder to write files in") from None
        except OSError as error:
            raise InputError(f"{folder}: cannot be written: {error.strerror or error}") from None
        with scratch as name:
            yield Path(name)
    finally:
        with suppress(OSError):  # not there, or somebody else's files are in it by now
            for made in missing:
                made.rmdir()


def _gauges(loads: Mapping[Kind, Load], room: Path, seed: int) -> list[Gauge]:
    """Return a gauge of each memory, that has taken its first rounds."""
    gauges = [Gauge(kind, load, room, np.random.default_rng(seed)) for kind, load in loads.items()]
    for _ in range(_FIRST_ROUNDS):
        for gauge in gauges:
            gauge.step()
    return gauges


def _rates(gauges: Sequence[Gauge], after: int, say: Say) -> dict[Kind, Rate]:
    rates = {gauge.kind: gauge.rate(after) for gauge in gauges}
    for kind, rate in rates.items():
        say(
            f"bench: {kind} serves {rate.reads_per_s:,.0f} lookups/s of {rate.load.access_bytes:.0f} bytes: "
            f"{rate.bytes_per_s / 1e6:,.1f} MB/s"
        )
    return rates


def _made(name: str, plan: Plan, places: Mapping[str, Kind], room: Path) -> _Contender:
    remaps = [remap_of(plan, j) for j in range(len(plan.tables))]
    look_up: list[Callable[[Any], object] | None] = []
    for d in range(plan.problem.devices):
        if not (plan.placement.device == d).any():
            look_up.append(None)
            continue
        device = DeviceShards.from_plan(plan, [d], places=places, folder=room, direct=True, remaps=remaps)
        for table in device.tables:
            if isinstance(table, TableParts):
                table.flush()  # no step is to wait for a disk that is yet to be written
        look_up.append(device.forward)
    return _Contender(name, plan, look_up, _features(plan))


def _paged(plan: Plan, kinds: Sequence[Kind], room: Path, seed: int) -> _Contender:
    remaps = [remap_of(plan, j) for j in range(len(plan.tables))]
    generator = torch.Generator().manual_seed(seed)

    def weights(shard: int, first: int, end: int) -> torch.Tensor:
        table = plan.tables.tables[plan.shards.table[shard]]
        shape = (end - first, int(plan.shards.columns[shard]))
        return torch.rand(shape, generator=generator).to(getattr(torch, table.dtype))

    caches: list[PagedShards | None] = []
    for d in range(plan.problem.devices):
        if not (plan.placement.device == d).any():
            caches.append(None)
            continue
        caches.append(PagedShards(plan, d, remaps, room, cache_bytes(plan, kinds, d) // PAGE, weights))
    look_up = [None if cache is None else cache.forward for cache in caches]
    return _Contender(LRU, plan, look_up, _features(plan), caches)


def _close(paged: _Contender) -> None:
    for cache in paged.caches:
        if cache is not None:
            cache.close()


def _features(plan: Plan) -> list[frozenset[str]]:
    found = []
    for d in range(plan.problem.devices):
        tables = {int(j) for j in plan.shards.table[plan.placement.device == d]}
        found.append(frozenset(f for j in tables for f in plan.tables.tables[j].features))
    return found


def _fill(paged: _Contender, first: Batch, source: Endless, say: Say) -> bool:
    """Run the page cache until no frame is free, or the trace has been read once; return whether it is full."""
    batch, said = first, time.perf_counter()
    while True:
        rows = rows_of(batch, paged.plan.tables, "trace")
        waiting = [cache for cache in paged.caches if cache is not None and not cache.cache.is_full]
        for cache in waiting:
            cache.forward(rows)
        if all(cache.cache.is_full for cache in waiting):
            return True
        batch = next(source)
        if source.passes > 1:
            return False
        if time.perf_counter() - said > 5:
            said = time.perf_counter()
            say(f"bench: the page cache fills: {source.taken:,} samples")


def _run(
    made: Sequence[_Contender],
    gauges: Sequence[Gauge],
    batches: Sequence[Batch],
    warm_up: int,
    source: str,
    say: Say,
) -> FloatArray:
    """Return the time of each device in each step that counts, shape (contenders, steps, d), in ms."""
    devices = made[0].plan.problem.devices
    times = np.zeros((len(made), len(batches), devices))
    said = time.perf_counter()
    for step, batch in enumerate(batches):
        if step == warm_up:
            for contender in made:
                for cache in contender.caches:
                    if cache is not None:
                        cache.cache.forget_counts()
        rows = rows_of(batch, made[0].plan.tables, source)
        # Whoever goes first may find the processor's caches colder, so that is someone else each time.
        for turn in range(len(made) + len(gauges)):
            number = (turn + step) % (len(made) + len(gauges))
            if number < len(made):
                times[number, step] = _timed_step(made[number], rows)
            else:
                gauges[number - len(made)].step()
        if time.perf_counter() - said > 5:
            said = time.perf_counter()
            say(f"bench: {step + 1} of {len(batches)} steps")
    return 1e3 * times[:, warm_up:]


def _timed_step(contender: _Contender, rows: Rows) -> list[float]:
    """Return the seconds that each device takes for one step."""
    seconds = []
    for look_up, features in zip(contender.look_up, contender.features, strict=True):
        if look_up is None:
            seconds.append(0.0)
            continue
        batch: Mapping[str, Any] = {feature: rows[feature] for feature in features}
        if not contender.caches:
            batch = {f: (torch.from_numpy(r), torch.from_numpy(n)) for f, (r, n) in batch.items()}
        seconds.append(seconds_of(partial(look_up, batch)))
    return seconds


def _outcome(contender: _Contender, counted: Counted, times_ms: FloatArray) -> Outcome:
    if contender.caches:
        caches = [None if one is None else one.cache for one in contender.caches]
        return counted.outcome_of_caches(contender.name, contender.plan, caches, times_ms)
    return counted.outcome(contender.name, contender.plan, times_ms)
