"""`recshard demo`: the whole path on a bundled recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recshard.cli.output import Json, emit, note

_STRATEGIES = ("recshard", "milp", "search", "size", "lookup", "size-lookup")


def command(
    recipe: Annotated[str, typer.Option(help="A recipe of a synthetic model.")] = "demo",
    topology: Annotated[str, typer.Option("--topology", "-t", help="A topology.toml or a preset.")] = "demo-x8",
    time_limit: Annotated[float, typer.Option(help="Seconds per strategy.")] = 10.0,
    seed: Annotated[int, typer.Option(help="Of all random choices.")] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Keep the best plan in this folder.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Profile the first half of a synthetic trace, plan with six strategies, replay all on the other half."""
    from rich.console import Group
    from rich.text import Text

    from recshard.check import check_plan
    from recshard.errors import DoesNotFit, InputError
    from recshard.files import check_writable
    from recshard.plan import Plan, compare_strategies, save_plan
    from recshard.plan.storage import MARKER
    from recshard.profile.build import profile_trace
    from recshard.replay import replay_plan
    from recshard.report.comparison import comparison_row
    from recshard.report.console import comparison_report, report_plan
    from recshard.strategy.run import StrategyOptions
    from recshard.topology import load_topology
    from recshard.trace import load_recipe, take
    from recshard.trace.synthetic import SyntheticTrace

    if output is not None:
        check_writable(output, MARKER)
    trace = load_recipe(recipe)
    if not isinstance(trace, SyntheticTrace):
        raise InputError(f"{recipe}: describes a data set; the demo needs a synthetic model")
    half = trace.samples // 2
    note(f"profile: the first {half:,} of {trace.samples:,} samples of '{trace.name}', {len(trace.parts)} tables")
    profile = profile_trace(take(trace, slice(None, half)))
    rest = take(trace, slice(half, None))
    rows, plans = [], []
    options = StrategyOptions(time_limit, seed)
    for name, outcome in compare_strategies(profile, load_topology(topology), _STRATEGIES, options=options):
        replay = replay_plan(outcome, rest) if isinstance(outcome, Plan) else None
        rows.append(comparison_row(name, outcome, replay))
        note(f"{name}: planned and replayed" if replay else f"{name}: found no plan")
        if isinstance(outcome, Plan):
            plans.append(outcome)
    if not plans:
        raise DoesNotFit(f"no strategy found a plan: {rows[0]['reason']}")
    best = min(plans, key=lambda plan: plan.bottleneck_ms)
    checked = check_plan(best)
    if output is not None:
        save_plan(best, output)
        note(f"plan of {best.strategy}: {output}")
    title = f"plans of the first half of '{trace.name}' on {topology}, replayed on the other half"
    emit(
        as_json,
        lambda: {"strategies": rows, "plan": best.summary(), "check": checked.document()},
        lambda: Group(
            report_plan(best),
            Text(f"learned check: {checked.verdict}: {checked.reason}"),
            comparison_report(rows, title),
        ),
    )
