"""A formulation written down as MPS or LP, for any other solver."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from recshard.errors import InputError
from recshard.files import new_file
from recshard.problem import PlacementProblem
from recshard.strategy.bound import lower_bound_ms
from recshard.strategy.milp.formulation import VARIABLES, Formulation, build
from recshard.strategy.solvers.linear import to_pulp

_SUFFIXES = (".mps", ".lp")


def check_model_path(path: str | Path) -> None:
    """Raise InputError unless `path` is a file, or can become one, in a format that models are written in."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target}: is a folder; accepted for a model: a file ending in {', '.join(_SUFFIXES)}")
    if target.suffix.lower() not in _SUFFIXES:
        raise InputError(f"{target}: found suffix '{target.suffix}'; accepted for a model: {', '.join(_SUFFIXES)}")


def write_model(
    problem: PlacementProblem,
    path: str | Path,
    formulation: Formulation = "tight",
    *,
    variables: int = VARIABLES,
) -> None:
    """Write the model of a formulation, whole or not at all.

    It is a relaxation in rows: a tier may hold a part of one. Its objective is the bottleneck in ms (C itself is
    in units of the lower bound, which solvers like better);
    numbers have the 12 digits that PuLP writes.

    Args:
        path: its suffix chooses the format, `.mps` or `.lp`.
        variables: size to which the tight model approximates access curves.

    Raises:
        InputError: another suffix, no such formulation, or the file cannot be written.
    """
    target = Path(path)
    check_model_path(target)
    bound = lower_bound_ms(problem)
    built = build(problem, formulation, bound if bound > 0 else 1.0, variables)
    linear = replace(built.linear, objective=built.linear.objective * built.unit_ms)
    model, _ = to_pulp(linear, linear.names())
    with new_file(target) as temporary:
        if target.suffix.lower() == ".mps":
            model.writeMPS(str(temporary))
        else:
            model.writeLP(str(temporary))
