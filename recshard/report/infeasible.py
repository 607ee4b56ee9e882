"""Why a model does not fit, as tables on a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType

from recshard.report.cells import share, table_of
from recshard.strategy.infeasible import Infeasible, Shortage
from recshard.units import format_bytes

_TOP = 10


def infeasible_report(found: Infeasible) -> RenderableType:
    """Return the tables that cannot stand together and the memories that are short; the message has the rest."""
    parts: list[RenderableType] = []
    if found.tables:
        parts.append(_conflict(found))
    if found.short:
        parts.append(_short(found))
    return Group(*parts)


def _conflict(found: Infeasible) -> RenderableType:
    count = len(found.tables)
    title = "the table that no device can hold" if count == 1 else f"{count} tables that cannot stand together"
    if count > _TOP:
        title += f", the {_TOP} largest"
    table = table_of(title, ("table", "bytes", "of the roomiest device's reach"))
    for row in found.document()["tables"][:_TOP]:
        table.add_row(row["table"], format_bytes(row["bytes"]), share(row["share_of_reach"]))
    return table


def _short(found: Infeasible) -> RenderableType:
    title = "memories that are short where the least is added in all"
    if len(found.short) > _TOP:
        title += f", {_TOP} of {len(found.short)}"
    table = table_of(title, ("tier", "devices", "capacity", "needed", "short by"))
    for memory in found.short[:_TOP]:
        sizes = (memory.capacity, memory.needed, memory.short_by)
        table.add_row(found.tier_name(memory.tier), _devices(memory), *(format_bytes(size) for size in sizes))
    return table


def _devices(memory: Shortage) -> str:
    first, last = memory.devices[0], memory.devices[-1]
    together = len(memory.devices) > 1 and last - first == len(memory.devices) - 1
    return f"{first} – {last}" if together else ", ".join(map(str, memory.devices))
