"""Numbers and their counts in pieces: joined, and cut to one size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from recshard.trace.base import IntArray

Pairs = tuple[IntArray, IntArray]

_NONE = np.zeros(0, dtype=np.int64)


def joined(chunks: Sequence[Pairs]) -> Pairs:
    """Return pieces, perhaps none, as one."""
    if len(chunks) == 1:
        return chunks[0]
    return (
        np.concatenate([keys for keys, _ in chunks] or [_NONE]),
        np.concatenate([counts for _, counts in chunks] or [_NONE]),
    )


def regrouped(chunks: Iterable[Pairs], size: int) -> Iterator[Pairs]:
    """Yield the same pairs in pieces of `size`, the last of which may be smaller, whatever pieces they come in."""
    held: list[Pairs] = []
    count = 0
    for chunk in chunks:
        held.append(chunk)
        count += len(chunk[0])
        if count < size:
            continue
        keys, counts = joined(held)
        whole = count - count % size
        for begin in range(0, whole, size):
            yield keys[begin : begin + size], counts[begin : begin + size]
        held, count = [(keys[whole:], counts[whole:])], count - whole
    if count:
        yield joined(held)
