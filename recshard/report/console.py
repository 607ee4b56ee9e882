"""Plans, replays and comparisons as tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from recshard.check import CheckResult
from recshard.plan.plan import Plan
from recshard.replay import Replay
from recshard.report.cells import share, titled
from recshard.report.solving import solver_section
from recshard.units import format_bytes

_TOP = 10


def report_plan(plan: Plan) -> RenderableType:
    """Return a plan's report: devices, what the solver has to say, the tables that matter most, bound and gap."""
    cuts = [Text(cut_sentence(plan))] if plan.tables_cut else []
    return Group(_devices(plan), solver_section(plan.solver), _tables(plan), *cuts, Text(proof_sentence(plan)))


def cut_sentence(plan: Plan, most: int = _TOP) -> str:
    """Return which tables are cut and into how many shards, in one sentence; of many the first `most`."""
    cuts = [f"{entry['table']} ({entry['shards']} by {entry['kind']}s)" for entry in plan.tables_cut]
    more = f" and {len(cuts) - most} more tables" if len(cuts) > most else ""
    return f"Cut into shards: {', '.join(cuts[:most])}{more}."


def proof_sentence(plan: Plan) -> str:
    """Return what is proven about a plan, in one sentence."""
    if plan.gap == 0:
        proof = "which no placement of these tables can beat"
    else:
        proof = f"{share(plan.gap)} above the proven lower bound of {plan.lower_bound_ms:.4g} ms" + (
            ": optimal within 0.01%" if plan.status == "optimal" else ""
        )
    return f"The slowest device takes {plan.bottleneck_ms:.4g} ms a step, {proof}."


def _devices(plan: Plan) -> Table:
    table = titled(f"devices of {plan.topology}, tables placed by {plan.strategy}")
    table.add_column("device", justify="right")
    table.add_column("cost ms", justify="right")
    table.add_column("shards" if plan.tables_cut else "tables", justify="right")
    for tier in plan.tier_names:
        table.add_column(f"{tier} bytes", justify="right")
        table.add_column("full", justify="right")
        table.add_column("accesses", justify="right")
    for d, device in enumerate(plan.devices):
        cells = [str(d), f"{device['cost_ms']:.4g}", str(len(device["tables"]))]
        for tier in plan.tier_names:
            entry = device["tiers"][tier]
            capacity = entry["capacity_bytes"]
            cells.append(format_bytes(entry["bytes"]))
            cells.append(share(entry["bytes"] / capacity) if capacity else "–")
            cells.append(share(entry["access_share"]))
        table.add_row(*cells)
    return table


def _tables(plan: Plan) -> Table:
    """The tables, or shards of them, that cost most, in their order."""
    sharded, placement = plan.sharded, plan.placement
    slowness = 1e3 / sharded.bandwidth[placement.device]
    cost = (plan.access_share * slowness).sum(axis=1) * sharded.traffic
    top = np.argsort(-cost, kind="stable")[:_TOP]
    of = f"{len(plan.shards)} shards of " if plan.tables_cut else ""
    table = titled(f"the {len(top)} costliest of {of}{plan.problem.tables} tables")
    for name in ("table", "device", "cost ms", "rows", "bytes", "accesses/step"):
        table.add_column(name, justify="left" if name == "table" else "right")
    for tier in plan.tier_names:
        table.add_column(f"{tier} rows", justify="right")
        table.add_column(f"{tier} acc.", justify="right")
    for s in top:
        cells = [
            escape(plan.shard_names[s]),  # brackets are markup to a terminal
            str(placement.device[s]),
            f"{cost[s]:.4g}",
            f"{sharded.rows[s]:,}",
            format_bytes(sharded.table_bytes[s]),
            f"{sharded.accesses[s]:,.0f}",
        ]
        for k in range(len(plan.tier_names)):
            cells += [share(placement.rows[s, k] / max(sharded.rows[s], 1)), share(plan.access_share[s, k])]
        table.add_row(*cells)
    return table


def replay_report(replay: Replay) -> RenderableType:
    """Return a replay's report: accesses per device and tier, and what was predicted."""
    summary = replay.summary()
    table = titled(f"{replay.plan.strategy} replayed on {replay.source}")
    table.add_column("device", justify="right")
    table.add_column("cost ms", justify="right")
    for tier in replay.plan.tier_names:
        table.add_column(f"{tier} accesses", justify="right")
    for d, device in enumerate(summary["devices"]):
        counts = [f"{device['accesses'][tier]:,}" for tier in replay.plan.tier_names]
        table.add_row(str(d), f"{device['cost_ms']:.4g}", *counts)
    sentence = (
        f"{replay.samples:,} samples, {replay.lookups:,} lookups: {share(replay.slow_share)} outside the fastest "
        f"tier ({share(replay.plan.slow_share)} predicted), slowest device {summary['bottleneck_ms']:.4g} ms "
        f"({replay.plan.bottleneck_ms:.4g} predicted)."
    )
    return Group(table, Text(sentence))


def check_report(result: CheckResult) -> RenderableType:
    """Return the learned cost beside the optimiser's, per device and tier, and the verdict."""
    document = result.document()
    table = titled("the optimiser's cost and the learned one")
    for name in ("device", "cost ms", "load", "learned load"):
        table.add_column(name, justify="right")
    for tier in result.tier_names:
        table.add_column(f"{tier} ms", justify="right")
        table.add_column("learned ms", justify="right")
    for d, device in enumerate(document["devices"]):
        cells = [str(d), f"{device['cost_ms']:.4g}", _known(device["load"]), _known(device["predicted_load"])]
        for costs in device["tiers"].values():
            cells += [f"{costs['cost_ms']:.4g}", _known(costs["predicted_ms"])]
        table.add_row(*cells)
    rank = document["rank_correlation"]
    order = "" if rank is None else f" Rank correlation over devices: {rank:.2f}."
    return Group(table, Text(f"{result.verdict}: {result.reason}.{order}"))


def _known(value: float | None) -> str:
    return "unchecked" if value is None else f"{value:.4g}"


def comparison_report(rows: Sequence[dict[str, Any]], title: str) -> RenderableType:
    """Return strategies side by side; what a strategy has no answer to is a dash, and its reason stands below."""
    table = titled(title)
    names = ("strategy", "bottleneck ms", "× best", "gap", "slow share", "imbalance", "seconds", "status")
    replayed = any("replayed" in row for row in rows)
    for name in names[:-2] + (("replayed ms", "replayed slow") if replayed else ()) + names[-2:]:
        table.add_column(name, justify="left" if name == "strategy" else "right")
    best = min((row["bottleneck_ms"] for row in rows if row["bottleneck_ms"] is not None), default=0.0)
    for row in rows:
        if row["bottleneck_ms"] is None:
            table.add_row(row["name"], *["–"] * (len(table.columns) - 2), row["status"])
            continue
        ratio = row["bottleneck_ms"] / best if best else 1.0
        cells = [row["name"], f"{row['bottleneck_ms']:.4g}", f"{ratio:.2f}", share(row["gap"])]
        cells += [share(row["slow_share"]), f"{row['imbalance']:.3f}"]
        if replayed:
            cells += [f"{row['replayed']['bottleneck_ms']:.4g}", share(row["replayed"]["slow_share"])]
        table.add_row(*cells, f"{row['seconds']:.2f}", row["status"])
    reasons = [Text(f"{row['name']}: {row['reason']}") for row in rows if "reason" in row]
    return Group(table, *reasons)
