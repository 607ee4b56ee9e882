"""What the solver has to say of a plan, in sentences and a small table of events."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from recshard.plan.solving import SolverReport
from recshard.problem import FloatArray
from recshard.report.cells import share, table_of
from recshard.strategy.history import Event
from recshard.strategy.prices import FROM_FEW, NOTHING, MemoryValue, Prices
from recshard.strategy.stop import relative_gap
from recshard.units import format_bytes

_EVENTS = 8
_UNIT_NAMES = {1e9: "GB", 1e6: "MB", 1e3: "KB", 1.0: "byte"}
_ARGUMENTS = {
    "pooled": "all tables over all memory together set",
    "lagrangian": "all tables over all memory, devices weighted, set",
    "one table": "one table alone sets",
    "pigeonhole": "tables that must meet on a device set",
    "milp": "the MILP proved",
}


def solver_section(report: SolverReport) -> RenderableType:
    """Return the sentences, and the events: the first, the last, and up to six between."""
    parts: list[RenderableType] = [Text(sentence) for sentence in solver_sentences(report)]
    if len(report.events) > 1:
        parts.append(_events(report.events))
    return Group(*parts)


def solver_sentences(report: SolverReport) -> list[str]:
    """Return how the plan was got, what more memory is worth, and what devices have left, a line each."""
    return [_effort(report), *_worth(report), *_left(report)]


def _effort(report: SolverReport) -> str:
    plan = report.plan
    text = f"{plan.strategy}: {plan.status} after {plan.seconds:.2f} s"
    if report.exchanges_judged is not None and report.exchanges_per_second is not None:
        text += (
            f", {_count(report.exchanges_judged)} exchanges judged, {_count(report.exchanges_per_second)} a second"
        )
    if report.bound_by is not None:
        bound = _argument(report, report.bound_by)
        text += f"; {bound} the bound" + ("" if report.bound_by == "milp" else f" ({report.bound_by})")
    return text + "."


def _argument(report: SolverReport, by: str) -> str:
    if by == "one table" and report.bound_table is not None:
        return f"table '{report.bound_table}' alone sets"
    return _ARGUMENTS[by]


def _worth(report: SolverReport) -> list[str]:
    """Return what more memory on every device, and more cuts, would be worth by the proven bound."""
    prices = report.prices
    if prices is None:
        return []
    names, sentences = report.plan.tier_names, []
    which = "the bound that holds without a MILP" if report.bound_by == "milp" else "the proven bound"
    for value in prices.memory:
        if value.saves_ms > 0:
            sentences.append(
                f"{_step(value)} more {names[value.tier]} on every device would save {value.saves_ms:.2g} ms: by "
                f"so much {which} of {prices.bound.ms:.4g} ms falls ({share(value.saves_ms / prices.bound.ms)})."
            )
    useless = [names[value.tier] for value in prices.memory if value.saves_ms == 0]
    if useless:
        sentences.append(f"More {' or '.join(useless)} would not help: {_reason(report, prices)}.")
    elif prices.cutting is not None:
        flags, lowered = prices.cutting.rules.options, f"{prices.cutting.bound_ms:.4g} ms"
        sentences.append(f"Cutting {_culprit(report, prices)} ({flags}) would lower the bound to {lowered}.")
    return sentences


def _reason(report: SolverReport, prices: Prices) -> str:
    """Return why more memory does not help, and what would."""
    if prices.bound.by not in FROM_FEW:
        return f"the proven bound falls by less than {share(NOTHING)}"
    text = f"{_argument(report, prices.bound.by)} the bound"
    if prices.cutting is None:
        return text
    it = "it" if prices.bound.by == "one table" else "them"
    lowered = f"the bound falls to {prices.cutting.bound_ms:.4g} ms"
    return f"{text}; cutting {it} ({prices.cutting.rules.options}) would: {lowered}"


def _culprit(report: SolverReport, prices: Prices) -> str:
    if prices.bound.by == "one table":
        return "the table that sets it" if report.bound_table is None else f"table '{report.bound_table}'"
    return "tables"


def _left(report: SolverReport) -> list[str]:
    """Return what one more unit of each memory is worth to a device as the tables stand, slack, and free bytes."""
    plan, sentences = report.plan, []
    if report.prices is not None:
        for value in report.prices.memory:
            price = report.prices.per_gb_ms[:, value.tier] * value.more_bytes / 1e9
            if price.max() > 0:
                sentences.append(
                    f"As the tables stand, {plan.tier_names[value.tier]} is worth {_range(price)} ms per "
                    f"{_UNIT_NAMES[value.more_bytes]} to a device, at the margin (its shadow price)."
                )
    free = []
    for k, tier in enumerate(plan.tier_names):
        pools, users = np.unique(plan.problem.pool[:, k], return_counts=True)
        most = f"{users.max()} devices"
        where = f"a pool that {most} share" if len(pools) == 1 else f"{len(pools)} pools that up to {most} share"
        shared = f" (in {where})" if users.max() > 1 else ""
        free.append(f"{format_bytes(float(report.free_bytes[pools].sum()))} {tier}{shared}")
    slack = report.slack_ms[report.slack_ms > 0]
    waiting = "no device waits for another" if not len(slack) else f"other devices wait {_range(slack)} ms for it"
    slowest = int(np.argmax(plan.device_cost_ms))
    sentences.append(f"Device {slowest} is the slowest, {waiting}. Free: {', '.join(free)}.")
    return sentences


def _events(events: Sequence[Event]) -> RenderableType:
    shown = np.unique(np.linspace(0, len(events) - 1, _EVENTS).round().astype(int))
    title = "incumbent and bound over time" + (
        f": {len(shown)} of {len(events)} events" if len(shown) < len(events) else ""
    )
    table = table_of(title, ("by", "seconds", "bottleneck ms", "lower bound ms", "gap"))
    for event in (events[i] for i in shown):
        gap = relative_gap(event.bottleneck_ms, event.lower_bound_ms)
        table.add_row(
            event.by,
            f"{event.seconds:.3f}",
            f"{event.bottleneck_ms:.6g}" if math.isfinite(event.bottleneck_ms) else "–",
            f"{event.lower_bound_ms:.6g}",
            share(gap) if math.isfinite(gap) else "–",
        )
    return table


def _step(value: MemoryValue) -> str:
    return f"1 {_UNIT_NAMES[value.more_bytes]}"


def _range(values: FloatArray) -> str:
    low, high = f"{values.min():.2g}", f"{values.max():.2g}"
    return low if low == high else f"{low} to {high}"


def _count(number: float) -> str:
    for unit, name in ((1e9, "billion"), (1e6, "million")):
        if number >= unit:
            return f"{number / unit:.1f} {name}"
    return f"{number:,.0f}"
