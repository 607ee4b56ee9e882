"""A profile on disk: `profile.json` for what has names, Parquet for what has rows (design.md, "Files on disk").

`classes.parquet` holds the count of counts (table, count, rows) and `rows.parquet` every row seen, hottest
first (table, row, count); either loads into pandas with `pd.read_parquet`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from recshard import files
from recshard.errors import InputError
from recshard.profile.lengths import Lengths
from recshard.profile.pairs import Pairs, regrouped
from recshard.profile.profile import (
    FeatureStats,
    HashingStats,
    Profile,
    TableStats,
    expected_reached,
    rows_unknown,
)
from recshard.profile.sound import check_counts, check_lengths, check_table
from recshard.tables import WRITTEN, Dtype, EmbeddingTable, Ids, Optimizer, TableSet, check_size, format_tables
from recshard.trace.base import IntArray
from recshard.trace.columns import repeated, to_arrow

if TYPE_CHECKING:
    import pyarrow as pa

MARKER = "profile.json"
VERSION = 2
_CLASSES = "classes.parquet"
_ROWS = "rows.parquet"
_LENGTHS = "lengths.parquet"
_GROUP = 1 << 20  # rows
_WORDS = {"dtype": get_args(Dtype), "optimizer": get_args(Optimizer), "ids": get_args(Ids)}
_COVERED = (0.5, 0.8, 0.9, 0.99, 1.0)  # shares of accesses whose fewest rows are told


def save_profile(profile: Profile, path: str | Path) -> None:
    """Write `profile` to the folder `path`, and its tables, filled in, to `path` + `.tables.toml` beside it.

    Raises:
        InputError: the folder cannot be written, something else stands there, or the profile's counts cannot be
            those of a trace.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = Path(path)
    for stats, table in zip(profile.stats, profile.tables.tables, strict=True):
        try:
            check_counts(stats, table, stats.lookups)
        except ValueError as error:
            raise InputError(f"{target}: not saved: {error}; profile the trace again") from None
    files.check_ours(tables_beside(target), WRITTEN)
    with files.new_folder(target, MARKER) as folder:
        names = [t.name for t in profile.tables.tables]
        schema = pa.schema([("table", pa.string()), ("count", pa.int64()), ("rows", pa.int64())])
        with pq.ParquetWriter(folder / _CLASSES, schema) as writer:
            for name, stats in zip(names, profile.stats, strict=True):
                writer.write_table(_columns(schema, name, stats.class_count, stats.class_rows))
        schema = pa.schema([("table", pa.string()), ("row", pa.int64()), ("count", pa.int64())])
        with pq.ParquetWriter(folder / _ROWS, schema) as writer:
            for j, name in enumerate(names):
                for rows, counts in regrouped(profile.hot_chunks(j) if profile.rows_known else (), _GROUP):
                    writer.write_table(_columns(schema, name, rows, counts))
        schema = pa.schema(
            [("of", pa.string()), ("name", pa.string()), ("length", pa.int64()), ("samples", pa.int64())]
        )
        with pq.ParquetWriter(folder / _LENGTHS, schema) as writer:
            for of, name, lengths in _named_lengths(profile):
                who = [repeated(text, len(lengths.length)) for text in (of, name)]
                columns = [*who, to_arrow(lengths.length), to_arrow(lengths.samples)]
                writer.write_table(pa.Table.from_arrays(columns, schema=schema))
        (folder / MARKER).write_text(json.dumps(summary(profile), indent=1, ensure_ascii=False) + "\n")
    files.write_text(tables_beside(target), format_tables(profile.tables))


def _named_lengths(profile: Profile) -> Iterator[tuple[str, str, Lengths]]:
    """Yield the distributions of all features, and of the tables that serve several, with what they are of."""
    for feature in profile.features:
        yield "feature", feature.name, feature.lengths
    for table, stats in zip(profile.tables.tables, profile.stats, strict=True):
        if len(table.features) > 1:
            yield "table", table.name, stats.lengths


def tables_beside(path: str | Path) -> Path:
    """Return where the filled-in tables of a profile are written: next to it, as `<profile>.tables.toml`."""
    return Path(path).with_name(Path(path).name + ".tables.toml")


def _columns(schema: pa.Schema, name: str, first: IntArray, second: IntArray) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_arrays([repeated(name, len(first)), to_arrow(first), to_arrow(second)], schema=schema)


def summary(profile: Profile) -> dict[str, Any]:
    """Return what `profile.json` holds, and `recshard profile --json` prints."""
    tables = []
    for j, (table, stats) in enumerate(zip(profile.tables.tables, profile.stats, strict=True)):
        entry: dict[str, Any] = dataclasses.asdict(table)
        entry |= _pooling(stats.lengths)
        entry |= {"lookups": stats.lookups, "seen_rows": stats.seen_rows, "occupancy": profile.occupancy(j)}
        entry["rows_for_share"] = {f"{covered:g}": profile.rows_for(j, covered) for covered in _COVERED}
        if stats.hashing is not None:
            entry["hashing"] = dataclasses.asdict(stats.hashing)
            entry["expected_occupancy"] = expected_reached(stats.hashing.distinct_ids, table.rows) / table.rows
        tables.append(entry)
    features = [{"name": f.name, "table": f.table} | _pooling(f.lengths) for f in profile.features]
    return {
        "format_version": VERSION,
        "source": list(profile.source),
        "samples": profile.samples,
        "sampled": profile.sampled,
        "rows_known": profile.rows_known,
        "batch_size": profile.tables.batch_size,
        "tables": tables,
        "features": features,
    }


def _pooling(lengths: Lengths) -> dict[str, Any]:
    """Return what is said of the number of IDs a sample has, per feature and per table."""
    return {
        "samples": lengths.all_samples,
        "present": lengths.present,
        "lookups": lengths.lookups,
        "coverage": lengths.coverage,
        "pooling_factor": lengths.pooling_factor,
        "pooling_percentiles": {f"p{100 * q:g}": lengths.percentile(q) for q in (0.5, 0.9, 0.99, 1.0)},
        "lookups_per_sample": lengths.lookups / lengths.all_samples if lengths.all_samples else 0.0,
    }


def load_profile(path: str | Path) -> Profile:
    """Return the profile in the folder `path`; rows are read from disk when asked for.

    Raises:
        InputError: no such folder, no profile, of another version, cut short, or with counts that do not add up.
    """
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    folder = Path(path)
    document = files.read_json(folder, MARKER, "profile", VERSION)
    try:
        classes = pq.read_table(folder / _CLASSES)
        rows_groups = pq.ParquetFile(folder / _ROWS).metadata.num_row_groups
        names = classes["table"].combine_chunks().dictionary_encode()
        code = {name: i for i, name in enumerate(names.dictionary.to_pylist())}
        table_code = names.indices.to_numpy()
        if (np.diff(table_code) < 0).any():
            raise ValueError(f"{_CLASSES}: tables are mixed up")
        count, rows = classes["count"].to_numpy(), classes["rows"].to_numpy()
        lengths = _read_lengths(folder)
        tables, stats = [], []
        for entry in document["tables"]:
            fields = {f.name: entry[f.name] for f in dataclasses.fields(EmbeddingTable)}
            table = EmbeddingTable(**(fields | {"features": tuple(entry["features"])}))
            check_table(table, _WORDS)
            number = code.get(table.name, len(code))
            mine = slice(*np.searchsorted(table_code, [number, number + 1]))
            hashing = HashingStats(**entry["hashing"]) if "hashing" in entry else None
            own = (
                lengths["table", table.name] if len(table.features) > 1 else lengths["feature", table.features[0]]
            )
            found = TableStats(count[mine], rows[mine], hashing, own)
            check_counts(found, table, entry["lookups"])
            stats.append(found)
            tables.append(table)
        features = tuple(
            FeatureStats(f["name"], f["table"], lengths["feature", f["name"]]) for f in document["features"]
        )
        tables_set = TableSet(tuple(tables), document["batch_size"])
        samples, source, sampled = document["samples"], tuple(document["source"]), document["sampled"]
        rows_known = bool(document.get("rows_known", True))
        for feature, entry in zip(features, document["features"], strict=True):
            lookups = check_lengths(feature.lengths, f"of feature '{feature.name}'")
            if lookups != entry["lookups"]:
                raise ValueError(
                    f"lengths of feature '{feature.name}' do not add up: found {lookups} lookups; accepted: its "
                    f"{entry['lookups']!r}"
                )
        for name in ("samples", "batch_size"):
            check_size(document[name], name)
        if not isinstance(sampled, int | float) or isinstance(sampled, bool) or not 0 < sampled <= 1:
            raise ValueError(f"sampled: found {sampled!r}; accepted: a number above 0, at most 1")
    except (OSError, ArrowException, AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{folder}: the profile is damaged ({error}); make it again with `recshard profile`"
        ) from None
    if rows_known and rows_groups < sum(s.seen_rows > 0 for s in stats):
        raise InputError(f"{folder / _ROWS}: rows are missing; make the profile again with `recshard profile`")
    hot_chunks = _row_reader(folder, tables_set) if rows_known else rows_unknown(str(folder))
    return Profile(tables_set, samples, features, tuple(stats), hot_chunks, source, float(sampled), rows_known)


def _read_lengths(folder: Path) -> dict[tuple[str, str], Lengths]:
    """Return distributions by what they are of, `feature` or `table`, and its name."""
    import pyarrow.parquet as pq

    frame = pq.read_table(folder / _LENGTHS).to_pandas()
    return {
        (str(of), str(name)): Lengths(part["length"].to_numpy(), part["samples"].to_numpy())
        for (of, name), part in frame.groupby(["of", "name"], sort=False)
    }


def _row_reader(folder: Path, tables: TableSet) -> Callable[[int], Iterator[Pairs]]:
    def read(index: int) -> Iterator[Pairs]:
        import pyarrow.parquet as pq
        from pyarrow import ArrowException

        name = tables.tables[index].name
        try:
            with pq.ParquetFile(folder / _ROWS) as file:
                for group in range(file.num_row_groups):
                    # A row group holds rows of one table; its statistics name it.
                    named = file.metadata.row_group(group).column(0).statistics
                    if named is not None and named.min == name:
                        part = file.read_row_group(group, columns=["row", "count"])
                        yield part["row"].to_numpy(), part["count"].to_numpy()
        except (ArrowException, OSError) as error:
            raise InputError(
                f"{folder / _ROWS}: cannot be read: {error}; make the profile again with `recshard profile`"
            ) from None

    return read
