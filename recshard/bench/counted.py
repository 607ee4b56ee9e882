"""Counts: what the steps that were timed asked of each tier, and what that costs at measured rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from recshard.bench.calibrate import Rate
from recshard.bench.contenders import at_rates
from recshard.bench.lru import PageCache
from recshard.bench.result import Outcome
from recshard.bench.steps import Excerpt, rows_of
from recshard.plan.plan import Plan
from recshard.problem import FloatArray, IntArray
from recshard.replay import Replay, replay_plan
from recshard.runtime.memory import Kind
from recshard.tables import TableSet
from recshard.trace.base import Bag, Batch


@dataclass(frozen=True)
class Counted:
    """The steps that count, and the memories that they ran on.

    Attributes:
        source: names the trace.
        features: of the trace.
        batches: one a step.
        batch_size: samples of each.
        rates: of each kind of memory.
        kinds: the memory of each tier.
    """

    source: str
    features: tuple[str, ...]
    batches: Sequence[Batch]
    batch_size: int
    rates: Mapping[Kind, Rate]
    kinds: Sequence[Kind]

    def outcome(self, name: str, plan: Plan, times_ms: FloatArray) -> Outcome:
        """Return what a plan took, beside what it was to take by its own formula and by exact counts."""
        here = self._here(plan)
        served, read = self._replayed(here), self._replayed_once(here)
        # Rows of a file are read once a step, however often it asks for them.
        files = np.array([kind == "file" for kind in self.kinds])
        made = replace(served, accesses=np.where(files, read.accesses, served.accesses))
        return Outcome(
            name=name,
            accesses=_by_device(here, served.accesses),
            predicted_ms=here.device_cost_ms,
            replayed_ms=served.device_cost_ms,
            reads=_by_device(here, made.accesses),
            reads_ms=made.device_cost_ms,
            times_ms=times_ms,
            slow_share=served.slow_share,
        )

    def outcome_of_caches(
        self, name: str, plan: Plan, caches: Sequence[PageCache | None], times_ms: FloatArray
    ) -> Outcome:
        """Return what page caches took that run a plan's assignment, one a device: every lookup is one in memory,
        and every page is one read of the file.
        """
        here = self._here(plan)
        devices = here.problem.devices
        accesses = self._replayed(here).accesses.sum(axis=1)
        traffic = np.bincount(here.placement.device, accesses * here.sharded.access_bytes, minlength=devices)
        found = np.zeros((devices, len(self.kinds)), dtype=np.int64)
        reads = np.zeros_like(found)
        for d, cache in enumerate(caches):
            if cache is not None:
                found[d, [0, -1]] = cache.hits, cache.lookups - cache.hits
                reads[d, [0, -1]] = cache.lookups, cache.pages_read
        seconds = traffic / self.rates[self.kinds[0]].bytes_per_s + reads[:, -1] / self.rates["file"].reads_per_s
        return Outcome(
            name=name,
            accesses=found,
            predicted_ms=None,
            replayed_ms=None,
            reads=reads,
            reads_ms=1e3 * seconds / len(self.batches),
            times_ms=times_ms,
            slow_share=float(found[:, -1].sum() / max(found.sum(), 1)),
        )

    def _here(self, plan: Plan) -> Plan:
        return at_rates(plan, np.array([self.rates[kind].bytes_per_s for kind in self.kinds]), self.batch_size)

    def _replayed(self, plan: Plan) -> Replay:
        return replay_plan(plan, Excerpt(self.source, self.features, self.batches))

    def _replayed_once(self, plan: Plan) -> Replay:
        """Replay every row of a table once a step."""
        tables = TableSet(tuple(replace(table, ids="rows") for table in plan.tables.tables), self.batch_size)
        batches = [_distinct(batch, plan.tables, self.source) for batch in self.batches]
        return replay_plan(replace(plan, tables=tables), Excerpt(self.source, self.features, batches))


def _by_device(plan: Plan, accesses: IntArray) -> IntArray:
    """Return accesses of shards, shape (s, k), added up by device, shape (d, k)."""
    found = np.zeros((plan.problem.devices, accesses.shape[1]), dtype=np.int64)
    np.add.at(found, plan.placement.device, accesses)
    return found


def _distinct(batch: Batch, tables: TableSet, source: str) -> Batch:
    """Return the rows of each table in a batch, each once, as if its first feature alone asked for them."""
    rows = rows_of(batch, tables, source)
    nothing = Bag(np.zeros(0, dtype=np.int64), np.zeros(batch.samples, dtype=np.int64))
    bags = dict.fromkeys(batch.bags, nothing)
    for table in tables.tables:
        if table.features:
            values = np.unique(np.concatenate([rows[feature][0] for feature in table.features]))
            lengths = np.zeros(batch.samples, dtype=np.int64)
            lengths[0] = len(values)
            bags[table.features[0]] = Bag(values, lengths)
    return Batch(batch.samples, bags)
