"""Infeasible: why tables do not fit, in bytes, and the least changes after which they would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from recshard.units import format_bytes

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["one table", "total", "packing", "unknown"]
_NAMED = 4  # tables named in a sentence
_EXACT = 1e-3  # relative: how close a proven bound must be for "the least" to be said


@dataclass(frozen=True)
class Shortage:
    """A memory that is short where the least bytes are added in all.

    Attributes:
        tier: its tier.
        devices: those that use it.
        capacity: bytes that it has.
        short_by: bytes that it lacks.
    """

    tier: int
    devices: tuple[int, ...]
    capacity: int
    short_by: int

    @property
    def needed(self) -> int:
        """Bytes that it would have to hold."""
        return self.capacity + self.short_by


@dataclass(frozen=True)
class Remedy:
    """One change after which everything fits, in bytes.

    Attributes:
        change: `capacity`: more bytes in the slowest tier; `split`: cut tables into shards for several devices;
            `smaller`: fewer rows or a smaller dim.
        bytes: by how much; for `capacity` in every device's slowest memory, for the others over all `tables`.
        at_least: fewer bytes are proven not to suffice.
        tiers: the tiers that grow.
        per: whose capacity grows by `bytes`: `device`, or `node` where devices share the pool, or `pool` where
            some do.
        tables: to be cut or made smaller.
        table_bytes: what each of these tables has to lose.
        rules: for `split`: the options under which a division was found.
    """

    change: Literal["capacity", "split", "smaller"]
    bytes: int
    at_least: int = 0
    tiers: tuple[int, ...] = ()
    per: Literal["device", "node", "pool", ""] = ""
    tables: tuple[int, ...] = ()
    table_bytes: tuple[int, ...] = ()
    rules: str = ""

    @property
    def is_least(self) -> bool:
        """Whether it is proven that (to a thousandth) fewer bytes do not suffice."""
        return self.bytes - self.at_least <= max(1.0, _EXACT * self.bytes)


@dataclass(frozen=True)
class Infeasible:
    """Why no placement exists, or why none was found.

    Attributes:
        kind: `one table`: a table is larger than all that any device reaches; `total`: all memories together are
            smaller than the model; `packing`: neither, and yet no division among the devices fits; `unknown`: no
            division was found, and none was proven impossible in the time allowed.
        tables: tables that cannot stand together, whatever becomes of the others, largest first; no set of fewer
            tables has this property where `minimal`. Empty where `unknown`.
        table_bytes: bytes of each of them.
        minimal: whether it is proven that all but any one of them fit.
        model_bytes: bytes of all tables.
        memory_bytes: bytes of all memories.
        reach: bytes that each device reaches, alone, shape (d,).
        tiers: number of tiers.
        short: the memories that are short.
        remedies: what to change; each suffices alone.
        table_names: empty where unknown.
        tier_names: empty where unknown.
    """

    kind: Kind
    tables: tuple[int, ...]
    table_bytes: tuple[int, ...]
    minimal: bool
    model_bytes: int
    memory_bytes: int
    reach: tuple[int, ...]
    tiers: int
    short: tuple[Shortage, ...]
    remedies: tuple[Remedy, ...]
    table_names: tuple[str, ...] = ()
    tier_names: tuple[str, ...] = ()

    def named(self, table_names: Sequence[str], tier_names: Sequence[str]) -> Infeasible:
        """Return the same explanation with names for tables and tiers."""
        return replace(self, table_names=tuple(table_names), tier_names=tuple(tier_names))

    def table_name(self, table: int) -> str:
        """Return a table's name, or what it is called where names are unknown."""
        return self.table_names[table] if self.table_names else f"table {table}"

    def tier_name(self, tier: int) -> str:
        """Return a tier's name, or what it is called where names are unknown."""
        return self.tier_names[tier] if self.tier_names else f"tier {tier}"

    @property
    def message(self) -> str:
        """What is short and by how much, and what to change, in one or two sentences."""
        changes = [self.change(remedy) for remedy in self.remedies]
        advice = f"; {'; or '.join(changes)}" if changes else ""
        return self._finding() + advice

    def change(self, remedy: Remedy) -> str:
        """Return a remedy in words."""
        if remedy.change == "capacity":
            where = _listed([f"'{self.tier_name(k)}'" for k in remedy.tiers])
            whose = {"device": "on every device", "node": "on every node"}.get(remedy.per, "in every pool")
            least = "the least that would do" if remedy.is_least else "enough"
            more = f"give {where} {format_bytes(remedy.bytes)} more {whose}"
            return f"{more} ({least}, but for rows that straddle tiers)"
        if remedy.change == "split":
            return f"cut tables into shards for several devices ({remedy.rules})"
        names = _listed([self._quoted(j) for j in remedy.tables])
        return f"take {format_bytes(remedy.bytes)} from {names} by fewer rows or a smaller dim"

    def _finding(self) -> str:
        tiers = " + ".join(self.tier_name(k) for k in range(self.tiers))
        count = len(self.reach)
        devices = f"{count} device{'' if count == 1 else 's'}"
        roomiest = max(self.reach)
        if self.kind == "one table":
            size = self.table_bytes[0]
            return (
                f"{self._quoted(self.tables[0], 'table ')} alone needs {format_bytes(size)}, and the roomiest "
                f"device reaches {format_bytes(roomiest)} ({tiers}): short by {format_bytes(size - roomiest)}"
            )
        if self.kind == "total":
            largest = f"; the largest table is {self._quoted(self.tables[0])} with " + format_bytes(
                self.table_bytes[0]
            )
            return (
                f"the model needs {format_bytes(self.model_bytes)}, and all memories ({tiers}, {devices}) hold "
                f"{format_bytes(self.memory_bytes)}: short by "
                f"{format_bytes(self.model_bytes - self.memory_bytes)}{largest}"
            )
        ample = (
            f"although all memories ({tiers}) hold {format_bytes(self.memory_bytes)} and the model needs "
            f"{format_bytes(self.model_bytes)}"
        )
        if self.kind == "unknown":
            return (
                f"no way was found to divide the tables among the {devices} so that each fits, {ample}; no proof "
                "that there is none"
            )
        low = min(self.reach)
        reach = format_bytes(low) if low == roomiest else f"{format_bytes(low)} to {format_bytes(roomiest)}"
        names = _listed([self._quoted(j) for j in self.tables])
        return (
            f"{names} ({format_bytes(sum(self.table_bytes))}) cannot stand whole on {devices} that "
            f"reach{'es' if count == 1 else ''} {reach} each, wherever the other tables stand, {ample}"
        )

    def _quoted(self, table: int, before: str = "") -> str:
        return f"{before}'{self.table_names[table]}'" if self.table_names else f"table {table}"

    def document(self) -> dict[str, Any]:
        """Return all of it as JSON says it."""
        return {
            "kind": self.kind,
            "message": self.message,
            "model_bytes": self.model_bytes,
            "memory_bytes": self.memory_bytes,
            "tables": [
                {"table": self.table_name(j), "bytes": size, "share_of_reach": self._share(size)}
                for j, size in zip(self.tables, self.table_bytes, strict=True)
            ],
            "minimal": self.minimal,
            "short": [
                {
                    "tier": self.tier_name(s.tier),
                    "devices": list(s.devices),
                    "capacity_bytes": s.capacity,
                    "needed_bytes": s.needed,
                    "short_by_bytes": s.short_by,
                }
                for s in self.short
            ],
            "remedies": [self._remedy(remedy) for remedy in self.remedies],
        }

    def _remedy(self, remedy: Remedy) -> dict[str, Any]:
        names = [self.table_name(j) for j in remedy.tables]
        if remedy.change == "split":
            return {"change": "split", "options": remedy.rules}
        found: dict[str, Any] = {"change": remedy.change, "bytes": remedy.bytes, "at_least_bytes": remedy.at_least}
        if remedy.change == "capacity":
            return found | {"tiers": [self.tier_name(k) for k in remedy.tiers], "per": remedy.per}
        taken = zip(names, remedy.table_bytes, strict=True)
        return found | {"tables": [{"table": name, "bytes": size} for name, size in taken]}

    def frame(self) -> pd.DataFrame:
        """Return the tables that cannot stand together: table, bytes, share of the roomiest device's reach."""
        import pandas as pd

        return pd.DataFrame(
            {
                "table": [self.table_name(j) for j in self.tables],
                "bytes": pd.Series(self.table_bytes, dtype="int64"),
                "share_of_reach": pd.Series([self._share(size) for size in self.table_bytes], dtype="float64"),
            }
        )

    def _share(self, size: int) -> float:
        return size / max(self.reach) if max(self.reach) else float("inf")


def _listed(names: Sequence[str]) -> str:
    """Return names as a sentence lists them, the rest as a number."""
    shown = (
        list(names) if len(names) <= _NAMED else [*names[: _NAMED - 1], f"{len(names) - _NAMED + 1} more tables"]
    )
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
