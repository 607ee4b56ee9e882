"""Random shards to measure: sets of tables whose accesses follow a power law known row by row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recshard.cost.features import FEATURES, reuse_histogram
from recshard.problem import FloatArray, IntArray

DIMS = (16, 32, 64, 128)
WEIGHT_BYTES = 4  # float32
STATE_BYTES = 4  # row-wise Adagrad: one float32 a row
MAX_TABLES = 40
ROWS = (10.0, 3e6)
POOLING = (1 / 16, 64.0)  # below 1 for the cold part of a split table, which many samples do not reach
EXPONENT = (0.0, 1.8)

# What keeps a measurement under 1 GB: weights and optimizer state, and the gradients of the rows reached, of which
# there are no more than accesses; indices and outputs come to less than the gradients.
MAX_WEIGHT_BYTES = 512_000_000
MAX_GRADIENT_BYTES = 160_000_000

_SCRAMBLE = 2_654_435_761  # a prime above any number of rows: rank × prime mod rows is a permutation


@dataclass(frozen=True)
class Shards:
    """The tables of all shards, one after another.

    Row i of a table, counted from the hottest, is accessed with probability ∝ ∫ x^−exponent over
    [i + 1, i + 2].

    Attributes:
        shard: the shard of each table, rising from 0, shape (n,).
        dim: shape (n,).
        rows: shape (n,).
        pooling_factor: accesses per sample, shape (n,).
        exponent: of the power law; 0 is uniform, shape (n,).
    """

    shard: IntArray
    dim: IntArray
    rows: IntArray
    pooling_factor: FloatArray
    exponent: FloatArray

    @property
    def count(self) -> int:
        """Number of shards."""
        return int(self.shard[-1]) + 1 if len(self.shard) else 0


def random_shards(count: int, batch_size: int, rng: np.random.Generator) -> Shards:
    """Return `count` random shards of 1 … 40 tables that keep within the bounds on memory.

    Everything but the exponent is drawn on a logarithmic scale. A shard that would need too much memory has
    all its tables' rows, or pooling factors, scaled down alike.
    """
    tables = np.floor(np.exp(rng.uniform(0, np.log(MAX_TABLES + 1), count))).astype(np.int64)
    shard = np.repeat(np.arange(count), tables)
    total = len(shard)
    dim = rng.choice(np.array(DIMS, dtype=np.int64), total)
    rows = np.exp(rng.uniform(np.log(ROWS[0]), np.log(ROWS[1]), total))
    pooling = np.exp(rng.uniform(np.log(POOLING[0]), np.log(POOLING[1]), total))
    exponent = rng.uniform(*EXPONENT, total)

    weights = np.bincount(shard, rows * (dim * WEIGHT_BYTES + STATE_BYTES), count)
    rows *= np.minimum(1.0, MAX_WEIGHT_BYTES / weights)[shard]
    gradient = np.bincount(shard, pooling * batch_size * dim * WEIGHT_BYTES, count)
    pooling *= np.minimum(1.0, MAX_GRADIENT_BYTES / gradient)[shard]
    return Shards(shard, dim, np.maximum(rows, 1).astype(np.int64), pooling, exponent)


def shard_features(shards: Shards, batch_size: int) -> FloatArray:
    """Return the features of every table for a batch of `batch_size` samples, shape (n, 21)."""
    classes = [
        _classes(int(rows), float(exponent)) for rows, exponent in zip(shards.rows, shards.exponent, strict=True)
    ]
    table = np.repeat(np.arange(len(classes)), [len(rows) for rows, _ in classes])
    accesses = shards.pooling_factor * batch_size
    rate = np.concatenate([share for _, share in classes]) * accesses[table]
    rows = np.concatenate([rows for rows, _ in classes])
    features = np.empty((len(classes), len(FEATURES)))
    features[:, 0] = shards.dim
    features[:, 1] = shards.rows
    features[:, 2] = shards.pooling_factor
    features[:, 3] = shards.rows * (shards.dim * WEIGHT_BYTES + STATE_BYTES)
    features[:, 4:] = reuse_histogram(rate, rows, table, len(classes))
    return features


def draw_rows(rows: int, exponent: float, count: int, rng: np.random.Generator) -> IntArray:
    """Return `count` random accesses to a table by its power law, shape (count,): row numbers 0 … rows − 1.

    Hot rows are scattered over the table's memory, as hashing scatters them.
    """
    bend = 1.0 - exponent
    log_end = np.log1p(rows)
    drawn = rng.random(count)
    log_x = drawn * log_end if abs(bend) < 1e-9 else np.log1p(drawn * np.expm1(bend * log_end)) / bend
    rank = np.minimum(np.expm1(log_x).astype(np.int64), rows - 1)
    return np.asarray(rank * _SCRAMBLE % rows)


def _classes(rows: int, exponent: float) -> tuple[FloatArray, FloatArray]:
    """Return rows, and share of accesses per row, of classes of nearly equally hot rows, hottest first."""
    edges = np.unique(
        np.concatenate([np.arange(min(rows, 64)), np.geomspace(1, rows, 32 * rows.bit_length())]).astype(np.int64)
    )
    edges = np.unique(np.append(edges, [0, rows]))
    bend = 1.0 - exponent
    log_x = np.log1p(edges)
    covered = log_x if abs(bend) < 1e-9 else np.expm1(bend * log_x) / bend
    sizes = np.diff(edges).astype(np.float64)
    return sizes, np.diff(covered) / covered[-1] / sizes
