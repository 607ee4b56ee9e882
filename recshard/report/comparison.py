"""One strategy's line in a comparison, as the JSON contract has it."""

from __future__ import annotations

import math
from typing import Any

from recshard.errors import DoesNotFit
from recshard.plan.plan import Plan
from recshard.replay import Replay


def comparison_row(name: str, outcome: Plan | DoesNotFit, replay: Replay | None = None) -> dict[str, Any]:
    """Return what a strategy promises, and what a replay found if there was one.

    A strategy that found no placement has nulls, the status `infeasible` and its reason.
    """
    if isinstance(outcome, DoesNotFit):
        empty = dict.fromkeys(("bottleneck_ms", "slow_share", "imbalance", "gap", "seconds"))
        return {"name": name, **empty, "status": "infeasible", "reason": str(outcome)}
    row: dict[str, Any] = {
        "name": name,
        "bottleneck_ms": outcome.bottleneck_ms,
        "lower_bound_ms": outcome.lower_bound_ms,
        "slow_share": outcome.slow_share,
        "imbalance": outcome.imbalance,
        "gap": outcome.gap if math.isfinite(outcome.gap) else None,
        "seconds": outcome.seconds,
        "status": outcome.status,
    }
    if replay is not None:
        summary = replay.summary()
        row["replayed"] = {key: summary[key] for key in ("bottleneck_ms", "slow_share", "imbalance", "lookups")}
    return row
