"""How the bags of each table are pooled."""

from __future__ import annotations

from collections.abc import Mapping

from recshard.errors import InputError, nearest
from recshard.tables import TableSet

MODES = ("sum", "mean")


def check_mode(table: str, mode: str) -> None:
    """Raise InputError unless bags can be pooled in this way."""
    if mode not in MODES:
        raise InputError(
            f"table '{table}': mode: found '{mode}'{nearest(mode, MODES)}; accepted: {', '.join(MODES)}"
        )


def modes_of(model: TableSet, mode: str | Mapping[str, str]) -> dict[str, str]:
    """Return the mode of every table.

    Args:
        mode: of all tables, or by name; tables not named have `sum`.

    Raises:
        InputError: an unknown mode, or a table that is not there.
    """
    names = [table.name for table in model.tables]
    given = dict.fromkeys(names, mode) if isinstance(mode, str) else dict(mode)
    for table in given:
        if table not in names:
            raise InputError(f"mode: no table '{table}'{nearest(table, names)}; accepted: {', '.join(names)}")
        check_mode(table, given[table])
    return {name: given.get(name, "sum") for name in names}
