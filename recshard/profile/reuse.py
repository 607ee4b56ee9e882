"""Reuse: how many of the rows that a trace reaches it reaches once, twice, four times … exactly, from counts.

The histograms that Meta publishes with its traces (dlrm_datasets): "Histogram of col sizes" is
`reuse_histogram`, "Ratio of index distribution at different column sizes" is `access_histogram`. A profile's
histogram pools the rows of all its tables; it is not the mean of theirs. The histogram to be *expected* of a
batch is `recshard.cost.reuse_histogram`.
"""

from __future__ import annotations

import numpy as np

from recshard.profile.profile import Profile, TableStats
from recshard.reuse_bins import REUSE_BINS, REUSE_EDGES
from recshard.trace.base import IntArray

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def reuse_histogram(counted: Profile | TableStats | IntArray) -> FloatArray:
    """Return the share of distinct rows in every bin of `REUSE_EDGES`, shape (17,); it sums to 1.

    Zeros where no row was seen.

    Args:
        counted: a whole profile, one table's statistics, or lookups per row, shape (r,), where rows that were
            never looked up may be left out or be 0.

    Example:
        >>> reuse_histogram(np.array([0, 1, 1, 2, 9]))[:5]
        array([0.5 , 0.25, 0.  , 0.  , 0.25])
    """
    counts, rows = _classes(counted)
    return _shares(counts, rows)


def access_histogram(counted: Profile | TableStats | IntArray) -> FloatArray:
    """Return the share of lookups that go to the rows of every bin of `REUSE_EDGES`, shape (17,); it sums to 1.

    Zeros where there was no lookup.

    Args:
        counted: as for `reuse_histogram`.
    """
    counts, rows = _classes(counted)
    return _shares(counts, counts * rows)


def _classes(counted: Profile | TableStats | IntArray) -> tuple[IntArray, IntArray]:
    """Return counts, shape (c,), and how many rows have each; a count may stand there more than once."""
    if isinstance(counted, Profile):
        stats = counted.stats
        return np.concatenate([s.class_count for s in stats]), np.concatenate([s.class_rows for s in stats])
    if isinstance(counted, TableStats):
        return counted.class_count, counted.class_rows
    return counted, (counted > 0).astype(np.int64)


def _shares(counts: IntArray, amounts: IntArray) -> FloatArray:
    """Return the share of the `amounts` in the bin of their count, shape (17,)."""
    total = np.zeros(REUSE_BINS, dtype=np.int64)
    np.add.at(total, np.searchsorted(REUSE_EDGES, counts), amounts)
    return total / max(int(total.sum()), 1)
