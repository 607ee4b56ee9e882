"""A trace as lists, one way that knows nothing of batches: what the tests compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from recshard.errors import InputError
from recshard.trace import TextOptions, Trace, open_trace

Samples = dict[str, list[list[int]]]


def samples_of(trace: Trace, batch_size: int = 65536) -> Samples:
    """Return every feature's IDs, a list for each sample; batches must be as large as asked, but for the last."""
    result: Samples = {feature: [] for feature in trace.features}
    sizes = []
    for batch in trace.batches(batch_size):
        sizes.append(batch.samples)
        assert tuple(batch.bags) == trace.features
        for feature, bag in batch.bags.items():
            assert bag.values.dtype == bag.lengths.dtype == "int64"
            assert len(bag.lengths) == batch.samples
            assert int(bag.lengths.sum()) == len(bag.values)
            values = iter(bag.values.tolist())
            result[feature] += [[next(values) for _ in range(length)] for length in bag.lengths.tolist()]
    assert all(size == batch_size for size in sizes[:-1])
    return result


def read(path: Path, format: str | None = None, **options: Any) -> Samples:
    """Return the samples of a file that is read with the given `TextOptions`."""
    return samples_of(open_trace(path, format, TextOptions(**options)))


def refusal(path: Path, format: str | None = None, **options: Any) -> str:
    """Return the one message with which a file is refused."""
    with pytest.raises(InputError) as caught:
        read(path, format, **options)
    return str(caught.value)


def zstd(content: bytes) -> bytes:
    """Return bytes packed with zstd, as `gzip.compress` packs with gzip."""
    return bytes(pa.compress(content, codec="zstd", asbytes=True))
