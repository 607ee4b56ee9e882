"""MILP solvers by name, through PuLP: which are here, and what they can be believed."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pulp

from recshard.errors import InputError, RecshardError, nearest

_ALIASES = {"highs": "HiGHS", "cbc": "PULP_CBC_CMD", "gurobi": "GUROBI", "cplex": "CPLEX_PY", "scip": "SCIP_PY"}


class SolverFailed(RecshardError):
    """The solver crashed, was killed, or could not be started."""


@dataclass(frozen=True)
class Outcome:
    """What a solver left behind.

    Attributes:
        has_values: whether the variables have values, to be checked by whoever uses them.
        infeasible: whether the solver says that there is no solution.
        dual_bound: the bound on the objective that the solver states; None where PuLP gives no way to ask.
        status: in the solver's own words.
        seconds: wall time.
    """

    has_values: bool
    infeasible: bool
    dual_bound: float | None
    status: str
    seconds: float


def present_solvers() -> list[str]:
    """Return the names of the solvers that can be used here."""
    present = pulp.listSolvers(onlyAvailable=True)
    short = {full: alias for alias, full in _ALIASES.items()}
    return sorted(short.get(name, name) for name in present)


def solver_name(name: str) -> str:
    """Return PuLP's name of a solver.

    Raises:
        InputError: PuLP knows no such solver, or it is not installed here; lists those that are.
    """
    known = {full.lower(): full for full in pulp.listSolvers()} | _ALIASES
    full: str | None = known.get(name.lower())
    present = present_solvers()
    if full is None:
        raise InputError(
            f"solver: found '{name}'{nearest(name.lower(), known)}; present here: {', '.join(present)}"
        )
    if full not in pulp.listSolvers(onlyAvailable=True):
        raise InputError(f"solver '{name}' is not installed here; present: {', '.join(present)}")
    return full


def run_solver(model: pulp.LpProblem, full_name: str, seconds: float, gap: float) -> Outcome:
    """Solve `model` in place, within a time limit.

    Raises:
        SolverFailed: the solver broke off without a word about the model.
    """
    solver = pulp.getSolver(full_name, msg=False, timeLimit=seconds, gapRel=gap)
    begin = time.perf_counter()
    try:
        with _without_output():
            model.solve(solver)
    except (pulp.PulpSolverError, OSError) as error:
        raise SolverFailed(f"solver {full_name} failed: {error}") from error
    elapsed = time.perf_counter() - begin
    has_values = all(v.varValue is not None and math.isfinite(v.varValue) for v in model.variables())
    native = getattr(model, "solverModel", None)
    if full_name == "HiGHS" and native is not None:
        info = native.getInfo()
        # −1: no solution; HiGHS fills the variables with zeros all the same.
        has_values = has_values and info.primal_solution_status == 2
        bound = info.mip_dual_bound if math.isfinite(info.mip_dual_bound) else None
        status = native.modelStatusToString(native.getModelStatus())
        return Outcome(has_values, status == "Infeasible", bound, status, elapsed)
    status = pulp.LpStatus[model.status]
    return Outcome(has_values, model.status == pulp.LpStatusInfeasible, None, status, elapsed)


@contextmanager
def _without_output() -> Iterator[None]:
    """Drop what a solver prints though it is told to be quiet: HiGHS greets on standard output."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
