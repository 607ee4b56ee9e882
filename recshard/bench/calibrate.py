"""Calibration: the rate of each memory, measured in this very run through the runtime that plans go through."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from recshard.bench.paged import row_bytes_of
from recshard.errors import RecshardError
from recshard.placement import Placement
from recshard.plan.plan import Plan
from recshard.problem import IntArray, PlacementProblem
from recshard.remap import parts_of
from recshard.runtime.device import DeviceShards
from recshard.runtime.memory import Kind
from recshard.tables import WEIGHT_BYTES, Dtype, EmbeddingTable, TableSet

SLOWER = 2.0  # times that a slow memory must be slower than the fast one for a bench to say anything
_WARM_UP = 3
_LEAST_LOOKUPS = 64  # of a table in a step
_MOST_BYTES = 1 << 30  # of the memory that is measured


@dataclass(frozen=True)
class Load:
    """What a device asks of one kind of memory in a step, on average.

    Attributes:
        tables: parts of tables that it has there.
        rows: of each.
        lookups: in each, per step.
        columns: of a row.
        dtype: of the weights.
        access_bytes: traffic of one access as the cost model counts it.
        samples: bags in a step.
    """

    tables: int
    rows: int
    lookups: int
    columns: int
    dtype: Dtype
    access_bytes: float
    samples: int

    @property
    def bytes(self) -> int:
        """Of all the tables."""
        return self.tables * self.rows * self.columns * WEIGHT_BYTES[self.dtype]


@dataclass(frozen=True)
class Rate:
    """What a kind of memory was measured to do.

    Attributes:
        kind: of memory.
        reads_per_s: row lookups per second, all that the runtime does for one included.
        bytes_per_s: the same as the cost model has it: times access bytes.
        load: under which.
    """

    kind: Kind
    reads_per_s: float
    load: Load

    @property
    def bytes_per_s(self) -> float:
        return self.reads_per_s * self.load.access_bytes


class NotSlower(RecshardError):
    """The memory that stands for a slow tier is not slower: times would say nothing about a plan."""


def load_of(plan: Plan, kinds: Sequence[Kind], kind: Kind) -> Load:
    """Return what a device of a plan asks of one kind of memory, on average over devices; at least one table.

    Args:
        plan: for the steps that are run.
        kinds: of the plan's tiers.
    """
    sharded = plan.sharded
    mine = [part for part in parts_of(plan) if kinds[part.tier] == kind]
    accesses = sum(float(sharded.accesses[p.shard] * plan.access_share[p.shard, p.tier]) for p in mine)
    dtypes: set[Dtype] = {plan.tables.tables[j].dtype for j in range(len(plan.tables))}
    dtype: Dtype = dtypes.pop() if len(dtypes) == 1 else "float32"
    total = float(sharded.accesses.sum())
    weights = sharded.accesses / total if total else np.full(len(plan.shards), 1 / len(plan.shards))
    access_bytes = float(weights @ sharded.access_bytes)
    weight_bytes = float(weights @ [row_bytes_of(plan, s) for s in range(len(plan.shards))])
    columns = max(1, round(weight_bytes / WEIGHT_BYTES[dtype]))
    tables = max(1, round(len(mine) / plan.problem.devices))
    rows = sum(part.rows for part in mine) // max(len(mine), 1)
    return Load(
        tables=tables,
        rows=int(np.clip(rows, 1024, max(1024, _MOST_BYTES // (tables * columns * WEIGHT_BYTES[dtype])))),
        lookups=max(_LEAST_LOOKUPS, round(accesses / max(len(mine), 1))),
        columns=columns,
        dtype=dtype,
        access_bytes=access_bytes,
        samples=plan.problem.batch_size,
    )


class Gauge:
    """Measures one memory, a step at a time, so that what disturbs the machine disturbs its rate as well.

    A step looks up rows drawn at random in tables that stand in this memory only, through the runtime.
    """

    def __init__(self, kind: Kind, load: Load, folder: Path, rng: np.random.Generator) -> None:
        """Make the tables."""
        self.kind, self._load, self._rng = kind, load, rng
        plan = one_memory(load)
        self._device = DeviceShards.from_plan(plan, [0], places={"memory": kind}, folder=folder, direct=True)
        self._names = [table.name for table in plan.tables.tables]
        lengths = np.full(load.samples, load.lookups // load.samples, dtype=np.int64)
        lengths[: load.lookups % load.samples] += 1
        self._lengths = torch.from_numpy(lengths)
        self._seconds: list[float] = []
        for _ in range(_WARM_UP):
            self.step()

    def step(self) -> None:
        """Take the time of one step."""
        rows = self._rng.integers(0, self._load.rows, (len(self._names), self._load.lookups))
        batch = {name: (torch.from_numpy(rows[j]), self._lengths) for j, name in enumerate(self._names)}
        self._seconds.append(seconds_of(lambda: self._device.forward(batch)))

    def rate(self, after: int = 0) -> Rate:
        """Return the rate by the median of the steps behind the first `after` and those to warm up."""
        median = statistics.median(self._seconds[_WARM_UP + after :])
        return Rate(self.kind, self._load.tables * self._load.lookups / median, self._load)


def seconds_of(look_up: Callable[[], object]) -> float:
    """Return the seconds that lookups take, without Python's garbage collector and torch's tape."""
    gc.disable()
    try:
        with torch.no_grad():
            begin = time.perf_counter()
            look_up()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            return time.perf_counter() - begin
    finally:
        gc.enable()


def one_memory(load: Load) -> Plan:
    """Return the plan of a model whose tables stand whole on one device that has one memory."""
    tables = tuple(
        EmbeddingTable(f"t{j}", load.rows, load.columns, load.dtype, "sgd", (f"t{j}",)) for j in range(load.tables)
    )
    each = np.ones(load.tables, dtype=np.int64)
    weight_bytes = tables[0].weight_bytes
    problem = PlacementProblem(
        batch_size=load.samples,
        rows=each * load.rows,
        dim=each * load.columns,
        row_bytes=each * weight_bytes,
        row_state_bytes=each * 0,
        access_bytes=np.full(load.tables, load.access_bytes),
        accesses=np.full(load.tables, float(load.lookups)),
        class_start=np.arange(load.tables + 1),
        class_rows=each * load.rows,
        class_share=np.full(load.tables, 1 / load.rows),
        network_bytes=np.zeros(load.tables),
        bandwidth=np.ones((1, 1)),
        pool=np.zeros((1, 1), dtype=np.int64),
        pool_capacity=np.array([float(load.tables * load.rows * weight_bytes)]),
        network_bandwidth=np.array([np.inf]),
    )
    return Plan(
        tables=TableSet(tables, load.samples),
        tier_names=("memory",),
        topology="one memory",
        problem=problem,
        placement=Placement(each * 0, problem.rows[:, None]),
        hot_rows=_no_hot_rows,
        strategy="whole",
        status="optimal",
        lower_bound_ms=0.0,
        gap=0.0,
        seconds=0.0,
        notes={},
        provenance={},
    )


def _no_hot_rows(table: int) -> IntArray:
    raise AssertionError(f"table {table} stands whole in one memory")


def check_slower(places: Mapping[str, Kind], rates: Mapping[Kind, Rate]) -> None:
    """Check that other memories than the fastest tier's stand for slower tiers, and are slower by a wide margin.

    Raises:
        NotSlower: they are not; says both rates.
    """
    (fastest, fast), *others = places.items()
    slower = {tier: kind for tier, kind in others if kind != fast}
    if others and not slower:
        choose, tier, such_as = (
            ("faster", fastest, "host") if fast == "file" else ("slower", others[-1][0], "file")
        )
        raise NotSlower(
            f"all tiers stand in one memory ({fast}): times would say nothing about a plan; choose a {choose} one "
            f"for tier '{tier}', such as --place {tier}={such_as}"
        )
    for tier, kind in slower.items():
        if rates[fast].bytes_per_s < SLOWER * rates[kind].bytes_per_s:
            raise NotSlower(
                f"tier '{tier}' ({kind}) serves {rates[kind].reads_per_s:,.0f} lookups/s and tier '{fastest}' "
                f"({fast}) {rates[fast].reads_per_s:,.0f}: a slow tier must be at least {SLOWER:g}× slower here, "
                "or times say nothing about a plan; choose another memory with --place, another disk with "
                "--folder, or larger steps with --batch-size"
            )
