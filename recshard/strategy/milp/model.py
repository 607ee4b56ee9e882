"""What both MILP formulations share: the binary assignment, and the handle on the built model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pulp

from recshard.problem import PlacementProblem
from recshard.strategy.bound import device_kinds


@dataclass(frozen=True)
class MilpModel:
    """A built model.

    Attributes:
        model: the PuLP problem.
        bottleneck: its variable C.
        on: binary variables, `on[d][j]` is 1 where table j stands on device d.
        proves_bound: whether a bound on C is one on the exact problem.
    """

    model: pulp.LpProblem
    bottleneck: pulp.LpVariable
    on: list[list[pulp.LpVariable]]
    proves_bound: bool


def assignment_variables(problem: PlacementProblem, model: pulp.LpProblem) -> list[list[pulp.LpVariable]]:
    """Add the binaries p_dj, each table on exactly one device, to `model`; return them by device and table.

    Where devices are interchangeable, their symmetry is broken: the table with the r-th most traffic may stand
    on the first r devices only.
    """
    rank = np.empty(problem.tables, dtype=np.int64)
    rank[np.argsort(-problem.traffic, kind="stable")] = np.arange(problem.tables)
    if not interchangeable(problem):
        rank[:] = problem.devices
    on = [
        [
            model.add_variable(f"p_{d}_{j}", lowBound=0, upBound=1 if d <= rank[j] else 0, cat=pulp.LpInteger)
            for j in range(problem.tables)
        ]
        for d in range(problem.devices)
    ]
    for j in range(problem.tables):
        add_constraint(model, {on[d][j]: 1.0 for d in range(problem.devices)}, pulp.LpConstraintEQ, 1.0)
    return on


def interchangeable(problem: PlacementProblem) -> bool:
    """Return whether any two devices could change places without anyone noticing."""
    users = problem.pool_users
    return bool(device_kinds(problem).max() == 0 and np.isin(users, (1, problem.devices)).all())


def add_pools(problem: PlacementProblem, model: pulp.LpProblem, held: list[dict[pulp.LpVariable, float]]) -> None:
    """Add held bytes ≤ capacity for every pool, each in a unit of its own: a solver's tolerances are absolute.

    A pool that holds the whole model cannot bind and gets no constraint.
    """
    whole = float(problem.table_bytes.sum())
    for capacity, terms in zip(problem.pool_capacity.tolist(), held, strict=True):
        if capacity < whole and terms:
            unit = capacity or max(abs(value) for value in terms.values())
            scaled = {variable: value / unit for variable, value in terms.items()}
            add_constraint(model, scaled, pulp.LpConstraintLE, capacity / unit)


def add_constraint(model: pulp.LpProblem, terms: dict[pulp.LpVariable, float], sense: int, limit: float) -> None:
    """Add Σ terms ≤, = or ≥ limit to `model` (built from a dict: sums term by term are slow)."""
    model.addConstraint(pulp.LpConstraint(pulp.LpAffineExpression(terms), sense, rhs=limit))
