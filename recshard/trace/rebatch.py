"""From chunks of whatever size a source yields to batches of the size that was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from recshard.trace.base import Bag, Batch


def rebatch(chunks: Iterable[Batch], batch_size: int) -> Iterator[Batch]:
    """Yield the samples of `chunks`, in order, in batches of `batch_size` (the last may be smaller)."""
    waiting: list[Batch] = []
    samples = 0
    for chunk in chunks:
        waiting.append(chunk)
        samples += chunk.samples
        if samples < batch_size:
            continue
        whole = join(waiting)
        begin = 0
        while samples - begin >= batch_size:
            yield part(whole, begin, begin + batch_size)
            begin += batch_size
        waiting = [part(whole, begin, samples)] if begin < samples else []
        samples -= begin
    if samples:
        yield join(waiting)


def join(batches: list[Batch]) -> Batch:
    """Return consecutive batches as one."""
    if len(batches) == 1:
        return batches[0]
    bags = {
        feature: Bag(
            np.concatenate([batch.bags[feature].values for batch in batches]),
            np.concatenate([batch.bags[feature].lengths for batch in batches]),
        )
        for feature in batches[0].bags
    }
    return Batch(sum(batch.samples for batch in batches), bags)


def part(batch: Batch, begin: int, end: int) -> Batch:
    """Return the samples `begin` … `end` − 1 of a batch."""
    if begin == 0 and end == batch.samples:
        return batch
    bags = {}
    for feature, bag in batch.bags.items():
        first = int(bag.lengths[:begin].sum())
        last = first + int(bag.lengths[begin:end].sum())
        bags[feature] = Bag(bag.values[first:last], bag.lengths[begin:end])
    return Batch(end - begin, bags)
