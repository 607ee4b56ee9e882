"""The MILP strategies: build a formulation, have it solved, and trust only what can be checked.

A solver's status is not trusted (field.md): the assignment is rounded, split again exactly on the frequency
classes, and passes the validity checker; a bound counts only where the solver vouches for one and the
formulation's bound is one on the exact problem.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from recshard.errors import DoesNotFit
from recshard.files import write_text
from recshard.placement import Placement, bottleneck_ms
from recshard.problem import PlacementProblem
from recshard.strategy.bound import lower_bound_ms
from recshard.strategy.milp.formulation import VARIABLES, Formulation, build, leaning, start_values
from recshard.strategy.milp.model import MilpModel
from recshard.strategy.milp.segments import boundaries
from recshard.strategy.result import Solution, solution, split_exactly
from recshard.strategy.search import search
from recshard.strategy.solvers.names import solver_name
from recshard.strategy.solvers.run import Outcome, SolverFailed, solve
from recshard.strategy.stop import after_seconds, any_of, at_gap, relative_gap, when_stagnant

DEFAULT_SECONDS = 60.0
SOLVER_GAP = 1e-6
TOLERANCE = 1e-6  # a solver's bound is good to its feasibility tolerance only
_ROOM = 0.01
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
    variables: int = VARIABLES,
    log: str | Path | None = None,
) -> Solution:
    """Return the best placement of the MILP and of the search that warms it up.

    Args:
        formulation: `tight`, or `paper` with 100 ICDF steps.
        solver: any solver that PuLP knows, by name.
        time_limit: seconds for all of it.
        warm_start: whether `search` goes first; its result is the solver's start, and stands where the MILP finds
            nothing better. The notes say under `found_by` whose placement it is.
        variables: size to which the tight model approximates access curves.
        log: where to write what the solver printed.

    Raises:
        InputError: the solver is unknown or absent, the time limit is not above zero, or the log cannot be
            written.
        DoesNotFit: no placement was found.
        SolverFailed: the solver broke off, and there was no warm start to fall back on.
    """
    out_of_time = after_seconds(time_limit)
    end = time.perf_counter() + time_limit
    full_name = solver_name(solver)
    if log is not None:
        write_text(log, "the solver has not ended\n")  # before minutes are spent on what cannot be written
    bound = lower_bound_ms(problem)
    notes: dict[str, object] = {"formulation": formulation, "solver": solver, "warm_start": warm_start}
    incumbent: Placement | None = None
    if warm_start:
        brief = any_of(out_of_time, after_seconds(min(time_limit / 2, _WARM_SECONDS)))
        try:
            incumbent = search(
                problem, any_of(brief, at_gap(SOLVER_GAP), when_stagnant(_WARM_ROUNDS)), seed
            ).placement
        except DoesNotFit as error:
            notes["search"] = str(error)  # no proof: the MILP may still find a way
        if incumbent is not None and relative_gap(bottleneck_ms(problem, incumbent), bound) <= SOLVER_GAP:
            return _unsolved(problem, incumbent, bound, notes | {"solver_status": "not needed"}, log)
    begin = time.perf_counter()
    near = None if incumbent is None else boundaries(problem, incumbent)
    built = build(problem, formulation, bound if bound > 0 else 1.0, variables, near)
    notes["build_seconds"] = time.perf_counter() - begin
    start = None
    if incumbent is not None:
        start = start_values(problem, incumbent, built, variables, near)
        notes["solver_start"] = "whole" if start is not None else "none: the steps leave it no room"
        built = below(built, bottleneck_ms(problem, incumbent))
    left = end - time.perf_counter()
    if left <= 0:
        notes["solver_status"] = "no time left after the model was built"
        return _unsolved(problem, incumbent, bound, notes, log)
    try:
        outcome = solve(built.linear, full_name, left, SOLVER_GAP, start)
    except SolverFailed as error:
        if log is not None:
            write_text(log, error.log)
        if incumbent is None:
            raise
        return _best_of(problem, incumbent, None, bound, notes | {"solver_status": str(error)})
    if log is not None:
        write_text(log, outcome.log)
    notes |= {"solver_status": outcome.status, "solver_seconds": outcome.seconds}
    if outcome.dual_bound is not None:
        notes["model_bound_ms"] = float(outcome.dual_bound * built.unit_ms)
    if outcome.has_values and outcome.values is not None:
        notes["model_bottleneck_ms"] = float(outcome.values[built.bottleneck] * built.unit_ms)
    if outcome.infeasible and built.proves_bound and incumbent is None:
        raise DoesNotFit(
            f"{solver} calls the tight MILP infeasible: no division of whole tables among the devices fits, it "
            "says; accepted: more capacity in the slowest tier, smaller tables, or tables cut into shards"
        )
    placed = None if outcome.values is None else split_exactly(problem, leaning(built, outcome.values))
    return _best_of(problem, incumbent, placed, max(bound, proven_ms(built, outcome)), notes)


def below(built: MilpModel, bottleneck: float) -> MilpModel:
    """Return the model with C held at or little above a bottleneck in ms that is reached already.

    Not right at it: with 0.0001% of room HiGHS was seen to prove in one node what it could not without the limit.

    The paper's own coarsening may lie above what a placement costs: its model is returned as it is.
    """
    if not built.proves_bound:
        return built
    upper = built.linear.upper.copy()
    upper[built.bottleneck] = bottleneck / built.unit_ms * (1 + _ROOM)
    return replace(built, linear=replace(built.linear, upper=upper))


def proven_ms(built: MilpModel, outcome: Outcome) -> float:
    """Return what an outcome proves about the exact problem's bottleneck, in ms; 0: nothing."""
    if not built.proves_bound or outcome.dual_bound is None:
        return 0.0
    # A solver that finds nothing below the limit on C has proven that limit and no more.
    return float(min(outcome.dual_bound, built.linear.upper[built.bottleneck]) * built.unit_ms * (1 - TOLERANCE))


def _unsolved(
    problem: PlacementProblem,
    incumbent: Placement | None,
    bound: float,
    notes: dict[str, object],
    log: str | Path | None,
) -> Solution:
    if log is not None:
        write_text(log, f"the solver was not started: {notes['solver_status']}\n")
    return _best_of(problem, incumbent, None, bound, notes)


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
