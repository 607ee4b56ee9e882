"""The common threshold grid: every table's bytes and traffic above the same row densities (design.md).

On one grid a device's curve is the sum of its tables' curves, so that a search can add and remove tables by
adding and subtracting vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recshard.problem import FloatArray, PlacementProblem

_THRESHOLDS = 512


@dataclass(frozen=True)
class Grid:
    """Curves of all tables over thresholds of falling density.

    Attributes:
        size: bytes of each table's rows at or above each threshold, shape (t, g); from 0 to the whole table.
        traffic: bytes per step that those rows serve, shape (t, g).
        threshold: no row up to a column has less density, and none after it more, shape (g,).
        exact: whether every density has a threshold of its own, so that nothing is interpolated.
    """

    size: FloatArray
    traffic: FloatArray
    threshold: FloatArray
    exact: bool


def threshold_grid(problem: PlacementProblem, thresholds: int = _THRESHOLDS) -> Grid:
    """Return the curves over all distinct densities, or over log-spaced ones where there are too many."""
    density = problem.class_density
    distinct = np.unique(density[density > 0])[::-1]
    exact = len(distinct) <= thresholds
    if not exact:
        distinct = np.geomspace(distinct[0], distinct[-1], thresholds)
    columns = len(distinct) + 2  # before the first threshold nothing; after the last the rows never accessed
    # A class belongs to the first threshold that is not above it; rounding must not push it past the last.
    column = 1 + np.searchsorted(-distinct, -density * (1 + 1e-12))
    column = np.where(density > 0, np.minimum(column, columns - 2), columns - 1)
    flat = problem.class_table * columns + column
    class_bytes = (problem.class_rows * problem.row_bytes[problem.class_table]).astype(np.float64)
    shape = (problem.tables, columns)
    cells = problem.tables * columns
    size = np.bincount(flat, weights=class_bytes, minlength=cells).reshape(shape)
    traffic = np.bincount(flat, weights=class_bytes * density, minlength=cells).reshape(shape)
    hottest = distinct[:1] if len(distinct) else np.zeros(1)
    threshold = np.concatenate([hottest, distinct, [0.0]])
    return Grid(np.cumsum(size, axis=1), np.cumsum(traffic, axis=1), threshold, exact)
