"""Reading: one module per format, one synthetic generator, ID hashing."""

from recshard.trace.base import Bag, Batch, Trace
from recshard.trace.open import FORMATS, open_trace
from recshard.trace.parquet import write_parquet
from recshard.trace.recipe import load_recipe
from recshard.trace.selection import declared_tables, parse_samples, select, take
from recshard.trace.text import TextOptions

__all__ = [
    "FORMATS",
    "Bag",
    "Batch",
    "TextOptions",
    "Trace",
    "declared_tables",
    "load_recipe",
    "open_trace",
    "parse_samples",
    "select",
    "take",
    "write_parquet",
]
