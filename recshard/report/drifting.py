"""Drift as a table on a terminal, and what it does to a plan in a sentence."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from recshard.plan.plan import Plan
from recshard.profile.drift import Drift
from recshard.replay import Replay
from recshard.report.cells import share, table_of

_TOP = 20


def loss(kept: Replay, fresh: Plan) -> float:
    """Return by how much an old plan is slower on new traffic than a plan made for it, as a share.

    The old plan is measured: it has not seen the traffic. The new one has, and would be flattered by it, so of it
    stands what it expects of traffic to come.
    """
    return float(kept.device_cost_ms.max() / fresh.bottleneck_ms - 1.0)


def drift_report(drift: Drift, kept: Replay | None, fresh: Plan | None) -> RenderableType:
    """Return the tables whose accesses moved most, and what a plan of the old profile costs on the new one.

    Args:
        drift: between the profiles.
        kept: the old plan on the new profile, if there is one.
        fresh: a plan made from the new profile, if there is one.
    """
    shown = drift.tables[:_TOP]
    title = f"the {len(shown)} tables that moved most, of {len(drift.tables)}"
    names = ("table", "moved", "by luck", "to rows not seen before", "lookups/sample before", "after")
    table = table_of(title, names)
    for t in shown:
        table.add_row(
            t.name,
            share(t.moved),
            share(t.by_luck),
            share(t.new_rows),
            f"{t.old_per_sample:.3g}",
            f"{t.new_per_sample:.3g}",
        )
    sentences = [
        f"{share(drift.moved)} of all accesses are on other rows than before; two samples of the same traffic "
        f"would differ by {share(drift.by_luck)}."
    ]
    if kept is not None:
        cost = float(kept.device_cost_ms.max())
        text = (
            f"The old plan costs {cost:.4g} ms on the new profile ({kept.plan.bottleneck_ms:.4g} ms expected when "
            f"it was made), {share(kept.slow_share)} of accesses outside the fastest tier"
        )
        if fresh is not None:
            text += (
                f"; a plan made from the new profile expects {fresh.bottleneck_ms:.4g} ms: the old one loses "
                f"{share(max(0.0, loss(kept, fresh)))}"
            )
        sentences.append(text + ".")
    return Group(table, *(Text(sentence) for sentence in sentences))
