"""The plan itself: what is placed, where, at which cost, and what is proven about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from recshard.placement import Placement, device_costs, imbalance, shard_access_share
from recshard.problem import FloatArray, IntArray, PlacementProblem
from recshard.tables import TableSet


@dataclass(frozen=True)
class Plan:
    """A valid placement of a model on a topology.

    Attributes:
        tables: the model.
        tier_names: fast to slow.
        topology: name of the topology it was made for.
        problem: what the strategy saw.
        placement: what it returned.
        hot_rows: gives, by index of a table that is split, its rows seen, hottest first, shape (seen,).
        strategy: its name.
        status: `optimal` where proven within 0.01%, else `feasible`.
        lower_bound_ms: proven.
        gap: (bottleneck − bound) ÷ bound.
        seconds: that the strategy took.
        notes: what the strategy has to say.
        provenance: what the plan was made from: the profile's source, samples, and options.
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

    @cached_property
    def device_cost_ms(self) -> FloatArray:
        """Cost of each device in ms, by the bandwidth model, shape (d,)."""
        return device_costs(self.problem, self.placement)

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
        """Share of each table's accesses that each tier is expected to serve, shape (t, k)."""
        return shard_access_share(self.problem, self.placement)

    @property
    def slow_share(self) -> float:
        """Share of all accesses expected outside the fastest tier."""
        total = float(self.problem.accesses.sum())
        slow = float(self.problem.accesses @ self.access_share[:, 1:].sum(axis=1))
        return slow / total if total else 0.0

    def is_split(self, table: int) -> bool:
        """Return whether a table has rows in more than one tier."""
        return int(np.count_nonzero(self.placement.rows[table])) > 1

    @cached_property
    def devices(self) -> list[dict[str, Any]]:
        """What each device holds, as the JSON contract has it: cost, tables, and bytes, rows, share per tier."""
        problem, placement = self.problem, self.placement
        accesses = problem.accesses[:, None] * self.access_share
        total = float(problem.accesses.sum())
        result = []
        for d in range(problem.devices):
            mine = np.flatnonzero(placement.device == d)
            size = placement.rows[mine] * problem.row_bytes[mine, None]
            tiers = {
                name: {
                    "bytes": int(size[:, k].sum()),
                    "rows": int(placement.rows[mine, k].sum()),
                    "access_share": float(accesses[mine, k].sum() / total) if total else 0.0,
                    "capacity_bytes": float(problem.pool_capacity[problem.pool[d, k]]),
                }
                for k, name in enumerate(self.tier_names)
            }
            names = [self.tables.tables[j].name for j in mine]
            result.append({"cost_ms": float(self.device_cost_ms[d]), "tables": names, "tiers": tiers})
        return result

    def summary(self) -> dict[str, Any]:
        """Return the JSON object of `recshard plan --json`."""
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
            "devices": self.devices,
        }
