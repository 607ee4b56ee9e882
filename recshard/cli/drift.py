"""`recshard drift`: what changed between two profiles, and what that does to a plan."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recshard.cli.output import Json, emit, note
from recshard.cli.planning import Seed, TimeLimit, strategy_options

if TYPE_CHECKING:
    from recshard.plan import Plan
    from recshard.profile import Profile


def command(
    old: Annotated[Path, typer.Argument(help="The profile that plans were made from.")],
    new: Annotated[Path, typer.Argument(help="A profile of the same tables on other traffic.")],
    plan: Annotated[
        Path | None, typer.Option(help="A plan made from OLD, to be tried on NEW.", show_default=False)
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option(
            "--topology",
            "-t",
            help="Plan for NEW too, and for OLD without --plan: shows what the old plan loses.",
            show_default=False,
        ),
    ] = None,
    strategy: Annotated[str, typer.Option("--strategy", "-s", help="That plans are made with.")] = "recshard",
    time_limit: TimeLimit = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Say how much of the accesses moved between rows, in which tables, and what an old plan loses by it."""
    from recshard.errors import InputError
    from recshard.plan import load_plan, make_plan
    from recshard.profile import load_profile
    from recshard.profile.drift import check_same_tables, drift
    from recshard.replay import replay_profile
    from recshard.report.drifting import drift_report, loss
    from recshard.topology import load_topology

    before, after = load_profile(old), load_profile(new)
    check_same_tables(before, after)
    if topology is None and (strategy != "recshard" or time_limit is not None):
        raise InputError(
            "drift: plans are made for a topology only; give --topology, or no strategy and time limit"
        )
    options = strategy_options(time_limit, seed, "highs", "none", 32, 0)

    def planned(profile: Profile, name: Path) -> Plan:
        assert topology is not None
        note(f"plan: {strategy} on {name}")
        return make_plan(profile, load_topology(topology), strategy, options=options)

    old_plan = load_plan(plan) if plan is not None else planned(before, old) if topology is not None else None
    kept = replay_profile(old_plan, after) if old_plan is not None else None
    fresh = planned(after, new) if topology is not None else None
    found = drift(before, after)

    def document() -> dict[str, Any]:
        result: dict[str, Any] = {"moved": found.moved, "by_luck": found.by_luck}
        result["tables"] = [asdict(table) | {"excess": table.excess} for table in found.tables]
        if kept is not None:
            result["plan"] = kept.summary()
        if kept is not None and fresh is not None:
            result["new_plan"] = fresh.summary()
            result["loss"] = loss(kept, fresh)
        return result

    emit(as_json, document, lambda: drift_report(found, kept, fresh))
