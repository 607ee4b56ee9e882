"""Whether numbers can be the counts of a trace: nothing is below what a count can be, and all sums agree.

Sums are made of Python's integers, which do not wrap around as 64 bits do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from recshard.profile.lengths import Lengths
from recshard.profile.profile import HashingStats, TableStats
from recshard.tables import EmbeddingTable, check_size
from recshard.trace.base import IntArray

_MOST_LOOKUPS = 2**63 - 1


def check_table(table: EmbeddingTable, accepted: Mapping[str, Collection[object]]) -> None:
    """Check what a profile says of a table's shape against what tables.toml may say.

    Args:
        accepted: the values that a field may have, by the name of the field.

    Raises:
        ValueError: names the field, what was found and what is accepted.
    """
    for name in ("rows", "dim"):
        check_size(getattr(table, name), f"{name} of table '{table.name}'")
    for name, words in accepted.items():
        if getattr(table, name) not in words:
            raise ValueError(
                f"{name} of table '{table.name}': found {getattr(table, name)!r}; accepted: "
                f"{', '.join(map(str, words))}"
            )


def check_counts(stats: TableStats, table: EmbeddingTable, lookups: object) -> None:
    """Check that a table's counts, collisions and lengths can be those of `lookups` lookups.

    Raises:
        ValueError: names the table, what was found and what is accepted.
    """
    of = f"of table '{table.name}'"
    count, rows = stats.class_count, stats.class_rows
    _check_whole(count, 1, f"count {of}")
    _check_whole(rows, 1, f"rows {of}")
    if not (np.diff(count) < 0).all():
        raise ValueError(
            f"count {of}: found counts that do not fall; accepted: different counts, the largest first"
        )
    seen, counted = sum(rows.tolist()), _sum_of_products(count, rows)
    if seen > table.rows:
        raise ValueError(f"rows {of}: found {seen} that were looked up; accepted: up to the table's {table.rows}")
    in_lengths = check_lengths(stats.lengths, of)
    if not isinstance(lookups, int) or not lookups == counted == in_lengths or counted > _MOST_LOOKUPS:
        raise ValueError(
            f"counts {of} do not add up: found {lookups!r} lookups, {counted} in its rows' counts, {in_lengths} "
            f"in its samples' lengths; accepted: three times the same number, at most {_MOST_LOOKUPS}"
        )
    if stats.hashing is not None:
        _check_hashing(stats.hashing, counted, of)


def check_lengths(lengths: Lengths, of: str) -> int:
    """Return the lookups of a distribution of lengths, exactly.

    Raises:
        ValueError: names what the distribution is of, what was found and what is accepted.
    """
    _check_whole(lengths.length, 0, f"length {of}")
    _check_whole(lengths.samples, 0, f"samples {of}")
    samples, lookups = sum(lengths.samples.tolist()), _sum_of_products(lengths.length, lengths.samples)
    if max(samples, lookups) > _MOST_LOOKUPS:
        raise ValueError(
            f"lengths {of}: found {samples} samples, {lookups} lookups; accepted: up to {_MOST_LOOKUPS}"
        )
    return lookups


def _check_hashing(hashing: HashingStats, lookups: int, of: str) -> None:
    bounds = {"distinct_ids": _MOST_LOOKUPS, "collided_ids": hashing.distinct_ids, "collided_accesses": lookups}
    for name, most in bounds.items():
        value = getattr(hashing, name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise ValueError(f"{name} {of}: found {value!r}; accepted: a whole number, 0 … {most}")


def _check_whole(values: IntArray, least: int, what: str) -> None:
    if values.dtype != np.int64:
        raise ValueError(f"{what}: found {values.dtype}; accepted: whole numbers of 64 bits")
    if len(values) and values.min() < least:
        raise ValueError(f"{what}: found {values.min()}; accepted: {least} or more")


def _sum_of_products(first: IntArray, second: IntArray) -> int:
    return sum(a * b for a, b in zip(first.tolist(), second.tolist(), strict=True))
