"""Expected profiles: what a recipe's distributions promise, computed without drawing a lookup.

A drawn profile of billions of rows takes minutes and gigabytes; its counts of counts are expectations plus luck.
Here every ID has a rate, its expected lookups, and its count is Poisson distributed around it, so the expected
number of IDs with count c is a sum of Poisson probabilities. Rows that hashing fills with several IDs sum their
counts: a compound Poisson law, whose generating function is the exponential of that of the IDs (Feller, "An
Introduction to Probability Theory", vol. 1, XII.2).

Approximations, all small beside the luck of a draw: IDs are looked up independently of each other (a draw fixes
their total); rates within 1% of each other count as one; rates above 4,096 have no spread; hashing is uniform and
no two of the hottest IDs share a row. Small hashed tables need none of the last: their IDs are hashed one by one.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from recshard.errors import InputError
from recshard.profile.lengths import Lengths
from recshard.profile.profile import FeatureStats, HashingStats, Profile, TableStats, rows_unknown
from recshard.trace.base import IntArray
from recshard.trace.hashing import to_rows
from recshard.trace.synthetic import FloatArray, SyntheticTable, SyntheticTrace, covered, distinct_ids, id_of_rank

_HEAVY = 4096.0  # lookups: a rate that is taken as the count; Poisson spread is below 1.6% there
_SPREAD = 8.0  # standard deviations to which a Poisson law is followed
_FINE = 128  # ranks each of their own, and groups of rates per factor e
_HASHED_ONE_BY_ONE = 1 << 18  # IDs
_LONGEST = 1 << 22  # of a compound law
_CHUNK = 1 << 22


def expected_profile(trace: SyntheticTrace) -> Profile:
    """Return the profile to be expected of a synthetic trace; it does not know which rows are hot.

    Deterministic, and takes seconds for billions of rows. Lookups, lengths and classes agree as they do in a
    profile that was counted.

    Raises:
        InputError: a table takes IDs modulo its rows, which collide otherwise than hashed ones.
    """
    features, stats = [], []
    for part in trace.parts:
        if part.table.ids == "mod":
            raise InputError(
                f"{trace.name}: table '{part.table.name}': found ids = \"mod\"; accepted for an expected profile: "
                '"rows" and "hash", since a modulo spreads IDs otherwise than hashing; draw the profile instead'
            )
        lengths = expected_lengths(part, trace.samples)
        features.append(FeatureStats(part.table.features[0], part.table.name, lengths))
        stats.append(_table_stats(part, lengths))
    source = f"{trace.name} (expected)"
    return Profile(
        trace.tables,
        trace.samples,
        tuple(features),
        tuple(stats),
        rows_unknown(source),
        (source,),
        rows_known=False,
    )


def expected_lengths(part: SyntheticTable, samples: int) -> Lengths:
    """Return how many of `samples` are expected to have how many IDs: none, or 1 + Poisson."""
    present = round(samples * part.coverage)
    mean = part.pooling_factor - 1.0
    most = int(mean + _SPREAD * math.sqrt(mean) + 2 * _SPREAD)
    law = np.zeros(most + 1)
    _add_poisson(np.array([mean]), np.array([float(present)]), law)
    law *= present / max(float(law.sum()), 1.0)
    length = np.concatenate([[0], np.arange(1, most + 2)])
    count = np.concatenate([[samples - present], _whole(law)])
    return Lengths(length[count > 0], count[count > 0])


def _table_stats(part: SyntheticTable, lengths: Lengths) -> TableStats:
    rows, lookups = part.table.rows, lengths.lookups
    rate, ids = _rates(part, lookups)
    hashing = None
    if part.table.ids == "rows":
        count, number = _counts(rate, ids)
    else:
        light = rate < _HEAVY
        spread = float(np.dot(rate[light] * (1 + rate[light]), ids[light])) / rows
        mean = float(np.dot(rate[light], ids[light])) / rows
        length = 1 << math.ceil(math.log2(4 * (mean + _SPREAD * math.sqrt(spread)) + 4 * _HEAVY))
        crowded = length > _LONGEST or 100 * int(ids[~light].sum()) > rows
        if crowded or distinct_ids(part) <= _HASHED_ONE_BY_ONE:
            count, number = _counts(*_rates_of_rows(part, lookups))
        else:
            count, number = _compound_counts(rate, ids, rows, length)
    count, number = _adding_up(count, number, lookups)
    if part.table.ids != "rows":
        distinct = max(round(float(np.dot(ids, -np.expm1(-rate)))), int(number.sum()))
        alone = 1.0 - (1.0 - 1.0 / rows) ** max(distinct - 1, 0)
        hashing = HashingStats(distinct, round(distinct * alone), round(lookups * alone))
    return TableStats(count, number, hashing, lengths)


def _rates(part: SyntheticTable, lookups: int) -> tuple[FloatArray, IntArray]:
    """Return expected lookups per ID, falling, and how many IDs have them, both of shape (g,)."""
    size = distinct_ids(part)
    steps = np.exp(np.arange(0, math.log(size + 1) + 1 / _FINE, 1 / _FINE))
    edges = np.unique(np.minimum(np.concatenate([np.arange(_FINE + 1), np.rint(steps)]), size).astype(np.int64))
    ids = np.diff(edges)
    return lookups * np.diff(covered(part, edges)) / ids, ids


def _rates_of_rows(part: SyntheticTable, lookups: int) -> tuple[FloatArray, IntArray]:
    """Return expected lookups per row, falling, and how many rows have them, with every ID hashed to its row."""
    size = distinct_ids(part)
    rate = np.zeros(part.table.rows)
    for begin in range(0, size, _CHUNK):
        rank = np.arange(begin, min(begin + _CHUNK, size) + 1)
        row = to_rows(id_of_rank(part, rank[:-1]), part.table, part.table.features[0], part.table.name)
        rate += np.bincount(row, lookups * np.diff(covered(part, rank)), part.table.rows)
    rate = rate[rate > 0]
    group = np.rint(-_FINE * np.log(rate)).astype(np.int64)
    _, where, rows = np.unique(group, return_inverse=True, return_counts=True)
    return np.bincount(where, rate) / rows, rows


def _counts(rate: FloatArray, number: IntArray) -> tuple[IntArray, IntArray]:
    """Return counts and how many of what has those rates have each, both of shape (c,); counts may repeat."""
    light = rate < _HEAVY
    law = np.zeros(int(_HEAVY + _SPREAD * math.sqrt(_HEAVY)) + 2)
    _add_poisson(rate[light], number[light].astype(np.float64), law)
    heavy = np.rint(rate[~light]).astype(np.int64)
    return np.concatenate([heavy, np.arange(1, len(law))]), np.concatenate([number[~light], _whole(law[1:])])


def _compound_counts(rate: FloatArray, ids: IntArray, rows: int, length: int) -> tuple[IntArray, IntArray]:
    """Return counts and how many rows have each, where IDs are hashed uniformly into `rows`; counts may repeat.

    Args:
        length: of the law of a row's count, beyond which it has no weight.
    """
    light = rate < _HEAVY
    law = np.zeros(int(_HEAVY + _SPREAD * math.sqrt(_HEAVY)) + 2)
    _add_poisson(rate[light], ids[light].astype(np.float64), law)
    law[0] = 0.0
    jumps = law / rows
    row_law = np.fft.irfft(np.exp(np.fft.rfft(jumps, length) - jumps.sum()), length)
    others = rows - int(ids[~light].sum())
    mean = float(np.dot(rate[light], ids[light])) / rows
    heavy = np.rint(rate[~light] + mean).astype(np.int64)
    number = _whole(np.maximum(row_law[1:], 0.0) * others)
    return np.concatenate([heavy, np.arange(1, length)]), np.concatenate([ids[~light], number])


@numba.njit(cache=True)
def _add_poisson(rate: FloatArray, weight: FloatArray, law: FloatArray) -> None:
    # Each rate writes a short run of `law`, outwards from its mode, where the probability is largest.
    for i in range(len(rate)):
        if weight[i] == 0.0:
            continue
        if rate[i] == 0.0:
            law[0] += weight[i]
            continue
        mode = min(int(rate[i]), len(law) - 1)
        least = 1e-18
        top = weight[i] * math.exp(mode * math.log(rate[i]) - rate[i] - math.lgamma(mode + 1.0))
        here = top
        c = mode
        while c < len(law) and here > least:
            law[c] += here
            c += 1
            here *= rate[i] / c
        here = top
        c = mode
        while c > 0 and here > least:
            here *= c / rate[i]
            c -= 1
            law[c] += here


def _whole(amounts: FloatArray) -> IntArray:
    """Return whole numbers whose sums from any place to the end are those of `amounts`, rounded."""
    tail = np.rint(np.cumsum(amounts[::-1])[::-1]).astype(np.int64)
    return -np.diff(tail, append=0)


def _adding_up(count: IntArray, number: IntArray, lookups: int) -> tuple[IntArray, IntArray]:
    """Return classes, counts falling, that have exactly `lookups`: the hottest rows take what rounding left."""
    count, number = _classes(count, number)
    missing = lookups - int(np.dot(count, number))
    while missing:
        sign, rows = (1 if missing > 0 else -1), int(number.sum())
        hottest = np.clip(min(abs(missing), rows) - (np.cumsum(number) - number), 0, number)
        count, number = _classes(
            np.concatenate([count + sign, count]), np.concatenate([hottest, number - hottest])
        )
        missing = lookups - int(np.dot(count, number))
    return count, number


def _classes(count: IntArray, number: IntArray) -> tuple[IntArray, IntArray]:
    """Return distinct counts above zero, falling, and how many rows have each."""
    used = (number > 0) & (count > 0)
    distinct, where = np.unique(-count[used], return_inverse=True)
    total = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(total, where, number[used])
    return -distinct, total
