"""Side tables: features that a trace does not hold itself but points to, such as an item's genres."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recshard.errors import InputError, nearest
from recshard.trace.base import DEFAULT_BATCH, Bag, Batch, IntArray, Trace
from recshard.trace.columns import Place, to_bag
from recshard.trace.text import TextTrace

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class SideTable:
    """A side table in memory.

    Attributes:
        name: names it in messages.
        on: feature of the trace whose ID is the key.
        keys: rising, shape (n,).
        bags: IDs of each key's row, by feature.
    """

    name: str
    on: str
    keys: IntArray
    bags: dict[str, Bag]


def read_side_table(text: TextTrace, on: str, key: str, flags: dict[str, list[str]]) -> SideTable:
    """Return a delimited file as a side table.

    Args:
        text: the file; the columns it selects become features.
        on: feature of the trace whose ID is looked up.
        key: column that holds those IDs.
        flags: for each multi-hot feature its columns of 0 and 1; a column's position is the ID.

    Raises:
        InputError: malformed, a column that is not there, a key that is missing or there twice, or a flag that is
            neither 0 nor 1.
    """
    flag_columns = tuple(column for columns in flags.values() for column in columns)
    wanted = tuple(dict.fromkeys((key, *text.features, *flag_columns)))
    for column in wanted:
        if column not in text.all_columns:
            raise InputError(
                f"{text.name}: no column '{column}'{nearest(column, text.all_columns)}; present: "
                f"{', '.join(text.all_columns)}"
            )
    keys: list[IntArray] = []
    bags: dict[str, list[Bag]] = {feature: [] for feature in (*text.features, *flags)}
    for first, columns in text.arrow_chunks(wanted):
        keys.append(_whole(columns[key], key, Place(text.name, first, "line", "every line needs its key")))
        for feature in text.features:
            bags[feature].append(text.bag(feature, columns[feature], first))
        place = Place(text.name, first, "line", "flags are 0 or 1")
        for feature, names in flags.items():
            bags[feature].append(_multi_hot({name: _whole(columns[name], name, place) for name in names}, place))
    all_keys = np.concatenate(keys) if keys else np.zeros(0, dtype=np.int64)
    order = np.argsort(all_keys, kind="stable")
    twice = np.flatnonzero(np.diff(all_keys[order]) == 0)
    if len(twice):
        raise InputError(f"{text.name}: key {all_keys[order][twice[0]]} of column '{key}' is there twice")
    joined = {}
    for feature, parts in bags.items():
        whole = Bag(
            np.concatenate([p.values for p in parts] or [all_keys]),
            np.concatenate([p.lengths for p in parts] or [all_keys]),
        )
        joined[feature] = pick(whole, order)
    return SideTable(text.name, on, all_keys[order], joined)


def _whole(column: pa.Array, name: str, place: Place) -> IntArray:
    """Return the whole numbers of a column that must not be empty anywhere."""
    bag = to_bag(column, name, place)
    if len(bag.values) < len(bag.lengths):
        raise place.error(name, int(np.argmin(bag.lengths)), "")
    return bag.values


def _multi_hot(columns: dict[str, IntArray], place: Place) -> Bag:
    flags = np.stack(list(columns.values()), axis=1)
    wrong = np.argwhere(flags > 1)
    if len(wrong):
        line, column = wrong[0]
        raise place.error(list(columns)[column], int(line), int(flags[line, column]))
    return Bag(np.nonzero(flags)[1].astype(np.int64), flags.sum(axis=1))


def pick(bag: Bag, samples: IntArray) -> Bag:
    """Return the given samples of a bag, in the given order, some perhaps several times."""
    begin = np.cumsum(bag.lengths) - bag.lengths
    lengths = bag.lengths[samples]
    ends = np.cumsum(lengths)
    # Positions count up by one inside a sample and jump to the next sample's begin.
    positions = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(
        begin[samples] - (ends - lengths), lengths
    )
    return Bag(bag.values[positions], lengths)


@dataclass(frozen=True)
class JoinedTrace:
    """A trace with the features of its side tables."""

    trace: Trace
    sides: tuple[SideTable, ...]

    @property
    def name(self) -> str:
        return self.trace.name

    @property
    def features(self) -> tuple[str, ...]:
        return self.trace.features + tuple(feature for side in self.sides for feature in side.bags)

    def batches(self, batch_size: int = DEFAULT_BATCH) -> Iterator[Batch]:
        for batch in self.trace.batches(batch_size):
            bags = dict(batch.bags)
            for side in self.sides:
                key = batch.bags[side.on]
                position = np.searchsorted(side.keys, key.values)
                found = position < len(side.keys)
                found[found] = side.keys[position[found]] == key.values[found]
                if not found.all():
                    raise InputError(
                        f"{self.name}: '{side.on}' {key.values[np.argmin(found)]} is not in {side.name}; every ID "
                        "needs a line there"
                    )
                present = np.flatnonzero(key.lengths)
                if len(present) != len(key.values):
                    raise InputError(
                        f"{self.name}: '{side.on}' has several IDs in a sample; a join needs one at most"
                    )
                for feature, bag in side.bags.items():
                    picked = pick(bag, position)
                    lengths = np.zeros(batch.samples, dtype=np.int64)
                    lengths[present] = picked.lengths
                    bags[feature] = Bag(picked.values, lengths)
            yield Batch(batch.samples, bags)
