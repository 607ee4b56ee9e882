"""Profile: what a trace tells about a model's tables, and nothing about where they will stand."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from recshard.errors import InputError
from recshard.profile.lengths import NO_LENGTHS, Lengths
from recshard.profile.pairs import Pairs, joined
from recshard.tables import EmbeddingTable, TableSet
from recshard.trace.base import IntArray


@dataclass(frozen=True)
class FeatureStats:
    """How one feature occurs.

    Attributes:
        name: of the feature.
        table: that serves it.
        lengths: how many samples have how many of its IDs.
    """

    name: str
    table: str
    lengths: Lengths

    @property
    def samples(self) -> int:
        """Samples counted."""
        return self.lengths.all_samples

    @property
    def present(self) -> int:
        """Samples that have any ID."""
        return self.lengths.present

    @property
    def lookups(self) -> int:
        """IDs of all samples."""
        return self.lengths.lookups

    @property
    def pooling_factor(self) -> float:
        """IDs per sample when the feature is present; 0 where it never is."""
        return self.lengths.pooling_factor

    @property
    def coverage(self) -> float:
        """Share of samples in which the feature is present."""
        return self.lengths.coverage


@dataclass(frozen=True)
class HashingStats:
    """How the raw IDs of a hashed table share its rows.

    Attributes:
        distinct_ids: distinct raw IDs met.
        collided_ids: those among them that share their row with another.
        collided_accesses: lookups that land on a row which several raw IDs share.
    """

    distinct_ids: int
    collided_ids: int
    collided_accesses: int


@dataclass(frozen=True)
class TableStats:
    """Exact counts of one table.

    Attributes:
        class_count: the distinct numbers of lookups that rows received, falling, shape (c,); never 0.
        class_rows: how many rows received each, shape (c,).
        hashing: collisions, where raw IDs were hashed or taken modulo; None where IDs are rows already.
        lengths: how many samples look up how many rows, over all the table's features.
    """

    class_count: IntArray
    class_rows: IntArray
    hashing: HashingStats | None = None
    lengths: Lengths = NO_LENGTHS

    @cached_property
    def lookups(self) -> int:
        """Lookups of the table, over all its features."""
        return int(np.dot(self.class_count, self.class_rows))

    @cached_property
    def seen_rows(self) -> int:
        """Rows that were looked up at least once."""
        return int(self.class_rows.sum())


def expected_reached(ids: int, rows: int) -> float:
    """Return the rows that `ids` distinct raw IDs, hashed uniformly into `rows`, reach on average (design.md)."""
    return float(-rows * np.expm1(ids * np.log1p(-1.0 / rows))) if rows > 1 else float(min(ids, 1))


def expected_ids(reached: float, rows: int) -> float:
    """Return how many raw IDs, hashed uniformly into `rows`, reach `reached` of them on average: the inverse."""
    if reached >= rows:
        return float("inf") if rows > 1 else 1.0
    return float(np.log1p(-reached / rows) / np.log1p(-1.0 / rows))


def rows_unknown(source: str) -> Callable[[int], Iterator[Pairs]]:
    """Return the `hot_chunks` of a profile that does not know which rows are hot: an InputError when asked."""

    def ask(index: int) -> Iterator[Pairs]:
        raise InputError(
            f"{source}: an expected profile says how many rows are hot, not which: it can be planned with and "
            "compared, but a plan's remap, replay and drift need the rows; profile a trace (`recshard synth "
            "--profile` without --expected draws one)"
        )

    return ask


@dataclass(frozen=True)
class Profile:
    """The statistics of a trace.

    Attributes:
        tables: the model's tables, nothing left to infer.
        samples: samples counted.
        features: one entry per feature, in table order.
        stats: one entry per table.
        hot_chunks: yields, by index of a table, its rows that were seen, hottest first (equal counts by rising
            row), and their counts, in pieces. Read on demand: they are the bulk of a profile.
        source: names the traces.
        sampled: share of the traces' samples that were counted, chosen at random; 1 where all were.
        rows_known: whether `hot_chunks` can tell rows; an expected profile has counts of counts only.
    """

    tables: TableSet
    samples: int
    features: tuple[FeatureStats, ...]
    stats: tuple[TableStats, ...]
    hot_chunks: Callable[[int], Iterator[Pairs]]
    source: tuple[str, ...] = ()
    sampled: float = 1.0
    rows_known: bool = True

    def hot_rows(self, index: int) -> tuple[IntArray, IntArray]:
        """Return a table's rows that were seen, hottest first, and their counts, both of shape (seen,)."""
        return joined(list(self.hot_chunks(index)))

    def top_rows(self, index: int, most: int) -> tuple[IntArray, IntArray]:
        """Return a table's hottest rows, at most `most` of them, and their counts."""
        chunks: list[Pairs] = []
        for chunk in self.hot_chunks(index):
            chunks.append(chunk)
            if sum(len(rows) for rows, _ in chunks) >= most:
                break
        rows, counts = joined(chunks)
        return rows[:most], counts[:most]

    def rows_for(self, index: int, share: float) -> int:
        """Return the ICDF: how many of a table's hottest rows it takes to cover `share` of its accesses.

        Raises:
            InputError: a share outside 0 … 1.
        """
        if not 0 <= share <= 1:
            raise InputError(f"share: found {share}; accepted: 0 … 1")
        stats = self.stats[index]
        rows, _ = self.access_cdf(index)
        accesses = np.concatenate([[0], np.cumsum(stats.class_rows * stats.class_count)])
        # In whole lookups and decimal fractions: as a binary number 0.9 is a little more, and asks for a row too
        # many.
        wanted = math.ceil(Fraction(str(float(share))) * stats.lookups)
        corner = int(np.searchsorted(accesses, wanted))
        if corner == 0:
            return 0
        missing = wanted - int(accesses[corner - 1])
        return int(rows[corner - 1]) + -(-missing // int(stats.class_count[corner - 1]))

    @property
    def lookups(self) -> int:
        """Lookups of all tables."""
        return sum(s.lookups for s in self.stats)

    def occupancy(self, index: int) -> float:
        """Return the share of a table's rows that any lookup reached."""
        return self.stats[index].seen_rows / self.tables.tables[index].rows

    def accesses_per_sample(self, index: int) -> float:
        """Return Σ coverage × pooling factor over the features of a table."""
        return self.stats[index].lookups / self.samples

    def access_cdf(self, index: int) -> tuple[IntArray, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
        """Return the exact access CDF at its corners: rows k, shape (c + 1,), and the share of the hottest k."""
        stats = self.stats[index]
        rows = np.concatenate([[0], np.cumsum(stats.class_rows)])
        accesses = np.concatenate([[0], np.cumsum(stats.class_rows * stats.class_count)])
        return rows, accesses / max(stats.lookups, 1)

    def table(self, name: str) -> EmbeddingTable:
        """Return the table of that name.

        Raises:
            KeyError: there is none.
        """
        return next(t for t in self.tables.tables if t.name == name)
