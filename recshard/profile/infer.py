"""Filling in what tables.toml leaves out, from the IDs that a trace holds (design.md, "Spec files")."""

from __future__ import annotations

from dataclasses import replace

from recshard.errors import InputError, nearest
from recshard.tables import EmbeddingTable, TableSet


def tables_for(features: tuple[str, ...], declared: TableSet | None, source: str) -> TableSet:
    """Return the declared tables, and one of its own for every feature that no declared table serves.

    Args:
        features: the trace's features, in order.
        declared: the tables of tables.toml, or None where there is none.
        source: names the trace in errors.

    Raises:
        InputError: a declared feature is not in the trace, or a table's name is a feature of its own.
    """
    tables = declared if declared is not None else TableSet(())
    for feature in tables.features:
        if feature.name not in features:
            raise InputError(
                f"{source}: has no feature '{feature.name}', which table '{feature.table}' serves"
                f"{nearest(feature.name, features)}; the trace has: {', '.join(features)}"
            )
    names = {table.name for table in tables.tables}
    added = []
    for feature_name in features:
        if feature_name in tables.table_index:
            continue
        if feature_name in names:
            raise InputError(
                f"{source}: feature '{feature_name}' is served by no table, yet a table of that name serves "
                f"others; add it to that table's features, or give it a table"
            )
        added.append(EmbeddingTable(feature_name, rows=0, features=(feature_name,), ids=None))
    return tables.with_tables(tables.tables + tuple(added))


def infer_table(table: EmbeddingTable, distinct: int, top: int) -> EmbeddingTable:
    """Return `table` with rows and ids filled in from the number of distinct raw IDs that it met and the largest.

    IDs that fill at least a quarter of 0 … max are rows already; others are hashed into twice as many rows
    as there are distinct IDs. A table that met no ID gets one row,
    into which all that come later are hashed.
    """
    if table.is_complete:
        return table
    size = top + 1 if distinct else 1
    ids = table.ids
    if ids is None:
        ids = "rows" if distinct and 4 * distinct >= size else "hash"
    rows = table.rows or (size if ids == "rows" else max(1, 2 * distinct))
    return replace(table, rows=rows, ids=ids)
