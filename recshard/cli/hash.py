"""`recshard hash`: how large hashed tables need to be."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recshard.cli.output import Json, emit, note

if TYPE_CHECKING:
    from recshard.profile.hash_size import HashSize


def command(
    profile: Annotated[Path, typer.Argument(help="A profile, as `recshard profile` writes it.")],
    target: Annotated[
        float, typer.Option(help="Share of accesses that may land on a row which several raw IDs share.")
    ] = 0.05,
    growth: Annotated[
        float, typer.Option(help="How many times as many raw IDs there will be as the profile has.")
    ] = 1.0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write the tables with these sizes, as a tables.toml.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Recommend a hash size for every hashed table, and say how many bytes that frees or costs."""
    from recshard.files import check_ours, write_text
    from recshard.profile import load_profile
    from recshard.profile.hash_size import hash_sizes, resized
    from recshard.report.hashing import hash_report
    from recshard.tables import WRITTEN, format_tables

    loaded = load_profile(profile)
    sizes = hash_sizes(loaded, target, growth)
    if loaded.sampled < 1:
        note(
            f"hash: the profile is of a random {loaded.sampled:g} of the samples, and all have more raw IDs; "
            "say how many times as many (--growth)"
        )
    if output is not None:
        check_ours(output, WRITTEN)
        write_text(output, format_tables(resized(loaded.tables, sizes)))
        note(f"tables with the recommended sizes: {output}")
    emit(as_json, lambda: _document(sizes, target), lambda: hash_report(sizes, target))


def _document(sizes: list[HashSize], target: float) -> dict[str, Any]:
    tables = []
    for size in sizes:
        entry = asdict(size) | {"table": size.table.name, "rows_now": size.table.rows, "rows": size.rows}
        tables.append(entry | {"freed_bytes": size.freed_bytes})
    return {"target": target, "freed_bytes": sum(size.freed_bytes for size in sizes), "tables": tables}
