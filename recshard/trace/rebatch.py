"""From chunks of whatever size a source yields to batches of the size that was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from recshard.trace.base import Bag, Batch, IntArray


def rebatch(chunks: Iterable[Batch], batch_size: int) -> Iterator[Batch]:
    """Yield the samples of `chunks`, in order, in batches of `batch_size` (the last may be smaller)."""
    waiting: list[Batch] = []
    samples = 0
    for chunk in chunks:
        if not waiting and chunk.samples == batch_size:
            yield chunk
            continue
        waiting.append(chunk)
        samples += chunk.samples
        if samples < batch_size:
            continue
        whole = join(waiting)
        offsets = {feature: np.concatenate([[0], np.cumsum(bag.lengths)]) for feature, bag in whole.bags.items()}
        begin = 0
        while samples - begin >= batch_size:
            yield _part(whole, offsets, begin, begin + batch_size)
            begin += batch_size
        waiting = [_part(whole, offsets, begin, samples)] if begin < samples else []
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


def _part(batch: Batch, offsets: Mapping[str, IntArray], begin: int, end: int) -> Batch:
    """Return the samples `begin` … `end` − 1 of a batch; `offsets` tell where each feature's samples begin."""
    bags = {
        feature: Bag(bag.values[offsets[feature][begin] : offsets[feature][end]], bag.lengths[begin:end])
        for feature, bag in batch.bags.items()
    }
    return Batch(end - begin, bags)
