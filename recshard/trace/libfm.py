"""libFM text: `label id:value id:value …` a line, by field or as one bag."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recshard.errors import InputError
from recshard.trace.base import DEFAULT_BATCH, Bag, Batch, IntArray
from recshard.trace.columns import Place, to_bag
from recshard.trace.lines import TextFile
from recshard.trace.rebatch import rebatch

if TYPE_CHECKING:
    import pyarrow as pa

_BAG = "ids"
_ENTRY = r"^[0-9]+:[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"


@dataclass(frozen=True)
class LibfmTrace:
    """A libFM file. An entry with value 0 is absent; other values count as present.

    By field (`fields` > 0) the k-th entry of every line is the k-th feature; otherwise all entries of a line are
    the one multi-hot feature. IDs stay as they are: fields usually share one ID space.
    """

    file: TextFile
    features: tuple[str, ...]
    fields: int
    encoding: str

    @property
    def name(self) -> str:
        return self.file.name

    def batches(self, batch_size: int = DEFAULT_BATCH) -> Iterator[Batch]:
        return rebatch(self._chunks(), batch_size)

    def _chunks(self) -> Iterator[Batch]:
        for first, lines in self.file.line_chunks(self.encoding):
            lengths, ids, present = self._entries(first, lines)
            if not self.fields:
                owner = np.repeat(np.arange(len(lengths)), lengths)
                kept = np.bincount(owner[present], minlength=len(lengths)).astype(np.int64)
                yield Batch(len(lengths), {self.features[0]: Bag(ids[present], kept)})
                continue
            wrong = np.flatnonzero(lengths != self.fields)
            if len(wrong):
                raise InputError(
                    f"{self.name}: line {first + wrong[0]}: found {lengths[wrong[0]]} entries; the first line has "
                    f"{self.fields}, a feature each; read all entries as one feature instead (--names {_BAG})"
                )
            table, shown = ids.reshape(-1, self.fields), present.reshape(-1, self.fields)
            bags = {
                feature: Bag(table[shown[:, k], k], shown[:, k].astype(np.int64))
                for k, feature in enumerate(self.features)
            }
            yield Batch(len(lengths), bags)

    def _entries(self, first: int, lines: pa.Array) -> tuple[IntArray, IntArray, np.ndarray]:
        """Return entries per line, and each entry's ID and whether its value is not 0."""
        import pyarrow as pa
        import pyarrow.compute as pc

        tokens = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(lines))
        count = tokens.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
        flat = tokens.flatten()
        begin = np.concatenate([[0], np.cumsum(count)])[:-1]
        owner = np.repeat(np.arange(len(count)), count)
        entry = np.ones(len(flat), dtype=bool)
        entry[begin[count > 0]] = False  # the label
        entries, owner = flat.filter(pa.array(entry)), owner[entry]
        sound = pc.match_substring_regex(entries, _ENTRY).to_numpy(zero_copy_only=False)
        if not sound.all():
            worst = int(np.argmin(sound))
            raise InputError(
                f"{self.name}: line {first + owner[worst]}: found '{entries[worst].as_py()}'; accepted: entries "
                "id:value with a whole number from 0 as ID, after a label"
            )
        parts = pc.split_pattern(entries, ":")
        place = Place(self.name, first, "line", "libFM entries are id:value")
        ids = to_bag(pc.list_element(parts, 0), "id", place).values
        values = pc.list_element(parts, 1).cast(pa.float64()).to_numpy(zero_copy_only=False)
        return np.bincount(owner, minlength=len(count)).astype(np.int64), ids, values != 0


def open_libfm(path: Path, names: tuple[str, ...], encoding: str) -> LibfmTrace:
    """Return the trace in a libFM file.

    Args:
        names: of the fields; one name reads each line as one bag; none: `field_0` … as the first line has them.

    Raises:
        InputError: missing file, or names that are not as many as the first line's entries.
    """
    file = TextFile(path)
    fields = max(0, len(file.first_line(encoding).split()) - 1)
    if len(names) == 1 and fields != 1:
        return LibfmTrace(file, names, 0, encoding)
    if names and len(names) != fields:
        raise InputError(
            f"{path}: names: found {len(names)}; accepted: {fields}, as many as the first line has entries, or "
            "one for all entries together"
        )
    return LibfmTrace(file, names or tuple(f"field_{k}" for k in range(fields)), fields, encoding)
