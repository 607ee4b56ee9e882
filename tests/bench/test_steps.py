"""Steps are consecutive samples of the trace."""

from __future__ import annotations

import numpy as np
import pytest

from recshard.bench.steps import Endless
from recshard.errors import InputError
from tests.traces import MemoryTrace


def test_steps_are_consecutive_samples_and_go_on_from_the_start_where_the_trace_ends() -> None:
    source = Endless(MemoryTrace({"a": [[n] * (n % 3) for n in range(7)]}), 3)
    batches = [next(source) for _ in range(5)]
    samples = [n % 7 for n in range(15)]
    assert [batch.samples for batch in batches] == [3] * 5
    lengths = np.concatenate([batch.bags["a"].lengths for batch in batches])
    assert lengths.tolist() == [n % 3 for n in samples]
    values = np.concatenate([batch.bags["a"].values for batch in batches])
    assert values.tolist() == [n for n in samples for _ in range(n % 3)]
    assert (source.passes, source.taken) == (3, 15)


def test_a_batch_larger_than_the_trace_takes_it_several_times() -> None:
    assert next(Endless(MemoryTrace({"a": [[1], [2]]}), 5)).bags["a"].values.tolist() == [1, 2, 1, 2, 1]


def test_an_empty_trace_has_no_steps() -> None:
    with pytest.raises(InputError, match="the trace is empty"):
        next(Endless(MemoryTrace({"a": []}), 5))
