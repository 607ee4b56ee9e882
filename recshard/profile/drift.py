"""Drift: how much of the accesses moved between rows from one profile to another.

Two samples of the same traffic differ too, by luck. How much luck explains is known: of the c lookups that a row
has in both profiles together, the old one's part would be hypergeometrically distributed were there no drift, and
the mean absolute deviation of that has a closed form (Diaconis & Zabell, "Closed form summation for classical
distributions", 1991).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from recshard.errors import InputError
from recshard.profile.profile import Profile
from recshard.profile.sorting import rising_order
from recshard.trace.base import IntArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class TableDrift:
    """How one table's accesses changed.

    Attributes:
        name: of the table.
        moved: share of accesses that went to other rows: half the sum of the rows' differences of share.
        by_luck: the `moved` to be expected of two samples of the same traffic, of these sizes.
        new_rows: share of the new accesses to rows that the old profile never saw.
        old_per_sample: lookups per sample in the old profile.
        new_per_sample: lookups per sample in the new one.
    """

    name: str
    moved: float
    by_luck: float
    new_rows: float
    old_per_sample: float
    new_per_sample: float

    @property
    def excess(self) -> float:
        """What luck does not explain of `moved`."""
        return max(0.0, self.moved - self.by_luck)


@dataclass(frozen=True)
class Drift:
    """How a model's accesses changed: its tables, the most moved first, and all of them by their accesses."""

    tables: tuple[TableDrift, ...]
    moved: float
    by_luck: float


def drift(old: Profile, new: Profile) -> Drift:
    """Return how accesses moved between the rows of each table.

    Memory: some 90 bytes a row seen of one table at a time.

    Raises:
        InputError: profiles of different tables; names the first difference.
    """
    check_same_tables(old, new)
    found = [_table_drift(old, new, j) for j in range(len(old.tables))]
    weight = np.array([table.old_per_sample + table.new_per_sample for table in found])
    total = float(weight.sum()) or 1.0
    return Drift(
        tuple(sorted(found, key=lambda table: -table.excess)),
        float(np.dot(weight, [table.moved for table in found])) / total,
        float(np.dot(weight, [table.by_luck for table in found])) / total,
    )


def check_same_tables(old: Profile, new: Profile) -> None:
    """Raise InputError unless both profiles are of the same tables, so that a row means the same in both."""
    present = {table.name: table for table in new.tables.tables}
    way_out = "profile the new trace with the old profile's tables (--tables OLD.tables.toml)"
    for table in old.tables.tables:
        other = present.get(table.name)
        if other is None:
            raise InputError(f"drift: table '{table.name}' is missing in the new profile; {way_out}")
        for what in ("rows", "ids", "features"):
            if getattr(other, what) != getattr(table, what):
                raise InputError(
                    f"drift: table '{table.name}': {what}: found {getattr(other, what)} in the new profile; "
                    f"accepted: {getattr(table, what)}, as in the old one; {way_out}"
                )
    if old.tables.table_index != new.tables.table_index:
        raise InputError(f"drift: the new profile has other tables, or in another order; {way_out}")


def _table_drift(old: Profile, new: Profile, index: int) -> TableDrift:
    before, after = _by_row(old, index), _by_row(new, index)
    rows = np.union1d(before[0], after[0])
    lookups = np.zeros((2, len(rows)), dtype=np.int64)
    for k, (seen, counts) in enumerate((before, after)):
        lookups[k, np.searchsorted(rows, seen)] = counts
    totals = lookups.sum(axis=1)
    moved, by_luck, new_rows = 0.0, 0.0, 0.0
    if totals.all():
        share = lookups / totals[:, None]
        moved = float(np.abs(share[0] - share[1]).sum() / 2)
        new_rows = float(share[1, lookups[0] == 0].sum())
        by_luck = _by_luck(lookups.sum(axis=0), int(totals[0]), int(totals[1]))
    elif totals.any():  # a table that came into use, or went out of it
        moved, new_rows = 1.0, float(totals[1] > 0)
    name = old.tables.tables[index].name
    return TableDrift(
        name, moved, by_luck, new_rows, old.accesses_per_sample(index), new.accesses_per_sample(index)
    )


def _by_row(profile: Profile, index: int) -> tuple[IntArray, IntArray]:
    rows, counts = profile.hot_rows(index)
    order = rising_order(rows)
    return rows[order], counts[order]


def _by_luck(pooled: IntArray, old: int, new: int) -> float:
    """Return the expected distance of two samples of the same traffic, given the counts of both together."""
    count, rows = np.unique(pooled, return_counts=True)
    deviation = sampling_deviation(count, old, old + new)
    return float(np.dot(rows, deviation) * (1.0 / old + 1.0 / new) / 2)


def sampling_deviation(count: IntArray, drawn: int, total: int) -> FloatArray:
    """Return the mean absolute deviation of how many of `count` are among `drawn` of `total`, shape (n,)."""
    m = np.floor(count * (drawn / total)) + 1.0
    rest = total - drawn - count + m
    possible = (m <= count) & (m <= drawn) & (rest > 0)
    m = np.where(possible, m, 1.0)
    rest = np.where(possible, rest, 1.0)
    log = np.log(2.0 * m * rest / total) + _log_choose(count, m)
    log += _log_choose(total - count, np.where(possible, drawn - m, 0.0)) - _log_choose(total, drawn)
    return np.asarray(np.where(possible, np.exp(log), 0.0))


def _log_choose(n: FloatArray | IntArray | int, k: FloatArray | int) -> FloatArray:
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))
