"""Batches: the bags of every feature, checked where they enter."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from recshard.errors import InputError, nearest
from recshard.problem import IntArray


class KeyedJagged(Protocol):
    """What is asked of TorchRec's `KeyedJaggedTensor`: bags of one feature after the other, in flat tensors."""

    def keys(self) -> Sequence[str]: ...
    def values(self) -> Tensor: ...
    def lengths(self) -> Tensor: ...
    def weights_or_none(self) -> Tensor | None: ...


Batch: TypeAlias = Mapping[str, tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor]] | KeyedJagged


@dataclass(frozen=True)
class Bags:
    """The bags of one feature.

    Attributes:
        values: rows of its table, int64, shape (n,).
        offsets: where each bag begins, and the end, int64, shape (bags + 1,).
        weights: of each lookup in the sum, shape (n,); None: all are 1.
    """

    values: IntArray
    offsets: IntArray
    weights: Tensor | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> IntArray:
        """Lookups in each bag, int64, shape (bags,)."""
        return np.diff(self.offsets)


def read_batch(batch: Batch, known: Collection[str], needed: Collection[str]) -> dict[str, Bags]:
    """Return the bags of each feature that is needed.

    Args:
        batch: (rows, lengths) or (rows, lengths, weights of the lookups) of each feature, or a KeyedJaggedTensor.
        known: features that may be there.
        needed: features that must be.

    Raises:
        InputError: a feature that is missing or not known, values that are no whole numbers, lengths that do not
            add up to the values, or features with different numbers of bags.
    """
    bags: dict[str, Bags] = {}
    for feature, values, lengths, weights in _entries(batch):
        if feature not in known:
            raise InputError(
                f"batch: no table has a feature '{feature}'{nearest(feature, known)}; accepted: {_some(known)}"
            )
        if feature in needed:
            bags[feature] = read_bags(feature, values, lengths, weights)
    for feature in needed:
        if feature not in bags:
            raise InputError(f"batch: feature '{feature}' is missing; found: {_some(bags)}; give it empty bags")
    sizes: dict[int, str] = {}
    for feature, own in bags.items():
        sizes.setdefault(len(own), feature)
    if len(sizes) > 1:
        (one, first), (other, second) = list(sizes.items())[:2]
        raise InputError(
            f"batch: feature '{first}' has {one} bags and feature '{second}' has {other}; accepted: one bag a "
            "sample for every feature, empty where there is none"
        )
    return bags


def read_bags(feature: str, values: Any, lengths: Any, weights: Any = None) -> Bags:
    """Return the bags of one feature from its rows and the lengths of its bags.

    Raises:
        InputError: as `read_batch`.
    """
    rows, counts = _whole_numbers(feature, "values", values), _whole_numbers(feature, "lengths", lengths)
    if len(counts) and counts.min() < 0:
        raise InputError(f"feature '{feature}': lengths: found {counts.min()}; accepted: 0 or more")
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    if offsets[-1] != len(rows) or counts.max(initial=0) > len(rows):  # a sum may be beyond 64 bits
        raise InputError(
            f"feature '{feature}': lengths add up to {sum(counts.tolist())}, and there are {len(rows)} values; "
            "accepted: as many values as the lengths say"
        )
    if weights is None:
        return Bags(rows, offsets)
    factors = _tensor(feature, "weights", weights)
    if tuple(factors.shape) != (len(rows),) or factors.is_complex():
        raise InputError(
            f"feature '{feature}': weights: found shape {tuple(factors.shape)}; accepted: ({len(rows)},), "
            "one real number a lookup"
        )
    return Bags(rows, offsets, factors)


def joined(bags: Sequence[Bags]) -> Bags:
    """Return the bags of several features one after the other, as those of one."""
    if len(bags) == 1:
        return bags[0]
    values = np.concatenate([b.values for b in bags])
    offsets = np.zeros(sum(map(len, bags)) + 1, dtype=np.int64)
    np.cumsum(np.concatenate([b.lengths for b in bags]), out=offsets[1:])
    given = [b.weights for b in bags if b.weights is not None]
    if not given:
        return Bags(values, offsets)
    ones = [given[0].new_ones(len(b.values)) if b.weights is None else b.weights for b in bags]
    return Bags(values, offsets, torch.cat(ones))


def _entries(batch: Batch) -> Iterator[tuple[str, Any, Any, Any]]:
    if isinstance(batch, Mapping):
        for feature, entry in batch.items():
            if not (isinstance(entry, tuple | list) and len(entry) in (2, 3)):
                raise InputError(
                    f"batch: feature '{feature}': found {type(entry).__name__}; accepted: (values, lengths) or "
                    "(values, lengths, weights)"
                )
            values, lengths, *rest = entry
            yield feature, values, lengths, rest[0] if rest else None
        return
    keys, values, lengths, weights = batch.keys(), batch.values(), batch.lengths(), batch.weights_or_none()
    if len(keys) and lengths.numel() % len(keys):
        raise InputError(
            f"batch: {lengths.numel()} lengths for {len(keys)} features; accepted: one a sample for every feature"
        )
    counts = lengths.view(len(keys), -1) if len(keys) else lengths
    ends = np.cumsum([0, *(counts.sum(1).tolist() if len(keys) else [])])
    for number, feature in enumerate(keys):
        mine = slice(int(ends[number]), int(ends[number + 1]))
        yield feature, values[mine], counts[number], None if weights is None else weights[mine]


def _whole_numbers(feature: str, what: str, given: Any) -> IntArray:
    tensor = _tensor(feature, what, given)
    if tensor.ndim != 1 or tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        if not tensor.numel() and tensor.ndim == 1:
            return np.empty(0, dtype=np.int64)
        raise InputError(
            f"feature '{feature}': {what}: found {str(tensor.dtype).removeprefix('torch.')} of shape "
            f"{tuple(tensor.shape)}; accepted: whole numbers in one dimension"
        )
    found: IntArray = tensor.detach().to("cpu", torch.int64).contiguous().numpy()
    return found


def _tensor(feature: str, what: str, given: Any) -> Tensor:
    try:
        return torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"feature '{feature}': {what}: found {type(given).__name__}: {error}; accepted: a tensor, or numbers "
            "that make one"
        ) from None


def _some(names: Collection[str], most: int = 8) -> str:
    shown = list(names)[:most]
    more = len(names) - len(shown)
    return (", ".join(shown) or "none") + (f" and {more} more" if more > 0 else "")
