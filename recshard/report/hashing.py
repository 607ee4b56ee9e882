"""Hash sizes as a table on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from recshard.profile.hash_size import HashSize
from recshard.report.cells import share, table_of
from recshard.units import format_bytes


def hash_report(sizes: Sequence[HashSize], target: float) -> RenderableType:
    """Return recommended hash sizes, a line per hashed table, and the sum in one sentence."""
    names = (
        "table",
        "raw IDs",
        "rows now",
        "collided",
        "expected",
        "rows then",
        "expected then",
        "occupied then",
        "bytes freed",
    )
    table = table_of(
        f"hash sizes for at most {share(target)} of accesses collided: on rows that several IDs share", names
    )
    hashed = [size for size in sizes if size.distinct_ids is not None]
    for size in hashed:
        table.add_row(
            size.table.name,
            f"{size.distinct_ids:,}",
            f"{size.table.rows:,}",
            share(size.collided or 0.0),
            share(size.expected or 0.0),
            f"{size.rows:,}",
            share(size.expected_then or 0.0),
            share(size.occupancy_then or 0.0),
            _signed(size.freed_bytes),
        )
    freed = sum(size.freed_bytes for size in hashed)
    sentence = f"Together this {'frees' if freed >= 0 else 'costs'} {format_bytes(abs(freed))}."
    already = len(sizes) - len(hashed)
    if already:
        sentence += f" Of {already} tables the IDs are rows already or taken modulo: chance has no say there."
    return Group(table, Text(sentence)) if hashed else Text(sentence)


def _signed(size: int) -> str:
    return ("−" if size < 0 else "") + format_bytes(abs(size))
