"""The order of numbers, several times faster than numpy's `argsort` where number and place fit into one word."""

from __future__ import annotations

import numpy as np

from recshard.trace.base import IntArray

_BITS = 63


def rising_order(numbers: IntArray) -> IntArray:
    """Return the places of `numbers`, not negative, in rising order, equal ones as they stand; shape (n,)."""
    if not len(numbers):
        return np.zeros(0, dtype=np.int64)
    bits = len(numbers).bit_length()
    if int(numbers.max()).bit_length() + bits > _BITS:
        return np.argsort(numbers, kind="stable")
    # Sorting whole words is vectorised; sorting places by what stands there is not.
    packed = numbers << bits
    packed |= np.arange(len(numbers))
    packed.sort()
    packed &= (1 << bits) - 1
    return packed
