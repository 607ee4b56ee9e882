"""Meta's dlrm_datasets: `.pt` or `.pt.gz` files of indices, offsets and lengths, all tables in one."""

from __future__ import annotations

import gzip
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np

from recshard.errors import InputError
from recshard.trace.base import DEFAULT_BATCH, Bag, Batch, IntArray


@dataclass(frozen=True)
class DlrmTrace:
    """A file of the data set. Tables are features `table_000` …, their IDs are hashed already.

    The whole file is in memory while it is read, as torch gives it: 8 bytes an index and 16 a bag.
    """

    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    @cached_property
    def _arrays(self) -> tuple[IntArray, IntArray, IntArray]:
        return _load(self.path)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """Names of the features, one a table."""
        tables = len(self._arrays[2])
        return tuple(f"table_{t:0{max(3, len(str(tables - 1)))}d}" for t in range(tables))

    def batches(self, batch_size: int = DEFAULT_BATCH) -> Iterator[Batch]:
        indices, offsets, lengths = self._arrays
        samples = lengths.shape[1]
        for begin in range(0, samples, batch_size):
            end = min(begin + batch_size, samples)
            bags = {}
            for t, feature in enumerate(self.features):
                first, last = offsets[t * samples + begin], offsets[t * samples + end]
                bags[feature] = Bag(indices[first:last], lengths[t, begin:end])
            yield Batch(end - begin, bags)


def _load(path: Path) -> tuple[IntArray, IntArray, IntArray]:
    """Return indices, offsets and lengths, checked against each other.

    Raises:
        InputError: unreadable, no such three tensors, or tensors that contradict each other.
    """
    from pickle import UnpicklingError  # what torch's restricted reader raises for anything but tensors

    import torch

    try:
        with _unpacked(path) as stream:
            loaded = torch.load(stream, weights_only=True, map_location="cpu")
    except UnpicklingError:
        raise InputError(
            f"{path}: not a file of tensors alone; anything else is refused, for it could run code"
        ) from None
    except (OSError, EOFError, zlib.error, RuntimeError, ValueError, LookupError) as error:
        why = str(error).partition("\n")[0]
        raise InputError(
            f"{path}: cannot be read as a tensor file ({why}); is it whole, and from torch.save?"
        ) from None
    if not isinstance(loaded, tuple | list) or len(loaded) != 3 or not all(torch.is_tensor(t) for t in loaded):
        raise InputError(
            f"{path}: found {type(loaded).__name__}; accepted: the three tensors (indices, offsets, lengths)"
        )
    indices, offsets, lengths = (_integers(path, what, t) for what, t in zip(_NAMES, loaded, strict=True))
    if lengths.ndim != 2:
        raise InputError(f"{path}: lengths: found shape {lengths.shape}; accepted: (tables, batch)")
    if lengths.size and int(lengths.min()) < 0:
        raise InputError(f"{path}: lengths: found {int(lengths.min())}; accepted: whole numbers from 0")
    expected = np.concatenate([[0], np.cumsum(lengths.ravel())])
    if offsets.shape != expected.shape or (offsets != expected).any() or expected[-1] != len(indices):
        raise InputError(
            f"{path}: offsets {offsets.shape}, lengths {lengths.shape} and {len(indices)} indices contradict each "
            "other"
        )
    if len(indices) and int(indices.min()) < 0:
        position = int(np.argmax(indices < 0))
        raise InputError(f"{path}: indices[{position}]: found {indices[position]}; accepted: whole numbers from 0")
    return indices, offsets, lengths


@contextmanager
def _unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Yield the file, or a temporary copy without gzip: torch jumps about in it, which gzip makes very slow."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not packed:
            yield file
            return
        with gzip.open(file) as content, tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(content, copy, 1 << 20)
            copy.seek(0)
            yield copy


_NAMES = ("indices", "offsets", "lengths")


def _integers(path: Path, what: str, tensor: Any) -> IntArray:
    array = tensor.numpy()
    if array.dtype.kind not in "iu":
        raise InputError(f"{path}: {what}: found {array.dtype}; accepted: integers")
    return np.asarray(array, dtype=np.int64)
