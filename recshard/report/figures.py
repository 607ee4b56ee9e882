"""Figures: access CDFs, splits, device loads and the way to a plan, for notebooks and reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from recshard.plan.plan import Plan
from recshard.problem import FloatArray
from recshard.profile.profile import Profile
from recshard.shards import dim_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEAST_SECONDS = 1e-3  # earlier is as good as at once
_FAR = 30.0  # last ÷ first time, beyond which time is logarithmic
_TWICE = 2.0  # worst ÷ best bottleneck, beyond which cost is logarithmic
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
    """Draw, for the `most` largest tables, which share of their rows stands in each tier.

    Tables that are cut have one bar for all their shards, in which a row of a column shard counts by its columns.
    """
    largest = np.argsort(-plan.problem.table_bytes, kind="stable")[:most]
    share = table_rows(plan)[largest] / plan.problem.rows[largest, None]
    left = np.zeros(len(largest))
    cuts = {entry["table"]: f" ({entry['shards']} shards)" for entry in plan.tables_cut}
    names = [plan.tables.tables[j].name for j in largest]
    labels = [name + cuts.get(name, "") for name in names]
    for k, tier in enumerate(plan.tier_names):
        axes.barh(labels, share[:, k], left=left, label=tier, color=_TIER_COLOURS[k % len(_TIER_COLOURS)])
        left += share[:, k]
    axes.invert_yaxis()
    axes.set_xlabel("share of rows")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(plan.tier_names), frameon=False)


def table_rows(plan: Plan) -> FloatArray:
    """Return the rows of each table in each tier, those of column shards by their columns, shape (t, k)."""
    rows = np.zeros((plan.problem.tables, plan.problem.tiers))
    width = dim_share(plan.problem, plan.shards)
    np.add.at(rows, plan.shards.table, plan.placement.rows * width[:, None])
    return rows


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


def incumbent_and_bound(plan: Plan, axes: Axes) -> None:
    """Draw the least bottleneck found and the greatest bound proven over the time that the strategy took.

    Time is logarithmic where most happens early, cost where the first incumbent is far from the bound.
    """
    history = plan.solver.history_frame()
    seconds = history["seconds"].clip(lower=_LEAST_SECONDS).to_numpy()
    lines = (("bottleneck_ms", "best found", "#1b4f72"), ("lower_bound_ms", "proven lower bound", "black"))
    for column, label, colour in lines:
        values = history[column].where(history[column] > 0).to_numpy(dtype=np.float64)  # nothing yet: no line
        style = "-" if column == "bottleneck_ms" else "--"
        axes.step(seconds, values, style, where="post", label=label, color=colour, marker=".", markersize=4)
    if seconds[-1] > _FAR * seconds[0]:
        axes.set_xscale("log")
    worst, best = history["bottleneck_ms"].max(), history["bottleneck_ms"].min()
    if worst > _TWICE * best > 0:
        axes.set_yscale("log")
    axes.set_xlabel("seconds")
    axes.set_ylabel("cost per step, ms")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
