"""Routing: the lookups of a table divided among its parts, bag by bag, in two passes over flat arrays."""

from __future__ import annotations

import numba
import numpy as np

from recshard.problem import IntArray


@numba.njit(cache=True, nogil=True)
def route(
    ranks: IntArray, offsets: IntArray, first: IntArray, start: IntArray, parts: int
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Divide lookups among parts that together hold every rank once.

    Args:
        ranks: rank looked up, shape (n,).
        offsets: where each bag begins, and the end, shape (bags + 1,).
        first: each row shard's first part, and the end, shape (shards + 1,).
        start: rows of its shard before each part, shape (parts,), rising within a shard.

    Returns:
        slots: shape (n,), those of one part after the other, in the order of the lookups.
        bags: where each bag of each part begins within the part's slots, and the end, shape (parts, bags + 1).
        lookups: which lookup each slot is of, shape (n,).
        begin: where each part's slots begin, and the end, shape (parts + 1,).
    """
    # Both passes read the ranks in order; the second writes to as many places as there are parts. A row's part is
    # found by adding comparisons up, since a branch would be mispredicted at every other lookup.
    shards = len(first) - 1
    n = offsets[-1] - offsets[0]
    home = np.empty(n, dtype=np.int32)
    bags = np.zeros((parts, len(offsets)), dtype=np.int64)
    within = np.zeros(parts, dtype=np.int64)
    for bag in range(len(offsets) - 1):
        for i in range(offsets[bag], offsets[bag + 1]):
            rank = ranks[i]
            shard = np.int64(0)
            if shards > 1:
                shard = rank % shards
                rank //= shards
            part = first[shard]
            for tier in range(first[shard] + 1, first[shard + 1]):
                part += rank >= start[tier]
            home[i - offsets[0]] = part
            within[part] += 1
        bags[:, bag + 1] = within
    begin = np.zeros(parts + 1, dtype=np.int64)
    begin[1:] = np.cumsum(within)
    slots = np.empty(n, dtype=np.int64)
    lookups = np.empty(n, dtype=np.int64)
    free = begin[:-1].copy()
    for i in range(n):
        part = home[i]
        to = free[part]
        free[part] = to + 1
        rank = ranks[i + offsets[0]]
        if shards > 1:
            rank //= shards
        slots[to] = rank - start[part]
        lookups[to] = i + offsets[0]
    return slots, bags, lookups, begin
