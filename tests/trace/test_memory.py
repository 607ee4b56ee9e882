"""Batches from a program: what it gives is what comes out, and what makes no batch is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.errors import InputError
from recshard.trace import Trace, from_batches
from recshard.trace.memory import to_batch
from tests.trace.samples import Samples, samples_of

IDS = st.integers(0, 2**63 - 1)
BATCHES = st.lists(
    st.lists(st.tuples(st.lists(IDS, max_size=3), st.lists(IDS, max_size=2)), max_size=6), min_size=1, max_size=5
)
Rows = list[tuple[list[int], list[int]]]


class Jagged:
    """A KeyedJaggedTensor's methods, as far as they are used."""

    def __init__(self, keys: list[str], values: Any, lengths: Any) -> None:
        self._keys, self._values, self._lengths = keys, values, lengths

    def keys(self) -> list[str]:
        return self._keys

    def values(self) -> Any:
        return self._values

    def lengths(self) -> Any:
        return self._lengths


def pair(bags: list[list[int]], make: Callable[[list[int]], Any]) -> tuple[Any, Any]:
    return make([id for bag in bags for id in bag]), make([len(bag) for bag in bags])


def array(ids: list[int]) -> np.ndarray:
    return np.array(ids, dtype=np.int64)


def tensor(ids: list[int]) -> torch.Tensor:
    return torch.tensor(ids, dtype=torch.int64)


def mapping(rows: Rows, make: Callable[[list[int]], Any]) -> dict[str, tuple[Any, Any]]:
    return {"user": pair([user for user, _ in rows], make), "item": pair([item for _, item in rows], make)}


def jagged(rows: Rows, make: Callable[[list[int]], Any]) -> Jagged:
    return Jagged(["user", "item"], *pair([user for user, _ in rows] + [item for _, item in rows], make))


def plainly(batches: list[Rows]) -> Samples:
    rows = [row for batch in batches for row in batch]
    return {"user": [user for user, _ in rows], "item": [item for _, item in rows]}


@pytest.mark.parametrize("source", [mapping, jagged])
@pytest.mark.parametrize("make", [list, array, tensor])
@settings(max_examples=25, deadline=None)
@given(batches=BATCHES, batch_size=st.integers(1, 10))
def test_batches_of_every_kind_hold_the_programs_samples(
    source: Callable[..., Any], make: Callable[[list[int]], Any], batches: list[Rows], batch_size: int
) -> None:
    trace = from_batches([source(batch, make) for batch in batches])
    assert isinstance(trace, Trace)
    assert samples_of(trace, batch_size) == samples_of(trace) == plainly(batches)


def test_narrow_integers_are_ids_too() -> None:
    for kind in (np.int32, np.uint8, np.uint64):
        source = {"a": (np.array([1, 2], dtype=kind), np.array([2, 0], dtype=kind))}
        assert samples_of(from_batches([source])) == {"a": [[1, 2], []]}
    on_graph = {"a": (torch.tensor([1], dtype=torch.int32), torch.tensor([1], dtype=torch.int16))}
    assert samples_of(from_batches([on_graph])) == {"a": [[1]]}


def test_real_keyed_jagged_tensors_are_read() -> None:
    torchrec = pytest.importorskip("torchrec")
    source = torchrec.KeyedJaggedTensor(
        keys=["user", "item"], values=torch.tensor([1, 2, 3]), lengths=torch.tensor([1, 0, 0, 2])
    )
    assert samples_of(from_batches([source])) == {"user": [[1], []], "item": [[], [2, 3]]}


def test_a_function_is_called_again_for_every_read() -> None:
    calls = []

    def batches() -> Iterator[dict[str, Any]]:
        calls.append(1)
        yield {"a": ([1], [1])}
        yield {"a": ([2, 3], [0, 2])}

    trace = from_batches(batches, features=["a"])
    assert not calls
    assert samples_of(trace) == samples_of(trace) == {"a": [[1], [], [2, 3]]}
    assert len(calls) == 2


@pytest.mark.parametrize("features", [None, ["a"]])
def test_an_iterator_is_read_once_and_whole(features: list[str] | None) -> None:
    trace = from_batches(({"a": ([id], [1])} for id in range(3)), features, name="loader")
    assert samples_of(trace) == {"a": [[0], [1], [2]]}
    with pytest.raises(InputError, match="loader: these batches come from an iterator, which can be read once"):
        samples_of(trace)


def test_a_function_that_returns_one_iterator_again_is_found_out() -> None:
    one = iter([{"a": ([1], [1])}, {"a": ([2], [1])}])
    trace = from_batches(lambda: one)
    with pytest.raises(InputError, match="returns a new iterator each time"):
        samples_of(trace)


def test_batches_are_made_as_they_are_read() -> None:
    made = []

    def batches() -> Iterator[dict[str, Any]]:
        for number in range(100):
            made.append(number)
            yield {"a": ([number], [1])}

    assert next(iter(from_batches(batches, ["a"]).batches(2))).samples == 2
    assert len(made) == 2


def test_a_loader_may_fill_its_arrays_anew() -> None:
    values, lengths = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)

    def batches() -> Iterator[dict[str, Any]]:
        for number in range(3):
            values[:] = number
            yield {"a": (values, lengths)}

    assert samples_of(from_batches(batches)) == {"a": [[0], [1], [2]]}


def test_features_are_selected_and_ordered_by_name() -> None:
    source = {"a": ([1], [1]), "b": ([2], [1]), "c": ([3], [1])}
    assert list(samples_of(from_batches([source], ["c", "a"]))) == ["c", "a"]
    assert samples_of(from_batches([source, dict(reversed(source.items()))]))["b"] == [[2], [2]]


@pytest.mark.parametrize(
    ("pair", "part"),
    [
        (([1, 2], [1]), "feature 'b': found 2 values, but lengths that add up to 1"),
        (([1, -2], [2]), "feature 'b': values[1]: found -2"),
        (([1], [-1]), "feature 'b': lengths[0]: found -1"),
        (([1, 2], [1, 1]), "feature 'b': lengths: found 2 samples; accepted: 1, as feature 'a' has"),
        (([[1]], [1]), "feature 'b': values: found shape (1, 1)"),
        (([1.0], [1]), "feature 'b': values: found float64; accepted: integers"),
        (([True], [1]), "feature 'b': values: found bool"),
        ((["x"], [1]), "feature 'b': values: found <U1"),
        (([2**63], [1]), f"feature 'b': values[0]: found {2**63}"),
        (([[1], [2, 3]], [1]), "feature 'b': values: cannot be read as an array"),
        ((torch.ones(1, dtype=torch.bfloat16), [1]), "feature 'b': values: cannot be read as an array"),
        ((np.zeros(0), [0]), "feature 'b': values: found float64"),
        (([1],), "feature 'b': found tuple; accepted: a pair (values, lengths)"),
        (7, "feature 'b': found int"),
    ],
)
def test_what_makes_no_batch_is_named_with_batch_and_feature(pair: Any, part: str) -> None:
    good: dict[str, Any] = {"a": ([1], [1]), "b": ([2], [1])}
    with pytest.raises(InputError) as caught:
        samples_of(from_batches([good, {**good, "b": pair}]))
    assert str(caught.value).startswith("batches: batch 2, " + part)


@pytest.mark.parametrize(
    ("source", "part"),
    [
        (Jagged(["a", "b"], [1], [1, 0, 0]), "found 3 lengths for 2 features"),
        (Jagged(["a", "b"], [1, 2], [1, 0]), "found 2 values, but lengths that add up to 1"),
        (Jagged(["a", "b"], [1, -2], [1, 1]), "feature 'b': values[0]: found -2"),
        (Jagged(["a", "b"], [1, 2], [3, -1]), "feature 'b': lengths[0]: found -1"),
        (Jagged(["a", "a"], [1, 2], [1, 1]), "found the features ['a', 'a']"),
        (Jagged([], [], []), "found the features []"),
        ({}, "found the features []"),
        ({1: ([1], [1])}, "found the features [1]"),
        ([1], "found list; accepted: a mapping of features to (values, lengths), or a KeyedJaggedTensor"),
    ],
)
def test_one_batch_alone_is_checked_too(source: Any, part: str) -> None:
    with pytest.raises(InputError) as caught:
        to_batch(source, "step 7")
    assert str(caught.value).startswith("step 7")
    assert part in str(caught.value)


def test_a_jagged_tensor_whose_batch_differs_by_feature_is_refused() -> None:
    class Uneven(Jagged):
        def stride_per_key(self) -> list[int]:
            return [1, 3]

    with pytest.raises(InputError, match="batches whose size differs by feature are not read"):
        to_batch(Uneven(["a", "b"], [], [0, 0, 0, 0]), "step 7")


def test_batches_have_the_same_features() -> None:
    one, two = {"item": ([1], [1])}, {"item": ([1], [1]), "user": ([1], [1])}
    with pytest.raises(InputError, match=r"batch 2: no feature 'user'.*of length 0 where absent"):
        samples_of(from_batches([two, one]))
    with pytest.raises(InputError, match=r"batch 2: found feature 'user', which the first batch lacks"):
        samples_of(from_batches([one, two]))
    with pytest.raises(InputError, match=r"no feature 'itme' \(did you mean 'item'\?\)"):
        samples_of(from_batches([one], ["itme"]))


@pytest.mark.parametrize(
    ("batches", "features", "part"),
    [
        ([], None, "found no batch"),
        (7, None, "found int; accepted: an iterable"),
        (lambda: 7, None, "the function returned int"),
        ([], [], "features: found []"),
        ([], ["a", "a"], "each once"),
    ],
)
def test_what_gives_no_batches_is_refused(batches: Any, features: list[str] | None, part: str) -> None:
    with pytest.raises(InputError) as caught:
        from_batches(batches, features)
    assert part in str(caught.value)
