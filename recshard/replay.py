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
from recshard.remap.ranks import row_order
from recshard.shards import dim_share
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
        accesses: lookups of each shard that each tier of its device served, shape (s, k); exact. A lookup of a
            table that is cut by rows is served by one of its shards, of one cut by columns by all of them.
    """

    plan: Plan
    source: str
    samples: int
    accesses: IntArray

    @property
    def lookups(self) -> int:
        """All lookups of the trace."""
        return int(self.accesses[self.plan.shards.first_column == 0].sum())

    @property
    def slow_share(self) -> float:
        """Share of accesses outside the fastest tier; column shards serve their share of an access's columns."""
        slow = self.accesses[:, 1:].sum(axis=1) * dim_share(self.plan.problem, self.plan.shards)
        return float(slow.sum()) / self.lookups if self.lookups else 0.0

    @cached_property
    def device_cost_ms(self) -> FloatArray:
        """Cost of each device per step, from the counts scaled to the plan's batch size, shape (d,)."""
        sharded, device = self.plan.sharded, self.plan.placement.device
        per_step = self.accesses * (sharded.batch_size / self.samples)
        shard_ms = (1e3 * per_step * sharded.access_bytes[:, None] / sharded.bandwidth[device]).sum(axis=1)
        shard_ms += 1e3 * sharded.network_bytes / sharded.network_bandwidth[device]
        cost = np.zeros(sharded.devices)
        np.add.at(cost, device, shard_ms)
        return cost

    def summary(self) -> dict[str, Any]:
        """Return the JSON object of `recshard replay --json`.

        Its `lookups` are the trace's. What the devices' `accesses` add up to is more where tables are cut by
        columns: every shard reads its part of the row.
        """
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

    Memory: one byte a row of split tables, for each column shard of its own; two where tables are cut by rows.

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
    homes = [_homes(plan, j) for j in range(len(plan.tables))]
    accesses = np.zeros((len(plan.shards), len(plan.tier_names)), dtype=np.int64)
    samples = 0
    for batch in trace.batches():
        samples += batch.samples
        for feature, bag in batch.bags.items():
            j = index[feature]
            rows = to_rows(bag.values, plan.tables.tables[j], feature, trace.name)
            for home in homes[j]:
                home.count(accesses, rows)
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
    accesses = np.zeros((len(plan.shards), len(plan.tier_names)), dtype=np.int64)
    for j in range(len(plan.tables)):
        homes = _homes(plan, j)
        for rows, counts in profile.hot_chunks(j):
            for home in homes:
                home.count(accesses, rows, counts)
    return Replay(plan, ", ".join(profile.source), profile.samples, accesses)


@dataclass(frozen=True)
class _Homes:
    """Where the rows of a table stand: in a shard that has them all, or in several that have each some of them.

    Attributes:
        shards: those shards.
        of_row: home of each row, counted through the tiers of one shard after the other, shape (rows,); one
            number where all rows are in one tier.
    """

    shards: slice
    of_row: int | NDArray[np.int8] | NDArray[np.int16] | NDArray[np.int32]

    def count(self, accesses: IntArray, rows: IntArray, times: IntArray | None = None) -> None:
        """Add lookups of `rows`, each once or so many `times`, to the accesses of all shards, shape (s, k)."""
        counted = accesses[self.shards].reshape(-1)  # a view
        if isinstance(self.of_row, int):
            counted[self.of_row] += len(rows) if times is None else times.sum()
        elif times is None:
            counted += np.bincount(self.of_row[rows], minlength=len(counted))
        else:
            np.add.at(counted, self.of_row[rows], times)


def _homes(plan: Plan, table: int) -> list[_Homes]:
    mine, tiers = plan.shards_of(table), len(plan.tier_names)
    placed = plan.placement.rows
    if not plan.needs_hot_rows(table):
        return [_Homes(slice(s, s + 1), int(np.argmax(placed[s]))) for s in mine]
    order = row_order(plan.tables.tables[table].rows, plan.hot_rows(table))
    if plan.shards.parts[mine[0]] > 1:
        homes = len(mine) * tiers
        narrow = homes - 1 <= np.iinfo(np.int16).max
        of_row = np.empty(len(order), dtype=np.int16) if narrow else np.empty(len(order), dtype=np.int32)
        for number, s in enumerate(mine):
            of_row[order[number :: len(mine)]] = np.repeat(np.arange(tiers) + number * tiers, placed[s])
        return [_Homes(slice(mine.start, mine.stop), of_row)]
    found = []
    for s in mine:
        tier: NDArray[np.int8] | int = int(np.argmax(placed[s]))
        if plan.is_split(s):
            tier = np.empty(len(order), dtype=np.int8)
            tier[order] = np.repeat(np.arange(tiers, dtype=np.int8), placed[s])
        found.append(_Homes(slice(s, s + 1), tier))
    return found
