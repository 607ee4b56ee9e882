"""Access curves with fewer corners, for a MILP: outer approximations, so that what it proves holds.

A table's access CDF is concave. The lower envelope of some of its tangents lies on or above it, so a model that
uses it may only find placements too cheap, never too dear: its bound holds for the exact problem. (Chords, like
the ICDF steps of the RecShard paper, lie below the CDF and prove nothing.)
"""

from __future__ import annotations

import numpy as np

from recshard.placement import Placement
from recshard.problem import FloatArray, IntArray, PlacementProblem


def all_segments(
    problem: PlacementProblem, most: int, near: FloatArray | None = None
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the segments of all tables, table by table: table, rows and share of one row, each of shape (s,)."""
    parts = [segments(problem, j, most, near) for j in range(problem.tables)]
    table = np.repeat(np.arange(problem.tables), [len(rows) for rows, _ in parts])
    return table, np.concatenate([rows for rows, _ in parts]), np.concatenate([share for _, share in parts])


def segments(
    problem: PlacementProblem, table: int, most: int, near: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the segments of a table's access curve, hottest first.

    Args:
        most: segments at most, 2 or more; the exact classes where they are no more than that.
        near: densities (traffic per byte) near which the curve is to be exact, above zero: where tiers end in a
            placement that is known. None: the segments are spread evenly over accesses and rows alike.

    Returns:
        Rows of each segment (not always whole), which add up to the table's, shape (s,), and the share of the
        table's accesses that one row of it receives, shape (s,).
    """
    part = slice(problem.class_start[table], problem.class_start[table + 1])
    rows = problem.class_rows[part].astype(np.float64)
    share = problem.class_share[part]
    if len(rows) <= most:
        return rows, share
    end = np.cumsum(rows)
    covered = np.cumsum(rows * share)
    # The hottest and the coldest class always among the tangents.
    if near is None or not len(near):
        position = covered / covered[-1] + end / end[-1]
        chosen = np.searchsorted(position, np.linspace(0, 2, most))
        chosen = np.unique(np.concatenate([[0], np.minimum(chosen[1:], len(rows) - 1)]))
    else:
        density = np.log(np.maximum(problem.class_density[part], np.finfo(float).tiny))
        distance = np.abs(density[:, None] - np.log(near)[None, :]).min(axis=1)
        distance[[0, -1]] = -1.0
        chosen = np.sort(np.argsort(distance, kind="stable")[:most])
    # Parallel tangents never meet, and classes of equal share have the same one.
    chosen = chosen[np.diff(share[chosen], prepend=np.inf) < 0]
    slope = share[chosen]
    x, y = (end - rows)[chosen], (covered - rows * share)[chosen]
    # Where neighbouring tangents y_i + slope_i · (r − x_i) meet.
    meet = (y[1:] - y[:-1] + slope[:-1] * x[:-1] - slope[1:] * x[1:]) / (slope[:-1] - slope[1:])
    return np.diff(np.concatenate([[0.0], meet, [end[-1]]])), slope


def icdf_steps(problem: PlacementProblem, table: int, steps: int) -> tuple[FloatArray, FloatArray]:
    """Return the ICDF of the RecShard paper: rows that cover 0, 1/steps … 1 of the accesses.

    Returns:
        Rows, rounded up to whole ones, and the exact share of accesses they cover, both of shape (steps + 1,).
    """
    part = slice(problem.class_start[table], problem.class_start[table + 1])
    rows = np.concatenate([[0.0], np.cumsum(problem.class_rows[part])])
    covered = np.concatenate([[0.0], np.cumsum(problem.class_rows[part] * problem.class_share[part])])
    if covered[-1] == 0:
        return np.zeros(steps + 1), np.zeros(steps + 1)
    wanted = np.linspace(0.0, covered[-1], steps + 1)
    used = np.flatnonzero(np.diff(covered, prepend=-1.0) > 0)  # the CDF without its flat end, to invert it
    needed = np.minimum(np.ceil(np.interp(wanted, covered[used], rows[used]) - 1e-9), rows[-1])
    return needed, np.interp(needed, rows, covered)


def boundaries(problem: PlacementProblem, placement: Placement) -> FloatArray:
    """Return the densities at which tiers end on devices: of the densest rows without room, shape (n,)."""
    ends: set[float] = set()
    for k in range(problem.tiers - 1):
        densest = np.zeros(problem.devices)
        for j in range(problem.tables):
            part = slice(problem.class_start[j], problem.class_start[j + 1])
            boundary = placement.rows[j, : k + 1].sum()
            c = int(np.searchsorted(np.cumsum(problem.class_rows[part]), boundary, side="right"))
            if boundary < problem.rows[j]:
                d = placement.device[j]
                densest[d] = max(densest[d], problem.class_density[part][c])
        ends |= set(densest[densest > 0].tolist())
    return np.array(sorted(ends))
