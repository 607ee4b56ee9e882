"""What a sample does not show: the Good–Turing estimate of how often each row will be used (design.md).

Gale & Sampson, "Good–Turing frequency estimation without tears" (1995): counts of counts are averaged over the
gaps between them and smoothed by a straight line in log-log space; small counts use the raw Turing estimate
for as long as it differs significantly from the smoothed one. On top stand what is known of embedding tables:
the number of unseen rows is finite, no row is hotter than it was seen to be, and no row that was never seen is
hotter than one that was.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recshard.trace.base import IntArray

FloatArray = NDArray[np.float64]

_SIGNIFICANT = 1.65  # standard errors, as in the paper


def expected_shares(class_count: IntArray, class_rows: IntArray, unseen: int) -> tuple[FloatArray, float]:
    """Return the expected share of future accesses of one row of each class, and of one unseen row.

    Args:
        class_count: counts of the rows seen, falling, shape (c,).
        class_rows: rows with each count, shape (c,).
        unseen: rows never seen.

    Returns:
        Shares per row, falling, shape (c,), and the share of one unseen row; over all rows they add up to 1.
    """
    total = float(np.dot(class_count, class_rows))
    if unseen == 0 or class_count[-1] != 1:
        return np.asarray(class_count / total), 0.0
    discounted = np.minimum(_good_turing(class_count[::-1], class_rows[::-1])[::-1], class_count)
    discounted = np.minimum.accumulate(discounted)
    seen_mass = float(np.dot(discounted, class_rows))
    unseen_mass = min(float(class_rows[-1]) / total, 1.0)
    # The most an unseen row may have is what a row seen once has: then all of them count alike.
    even = unseen * discounted[-1] / (unseen * discounted[-1] + seen_mass)
    unseen_mass = min(unseen_mass, float(even))
    return discounted * ((1.0 - unseen_mass) / seen_mass), unseen_mass / unseen


def _good_turing(count: IntArray, rows: IntArray) -> FloatArray:
    """Return the adjusted count of every count seen, both rising, shape (c,)."""
    if len(count) < 2:
        return count.astype(np.float64)
    below = np.concatenate([[0], count[:-1]])
    above = np.concatenate([count[1:], [2 * count[-1] - count[-2]]])
    averaged = rows / (0.5 * (above - below))
    slope = np.polyfit(np.log(count), np.log(averaged), 1)[0]
    # A slope above −1 would raise counts instead of discounting them: the data shows no power law to smooth by.
    smoothed: FloatArray = count * (1.0 + 1.0 / count) ** (min(slope, -1.0) + 1.0)
    adjusted: FloatArray = smoothed.copy()
    for i in range(len(count) - 1):
        if count[i + 1] != count[i] + 1:
            break
        turing = (count[i] + 1) * rows[i + 1] / rows[i]
        error = np.sqrt((count[i] + 1.0) ** 2 * rows[i + 1] / rows[i] ** 2 * (1.0 + rows[i + 1] / rows[i]))
        if abs(turing - smoothed[i]) <= _SIGNIFICANT * error:
            break
        adjusted[i] = turing
    return adjusted
