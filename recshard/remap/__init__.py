"""Remap: where each row of a table stands, as row → rank by heat → (part, slot)."""

from recshard.remap.parts import Part, TableRemap, parts_of, remap_of
from recshard.remap.ranks import rank_rows

__all__ = ["Part", "TableRemap", "parts_of", "rank_rows", "remap_of"]
