"""How good predicted costs are: relative errors and rank correlation."""

from __future__ import annotations

import numpy as np

from recshard.problem import FloatArray
from recshard.spec import Spec


class Figures(Spec):
    """Predictions beside measurements.

    Attributes:
        median_error: median of |predicted − measured| ÷ measured.
        p90_error: the error that nine in ten predictions stay under.
        rank_correlation: Spearman's, −1 … 1; None where it is not defined.
    """

    median_error: float
    p90_error: float
    rank_correlation: float | None


def compare(predicted: FloatArray, measured: FloatArray) -> Figures:
    """Return how far predictions are from measurements, both of shape (n,), n ≥ 1, measurements above zero."""
    error = np.abs(predicted - measured) / measured
    median, p90 = np.quantile(error, [0.5, 0.9])
    return Figures(
        median_error=float(median), p90_error=float(p90), rank_correlation=rank_correlation(predicted, measured)
    )


def rank_correlation(left: FloatArray, right: FloatArray) -> float | None:
    """Return Spearman's rank correlation of two arrays of shape (n,), equal values sharing their mean rank.

    None where it says nothing: fewer than three values, or one side all equal.
    """
    from scipy.stats import rankdata

    if len(left) < 3 or np.ptp(left) == 0 or np.ptp(right) == 0:
        return None
    a, b = rankdata(left), rankdata(right)
    a, b = a - a.mean(), b - b.mean()
    return float(np.clip((a @ b) / np.sqrt((a @ a) * (b @ b)), -1.0, 1.0))
