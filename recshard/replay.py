"""Replay: a plan on a trace, with exact counts of the accesses that each tier of each device serves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recshard.errors import InputError, nearest
from recshard.placement import imbalance
from recshard.plan.plan import Plan
from recshard.problem import FloatArray, IntArray
from recshard.profile.profile import Profile
from recshard.remap import remap_table
from recshard.trace.base import Trace
from recshard.trace.hashing import to_rows

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Replay:
    """What a trace does to a plan.

    Attributes:
        plan: the plan.
        source: names the trace.
        samples: samples replayed.
        accesses: lookups of each table that each tier of its device served, shape (t, k); exact.
    """

    plan: Plan
    source: str
    samples: int
    accesses: IntArray

    @property
    def lookups(self) -> int:
        """All lookups of the trace."""
        return int(self.accesses.sum())

    @property
    def slow_share(self) -> float:
        """Share of accesses outside the fastest tier."""
        return int(self.accesses[:, 1:].sum()) / self.lookups if self.lookups else 0.0

    @cached_property
    def device_cost_ms(self) -> FloatArray:
        """Cost of each device per step, from the counts scaled to the plan's batch size, shape (d,)."""
        problem, device = self.plan.problem, self.plan.placement.device
        per_step = self.accesses * (problem.batch_size / self.samples)
        table_ms = (1e3 * per_step * problem.access_bytes[:, None] / problem.bandwidth[device]).sum(axis=1)
        table_ms += problem.network_ms[np.arange(problem.tables), device]
        cost = np.zeros(problem.devices)
        np.add.at(cost, device, table_ms)
        return cost

    def summary(self) -> dict[str, Any]:
        """Return the JSON object of `recshard replay --json`."""
        devices = []
        for d in range(self.plan.problem.devices):
            counts = self.accesses[self.plan.placement.device == d].sum(axis=0)
            accesses = {name: int(n) for name, n in zip(self.plan.tier_names, counts, strict=True)}
            devices.append({"cost_ms": float(self.device_cost_ms[d]), "accesses": accesses})
        return {
            "trace": self.source,
            "samples": self.samples,
            "lookups": self.lookups,
            "slow_share": self.slow_share,
            "predicted_slow_share": self.plan.slow_share,
            "bottleneck_ms": float(self.device_cost_ms.max()),
            "predicted_bottleneck_ms": self.plan.bottleneck_ms,
            "imbalance": imbalance(self.device_cost_ms),
            "devices": devices,
        }


def replay_plan(plan: Plan, trace: Trace, *, progress: Progress | None = None) -> Replay:
    """Count, for every lookup of `trace`, the tier that serves it under `plan`.

    Memory: one byte a row of split tables.

    Raises:
        InputError: the trace lacks a feature of the plan or has one that the plan does not know, is empty or
            malformed, or an ID is outside its table.
    """
    index = plan.tables.table_index
    for missing in index.keys() - set(trace.features):
        raise InputError(
            f"{trace.name}: has no feature '{missing}', which the plan's table "
            f"'{plan.tables.tables[index[missing]].name}' serves{nearest(missing, trace.features)}; "
            f"the trace has: {', '.join(trace.features)}"
        )
    for extra in set(trace.features) - index.keys():
        raise InputError(
            f"{trace.name}: the plan has no table for feature '{extra}'{nearest(extra, index)}; it was made for: "
            f"{', '.join(index)}; select columns of the trace, or plan for all of them"
        )
    homes = [_tiers(plan, j) for j in range(len(plan.tables))]
    accesses = np.zeros((len(plan.tables), len(plan.tier_names)), dtype=np.int64)
    samples = 0
    for batch in trace.batches():
        samples += batch.samples
        for feature, bag in batch.bags.items():
            j = index[feature]
            rows = to_rows(bag.values, plan.tables.tables[j], feature, trace.name)
            home = homes[j]
            if isinstance(home, int):
                accesses[j, home] += len(rows)
            else:
                accesses[j] += np.bincount(home[rows], minlength=accesses.shape[1])
        if progress is not None:
            progress(batch.samples, sum(len(bag.values) for bag in batch.bags.values()))
    if samples == 0:
        raise InputError(f"{trace.name}: the trace is empty; a replay needs at least one sample")
    return Replay(plan, trace.name, samples, accesses)


def replay_profile(plan: Plan, profile: Profile) -> Replay:
    """Count, for every lookup that a profile counted, the tier that serves it under `plan`: a replay of its trace.

    Args:
        plan: of the same tables as the profile.

    Raises:
        InputError: tables that differ.
    """
    if [(t.name, t.rows, t.ids) for t in plan.tables.tables] != [
        (t.name, t.rows, t.ids) for t in profile.tables.tables
    ]:
        raise InputError(
            f"{', '.join(profile.source)}: the profile's tables are not those of the plan; profile with the "
            "tables that the plan was made for (--tables)"
        )
    accesses = np.zeros((len(plan.tables), len(plan.tier_names)), dtype=np.int64)
    for j in range(len(plan.tables)):
        home = _tiers(plan, j)
        for rows, counts in profile.hot_chunks(j):
            if isinstance(home, int):
                accesses[j, home] += counts.sum()
            else:
                np.add.at(accesses[j], home[rows], counts)
    return Replay(plan, ", ".join(profile.source), profile.samples, accesses)


def _tiers(plan: Plan, table: int) -> int | NDArray[np.int8]:
    """Return the one tier that holds a table, or the tier of each of its rows."""
    rows = plan.placement.rows[table]
    if not plan.is_split(table):
        return int(np.argmax(rows))
    return remap_table(rows, plan.hot_rows(table)).tier
