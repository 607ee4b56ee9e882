"""How many samples a trace has, as far as that is known before it is read: for progress, never for counting."""

from __future__ import annotations

import math
import zlib
from pathlib import Path

from recshard.trace.arrays import NpyTrace, NpzTrace
from recshard.trace.bags import BagsTrace
from recshard.trace.base import Trace
from recshard.trace.concatenated import Concatenated
from recshard.trace.criteo import CriteoTrace
from recshard.trace.joins import JoinedTrace
from recshard.trace.libfm import LibfmTrace
from recshard.trace.parquet import ParquetTrace, rows_in
from recshard.trace.recbole import RecboleTrace
from recshard.trace.selection import inside
from recshard.trace.synthetic import SyntheticTrace
from recshard.trace.text import TextTrace

_HEAD_BYTES = 1 << 18
_ZSTD = b"\x28\xb5\x2f\xfd"
_GZIP = b"\x1f\x8b"


def expected_samples(trace: Trace) -> int | None:
    """Return the number of samples of `trace`, of text an estimate from its first lines; None if unknown."""
    if isinstance(trace, Concatenated):
        each = [expected_samples(part) for part in trace.traces]
        known = [samples for samples in each if samples is not None]
        return sum(known) if len(known) == len(each) else None
    if isinstance(trace, SyntheticTrace):
        return trace.samples
    if isinstance(trace, ParquetTrace):
        return rows_in(trace)
    if isinstance(trace, NpyTrace | NpzTrace):
        return trace.samples
    if isinstance(trace, JoinedTrace):
        return expected_samples(trace.trace)
    within = inside(trace)
    if within is not None:
        whole, kept = within
        samples = expected_samples(whole)
        return None if samples is None else kept(samples)
    if isinstance(trace, TextTrace | CriteoTrace | RecboleTrace | LibfmTrace | BagsTrace):
        return _lines(Path(trace.name))
    return None


def _lines(path: Path) -> int | None:
    """Return about how many lines a text file has, by the density of its first ones."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if head.startswith(_ZSTD) or not head:
        return None
    try:
        text = zlib.decompressobj(wbits=31).decompress(head) if head.startswith(_GZIP) else head
    except zlib.error:
        return None
    return max(1, math.ceil(text.count(b"\n") * path.stat().st_size / len(head)))
