"""`recshard topology`: list the presets, or print one as TOML."""

from __future__ import annotations

from typing import Annotated

import typer

from recshard.cli.output import Json, emit


def command(
    name: Annotated[str | None, typer.Argument(help="A preset; without it, all are listed.")] = None,
    as_json: Json = False,
) -> None:
    """List the topology presets, or print one as TOML to start your own from."""
    from rich.text import Text

    from recshard.topology import load_topology, preset_names, preset_text

    if name is None:
        presets = preset_names()
        emit(as_json, lambda: {"presets": presets}, lambda: Text("\n".join(presets)))
        return
    text = preset_text(name)
    load_topology(name)
    emit(as_json, lambda: {"name": name, "toml": text}, lambda: Text(text.rstrip()))
