"""Cutting a trace into parts that can be read apart: its files, and the row groups of Parquet files."""

from __future__ import annotations

from recshard.errors import InputError
from recshard.trace.base import Trace
from recshard.trace.concatenated import parts
from recshard.trace.parquet import ParquetTrace, row_groups
from recshard.trace.selection import Sampled, is_slice


def partitions(trace: Trace) -> list[Trace]:
    """Return traces that together have the samples of `trace`, each once.

    Raises:
        InputError: a slice of samples, which can only be found by reading from the start.
    """
    return [piece for part in parts(trace) for piece in _pieces(part)]


def _pieces(part: Trace) -> list[Trace]:
    if is_slice(part):
        raise InputError(
            f"{part.name}: samples START:STOP:STEP are counted from a trace's start and cannot be read in parts; "
            "leave --samples out, or take --sample for a share of the samples"
        )
    if isinstance(part, ParquetTrace):
        return list(row_groups(part))
    if isinstance(part, Sampled) and isinstance(part.trace, ParquetTrace):
        pieces = row_groups(part.trace)
        return [Sampled(piece, part.share, part.seed, piece.first_row) for piece in pieces]
    return [part]
