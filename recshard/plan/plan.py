"""The plan itself: what is placed, where, at which cost, and what is proven about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from recshard.placement import Placement, device_costs, imbalance, shard_access_share
from recshard.problem import FloatArray, IntArray, PlacementProblem
from recshard.shards import WHOLE, Shards, SplitRules, cut, cut_evenly, dim_share
from recshard.strategy.history import Event
from recshard.tables import TableSet

if TYPE_CHECKING:
    from recshard.plan.solving import SolverReport


@dataclass(frozen=True)
class Plan:
    """A valid placement of a model on a topology.

    What is placed are shards, s of them; a table that is not cut is one shard, and bears the table's name.

    Attributes:
        tables: the model.
        tier_names: fast to slow.
        topology: name of the topology it was made for.
        problem: what the strategy saw.
        placement: what it returned.
        hot_rows: gives, by index of a table that `needs_hot_rows`, its rows seen, hottest first, shape (seen,).
        strategy: its name.
        status: `optimal` where proven within 0.01%, else `feasible`.
        lower_bound_ms: proven.
        gap: (bottleneck − bound) ÷ bound.
        seconds: that the strategy took.
        notes: what the strategy has to say.
        provenance: what the plan was made from: the profile's source, samples, and options.
        history: incumbent and bound over time.
        rules: which cuts the strategy was allowed; the bound holds for these.
    """

    tables: TableSet
    tier_names: tuple[str, ...]
    topology: str
    problem: PlacementProblem
    placement: Placement
    hot_rows: Callable[[int], IntArray]
    strategy: str
    status: str
    lower_bound_ms: float
    gap: float
    seconds: float
    notes: Mapping[str, object]
    provenance: Mapping[str, object]
    history: tuple[Event, ...] = ()
    rules: SplitRules = WHOLE

    @cached_property
    def shards(self) -> Shards:
        """The shards, in table order, also where nothing is cut."""
        whole = np.ones(self.problem.tables, dtype=np.int64)
        return self.placement.shards or cut_evenly(self.problem, whole, "none")

    @cached_property
    def sharded(self) -> PlacementProblem:
        """The problem in which every shard is a table of its own."""
        return cut(self.problem, self.placement.shards)

    @cached_property
    def shard_names(self) -> list[str]:
        """Names of the shards: `item`, where it is cut `item[0:32]` (by columns) or `item[1/4]` (by rows)."""
        tables = [self.tables.tables[j] for j in self.shards.table]
        return [self.shards.name(s, table.name, table.dim) for s, table in enumerate(tables)]

    @cached_property
    def device_cost_ms(self) -> FloatArray:
        """Cost of each device in ms, by the bandwidth model, shape (d,)."""
        return device_costs(self.sharded, self._placed)

    @property
    def bottleneck_ms(self) -> float:
        """The largest device cost."""
        return float(self.device_cost_ms.max())

    @property
    def imbalance(self) -> float:
        """Largest ÷ mean device cost."""
        return imbalance(self.device_cost_ms)

    @cached_property
    def access_share(self) -> FloatArray:
        """Share of each shard's accesses that each tier is expected to serve, shape (s, k)."""
        return shard_access_share(self.sharded, self._placed)

    @cached_property
    def weighted_accesses(self) -> FloatArray:
        """Accesses per step that each tier is expected to serve for each shard, shape (s, k).

        A column shard serves its share of the columns of an access, so that all add up to the model's accesses.
        """
        accesses: FloatArray = self.sharded.accesses * dim_share(self.problem, self.shards)
        return accesses[:, None] * self.access_share

    @property
    def slow_share(self) -> float:
        """Share of all accesses expected outside the fastest tier."""
        total = float(self.problem.accesses.sum())
        return float(self.weighted_accesses[:, 1:].sum()) / total if total else 0.0

    def shards_of(self, table: int) -> range:
        """Return the indices of a table's shards."""
        first, end = np.searchsorted(self.shards.table, [table, table + 1])
        return range(int(first), int(end))

    def is_split(self, shard: int) -> bool:
        """Return whether a shard has rows in more than one tier."""
        return int(np.count_nonzero(self.placement.rows[shard])) > 1

    def needs_hot_rows(self, table: int) -> bool:
        """Return whether where a table's rows stand depends on which are hot: it is split, or cut by rows."""
        return any(self.shards.parts[s] > 1 or self.is_split(s) for s in self.shards_of(table))

    @cached_property
    def tables_cut(self) -> list[dict[str, Any]]:
        """Which tables are cut, in their order: `table`, `kind` (`column` or `row`) and number of `shards`."""
        result = []
        for j, table in enumerate(self.tables.tables):
            mine = self.shards_of(j)
            if len(mine) > 1:
                kind = "row" if self.shards.parts[mine[0]] > 1 else "column"
                result.append({"table": table.name, "kind": kind, "shards": len(mine)})
        return result

    @cached_property
    def devices(self) -> list[dict[str, Any]]:
        """What each device holds, as the JSON contract has it: cost, tables, and bytes, rows, share per tier.

        Tables are named by shard. The share is that of all accesses; over all devices and tiers it adds up to 1.
        """
        problem, placement = self.problem, self.placement
        total = float(problem.accesses.sum())
        result = []
        for d in range(problem.devices):
            mine = np.flatnonzero(placement.device == d)
            size = placement.rows[mine] * self.sharded.row_bytes[mine, None]
            tiers = {
                name: {
                    "bytes": int(size[:, k].sum()),
                    "rows": int(placement.rows[mine, k].sum()),
                    "access_share": float(self.weighted_accesses[mine, k].sum() / total) if total else 0.0,
                    "capacity_bytes": float(problem.pool_capacity[problem.pool[d, k]]),
                }
                for k, name in enumerate(self.tier_names)
            }
            names = [self.shard_names[s] for s in mine]
            result.append({"cost_ms": float(self.device_cost_ms[d]), "tables": names, "tiers": tiers})
        return result

    @cached_property
    def solver(self) -> SolverReport:
        """How the plan was got, what is proven about it, and what would make it better."""
        from recshard.plan.solving import solver_report

        return solver_report(self)

    @property
    def _placed(self) -> Placement:
        """The placement of `sharded`, in which nothing is left to cut."""
        return Placement(self.placement.device, self.placement.rows)

    def summary(self) -> dict[str, Any]:
        """Return the JSON object of `recshard plan --json`."""
        return self.facts() | {"solver": self.solver.document()}

    def facts(self) -> dict[str, Any]:
        """Return the JSON object without the solver's report, for which bounds are proven anew."""
        return {
            "strategy": self.strategy,
            "topology": self.topology,
            "status": self.status,
            "bottleneck_ms": self.bottleneck_ms,
            "lower_bound_ms": self.lower_bound_ms,
            "gap": self.gap if np.isfinite(self.gap) else None,
            "imbalance": self.imbalance,
            "slow_share": self.slow_share,
            "seconds": self.seconds,
            "notes": dict(self.notes),
            "provenance": dict(self.provenance),
            "tables_cut": self.tables_cut,
            "devices": self.devices,
        }
