"""Figures: access CDFs, splits and device loads, for notebooks and reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from recshard.plan.plan import Plan
from recshard.profile.profile import Profile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colour-blind safe, dark to light from the fastest tier to the slowest.
_TIER_COLOURS = ("#1b4f72", "#e08e2b", "#9b9b9b", "#c9b5d9")


def access_cdfs(profile: Profile, axes: Axes, tables: Sequence[str] | None = None) -> None:
    """Draw the access CDF of each table: share of accesses over the share of its rows, hottest first."""
    for j, table in enumerate(profile.tables.tables):
        if tables is not None and table.name not in tables:
            continue
        rows, covered = profile.access_cdf(j)
        axes.plot(rows / table.rows, covered, label=table.name)
    axes.set_xlabel("share of rows, hottest first")
    axes.set_ylabel("share of accesses")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)


def splits(plan: Plan, axes: Axes, most: int = 20) -> None:
    """Draw, for the `most` largest tables, which share of their rows stands in each tier."""
    largest = np.argsort(-plan.problem.table_bytes, kind="stable")[:most]
    left = np.zeros(len(largest))
    names = [plan.tables.tables[j].name for j in largest]
    for k, tier in enumerate(plan.tier_names):
        width = plan.placement.rows[largest, k] / plan.problem.rows[largest]
        axes.barh(names, width, left=left, label=tier, color=_TIER_COLOURS[k % len(_TIER_COLOURS)])
        left += width
    axes.invert_yaxis()
    axes.set_xlabel("share of rows")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(plan.tier_names), frameon=False)


def device_loads(plans: Sequence[Plan], axes: Axes) -> None:
    """Draw the cost of every device under each plan, and the best proven bound as a line."""
    devices = np.arange(plans[0].problem.devices)
    width = 0.8 / len(plans)
    for i, plan in enumerate(plans):
        axes.bar(devices + (i - (len(plans) - 1) / 2) * width, plan.device_cost_ms, width, label=plan.strategy)
    bound = max(plan.lower_bound_ms for plan in plans)
    axes.axhline(bound, color="black", linewidth=1, linestyle="--", label="proven lower bound")
    axes.set_xticks(devices)
    axes.set_xlabel("device")
    axes.set_ylabel("cost per step, ms")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(plans) + 1, frameon=False)
