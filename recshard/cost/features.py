"""What the learned cost model sees of a table: 21 features, the same for a plan and for a measured shard.

Dim, rows, pooling factor, size in bytes, and a 17-bin histogram of reuse: of the distinct rows that a batch
reaches, the share whose count falls in (0, 1], (1, 2], (2, 4] … (16384, 32768], above (AutoShard, KDD '22).
Nobody has to draw a batch for it: a row that is expected λ times a batch is met about Poisson(λ) times, so the
expected histogram follows from the frequency classes.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from recshard.problem import FloatArray, IntArray, PlacementProblem
from recshard.reuse_bins import REUSE_BINS, REUSE_EDGES

NUMBERS = ("dim", "rows", "pooling_factor", "size")  # read on a logarithmic scale
FEATURES = (*NUMBERS, *(f"reuse_{b}" for b in range(REUSE_BINS)))

_LEAST_RATE = 1e-4  # below it a row is met once or not at all
_MOST_RATE = 35_000.0  # above it a row is in the last bin for certain
_STEP = 0.05  # of the grid, in units of `_coordinate`; its error is under 0.001 of a row


def reuse_histogram(rate: FloatArray, rows: FloatArray, group: IntArray, groups: int) -> FloatArray:
    """Return the expected reuse histogram of each group of rows, shape (groups, 17).

    The value of a bin is the expected number of rows in it ÷ the expected number of distinct rows; a group that
    is never accessed has zeros.

    Args:
        rate: expected accesses per batch of one row of a class, shape (c,).
        rows: rows of the class, shape (c,).
        group: the group that the class belongs to, 0 … groups − 1, shape (c,).
        groups: number of groups.
    """
    from scipy.sparse import coo_matrix

    used = (rate > 0) & (rows > 0)
    rate, rows, group = rate[used], rows[used], group[used]
    # Of ever rarer rows, ever fewer are met, and those once: the chance is the rate itself.
    weight = rows * np.minimum(rate / _LEAST_RATE, 1.0)
    position = (_coordinate(np.clip(rate, _LEAST_RATE, _MOST_RATE)) - _coordinate(_LEAST_RATE)) / _STEP
    grid = _grid()
    below = np.minimum(position.astype(np.int64), len(grid) - 2)
    above = position - below
    shares = coo_matrix(
        (
            np.concatenate([weight * (1 - above), weight * above]),
            (np.tile(group, 2), np.concatenate([below, below + 1])),
        ),
        shape=(groups, len(grid)),
    )
    expected = np.asarray(shares.tocsr() @ grid)
    distinct = expected.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(expected, distinct, out=np.zeros_like(expected), where=distinct > 0))


def part_features(problem: PlacementProblem, rows: IntArray, batch_size: int | None = None) -> FloatArray:
    """Return the features of every table's part in every tier, shape (t, k, 21); zeros where a part has no rows.

    Args:
        problem: the tables, t of them; where tables are cut, their shards (`recshard.shards.cut`).
        rows: rows of each table in each tier, hottest first, shape (t, k), as in `Placement.rows`.
        batch_size: samples in the batch that the features describe; None: the problem's. A cost model knows
            batches of one size only and asks for that.
    """
    tables, tiers = rows.shape
    table = problem.class_table
    end = np.cumsum(problem.class_rows)
    begin = end - problem.class_rows
    # Classes of all tables stand in one array; a shard may have none.
    first = np.concatenate([[0], end])[problem.class_start[:-1]][table]
    upper = np.cumsum(rows, axis=1)
    lower = upper - rows
    inside = np.minimum((end - first)[:, None], upper[table])
    inside = np.maximum(inside - np.maximum((begin - first)[:, None], lower[table]), 0).astype(np.float64)

    per_sample = (problem.accesses / problem.batch_size)[table] * problem.class_share
    part = table[:, None] * tiers + np.arange(tiers)
    pooling = np.bincount(part.ravel(), (inside * per_sample[:, None]).ravel(), tables * tiers)
    rate = np.repeat(per_sample * (problem.batch_size if batch_size is None else batch_size), tiers)
    reuse = reuse_histogram(rate, inside.ravel(), part.ravel(), tables * tiers)

    features = np.empty((tables, tiers, len(FEATURES)))
    features[:, :, 0] = problem.dim[:, None]
    features[:, :, 1] = rows
    features[:, :, 2] = pooling.reshape(tables, tiers)
    features[:, :, 3] = rows * problem.row_bytes[:, None]
    features[:, :, 4:] = reuse.reshape(tables, tiers, REUSE_BINS)
    features[rows <= 0] = 0.0
    return features


def whole_table_features(problem: PlacementProblem, batch_size: int | None = None) -> FloatArray:
    """Return the features of every table in one piece, shape (t, 21)."""
    return part_features(problem, problem.rows[:, None], batch_size)[:, 0]


def log_numbers(features: FloatArray) -> FloatArray:
    """Return features with the numbers (dim, rows, pooling factor, size) in natural logarithms, shape (n, 21)."""
    logs = features.astype(np.float64)
    logs[:, : len(NUMBERS)] = np.log(np.maximum(logs[:, : len(NUMBERS)], 1e-12))
    return logs


def _coordinate(rate: FloatArray | float) -> FloatArray:
    """Return rates on a scale on which bin probabilities bend evenly: ln λ up to 1, then 2·(√λ − 1)."""
    rate = np.asarray(rate, dtype=np.float64)
    return np.where(rate < 1, np.log(np.minimum(rate, 1)), 2 * (np.sqrt(rate) - 1))


@cache
def _grid() -> FloatArray:
    """Return the chance of every bin at evenly spaced coordinates, shape (g, 17); count 0 is in no bin."""
    from scipy.special import pdtr

    low, high = float(_coordinate(_LEAST_RATE)), float(_coordinate(_MOST_RATE))
    coordinate = low + _STEP * np.arange(int(np.ceil((high - low) / _STEP)) + 1)
    rate = np.where(coordinate < 0, np.exp(np.minimum(coordinate, 0)), (coordinate / 2 + 1) ** 2)
    at_most = pdtr(REUSE_EDGES[None, :].astype(np.float64), rate[:, None])
    chance = np.empty((len(rate), REUSE_BINS))
    chance[:, 0] = rate * np.exp(-rate)
    chance[:, 1:-1] = np.diff(at_most, axis=1)
    chance[:, -1] = 1 - at_most[:, -1]
    chance.setflags(write=False)
    return chance
