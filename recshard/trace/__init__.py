"""Reading: one module per format, one synthetic generator, ID hashing."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recshard.trace.base import Bag, Batch, Trace
    from recshard.trace.memory import from_batches
    from recshard.trace.open import open_trace
    from recshard.trace.parquet import write_parquet
    from recshard.trace.recipe import load_recipe
    from recshard.trace.recognise import FORMATS
    from recshard.trace.selection import declared_tables, parse_samples, sample, select, take
    from recshard.trace.text import TextOptions

# Where each name lives. Modules load when they are asked for: kernels and schemas take a while.
_HOMES = {
    "base": ("Bag", "Batch", "Trace"),
    "memory": ("from_batches",),
    "open": ("open_trace",),
    "parquet": ("write_parquet",),
    "recipe": ("load_recipe",),
    "recognise": ("FORMATS",),
    "selection": ("declared_tables", "parse_samples", "sample", "select", "take"),
    "text": ("TextOptions",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "FORMATS",
    "Bag",
    "Batch",
    "TextOptions",
    "Trace",
    "declared_tables",
    "from_batches",
    "load_recipe",
    "open_trace",
    "parse_samples",
    "sample",
    "select",
    "take",
    "write_parquet",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'recshard.trace' has no attribute '{name}'")
    return getattr(importlib.import_module(f"recshard.trace.{_HOME[name]}"), name)
