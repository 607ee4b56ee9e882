"""Synthetic traces: power-law rows, pooling factors and coverage, generated from a recipe.

The hottest rows of a table of R rows follow a bounded power law: rank r is drawn with density ∝ r^−exponent on
1 … R, by its inverse CDF. Ranks are scattered over the rows by an affine permutation. Samples come in fixed
chunks, each seeded by recipe, table and chunk, so a trace is the same whatever batches it is read in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from recshard.tables import EmbeddingTable, TableSet
from recshard.trace.base import DEFAULT_BATCH, Bag, Batch, IntArray
from recshard.trace.rebatch import rebatch

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

CHUNK = 8192
_GOLDEN = 0.6180339887498949
_RAW_MULTIPLIER = 0x9E3779B97F4A7C15
_RAW_MASK = (1 << 62) - 1


@dataclass(frozen=True)
class SyntheticTable:
    """How one table is used.

    Attributes:
        table: what the model declares; serves one feature.
        exponent: of the power law; 0 is uniform.
        pooling_factor: mean IDs of a sample in which the feature is present: 1 + Poisson.
        coverage: share of samples in which it is present.
        raw_ids: distinct raw IDs of a table that hashes; None where IDs are rows.
    """

    table: EmbeddingTable
    exponent: float
    pooling_factor: float
    coverage: float
    raw_ids: int | None = None


@dataclass(frozen=True)
class SyntheticTrace:
    """A trace made from a recipe."""

    name: str
    samples: int
    seed: int
    parts: tuple[SyntheticTable, ...]
    batch_size: int

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(part.table.features[0] for part in self.parts)

    @property
    def tables(self) -> TableSet:
        """The tables that the recipe declares."""
        return TableSet(tuple(part.table for part in self.parts), self.batch_size)

    def batches(self, batch_size: int = DEFAULT_BATCH) -> Iterator[Batch]:
        return rebatch((self._chunk(c) for c in range(math.ceil(self.samples / CHUNK))), batch_size)

    def _chunk(self, chunk: int) -> Batch:
        samples = min(CHUNK, self.samples - chunk * CHUNK)
        bags = {}
        for t, part in enumerate(self.parts):
            rng = np.random.default_rng([self.seed, t, chunk])
            present = rng.random(samples) < part.coverage
            lengths = np.where(present, 1 + rng.poisson(part.pooling_factor - 1.0, samples), 0).astype(np.int64)
            uniform = rng.random(int(lengths.sum()))
            bags[part.table.features[0]] = Bag(_ids(part, uniform), lengths)
        return Batch(samples, bags)


def distinct_ids(part: SyntheticTable) -> int:
    """Return how many IDs a feature can have: raw ones where they are hashed, else rows."""
    return part.table.rows if part.raw_ids is None else part.raw_ids


def covered(part: SyntheticTable, ranks: IntArray) -> FloatArray:
    """Return the share of a table's lookups that its `ranks` hottest IDs are expected to receive, shape (n,)."""
    logs, power = np.log1p(ranks), 1.0 - part.exponent
    whole = math.log1p(distinct_ids(part))
    return logs / whole if power == 0 else np.expm1(power * logs) / math.expm1(power * whole)


def _ids(part: SyntheticTable, uniform: FloatArray) -> IntArray:
    size = distinct_ids(part)
    if part.exponent == 1.0:
        position = np.exp(uniform * math.log(size + 1.0))
    else:
        power = 1.0 - part.exponent
        position = (1.0 + uniform * ((size + 1.0) ** power - 1.0)) ** (1.0 / power)
    return id_of_rank(part, np.clip(position.astype(np.int64) - 1, 0, size - 1))


def id_of_rank(part: SyntheticTable, rank: IntArray) -> IntArray:
    """Return the IDs that are so many places below the hottest, shape (n,)."""
    if part.raw_ids is not None:
        # A bijection on 62 bits: raw IDs as scattered as user IDs are, and still distinct.
        mixed = rank.astype(np.uint64) * np.uint64(_RAW_MULTIPLIER) & np.uint64(_RAW_MASK)
        return mixed.astype(np.int64)
    size = part.table.rows
    return (rank * _multiplier(size) + size // 3) % size


def _multiplier(size: int) -> int:
    """Return a number coprime to `size` near its golden section, so that neighbouring ranks lie far apart."""
    candidate = max(1, round(_GOLDEN * size))
    while math.gcd(candidate, size) != 1:
        candidate += 1
    return candidate
