"""Cells: numbers as reports write them, and the tables they stand in."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table


def share(value: float) -> str:
    """Return a share as a percentage that never rounds something to nothing."""
    if value == 0:
        return "0%"
    return f"{100 * value:.1f}%" if value >= 0.01 else f"{100 * value:.2g}%"


def table_of(title: str, columns: Sequence[str]) -> Table:
    """Return an empty table whose first column is a name and whose others are numbers."""
    table = titled(title)
    for k, name in enumerate(columns):
        # Where a terminal is narrow, numbers go on in the next line and are never cut.
        table.add_column(name, justify="right" if k else "left", overflow="fold")
    return table


def titled(title: str) -> Table:
    """Return an empty table with a title."""
    return Table(title=title, title_justify="left", title_style="bold")
