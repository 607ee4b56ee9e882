"""The MILP strategies: build a formulation with PuLP, solve it, and trust only what can be checked.

A solver's status is not trusted (field.md): the assignment is rounded, split again exactly on the frequency
classes, and passes the validity checker; a bound counts only where the solver states one and the formulation's
bound is one on the exact problem.
"""

from __future__ import annotations

import time
from typing import Literal

import numpy as np

from recshard.errors import DoesNotFit
from recshard.placement import Placement, bottleneck_ms
from recshard.problem import PlacementProblem
from recshard.strategy.bound import lower_bound_ms
from recshard.strategy.milp.model import MilpModel
from recshard.strategy.milp.paper import paper_model
from recshard.strategy.milp.tight import tight_model
from recshard.strategy.result import Solution, solution, split_exactly
from recshard.strategy.search import search
from recshard.strategy.solvers.names import SolverFailed, run_solver, solver_name
from recshard.strategy.stop import after_seconds, any_of, at_gap, relative_gap, when_stagnant

Formulation = Literal["tight", "paper"]
DEFAULT_SECONDS = 60.0
_VARIABLES = 40_000
_GAP = 1e-6
_TOLERANCE = 1e-6  # a solver's bound is good to its feasibility tolerance only
_WARM_SECONDS = 10.0
_WARM_ROUNDS = 2000


def milp(
    problem: PlacementProblem,
    formulation: Formulation = "tight",
    solver: str = "highs",
    time_limit: float = DEFAULT_SECONDS,
    seed: int = 0,
    *,
    warm_start: bool = True,
    variables: int = _VARIABLES,
) -> Solution:
    """Return the best placement of the MILP and of the search that warms it up.

    Args:
        formulation: `tight`, or `paper` with 100 ICDF steps.
        solver: any solver that PuLP knows, by name.
        time_limit: seconds for all of it.
        warm_start: whether `search` goes first; its result stands where the MILP finds nothing better, and
            the notes say under `found_by` whose placement it is.
        variables: size to which the tight model approximates access curves.

    Raises:
        InputError: the solver is unknown or absent, or the time limit is not above zero.
        DoesNotFit: no placement was found.
        SolverFailed: the solver broke off, and there was no warm start to fall back on.
    """
    out_of_time = after_seconds(time_limit)
    end = time.perf_counter() + time_limit
    full_name = solver_name(solver)
    bound = lower_bound_ms(problem)
    notes: dict[str, object] = {"formulation": formulation, "solver": solver, "warm_start": warm_start}
    incumbent: Placement | None = None
    if warm_start:
        brief = any_of(out_of_time, after_seconds(min(time_limit / 2, _WARM_SECONDS)))
        try:
            incumbent = search(problem, any_of(brief, at_gap(_GAP), when_stagnant(_WARM_ROUNDS)), seed).placement
        except DoesNotFit as error:
            notes["search"] = str(error)  # no proof: the MILP may still find a way
        if incumbent is not None and relative_gap(bottleneck_ms(problem, incumbent), bound) <= _GAP:
            return solution(
                problem, incumbent, bound, notes | {"found_by": "search", "solver_status": "not needed"}
            )
    unit_ms = bound if bound > 0 else 1.0
    if formulation == "tight":
        built = tight_model(problem, unit_ms, variables)
        if incumbent is not None:
            built.bottleneck.upBound = bottleneck_ms(problem, incumbent) / unit_ms * (1 + _TOLERANCE)
    else:
        built = paper_model(problem, unit_ms)
    left = end - time.perf_counter()
    if left <= 0:
        notes["solver_status"] = "no time left after the model was built"
        return _best_of(problem, incumbent, None, bound, notes)
    try:
        outcome = run_solver(built.model, full_name, left, _GAP)
    except SolverFailed as error:
        if incumbent is None:
            raise
        notes["solver_status"] = str(error)
        return _best_of(problem, incumbent, None, bound, notes)
    notes |= {"solver_status": outcome.status, "solver_seconds": outcome.seconds}
    if outcome.dual_bound is not None:
        notes["model_bound_ms"] = outcome.dual_bound * unit_ms
        if built.proves_bound:
            bound = max(bound, outcome.dual_bound * unit_ms * (1 - _TOLERANCE))
    placed = rounded(problem, built) if outcome.has_values else None
    if outcome.has_values:
        notes["model_bottleneck_ms"] = built.bottleneck.varValue * unit_ms
    if outcome.infeasible and built.proves_bound and incumbent is None:
        raise DoesNotFit("the tight MILP is infeasible: no division of the tables among the devices fits")
    return _best_of(problem, incumbent, placed, bound, notes)


def rounded(problem: PlacementProblem, built: MilpModel) -> Placement | None:
    """Return the placement of the device that each table's binaries lean to, or None where it does not fit."""
    leaning = np.array([[variable.varValue for variable in row] for row in built.on])
    return split_exactly(problem, np.argmax(leaning, axis=0).astype(np.int64))


def _best_of(
    problem: PlacementProblem,
    incumbent: Placement | None,
    placed: Placement | None,
    bound: float,
    notes: dict[str, object],
) -> Solution:
    candidates = [("search", incumbent), ("milp", placed)]
    costs = [(bottleneck_ms(problem, p), name, p) for name, p in candidates if p is not None]
    if not costs:
        raise DoesNotFit(
            f"the {notes['formulation']} MILP gave no placement that fits ({notes['solver_status']}); allow more "
            "time, or a warm start"
        )
    _, name, best = min(costs, key=lambda entry: entry[0])
    return solution(problem, best, bound, notes | {"found_by": name})
