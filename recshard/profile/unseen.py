"""What a sample does not show: the Good–Turing estimate of how often each row will be used (design.md).

Good (1953): a row counted x times is to be expected (x + 1) · f(x + 1) ÷ f(x) times in another sample like it,
f(x) being the expected number of rows with count x. That takes the luck out of the hottest rows as well as
showing the rows never met. f has to be smoothed, and here it is the likeliest that rows with fixed rates can bring
about (mixture.py): small tables, empty rows of hashed ones and IDs that are all alike need no case of their own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recshard.profile.mixture import mean_rates
from recshard.trace.base import IntArray

FloatArray = NDArray[np.float64]


def expected_shares(class_count: IntArray, class_rows: IntArray, unseen: int) -> tuple[FloatArray, float]:
    """Return the expected share of future accesses of one row of each class, and of one unseen row.

    Args:
        class_count: counts of the rows seen, falling, shape (c,).
        class_rows: rows with each count, shape (c,).
        unseen: rows never seen.

    Returns:
        Shares per row, never rising, shape (c,), and the share of one unseen row, not above any of them; over
        all rows they add up to 1.
    """
    count, rows = (
        (np.append(class_count, 0), np.append(class_rows, unseen)) if unseen else (class_count, class_rows)
    )
    rate = mean_rates(count[::-1], rows[::-1])[::-1]
    share = rate / np.dot(rate, rows)
    return share[: len(class_count)], float(share[-1]) if unseen else 0.0
