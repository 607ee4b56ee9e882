"""Batches that a Python program makes: mappings of arrays, or TorchRec's KeyedJaggedTensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol

import numpy as np

from recshard.errors import InputError, nearest
from recshard.trace.base import DEFAULT_BATCH, Bag, Batch, IntArray, Trace
from recshard.trace.rebatch import rebatch

_MOST = np.iinfo(np.int64).max
_SUMS = "accepted: as many values as the lengths say"


class KeyedJagged(Protocol):
    """What is used of a KeyedJaggedTensor: values and lengths, feature after feature in the order of its keys."""

    def keys(self) -> Sequence[str]: ...

    def values(self) -> Any: ...

    def lengths(self) -> Any: ...


Source = Mapping[str, tuple[Any, Any]] | KeyedJagged


class MemoryTrace:
    """A trace of batches from a program; made by `from_batches`.

    It is a class with a state, since an iterator can be read but once.
    """

    def __init__(
        self,
        batches: Iterable[Source] | Callable[[], Iterable[Source]],
        features: tuple[str, ...] | None,
        name: str,
    ) -> None:
        self._batches, self._name = batches, name
        self._is_selection = features is not None
        self._read: Iterator[Source] | None = None
        self.features = features or self._found_features()

    @property
    def name(self) -> str:
        return self._name

    def batches(self, batch_size: int = DEFAULT_BATCH) -> Iterator[Batch]:
        return rebatch(self._chunks(), batch_size)

    def _chunks(self) -> Iterator[Batch]:
        for number, source in enumerate(self._sources(), start=1):
            where = f"{self._name}: batch {number}"
            batch = to_batch(source, where)
            missing = [feature for feature in self.features if feature not in batch.bags]
            if missing:
                raise InputError(
                    f"{where}: no feature '{missing[0]}'{nearest(missing[0], batch.bags)}; present: "
                    f"{', '.join(batch.bags)}; accepted: the same features in every batch, of length 0 where "
                    "absent"
                )
            if not self._is_selection and len(batch.bags) > len(self.features):
                extra = next(feature for feature in batch.bags if feature not in self.features)
                raise InputError(
                    f"{where}: found feature '{extra}', which the first batch lacks; accepted: the same features "
                    "in every batch; or name those to read (features=…)"
                )
            yield Batch(batch.samples, {feature: batch.bags[feature] for feature in self.features})

    def _sources(self) -> Iterator[Source]:
        made = self._batches if isinstance(self._batches, Iterable) else self._batches()
        if not isinstance(made, Iterable):
            raise InputError(
                f"{self._name}: the function returned {type(made).__name__}; accepted: an iterable of batches"
            )
        sources = iter(made)
        # Of an iterator nothing is left after the first read, also where a function returns the same one again.
        if sources is self._read:
            raise InputError(
                f"{self._name}: these batches come from an iterator, which can be read once only; give a list, or "
                "a function without arguments that returns a new iterator each time"
            )
        self._read = sources
        return sources

    def _found_features(self) -> tuple[str, ...]:
        sources = self._sources()
        first = next(sources, None)
        if first is None:
            raise InputError(
                f"{self._name}: found no batch; accepted: one or more, or name the features (features=…)"
            )
        if sources is self._batches:
            # The first batch is taken from the iterator, but has yet to be read as part of the trace.
            self._batches = chain([first], sources)
        return tuple(to_batch(first, f"{self._name}: batch 1").bags)


def from_batches(
    batches: Iterable[Source] | Callable[[], Iterable[Source]],
    features: Sequence[str] | None = None,
    name: str = "batches",
) -> Trace:
    """Return the trace in batches that a program makes, such as those of its data loader.

    Example:
        `from_batches(lambda: (batch.sparse_features for batch in loader))`

    Args:
        batches: an iterable, or a function without arguments that returns one; of mappings from features to
            `(values, lengths)`, or of KeyedJaggedTensors, as `to_batch` reads them. An iterator or a generator
            can be read once.
        features: those to read, in that order; None: all those of the first batch, which is made at once.
        name: how messages name the trace.

    Raises:
        InputError: no batches, or a first one that is malformed; what is read later may raise too.
    """
    if not callable(batches) and not isinstance(batches, Iterable):
        raise InputError(
            f"{name}: found {type(batches).__name__}; accepted: an iterable of batches, or a function without "
            "arguments that returns one"
        )
    if features is not None and (not features or len(set(features)) < len(features)):
        raise InputError(
            f"{name}: features: found {list(features)}; accepted: one or more, each once; None for all"
        )
    return MemoryTrace(batches, None if features is None else tuple(features), name)


def to_batch(source: Source, where: str) -> Batch:
    """Return a checked batch of int64 arrays that share no memory with `source`.

    Args:
        source: a mapping from each feature to `(values, lengths)`, shapes (lookups,) and (samples,); or a
            KeyedJaggedTensor, lengths of shape (features · samples,). Arrays, lists and tensors on any device.
        where: names the batch in messages, such as `batches: batch 3`.

    Raises:
        InputError: another type, or arrays of a shape, a type or values that make no batch; names the feature.
    """
    if isinstance(source, Mapping):
        pairs = _of_mapping(source, where)
    elif all(callable(getattr(source, method, None)) for method in ("keys", "values", "lengths")):
        pairs = _of_jagged(source, where)
    else:
        raise InputError(
            f"{where}: found {type(source).__name__}; accepted: a mapping of features to (values, lengths), or a "
            "KeyedJaggedTensor"
        )
    samples = len(next(iter(pairs.values()))[1])
    for feature, (values, lengths) in pairs.items():
        if len(lengths) != samples:
            raise InputError(
                f"{where}, feature '{feature}': lengths: found {len(lengths)} samples; accepted: {samples}, as "
                f"feature '{next(iter(pairs))}' has; a sample without the feature has length 0"
            )
        if int(lengths.sum()) != len(values):
            raise InputError(
                f"{where}, feature '{feature}': found {len(values)} values, but lengths that add up to "
                f"{int(lengths.sum())}; {_SUMS}"
            )
    return Batch(samples, {feature: Bag(values, lengths) for feature, (values, lengths) in pairs.items()})


def _of_mapping(source: Mapping[str, tuple[Any, Any]], where: str) -> dict[str, tuple[IntArray, IntArray]]:
    _check_names(list(source), where)
    pairs = {}
    for feature, pair in source.items():
        place = f"{where}, feature '{feature}'"
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InputError(f"{place}: found {type(pair).__name__}; accepted: a pair (values, lengths)")
        pairs[feature] = (_integers(pair[0], f"{place}: values"), _integers(pair[1], f"{place}: lengths"))
        for what, array in zip(("values", "lengths"), pairs[feature], strict=True):
            _check_signs(array, f"{place}: {what}")
    return pairs


def _of_jagged(source: KeyedJagged, where: str) -> dict[str, tuple[IntArray, IntArray]]:
    keys = list(source.keys())
    _check_names(keys, where)
    lengths = _integers(source.lengths(), f"{where}: lengths")
    strides = getattr(source, "stride_per_key", None)
    if len(lengths) % len(keys) or (callable(strides) and len(set(strides())) > 1):
        raise InputError(
            f"{where}: found {len(lengths)} lengths for {len(keys)} features; accepted: as many for each feature, "
            "one a sample; batches whose size differs by feature are not read"
        )
    by_key = lengths.reshape(len(keys), -1) if len(lengths) else lengths.reshape(len(keys), 0)
    for key, row in zip(keys, by_key, strict=True):
        _check_signs(row, f"{where}, feature '{key}': lengths")
    values = _integers(source.values(), f"{where}: values")
    ends = np.cumsum(by_key.sum(axis=1))
    if len(values) != ends[-1]:
        raise InputError(
            f"{where}: found {len(values)} values, but lengths that add up to {int(ends[-1])}; {_SUMS}"
        )
    pairs = {}
    for key, row, part in zip(keys, by_key, np.split(values, ends[:-1]), strict=True):
        _check_signs(part, f"{where}, feature '{key}': values")
        pairs[key] = (part, row)
    return pairs


def _check_names(names: list[Any], where: str) -> None:
    if not names or len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{where}: found the features {names}; accepted: one or more names, each once")


def _integers(found: Any, where: str) -> IntArray:
    """Return a copy as int64, shape (n,): a loader may fill its arrays anew while batches wait to be joined."""
    # Tensors, also on other devices or with gradients, without importing torch.
    on_host = found.detach().cpu() if callable(getattr(found, "detach", None)) else found
    try:
        array = np.asarray(on_host)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{where}: cannot be read as an array of integers: {error}") from None
    if not array.size and isinstance(found, list | tuple):
        array = array.astype(np.int64)
    if array.ndim != 1:
        raise InputError(f"{where}: found shape {array.shape}; accepted: one dimension")
    if array.dtype.kind not in "iu":
        raise InputError(f"{where}: found {array.dtype}; accepted: integers, such as int64")
    if array.size and int(array.max()) > _MOST:
        worst = int(np.argmax(array > _MOST))
        raise InputError(f"{where}[{worst}]: found {array[worst]}; accepted: whole numbers from 0 to 2⁶³ − 1")
    return np.array(array, dtype=np.int64)


def _check_signs(array: IntArray, where: str) -> None:
    if len(array) and int(array.min()) < 0:
        worst = int(np.argmax(array < 0))
        raise InputError(
            f"{where}[{worst}]: found {array[worst]}; accepted: whole numbers from 0; leave out what is absent, "
            "and give its sample length 0"
        )
