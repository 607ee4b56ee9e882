"""NumPy files: `.npy` with a column a feature, `.npz` with an array a feature."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from recshard.errors import InputError, nearest
from recshard.trace.base import DEFAULT_BATCH, Bag, Batch, IntArray
from recshard.trace.columns import Place, one_each

NPY_MAGIC, ZIP_MAGIC = b"\x93NUMPY", b"PK\x03\x04"
_CRITEO_TABLES = 26
_MOST = np.iinfo(np.int64).max
_WAY_OUT = "leave the feature out (--columns), or map its IDs to such numbers before they are saved"


@dataclass(frozen=True)
class _Header:
    """What an array's first bytes say of it; `offset` is where its values begin in the file or member."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int


@dataclass(frozen=True)
class NpyTrace:
    """A two-dimensional array of integers, shape (samples, features), read in slices through a memory map.

    Every column read is a feature with one ID a sample; `positions` are those columns.
    """

    path: Path
    header: _Header
    features: tuple[str, ...]
    positions: tuple[int, ...]

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def samples(self) -> int:
        """Rows of the array."""
        return self.header.shape[0]

    def batches(self, batch_size: int = DEFAULT_BATCH) -> Iterator[Batch]:
        if not self.samples:
            return
        try:
            table = np.memmap(
                self.path,
                self.header.dtype,
                "r",
                self.header.offset,
                self.header.shape,
                "F" if self.header.fortran else "C",
            )
        except (OSError, ValueError) as error:
            raise InputError(f"{self.path}: cannot be read: {error}") from None
        for begin in range(0, self.samples, batch_size):
            block = np.asarray(table[begin : begin + batch_size])
            bags = {}
            for feature, position in zip(self.features, self.positions, strict=True):
                values = _ids(block[:, position], 1, feature, Place(self.name, begin + 1, "row", _WAY_OUT))
                bags[feature] = Bag(values, one_each(len(values)))
            yield Batch(len(block), bags)


@dataclass(frozen=True)
class _Member:
    """One array of a `.npz` file: its feature, the name in the zip, its header and lookups a sample."""

    feature: str
    file: str
    header: _Header
    lookups: int


@dataclass(frozen=True)
class NpzTrace:
    """Arrays of integers, shape (samples, lookups) each: every array read is a feature.

    Members are unpacked as they are read, so that memory holds a batch of each.
    """

    path: Path
    members: tuple[_Member, ...]

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(member.feature for member in self.members)

    @property
    def samples(self) -> int:
        """Rows of every array."""
        return self.members[0].header.shape[0]

    def batches(self, batch_size: int = DEFAULT_BATCH) -> Iterator[Batch]:
        samples = self.samples
        try:
            with ExitStack() as stack:
                archive = stack.enter_context(zipfile.ZipFile(self.path))
                streams = [stack.enter_context(archive.open(member.file)) for member in self.members]
                for member, stream in zip(self.members, streams, strict=True):
                    stream.read(member.header.offset)
                for begin in range(0, samples, batch_size):
                    rows = min(batch_size, samples - begin)
                    bags = {
                        member.feature: self._bag(member, stream, begin, rows)
                        for member, stream in zip(self.members, streams, strict=True)
                    }
                    yield Batch(rows, bags)
        except (OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
            raise _unreadable(self.path, error) from None

    def _bag(self, member: _Member, stream: IO[bytes], begin: int, rows: int) -> Bag:
        wanted = rows * member.lookups * member.header.dtype.itemsize
        data = stream.read(wanted)
        if len(data) < wanted:
            raise InputError(
                f"{self.path}: {member.file}: ends before its {member.header.shape[0]} rows; is the file whole?"
            )
        flat = np.frombuffer(data, dtype=member.header.dtype)
        place = Place(self.name, begin + 1, "row", _WAY_OUT)
        values = _ids(flat, member.lookups, member.feature, place)
        return Bag(values, np.full(rows, member.lookups, dtype=np.int64))


def _ids(found: np.ndarray[Any, Any], lookups: int, feature: str, place: Place) -> IntArray:
    """Return the IDs of a block as int64."""
    if len(found):
        least, most = int(found.min()), int(found.max())
        if least < 0 or most > _MOST:
            worst = int(np.argmax((found < 0) | (found > _MOST)))
            raise place.error(feature, worst // lookups, int(found[worst]))
    return found.astype(np.int64)


def _unreadable(path: Path, error: Exception) -> InputError:
    return InputError(f"{path}: cannot be read as a .npy or .npz file: {error}; is the file whole?")


def _header(stream: IO[bytes], where: str) -> _Header:
    """Return an array's header. Nothing is ever unpickled: arrays of objects are refused by their type.

    Raises:
        InputError: no array, or one that does not hold integers.
    """
    try:
        version = np.lib.format.read_magic(stream)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(
            version
        )
        if read is None:
            raise ValueError(f"version {version} of the format; accepted: 1.0 and 2.0")
        shape, fortran, dtype = read(stream)
    except ValueError as error:
        raise InputError(
            f"{where}: not an array that numpy.save wrote ({error}); unpack it first if it is packed"
        ) from None
    if any(size < 0 for size in shape):
        raise InputError(f"{where}: found shape {shape}; accepted: whole numbers from 0")
    if dtype.kind not in "iu":
        raise InputError(
            f"{where}: found an array of {dtype}; accepted: integers, whose values are IDs; convert it with "
            ".astype(numpy.int64), or give the file of the sparse features"
        )
    return _Header(tuple(shape), bool(fortran), dtype, stream.tell())


def open_arrays(path: Path, columns: tuple[str, ...]) -> NpyTrace | NpzTrace:
    """Return the trace in a `.npy` or `.npz` file, told apart by content; of all its features or of those given.

    Raises:
        InputError: missing or damaged file, arrays of another shape or type, or a feature that is not there.
    """
    try:
        with path.open("rb") as file:
            packed = file.read(4) == ZIP_MAGIC
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    return _open_npz(path, columns) if packed else _open_npy(path, columns)


def _open_npy(path: Path, columns: tuple[str, ...]) -> NpyTrace:
    with path.open("rb") as file:
        header = _header(file, str(path))
    if len(header.shape) != 2 or not header.shape[1]:
        raise InputError(
            f"{path}: found shape {header.shape}; accepted: (samples, features), a column a feature; reshape it"
        )
    needed = header.offset + int(np.prod(header.shape)) * header.dtype.itemsize
    if (size := path.stat().st_size) < needed:
        raise InputError(f"{path}: found {size} bytes; accepted: {needed}, as its header says; is the file whole?")
    prefix = "cat" if header.shape[1] == _CRITEO_TABLES else "column"
    features = tuple(f"{prefix}_{k}" for k in range(header.shape[1]))
    chosen = _chosen(path, columns, features)
    return NpyTrace(path, header, chosen, tuple(features.index(feature) for feature in chosen))


def _open_npz(path: Path, columns: tuple[str, ...]) -> NpzTrace:
    try:
        with zipfile.ZipFile(path) as archive:
            files = _features(path, archive.namelist())
            members = []
            for feature in _chosen(path, columns, tuple(files)):
                with archive.open(files[feature]) as stream:
                    header = _header(stream, f"{path}: {files[feature]}")
                members.append(_member(path, feature, files[feature], header))
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
        raise _unreadable(path, error) from None
    for member in members[1:]:
        if member.header.shape[0] != members[0].header.shape[0]:
            raise InputError(
                f"{path}: {member.file}: found {member.header.shape[0]} samples; accepted: "
                f"{members[0].header.shape[0]}, as {members[0].file} has; leave one out (--columns)"
            )
    return NpzTrace(path, tuple(members))


def _features(path: Path, files: list[str]) -> dict[str, str]:
    """Return the member of each feature: arrays "0", "1", … are Criteo's categories, others have names."""
    names = [file.removesuffix(".npy") for file in files]
    if not files or len(set(names)) < len(names):
        raise InputError(
            f"{path}: found the arrays {', '.join(files) or 'none'}; accepted: one or more, named apart"
        )
    if {str(k) for k in range(len(names))} == set(names):
        return {f"cat_{k}": files[names.index(str(k))] for k in range(len(names))}
    return dict(zip(names, files, strict=True))


def _member(path: Path, feature: str, file: str, header: _Header) -> _Member:
    shape = header.shape
    if len(shape) not in (1, 2):
        raise InputError(f"{path}: {file}: found shape {shape}; accepted: (samples, lookups), or (samples,)")
    lookups = shape[1] if len(shape) == 2 else 1
    if header.fortran and lookups > 1 and shape[0] > 1:
        raise InputError(
            f"{path}: {file}: found its columns one after the other (Fortran order); accepted: rows; save "
            "numpy.ascontiguousarray of it"
        )
    return _Member(feature, file, header, lookups)


def _chosen(path: Path, columns: tuple[str, ...], features: tuple[str, ...]) -> tuple[str, ...]:
    for column in columns:
        if column not in features:
            raise InputError(
                f"{path}: no column '{column}'{nearest(column, features)}; present: {', '.join(features)}"
            )
    return columns or features
