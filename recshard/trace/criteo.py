"""Criteo's click logs: tab-separated text of a label, 13 integers and 26 categories in hex."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numba
import numpy as np

from recshard.errors import InputError, nearest
from recshard.trace.base import DEFAULT_BATCH, Bag, Batch, IntArray
from recshard.trace.lines import TextFile
from recshard.trace.rebatch import rebatch
from recshard.trace.text import TextOptions, TextTrace

if TYPE_CHECKING:
    import pyarrow as pa

CATEGORIES = tuple(f"cat_{k}" for k in range(26))
_INTEGERS = tuple(f"int_{k}" for k in range(13))
_LAYOUTS = {columns: (*label, *_INTEGERS, *CATEGORIES) for columns, label in ((40, ("label",)), (39, ()))}
_DIGITS = 8

# What a byte is worth as a hex digit; 16 for all that are none.
_WORTH = np.full(256, 16, dtype=np.uint8)
for _digit in "0123456789abcdefABCDEF":
    _WORTH[ord(_digit)] = int(_digit, 16)


@dataclass(frozen=True)
class CriteoTrace:
    """A file of Criteo's: `train.txt` of the Kaggle data set, `day_0` … of the 1TB one.

    A category's 8 hex digits, read as an unsigned 32-bit number, are its raw ID; an empty one is absent. The label
    and the 13 integers are no features.
    """

    text: TextTrace

    @property
    def name(self) -> str:
        return self.text.name

    @property
    def features(self) -> tuple[str, ...]:
        return self.text.features

    def batches(self, batch_size: int = DEFAULT_BATCH) -> Iterator[Batch]:
        return rebatch(self._chunks(), batch_size)

    def _chunks(self) -> Iterator[Batch]:
        for first, columns in self.text.arrow_chunks(self.features):
            bags = {name: self._bag(name, column, first) for name, column in columns.items()}
            yield Batch(len(next(iter(columns.values()))), bags)

    def _bag(self, name: str, column: pa.Array, first: int) -> Bag:
        _, offsets, data = column.buffers()
        begin = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
        text = np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(0, dtype=np.uint8)
        values, lengths, wrong = _from_hex(text, begin, _WORTH)
        if wrong >= 0:
            raise InputError(
                f"{self.name}: line {first + wrong}, column '{name}': found {column[wrong].as_py()!r}; accepted: "
                f"{_DIGITS} hex digits or nothing; leave the column out (--columns), or read other text with "
                "--format text"
            )
        return Bag(values, lengths)


@numba.njit(cache=True)
def _from_hex(
    text: np.ndarray[tuple[int, ...], np.dtype[np.uint8]],
    begin: np.ndarray[tuple[int, ...], np.dtype[np.int32]],
    worth: np.ndarray[tuple[int, ...], np.dtype[np.uint8]],
) -> tuple[IntArray, IntArray, int]:
    # One pass over a column's bytes, which lie one value after the other; the table of worths stays in L1.
    rows = len(begin) - 1
    values = np.empty(rows, dtype=np.int64)
    lengths = np.empty(rows, dtype=np.int64)
    found = 0
    for row in range(rows):
        width = begin[row + 1] - begin[row]
        lengths[row] = width != 0
        if width == 0:
            continue
        if width != 8:
            return values, lengths, row
        value = np.int64(0)
        check = np.uint8(0)
        for position in range(begin[row], begin[row] + 8):
            digit = worth[text[position]]
            check |= digit
            value = (value << 4) | np.int64(digit & 15)
        if check > 15:
            return values, lengths, row
        values[found] = value
        found += 1
    return values[:found], lengths, -1


def is_criteo(line: str) -> bool:
    """Return whether a file's first line is of this format: 39 or 40 columns, the last 26 in hex or empty."""
    columns = line.split("\t")
    return len(columns) in _LAYOUTS and all(_is_category(column) for column in columns[-len(CATEGORIES) :])


def _is_category(text: str) -> bool:
    return not text or (len(text) == _DIGITS and text.isascii() and all(_WORTH[ord(digit)] < 16 for digit in text))


def open_criteo(path: Path, columns: tuple[str, ...]) -> CriteoTrace:
    """Return the trace in a file of Criteo's, of all 26 categories or of those given.

    Raises:
        InputError: missing file, a first line of neither 39 nor 40 columns, or a column that is no category.
    """
    file = TextFile(path)
    found = len(file.first_line("utf-8").split("\t"))
    if found not in _LAYOUTS:
        raise InputError(
            f"{path}: line 1: found {found} columns; accepted: 40, separated by tabs (label, 13 integers, 26 "
            "categories), or 39 without the label; read other text with --format text"
        )
    for column in columns:
        if column not in CATEGORIES:
            raise InputError(
                f"{path}: no column '{column}'{nearest(column, CATEGORIES)}; present: {', '.join(CATEGORIES)}"
            )
    options = TextOptions(delimiter="\t", names=_LAYOUTS[found])
    return CriteoTrace(TextTrace(file, options, options.names, columns or CATEGORIES))
