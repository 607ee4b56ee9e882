"""The default strategy: search, then the bound, then the MILP where it can still help.

Search comes within a hundredth of a percent of the bound on models with many tables. Where a gap remains, the
tight MILP is restricted to the slowest device and a few others, ever more of them; on all devices at once it is
the whole MILP, which may raise the bound as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from recshard.files import write_text
from recshard.placement import Placement, bottleneck_ms, device_costs
from recshard.problem import IntArray, PlacementProblem
from recshard.shards import WHOLE, SplitRules, cut
from recshard.strategy.history import History
from recshard.strategy.neighbourhood import improve_devices
from recshard.strategy.result import OPTIMAL_GAP, Solution, solution
from recshard.strategy.search import search
from recshard.strategy.solvers.names import solver_name
from recshard.strategy.stop import Stop, any_of, relative_gap

_TARGET_GAP = 1e-5
_PARTNERS = 6  # devices that are tried beside the slowest
_WHOLE = 4_000  # tables × devices up to which all devices are put to the MILP at once
_LEAST_SECONDS = 0.5  # less is not worth starting a solver for
_FIRST_SECONDS = 2.0  # that one call of the solver gets at first; twice as long once all have had as much


def recshard(
    problem: PlacementProblem,
    seconds: float,
    searching: Stop,
    seed: int = 0,
    solver: str = "highs",
    rules: SplitRules = WHOLE,
    log: Path | None = None,
    history: History | None = None,
) -> Solution:
    """Return the best placement that search and restricted MILPs find, with the best bound that they prove.

    Args:
        seconds: for all of it.
        searching: when search is to end, at the latest with the time.
        solver: of the MILP, by PuLP's name.
        rules: which cuts are allowed; a MILP works on the shards that search chose, and then raises no bound.
        log: where to write what the solvers printed.
        history: gets every new incumbent and bound.

    Raises:
        InputError: the solver is unknown or absent, or the log cannot be written.
        DoesNotFit: search found no start that fits; not a proof that there is none.
    """
    solver_name(solver)
    if log is not None:
        write_text(log, "no MILP was solved yet\n")  # before time is spent on what cannot be written
    history = History() if history is None else history
    found = search(problem, any_of(searching, lambda _: history.seconds >= seconds), seed, rules, history)
    sharded = cut(problem, found.placement.shards)
    placement = Placement(found.placement.device, found.placement.rows)
    said: list[str] = []
    helped = 0
    status = "not needed"
    allowance = _FIRST_SECONDS
    exhausted: set[tuple[int, ...]] = set()  # of no use before the placement changes
    while relative_gap(bottleneck_ms(sharded, placement), history.lower_bound_ms) > OPTIMAL_GAP:
        improved = tried = False
        for devices in neighbourhoods(sharded, placement):
            left = seconds - history.seconds
            if left < _LEAST_SECONDS:
                break
            if tuple(devices) in exhausted:
                continue
            tried = True
            neighbour = improve_devices(
                sharded,
                placement,
                devices,
                min(left, allowance),
                solver=solver,
                gain=_TARGET_GAP,
                segments=_segments(sharded, devices),
            )
            status = neighbour.status
            said.append(f"devices {', '.join(map(str, devices))}: {status}\n{neighbour.log}")
            if len(devices) == problem.devices and rules.kind == "none":
                history.prove(neighbour.bound_ms, "milp")
            better = neighbour.placement
            if better is not None and bottleneck_ms(sharded, better) < bottleneck_ms(sharded, placement):
                placement, improved = better, True
                helped += 1
                history.find(bottleneck_ms(sharded, placement), "milp")
                exhausted.clear()
                break
            if neighbour.exhausted:
                exhausted.add(tuple(devices))
        if not improved and (not tried or seconds - history.seconds < _LEAST_SECONDS):
            break
        if not improved:
            allowance *= 2
    if log is not None:
        write_text(log, "\n".join(said) or "no MILP was needed\n")
    notes = {"solver": solver, "solver_status": status, "milps": len(said), "milps_that_helped": helped}
    placement = replace(placement, shards=found.placement.shards)
    return solution(problem, placement, history.lower_bound_ms, dict(found.notes) | notes, history)


def neighbourhoods(problem: PlacementProblem, placement: Placement) -> Iterator[IntArray]:
    """Yield sets of devices for the slowest to exchange tables in: pairs, triples, then all if they are few."""
    costs = device_costs(problem, placement)
    slowest = int(np.argmax(costs))
    others = [int(d) for d in np.argsort(costs, kind="stable") if d != slowest]
    for size in (1, 2):
        for chosen in itertools.combinations(others[:_PARTNERS], size):
            if size + 1 < problem.devices:
                yield np.sort(np.array([slowest, *chosen], dtype=np.int64))
    if problem.tables * problem.devices <= _WHOLE and problem.devices > 1:
        yield np.arange(problem.devices)


def _segments(problem: PlacementProblem, devices: IntArray) -> int:
    """Return how many segments an access curve gets: more where the model is small, for the bound's sake."""
    pairs = max(1, problem.tables * len(devices) * max(1, problem.tiers - 1))
    return int(np.clip(20_000 // pairs, 8, 64))
