"""From Arrow columns to bags: integers and strings, scalars and lists, as text and Parquet files hold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recshard.errors import InputError
from recshard.trace.base import Bag, IntArray
from recshard.trace.hashing import hash_strings

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Place:
    """Where a chunk of a column stands, for messages.

    Attributes:
        source: the file.
        first: number of the chunk's first row or line.
        unit: `row` or `line`.
        way_out: what to do with IDs that are no numbers.
    """

    source: str
    first: int
    unit: str
    way_out: str

    def error(self, column: str, offset: int, found: object) -> InputError:
        """Return the error for a value that is no ID."""
        return InputError(
            f"{self.source}: {self.unit} {self.first + offset}, column '{column}': found {found!r}; accepted: "
            f"whole numbers from 0 to 2⁶³ − 1; {self.way_out}"
        )


def to_bag(column: pa.Array, name: str, place: Place, *, strings: bool = False) -> Bag:
    """Return a column's IDs: a null is an absent feature, a list several IDs of one sample.

    Args:
        column: integers, strings, or lists of either; dictionary-encoded or not.
        strings: whether strings are names to be hashed; otherwise they must be whole numbers in digits.

    Raises:
        InputError: IDs that are negative or no whole numbers; names file, row and column.
    """
    import pyarrow as pa

    if pa.types.is_fixed_size_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        flat = column.flatten()
    else:
        lengths = one_each(len(column))
        flat = column
    if flat.null_count:
        # A null among the elements of a list is absent, as a null column is.
        present = flat.is_valid().to_numpy(zero_copy_only=False)
        owner = np.repeat(np.arange(len(lengths)), lengths)
        lengths = np.bincount(owner[present], minlength=len(lengths)).astype(np.int64)
        flat = flat.drop_null()
    return Bag(_ids(flat, lengths, name, place, strings), lengths)


def to_arrow(values: IntArray) -> pa.Array:
    """Return whole numbers, int64, shape (n,), as an Arrow array of the same memory.

    `pyarrow.array` would do, but imports pandas to ask whether they are a series: 50 MB that reading and counting
    do without.
    """
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def repeated(text: str, times: int) -> pa.Array:
    """Return an Arrow array of a text so many times, for the same reason without `pyarrow.repeat`."""
    import pyarrow as pa

    data = text.encode()
    offsets = np.arange(times + 1, dtype=np.int32) * np.int32(len(data))
    return pa.StringArray.from_buffers(times, pa.py_buffer(offsets), pa.py_buffer(data * times))


_ONES = np.ones(1 << 17, dtype=np.int64)
_ONES.setflags(write=False)


def one_each(samples: int) -> IntArray:
    """Return the lengths of a feature with one ID in every sample, shape (samples,), not to be written to."""
    return _ONES[:samples] if samples <= len(_ONES) else np.ones(samples, dtype=np.int64)


def _owner(lengths: IntArray, position: int) -> int:
    """Return the sample that the ID at `position` belongs to."""
    return int(np.searchsorted(np.cumsum(lengths), position, side="right"))


def _ids(flat: pa.Array, lengths: IntArray, name: str, place: Place, strings: bool) -> IntArray:
    import pyarrow as pa

    if pa.types.is_dictionary(flat.type):
        if not strings or flat.dictionary.null_count or not is_text(flat.type.value_type):
            return _ids(flat.dictionary_decode(), lengths, name, place, strings)
        words = hash_strings(flat.dictionary)
        return np.asarray(words[flat.indices.to_numpy(zero_copy_only=False)])
    if pa.types.is_null(flat.type):
        return np.zeros(0, dtype=np.int64)
    if is_text(flat.type):
        if strings:
            return hash_strings(flat)
        values = _parsed(flat, lengths, name, place)
    elif pa.types.is_integer(flat.type):
        values = flat.to_numpy(zero_copy_only=False)
        if values.dtype == np.uint64 and len(values) and int(values.max()) > np.iinfo(np.int64).max:
            worst = int(np.argmax(values))
            raise place.error(name, _owner(lengths, worst), int(values[worst]))
        values = values.astype(np.int64, copy=False)
    else:
        raise InputError(
            f"{place.source}: column '{name}' holds {flat.type}; accepted: integers, strings, or lists of them; "
            "leave it out by selecting other columns, or convert it"
        )
    if len(values) and int(values.min()) < 0:
        worst = int(np.argmax(values < 0))
        raise place.error(name, _owner(lengths, worst), int(values[worst]))
    return values


def is_text(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is one of strings."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _parsed(flat: pa.Array, lengths: IntArray, name: str, place: Place) -> IntArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(flat)
    # Digits and nothing else: a cast alone would also take "0x1F".
    decimal = pc.ascii_is_decimal(trimmed).to_numpy(zero_copy_only=False)
    if not decimal.all():
        worst = int(np.argmin(decimal))
        raise place.error(name, _owner(lengths, worst), flat[worst].as_py())
    try:
        values: IntArray = trimmed.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        most = np.iinfo(np.int64).max
        worst = next(i for i, text in enumerate(trimmed.to_pylist()) if int(text) > most)
        raise place.error(name, _owner(lengths, worst), trimmed[worst].as_py()) from None
    return values
