"""Making plans: from a profile and a topology, through a strategy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from recshard.errors import DoesNotFit
from recshard.plan.plan import Plan
from recshard.problem import IntArray, PlacementProblem, Workload, build_problem
from recshard.profile.profile import Profile
from recshard.strategy.run import DEFAULT_STRATEGY, StrategyOptions, check_strategy, run_strategy
from recshard.topology import Topology
from recshard.units import format_bytes


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
    check_fit(problem, profile, topology)
    begin = time.perf_counter()
    try:
        found = run_strategy(strategy, problem, options)
    except DoesNotFit as error:
        raise error.named([t.name for t in profile.tables.tables]) from None
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


def check_fit(problem: PlacementProblem, profile: Profile, topology: Topology) -> None:
    """Raise DoesNotFit where no placement can exist: too little memory in all, or for the largest table alone."""
    sizes = problem.table_bytes
    largest = int(np.argmax(sizes))
    name = profile.tables.tables[largest].name
    reach = problem.pool_capacity[problem.pool].sum(axis=1)
    total = float(problem.pool_capacity.sum())
    tiers = " + ".join(topology.tier_names)
    if sizes[largest] > reach.max():
        raise DoesNotFit(
            f"topology '{topology.name}': table '{name}' alone needs {format_bytes(sizes[largest])}, and the "
            f"roomiest device reaches {format_bytes(reach.max())} ({tiers}): short by "
            f"{format_bytes(sizes[largest] - reach.max())}; give its slowest tier more capacity, or the table "
            "fewer rows or a smaller dim"
        )
    if sizes.sum() > total:
        many = "" if problem.devices == 1 else "s"
        raise DoesNotFit(
            f"topology '{topology.name}': the model needs {format_bytes(sizes.sum())}, and all memories "
            f"({tiers}, {problem.devices} device{many}) hold {format_bytes(total)}: short by "
            f"{format_bytes(sizes.sum() - total)}; the largest table is '{name}' with "
            f"{format_bytes(sizes[largest])}"
        )
