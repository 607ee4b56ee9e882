"""A formulation by name: its model, and the values that a placement gives to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from recshard.errors import InputError, nearest
from recshard.placement import Placement
from recshard.problem import FloatArray, IntArray, PlacementProblem
from recshard.strategy.milp.model import MilpModel
from recshard.strategy.milp.paper import paper_model, paper_values
from recshard.strategy.milp.symmetry import canonical
from recshard.strategy.milp.tight import tight_model, tight_values

Formulation = Literal["tight", "paper"]
VARIABLES = 40_000
_FEASIBLE = 1e-7  # solvers refuse a start that breaks a constraint by more than about ten times this


def build(
    problem: PlacementProblem,
    formulation: Formulation,
    unit_ms: float,
    variables: int = VARIABLES,
    near: FloatArray | None = None,
) -> MilpModel:
    """Return the model of a formulation.

    Args:
        unit_ms: the unit of its objective C; a bound makes a good one, for C is then close to 1.
        variables: size to which the tight model approximates access curves.
        near: densities near which it does so exactly (`segments.segments`).

    Raises:
        InputError: no such formulation.
    """
    accepted = get_args(Formulation)
    if formulation not in accepted:
        raise InputError(
            f"formulation: found '{formulation}'{nearest(formulation, accepted)}; accepted: {', '.join(accepted)}"
        )
    if formulation == "tight":
        return tight_model(problem, unit_ms, variables, near)
    return paper_model(problem, unit_ms)


def start_values(
    problem: PlacementProblem,
    placement: Placement,
    built: MilpModel,
    variables: int = VARIABLES,
    near: FloatArray | None = None,
) -> FloatArray | None:
    """Return the values of all columns that stand for a placement, shape (n,).

    None where they are no solution: the paper's steps may ask more of a slower tier than it holds.
    """
    renamed = replace(placement, device=canonical(problem, placement.device))
    if built.proves_bound:
        values = tight_values(problem, renamed, variables, near)
    else:
        values = paper_values(problem, renamed, built.unit_ms)
    linear = built.linear
    of_bottleneck = np.searchsorted(
        linear.row_start, np.flatnonzero(linear.column == built.bottleneck), side="right"
    )
    values[built.bottleneck] = max(linear.activity(values)[of_bottleneck - 1].max(initial=0.0), 0.0)
    return values if linear.violation(values) <= _FEASIBLE else None


def leaning(built: MilpModel, values: FloatArray) -> IntArray:
    """Return the device that each table's binaries lean to, shape (t,)."""
    return np.asarray(np.argmax(values[built.on], axis=0), dtype=np.int64)
