"""The default strategy: search, then the bound, then the MILP where it can still help.

Search comes within a hundredth of a percent of the bound on models with many tables. Where a gap remains, the
tight MILP is restricted to the slowest device and a few others, ever more of them; on all devices at once it is
the whole MILP, which may raise the bound as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from recshard.placement import Placement, bottleneck_ms, device_costs
from recshard.problem import IntArray, PlacementProblem
from recshard.shards import WHOLE, SplitRules, cut
from recshard.strategy.history import History
from recshard.strategy.result import OPTIMAL_GAP, Solution, solution
from recshard.strategy.search import search
from recshard.strategy.solvers.names import solver_name
from recshard.strategy.stop import Stop, any_of, relative_gap

_TARGET_GAP = 1e-5
_PARTNERS = 6  # devices that are tried beside the slowest
_WHOLE = 4_000  # tables × devices up to which all devices are put to the MILP at once
_LEAST_SECONDS = 0.5  # less is not worth starting a solver for
_SHARE = 0.5  # of the time left that one call of the solver gets


def recshard(
    problem: PlacementProblem,
    seconds: float,
    searching: Stop,
    seed: int = 0,
    solver: str = "highs",
    rules: SplitRules = WHOLE,
) -> Solution:
    """Return the best placement that search and restricted MILPs find, with the best bound that they prove.

    Args:
        seconds: for all of it.
        searching: when search is to end, at the latest with the time.
        solver: of the MILP, by PuLP's name.
        rules: which cuts are allowed; a MILP works on the shards that search chose, and then raises no bound.

    Raises:
        InputError: the solver is unknown or absent.
        DoesNotFit: search found no start that fits; not a proof that there is none.
    """
    solver_name(solver)
    history = History()
    found = search(problem, any_of(searching, lambda _: history.seconds >= seconds), seed, rules, history)
    sharded = cut(problem, found.placement.shards)
    placement = Placement(found.placement.device, found.placement.rows)
    notes = dict(found.notes) | {"solver": solver}
    solved = helped = 0
    bound = history.lower_bound_ms
    while relative_gap(bottleneck_ms(sharded, placement), bound) > OPTIMAL_GAP:
        improved = False
        for devices in neighbourhoods(sharded, placement):
            left = seconds - history.seconds
            if left < _LEAST_SECONDS:
                break
            better, proven, notes["solver_status"] = _solve(sharded, placement, devices, left, solver)
            solved += 1
            if proven and len(devices) == problem.devices and rules.kind == "none":
                bound = max(bound, proven)
                history.prove(bound, "milp")
            if better is not None:
                placement, improved = better, True
                helped += 1
                history.find(bottleneck_ms(sharded, placement), "milp")
                break
        if not improved:
            break
    notes |= {"milps": solved, "milps_that_helped": helped}
    return solution(problem, replace(placement, shards=found.placement.shards), bound, notes, history)


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


def _solve(
    problem: PlacementProblem, placement: Placement, devices: IntArray, left: float, solver: str
) -> tuple[Placement | None, float, str]:
    """Return a placement with a lower bottleneck if the MILP finds one, what it proved, and how it ended."""
    from recshard.strategy.neighbourhood import improve_devices

    whole = len(devices) == problem.devices
    seconds = left if whole else max(_LEAST_SECONDS, left * _SHARE)
    neighbour = improve_devices(
        problem, placement, devices, seconds, solver=solver, gain=_TARGET_GAP, segments=_segments(problem, devices)
    )
    better = neighbour.placement
    if better is not None and bottleneck_ms(problem, better) >= bottleneck_ms(problem, placement):
        better = None
    return better, neighbour.bound_ms, neighbour.status


def _segments(problem: PlacementProblem, devices: IntArray) -> int:
    """Return how many segments an access curve gets: more where the model is small, for the bound's sake."""
    pairs = max(1, problem.tables * len(devices) * max(1, problem.tiers - 1))
    return int(np.clip(20_000 // pairs, 8, 64))
