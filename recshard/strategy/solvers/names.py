"""MILP solvers by name, through PuLP: which are here."""

from __future__ import annotations

import pulp

from recshard.errors import InputError, nearest

_ALIASES = {
    "highs": "HiGHS",
    "cbc": "PULP_CBC_CMD",
    "gurobi": "GUROBI",
    "cplex": "CPLEX_PY",
    "scip": "SCIP_PY",
    "glpk": "GLPK_CMD",
}


def present_solvers() -> list[str]:
    """Return the names of the solvers that can be used here."""
    short = {full: alias for alias, full in _ALIASES.items()}
    return sorted(short.get(name, name) for name in pulp.listSolvers(onlyAvailable=True))


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
