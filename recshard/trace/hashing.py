"""From raw IDs to rows, and from strings to raw IDs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba
import numpy as np
from numpy.typing import NDArray

from recshard.errors import InputError
from recshard.tables import EmbeddingTable
from recshard.trace.base import IntArray

if TYPE_CHECKING:
    import pyarrow as pa

_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3


def to_rows(ids: IntArray, table: EmbeddingTable, feature: str, source: str) -> IntArray:
    """Return the row of each raw ID, shape (n,), in the way that the table declares.

    `rows`: the ID itself; `mod`: ID modulo rows; `hash`: splitmix64 of the ID, modulo rows.

    Args:
        ids: not negative, shape (n,).
        table: complete.
        feature: whose IDs they are, for the message.
        source: names the trace, for the message.

    Raises:
        InputError: an ID outside a table whose IDs are rows.
    """
    if table.ids == "hash":
        return _hash_rows(ids, table.rows)
    if table.ids == "mod":
        return ids % table.rows
    if len(ids) and int(ids.max()) >= table.rows:
        outside = int(ids[np.argmax(ids >= table.rows)])
        raise InputError(
            f"{source}: table '{table.name}', feature '{feature}': ID {outside} is outside its {table.rows} rows "
            f"(accepted: 0 … {table.rows - 1}); profile again with more rows in tables.toml (--tables; "
            'as inferred from the whole trace, say), or with ids = "hash" or ids = "mod" there, and plan again'
        )
    return ids


@numba.njit(cache=True)
def _hash_rows(ids: IntArray, rows: int) -> IntArray:
    # One pass, in order.
    result = np.empty(len(ids), dtype=np.int64)
    for i in range(len(ids)):
        result[i] = np.int64(mix(np.uint64(ids[i]) + np.uint64(_GOLDEN)) % np.uint64(rows))
    return result


def sampled(begin: int, samples: int, share: float, seed: tuple[int, int]) -> NDArray[np.bool_]:
    """Return which of the samples `begin` … `begin + samples − 1` are in a random `share` of all, shape
    (samples,).

    A sample is in it if the splitmix64 hash of its number, from a start that the seed decides, falls below the
    share.
    """
    start = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
    return _below(begin, samples, np.uint64(start), np.uint64(min(int(share * 2.0**64), 2**64 - 1)))


@numba.njit(cache=True)
def _below(begin: int, samples: int, start: np.uint64, limit: np.uint64) -> NDArray[np.bool_]:
    kept = np.empty(samples, dtype=np.bool_)
    for i in range(samples):
        kept[i] = mix(start + np.uint64(begin + i) * np.uint64(_GOLDEN)) < limit
    return kept


@numba.njit(cache=True, nogil=True, inline="always")
def mix(value: np.uint64) -> np.uint64:
    """Return the splitmix64 finaliser of 64 bits: a bijection that leaves no order."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(_MIX_1)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(_MIX_2)
    return value ^ (value >> np.uint64(31))


def hash_strings(strings: pa.Array) -> IntArray:
    """Return a raw ID for each string: FNV-1a of its UTF-8 bytes, the lowest 63 bits, shape (n,).

    The same string has the same ID on every machine. Of n distinct strings about n² ÷ 2⁶⁴ pairs collide.

    Args:
        strings: an Arrow array of strings without nulls.
    """
    import pyarrow as pa

    plain = strings.cast(pa.large_string())
    if not len(plain):
        return np.zeros(0, dtype=np.int64)
    _, offsets, data = plain.buffers()
    begin = np.frombuffer(offsets, dtype=np.int64)[plain.offset : plain.offset + len(plain) + 1]
    text = np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(0, dtype=np.uint8)
    return _fnv(text, begin)


@numba.njit(cache=True)
def _fnv(text: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], begin: IntArray) -> IntArray:
    # One pass over the bytes of all strings, which lie one after the other.
    result = np.empty(len(begin) - 1, dtype=np.int64)
    for i in range(len(result)):
        value = np.uint64(_FNV_OFFSET)
        for position in range(begin[i], begin[i + 1]):
            value = (value ^ np.uint64(text[position])) * np.uint64(_FNV_PRIME)
        result[i] = np.int64(value & np.uint64(0x7FFFFFFFFFFFFFFF))
    return result
