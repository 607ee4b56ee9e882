"""Making plans: from a profile and a topology, through a strategy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from recshard.errors import DoesNotFit
from recshard.plan.plan import Plan
from recshard.problem import IntArray, PlacementProblem, Workload, build_problem, check_problem
from recshard.profile.profile import Profile
from recshard.shards import WHOLE, SplitRules
from recshard.strategy.cuttable import cutting, explain_cut, finely_cut
from recshard.strategy.feasible import explain
from recshard.strategy.infeasible import Infeasible
from recshard.strategy.run import DEFAULT_STRATEGY, StrategyOptions, check_strategy, run_strategy
from recshard.topology import Topology


def make_plan(
    profile: Profile,
    topology: Topology,
    strategy: str = DEFAULT_STRATEGY,
    *,
    workload: Workload | None = None,
    options: StrategyOptions | None = None,
) -> Plan:
    """Return the plan that a strategy makes.

    Raises:
        InputError: no such strategy or solver, or an option out of range.
        DoesNotFit: the model does not fit; says which memory is short and by how much.
    """
    check_strategy(strategy)
    workload = workload or Workload()
    options = options or StrategyOptions()
    problem = build_problem(profile, topology, workload)
    check_problem(problem)
    doubt = check_fit(problem, profile, topology, options.rules)
    begin = time.perf_counter()
    try:
        found = run_strategy(strategy, problem, options)
    except DoesNotFit as error:
        named = error.named([t.name for t in profile.tables.tables])
        raise DoesNotFit(named.message, explanation=named.explanation or doubt) from None
    seconds = time.perf_counter() - begin
    return Plan(
        tables=profile.tables,
        tier_names=topology.tier_names,
        topology=topology.name,
        problem=problem,
        placement=found.placement,
        hot_rows=_rows_of(profile),
        strategy=strategy,
        status=found.status,
        lower_bound_ms=found.lower_bound_ms,
        gap=found.gap,
        seconds=seconds,
        notes=found.notes,
        history=found.history,
        rules=options.rules,
        provenance={
            "trace": list(profile.source),
            "samples": profile.samples,
            "sampled": profile.sampled,
            "lookups": profile.lookups,
            "batch_size": problem.batch_size,
            "training": workload.training,
            "traffic_multiplier": workload.traffic_multiplier,
            "unseen_estimate": "good-turing" if workload.unseen else "none",
            "seed": options.seed,
            "split": options.rules.kind,
        },
    )


def _rows_of(profile: Profile) -> Callable[[int], IntArray]:
    return lambda table: profile.hot_rows(table)[0]


def compare_strategies(
    profile: Profile,
    topology: Topology,
    strategies: Sequence[str],
    *,
    workload: Workload | None = None,
    options: StrategyOptions | None = None,
) -> Iterator[tuple[str, Plan | DoesNotFit]]:
    """Yield each strategy's name with its plan, or with the reason why it found none.

    Raises:
        InputError: no such strategy; before any of them runs.
    """
    for name in strategies:
        check_strategy(name)
    for name in strategies:
        try:
            yield name, make_plan(profile, topology, name, workload=workload, options=options)
        except DoesNotFit as error:
            yield name, error


def check_fit(
    problem: PlacementProblem, profile: Profile, topology: Topology, rules: SplitRules = WHOLE
) -> Infeasible | None:
    """Raise DoesNotFit where it is proven that no placement exists, of tables cut by `rules` too.

    Returns:
        None where the tables fit, else what is known although nothing was proven.
    """
    names = [t.name for t in profile.tables.tables]
    if rules.kind == "none":
        found = explain(problem)
        if found is not None and found.kind != "unknown":
            found = replace(found, remedies=(*found.remedies, *cutting(problem, rules)))
    else:
        found = explain_cut(problem, rules)
        shards = finely_cut(problem, rules)
        names = [shards.name(s, names[j], int(problem.dim[j])) for s, j in enumerate(shards.table)]
    if found is None:
        return None
    named = found.named(names, topology.tier_names)
    if named.kind == "unknown":
        return named
    raise DoesNotFit(f"topology '{topology.name}': {named.message}", explanation=named)
