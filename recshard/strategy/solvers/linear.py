"""LinearModel: a mixed-integer linear model as plain arrays, whole blocks at a time.

Formulations build it with numpy; it crosses to the solver's process as arrays, exact to the last bit, and becomes
a PuLP model there.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pulp
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

_ARRAYS = ("objective", "lower", "upper", "integer", "row_start", "column", "value", "row_lower", "row_upper")


@dataclass(frozen=True)
class LinearModel:
    """Minimise objective · x subject to row_lower ≤ A x ≤ row_upper, lower ≤ x ≤ upper, some x whole numbers.

    Attributes:
        objective, lower, upper: of each column, shape (n,); bounds may be infinite.
        integer: whether it takes whole numbers only, shape (n,).
        row_start: where each row begins in `column` and `value`, shape (m + 1,).
        column, value: the matrix A by rows, no column twice in a row, shape (nonzeros,).
        row_lower, row_upper: of each row, shape (m,); equal, or one of them infinite.
        blocks: name and shape of each block of columns, in order.
    """

    objective: FloatArray
    lower: FloatArray
    upper: FloatArray
    integer: BoolArray
    row_start: IntArray
    column: IntArray
    value: FloatArray
    row_lower: FloatArray
    row_upper: FloatArray
    blocks: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def activity(self, values: FloatArray) -> FloatArray:
        """Return A x, shape (m,)."""
        row = np.repeat(np.arange(len(self.row_lower)), np.diff(self.row_start))
        products = self.value * values[self.column]
        return np.bincount(row, products, minlength=len(self.row_lower)).astype(np.float64)

    def violation(self, values: FloatArray) -> float:
        """Return by how much values break the worst of the rows, bounds and whole numbers; 0: by nothing."""
        if not np.isfinite(values).all():
            return float("inf")
        activity = self.activity(values)
        fraction = np.abs(values - np.round(values))[self.integer]
        beyond = [self.row_lower - activity, activity - self.row_upper, self.lower - values, values - self.upper]
        return max(float(part.max(initial=0.0)) for part in [*beyond, fraction])

    def names(self) -> list[str]:
        """Return a name for every column, such as `p_3_17`."""
        indices = ((name, itertools.product(*map(range, shape))) for name, shape in self.blocks)
        return ["_".join([name, *map(str, index)]) for name, block in indices for index in block]


class ModelBuilder:
    """Collects blocks of columns, rows and entries."""

    def __init__(self) -> None:
        self._columns = 0
        self._rows = 0
        self._blocks: list[tuple[str, tuple[int, ...]]] = []
        self._bounds: list[tuple[FloatArray, FloatArray, BoolArray]] = []
        self._limits: list[tuple[FloatArray, FloatArray]] = []
        self._entries: list[tuple[IntArray, IntArray, FloatArray]] = []

    def columns(
        self,
        name: str,
        shape: tuple[int, ...],
        upper: float | FloatArray = np.inf,
        *,
        integer: bool = False,
    ) -> IntArray:
        """Add a block of columns ≥ 0; return their numbers, in its shape."""
        size = int(np.prod(shape, dtype=np.int64))
        number = np.arange(self._columns, self._columns + size).reshape(shape)
        self._columns += size
        self._blocks.append((name, shape))
        above = np.broadcast_to(np.asarray(upper, dtype=np.float64), shape).ravel()
        self._bounds.append((np.zeros(size), above, np.full(size, integer)))
        return number

    def rows(self, shape: tuple[int, ...], lower: float = -np.inf, upper: float = np.inf) -> IntArray:
        """Add a block of rows with equal limits; return their numbers, in its shape."""
        size = int(np.prod(shape, dtype=np.int64))
        number = np.arange(self._rows, self._rows + size).reshape(shape)
        self._rows += size
        self._limits.append((np.full(size, lower), np.full(size, upper)))
        return number

    def add(self, row: Any, column: Any, value: Any) -> None:
        """Add entries to A, broadcast against each other; what meets in one place adds up."""
        row, column, value = np.broadcast_arrays(row, column, np.asarray(value, dtype=np.float64))
        self._entries.append((row.ravel(), column.ravel(), value.ravel()))

    def build(self, objective: dict[int, float]) -> LinearModel:
        """Return the model that minimises the given columns' weighted sum."""
        costs = np.zeros(self._columns)
        costs[list(objective)] = list(objective.values())
        row, column, value = (np.concatenate(parts) for parts in zip(*self._entries, strict=True))
        place, inverse = np.unique(row * self._columns + column, return_inverse=True)
        total = np.bincount(inverse.reshape(-1), value, minlength=len(place))
        place, total = place[total != 0], total[total != 0]
        lower, upper, integer = (np.concatenate(parts) for parts in zip(*self._bounds, strict=True))
        row_lower, row_upper = (np.concatenate(parts) for parts in zip(*self._limits, strict=True))
        return LinearModel(
            objective=costs,
            lower=lower,
            upper=upper,
            integer=integer,
            row_start=np.searchsorted(place, np.arange(self._rows + 1) * self._columns),
            column=place % self._columns,
            value=total,
            row_lower=row_lower,
            row_upper=row_upper,
            blocks=tuple(self._blocks),
        )


def save_model(model: LinearModel, path: Path) -> None:
    """Write the arrays of a model as .npz (no names)."""
    np.savez(path, **{name: getattr(model, name) for name in _ARRAYS})


def load_model(path: Path) -> LinearModel:
    """Return the model that `save_model` wrote."""
    with np.load(path, allow_pickle=False) as arrays:
        return LinearModel(**{name: arrays[name] for name in _ARRAYS})


def to_pulp(model: LinearModel, names: list[str] | None = None) -> tuple[pulp.LpProblem, list[pulp.LpVariable]]:
    """Return a PuLP problem of the model, and its variables in the order of the columns."""
    problem = pulp.LpProblem("recshard", pulp.LpMinimize)
    names = names or [f"x{i}" for i in range(len(model.lower))]
    variables = [
        problem.add_variable(
            name,
            None if low == -np.inf else low,
            None if high == np.inf else high,
            pulp.LpInteger if whole else pulp.LpContinuous,
        )
        for name, low, high, whole in zip(
            names, model.lower.tolist(), model.upper.tolist(), model.integer.tolist(), strict=True
        )
    ]
    used = np.flatnonzero(model.objective).tolist()
    problem.setObjective(pulp.LpAffineExpression({variables[i]: float(model.objective[i]) for i in used}))
    column, value, start = model.column.tolist(), model.value.tolist(), model.row_start.tolist()
    for i, (low, high) in enumerate(zip(model.row_lower.tolist(), model.row_upper.tolist(), strict=True)):
        part = slice(start[i], start[i + 1])
        # From a dict: sums term by term are slow.
        terms = pulp.LpAffineExpression({variables[c]: v for c, v in zip(column[part], value[part], strict=True)})
        if low == high:
            sense, limit = pulp.LpConstraintEQ, low
        elif high < np.inf:
            sense, limit = pulp.LpConstraintLE, high
        else:
            sense, limit = pulp.LpConstraintGE, low
        problem.addConstraint(pulp.LpConstraint(terms, sense, rhs=limit))
    return problem, variables
