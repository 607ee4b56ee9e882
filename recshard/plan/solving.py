"""What the solver has to say of a plan: how it got there, who proved the bound, and what would make it better.

A price comes in two kinds. What the *proven bound* falls by if every device has more memory holds for every
placement. The *shadow price* of one device's memory holds for this plan alone, its tables staying where they are,
and for the next byte only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recshard.placement import pool_bytes
from recshard.plan.plan import Plan
from recshard.problem import FloatArray, IntArray
from recshard.strategy.bound import device_kinds
from recshard.strategy.history import Event
from recshard.strategy.prices import MemoryValue, Prices, find_prices

if TYPE_CHECKING:
    import pandas as pd

MOST_CLASSES = (
    2_000_000  # frequency classes × kinds of devices up to which bounds are proven anew, in a second or so
)
_SAME = 1e-6  # relative: bounds that differ less are one


@dataclass(frozen=True)
class SolverReport:
    """How a plan was got, what is proven about it, and what would make it better.

    Attributes:
        plan: the plan.
        events: incumbent and bound over time, at least one; the last is the plan as it stands.
        bound_by: the argument that proves the bound (`recshard.strategy.bound`), or `milp`; None: not known.
        exchanges_judged: by local search; None: not known.
        exchanges_per_second: the same by the second of all that the strategy took; None: not known.
        slack_ms: of each device below the bottleneck, shape (d,).
        free_bytes: of each memory pool, shape (p,).
        prices: None where the problem has more than 2,000,000 frequency classes × kinds of devices, of which
            bounds are not proven anew for the sake of a report.
    """

    plan: Plan
    events: tuple[Event, ...]
    bound_by: str | None
    exchanges_judged: int | None
    exchanges_per_second: float | None
    slack_ms: FloatArray
    free_bytes: IntArray
    prices: Prices | None

    @property
    def bound_table(self) -> str | None:
        """Name of the table that sets the bound alone, where one does and it is known."""
        if self.prices is None or self.prices.table is None:
            return None
        return self.plan.tables.tables[self.prices.table].name

    def document(self) -> dict[str, Any]:
        """Return the report as JSON has it: numbers are finite, and null is what is not known.

        `pools` has every memory once, with the devices that draw on it.
        """
        plan, prices = self.plan, self.prices
        cutting = None if prices is None else prices.cutting
        return {
            "status": plan.status,
            "bottleneck_ms": plan.bottleneck_ms,
            "lower_bound_ms": plan.lower_bound_ms,
            "gap": plan.gap if math.isfinite(plan.gap) else None,
            "seconds": plan.seconds,
            "bound_by": self.bound_by,
            "bound_table": self.bound_table,
            "split": asdict(plan.rules),
            "exchanges_judged": self.exchanges_judged,
            "exchanges_per_second": self.exchanges_per_second,
            "events": [event.document() for event in self.events],
            "more_memory": None if prices is None else [self._value(value) for value in prices.memory],
            "cutting": None if cutting is None else {**asdict(cutting.rules), "bound_ms": cutting.bound_ms},
            "devices": [self._device(d) for d in range(plan.problem.devices)],
            "pools": list(self._pools()),
        }

    def _value(self, value: MemoryValue) -> dict[str, Any]:
        saved = {"more_bytes": value.more_bytes, "saves_ms": value.saves_ms}
        return {"tier": self.plan.tier_names[value.tier], **saved}

    def _device(self, device: int) -> dict[str, Any]:
        prices: dict[str, float] | None = None
        if self.prices is not None:
            prices = dict(zip(self.plan.tier_names, self.prices.per_gb_ms[device].tolist(), strict=True))
        return {
            "cost_ms": float(self.plan.device_cost_ms[device]),
            "slack_ms": float(self.slack_ms[device]),
            "ms_per_gb": prices,
        }

    def _pools(self) -> Iterator[dict[str, Any]]:
        """Yield every memory pool once, by tier and first device."""
        problem = self.plan.problem
        for k, tier in enumerate(self.plan.tier_names):
            order = np.argsort(problem.pool[:, k], kind="stable")
            pools, first = np.unique(problem.pool[order, k], return_index=True)
            for p, users in zip(pools, np.split(order, first[1:]), strict=True):
                yield {
                    "tier": tier,
                    "devices": users.tolist(),
                    "shared": len(users) > 1,
                    "capacity_bytes": float(problem.pool_capacity[p]),
                    "free_bytes": int(self.free_bytes[p]),
                }

    def frame(self) -> pd.DataFrame:
        """Return a row per device.

        Columns: `cost_ms`, `slack_ms`, and for every tier `<tier>_free_bytes` of the pool that the device draws
        on, `<tier>_shared_by` how many devices do (1: its own), and `<tier>_ms_per_gb`, NaN where not known.
        """
        import pandas as pd

        plan, problem = self.plan, self.plan.problem
        columns: dict[str, Any] = {"cost_ms": plan.device_cost_ms, "slack_ms": self.slack_ms}
        for k, tier in enumerate(plan.tier_names):
            columns[f"{tier}_free_bytes"] = self.free_bytes[problem.pool[:, k]]
            columns[f"{tier}_shared_by"] = problem.pool_users[problem.pool[:, k]]
            columns[f"{tier}_ms_per_gb"] = math.nan if self.prices is None else self.prices.per_gb_ms[:, k]
        return pd.DataFrame(columns, index=pd.RangeIndex(problem.devices, name="device"))

    def history_frame(self) -> pd.DataFrame:
        """Return a row per event: `seconds`, `bottleneck_ms` (NaN: none yet), `lower_bound_ms`, `by`."""
        import pandas as pd

        return pd.DataFrame([event.document() for event in self.events]).astype(
            {"seconds": float, "bottleneck_ms": float, "lower_bound_ms": float}
        )


def solver_report(plan: Plan) -> SolverReport:
    """Return how a plan was got, what is proven about it, and what would make it better.

    Bounds are proven anew for it, each within a fraction of a second; `plan.solver` keeps the result.
    """
    problem = plan.problem
    kinds = 1 + int(device_kinds(problem).max())
    prices: Prices | None = None
    if len(problem.class_rows) * kinds <= MOST_CLASSES:
        prices = find_prices(problem, plan.placement, plan.rules)
    noted = plan.notes.get("exchanges_judged")
    judged = noted if isinstance(noted, int) else None
    return SolverReport(
        plan=plan,
        events=(*plan.history, Event(plan.seconds, plan.bottleneck_ms, plan.lower_bound_ms, "plan")),
        bound_by=_argument(plan, prices),
        exchanges_judged=judged,
        exchanges_per_second=judged / plan.seconds if judged is not None and plan.seconds > 0 else None,
        slack_ms=plan.bottleneck_ms - plan.device_cost_ms,
        free_bytes=(problem.pool_capacity - pool_bytes(problem, plan.placement)).astype(np.int64),
        prices=prices,
    )


def _argument(plan: Plan, prices: Prices | None) -> str | None:
    """Return what proves the plan's bound, if it can be told."""
    if prices is not None and plan.lower_bound_ms <= prices.bound.ms * (1 + _SAME):
        return prices.bound.by
    # A bound that is greater than all arguments together, or was not proven anew: whoever raised it last.
    before = 0.0
    raised = ""
    for event in plan.history:
        if event.lower_bound_ms > before:
            before, raised = event.lower_bound_ms, event.by
    if prices is not None and not raised:
        raised = plan.strategy
    return "milp" if raised.startswith("milp") else None
