"""Specs: an export as it is read back, every row and column of every table found to have one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from recshard import files
from recshard.errors import InputError
from recshard.export.fbgemm.document import MARKER, VERSION, document_of
from recshard.plan.plan import Plan
from recshard.remap import Part, TableRemap, rank_rows
from recshard.remap.ranks import RankArray
from recshard.remap.storage import read_ranks
from recshard.spec import Spec, parse_spec
from recshard.tables import Dtype, Optimizer

_Count = Annotated[int, Field(ge=0)]
_Size = Annotated[int, Field(ge=1)]
_AGAIN = "export the plan again"


class PartSpec(Spec):
    """One part of a table, as the document has it (see `document`): an entry of an operator's embedding specs."""

    name: str
    table: str
    table_rows: _Size
    table_dim: _Size
    features: tuple[str, ...]
    rows: _Size
    dim: _Size
    columns: tuple[_Count, _Size]
    shard_number: _Count
    shards: _Size
    start: _Count
    dtype: Dtype
    optimizer: Optimizer
    tier: _Count
    location: Literal["DEVICE", "MANAGED", "MANAGED_CACHING", "HOST"]
    remap: Annotated[str, Field(pattern=r"^remap/[0-9]+\.npy$")] | None


class _Document(Spec):
    format_version: int
    tiers: tuple[str, ...]
    devices: tuple[tuple[PartSpec, ...], ...]


@dataclass(frozen=True)
class Specs:
    """Embedding specs of every device, with the way from rows to slots.

    Attributes:
        source: what they were read from, for errors.
        tiers: names, fast to slow.
        devices: the parts on each, in the order of their operators.
        remaps: by table; its parts bear the names that they have in `devices`.
    """

    source: str
    tiers: tuple[str, ...]
    devices: tuple[tuple[PartSpec, ...], ...]
    remaps: Mapping[str, TableRemap]


def load_fbgemm(folder: str | Path) -> Specs:
    """Return an export; remaps are memory-mapped.

    Raises:
        InputError: files that are missing, cut short, of another version, or that do not give every row and column
            of every table one place.
    """
    document = files.read_json(folder, MARKER, "FBGEMM export", VERSION)
    source = Path(folder) / MARKER
    return _specs(document, str(source), lambda table, file, rows: read_ranks(Path(folder) / file, rows))


def specs_of(plan: Plan, locations: Mapping[str, str] | None = None) -> Specs:
    """Return the specs that `export_fbgemm` would write.

    Raises:
        InputError: a tier whose location is not known.
    """
    index = {table.name: j for j, table in enumerate(plan.tables.tables)}
    return _specs(
        document_of(plan, locations),
        "plan",
        lambda table, file, rows: rank_rows(rows, plan.hot_rows(index[table])),
    )


def _specs(document: dict[str, Any], source: str, ranks: Callable[[str, str, int], RankArray]) -> Specs:
    checked = parse_spec(document, _Document, source)
    by_table: dict[str, list[tuple[int, PartSpec]]] = {}
    for device, specs in enumerate(checked.devices):
        for spec in specs:
            by_table.setdefault(spec.table, []).append((device, spec))
    _check_unique(source, "part", [spec.name for found in by_table.values() for _, spec in found])
    _check_unique(source, "feature", [feature for found in by_table.values() for feature in found[0][1].features])
    remaps: dict[str, TableRemap] = {}
    shards = 0
    for number, (table, found) in enumerate(by_table.items()):
        found.sort(key=lambda item: (item[1].columns, item[1].shard_number, item[1].start))
        _check_table(source, table, [spec for _, spec in found], len(checked.tiers))
        parts: list[Part] = []
        for device, spec in found:
            same = parts and (spec.columns[0], spec.shard_number) == (
                parts[-1].first_column,
                parts[-1].shard_number,
            )
            shards += 0 if same else 1
            parts.append(
                Part(
                    name=spec.name, table=number, shard=shards - 1, device=device, tier=spec.tier, rows=spec.rows,
                    first_column=spec.columns[0], columns=spec.dim, shard_number=spec.shard_number,
                    shards=spec.shards, start=spec.start,
                )
            )  # fmt: skip
        first = found[0][1]
        remaps[table] = TableRemap(
            table, first.table_rows, tuple(parts),
            None if first.remap is None else ranks(table, first.remap, first.table_rows),
        )  # fmt: skip
    return Specs(source, checked.tiers, checked.devices, remaps)


def _check_unique(source: str, what: str, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"{source}: {what} '{name}' is there twice; accepted: once; {_AGAIN}")
        seen.add(name)


def _check_table(source: str, table: str, specs: Sequence[PartSpec], tiers: int) -> None:
    """Raise InputError unless a table's parts, in order, hold each of its rows and columns once."""
    first = specs[0]

    def refuse(spec: PartSpec, field: str, found: object, accepted: str) -> InputError:
        return InputError(f"{source}: part '{spec.name}': {field}: found {found}; accepted: {accepted}; {_AGAIN}")

    for spec in specs:
        for field in ("table_rows", "table_dim", "features", "dtype", "optimizer", "remap"):
            found, expected = getattr(spec, field), getattr(first, field)
            if found != expected:
                raise refuse(spec, field, found, f"{expected}, as part '{first.name}' of the same table has it")
        if spec.columns[1] - spec.columns[0] != spec.dim:
            raise refuse(spec, "columns", list(spec.columns), f"a range of {spec.dim}, its dim")
        if spec.tier >= tiers:
            raise refuse(spec, "tier", spec.tier, f"0 to {tiers - 1}")
    covers: dict[tuple[int, int], list[PartSpec]] = {}
    for spec in specs:
        covers.setdefault(spec.columns, []).append(spec)
    end = 0
    for columns, cover in covers.items():
        if columns[0] != end:
            raise refuse(cover[0], "columns", list(columns), f"a range from {end}, where the one before ends")
        end = columns[1]
        _check_cover(cover, refuse)
    if end != first.table_dim:
        raise refuse(
            specs[-1], "columns", list(specs[-1].columns), f"a range to {first.table_dim}, the table's dim"
        )
    if first.remap is None and len(specs) > len(covers):
        raise refuse(first, "remap", "none", "a file, since the table's rows stand in several parts")


def _check_cover(cover: Sequence[PartSpec], refuse: Callable[[PartSpec, str, object, str], InputError]) -> None:
    """Raise InputError unless parts with equal columns, in order, hold each row once."""
    shards, rows = cover[0].shards, cover[0].table_rows
    by_shard: dict[int, list[PartSpec]] = {}
    for spec in cover:
        if spec.shards != shards:
            raise refuse(spec, "shards", spec.shards, f"{shards}, as part '{cover[0].name}' has it")
        by_shard.setdefault(spec.shard_number, []).append(spec)
    # A shard of no rows has no parts: with more shards than rows the last ones are missing.
    missing = [n for n in range(min(shards, rows)) if n not in by_shard]
    if missing or max(by_shard) >= shards:
        raise refuse(cover[0], "shard_number", sorted(by_shard), f"every number from 0 to {shards - 1}")
    for number, tiers in by_shard.items():
        start = 0
        for spec in tiers:
            if spec.start != start:
                raise refuse(spec, "start", spec.start, f"{start}, the rows of its shard in the parts before")
            start += spec.rows
        expected = (rows - number + shards - 1) // shards
        if start != expected:
            raise refuse(
                tiers[-1], "rows", f"{start} in the {len(tiers)} parts of its shard",
                f"{expected}, so that the table's {rows} rows each have one place",
            )  # fmt: skip
