"""Delimited text with named columns, plain or packed."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recshard.errors import InputError, nearest
from recshard.trace.base import DEFAULT_BATCH, Bag, Batch
from recshard.trace.columns import Place, to_bag
from recshard.trace.lines import BLOCK_BYTES, TextFile
from recshard.trace.rebatch import rebatch

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class TextOptions:
    """How the columns of a text file are written.

    Attributes:
        delimiter: between columns; None: a tab in `.tsv` files, else a comma.
        names: of the columns; empty: the first line holds them.
        header: whether the first line holds names; None: it does if no names are given. With names it is skipped.
        encoding: such as `utf-8` or `latin-1`.
        separator: between the IDs of one column, such as `|`; None: a column holds one ID.
        columns: those to read, all others being no features; empty: all.
        strings: columns whose values are names, to be hashed to IDs; all others hold whole numbers.
    """

    delimiter: str | None = None
    names: tuple[str, ...] = ()
    header: bool | None = None
    encoding: str = "utf-8"
    separator: str | None = None
    columns: tuple[str, ...] = ()
    strings: tuple[str, ...] = ()


@dataclass(frozen=True)
class TextTrace:
    """A delimited text file; every column read is a feature, and an empty value is an absent one.

    A blank line is a sample in which all features are absent.
    """

    file: TextFile
    options: TextOptions
    all_columns: tuple[str, ...]
    features: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        return self.file.name

    def batches(self, batch_size: int = DEFAULT_BATCH) -> Iterator[Batch]:
        return rebatch(self._chunks(), batch_size)

    def _chunks(self) -> Iterator[Batch]:
        for first, columns in self.arrow_chunks(self.features):
            bags = {name: self.bag(name, column, first) for name, column in columns.items()}
            yield Batch(len(next(iter(columns.values()))), bags)

    def bag(self, name: str, column: pa.Array, first: int) -> Bag:
        """Return the IDs in a chunk of a column whose first line has the number `first`.

        Raises:
            InputError: what is no ID; names file, line and column.
        """
        way_out = f"declare '{name}' as a column of strings, or leave it out (--strings, --columns)"
        place = Place(self.name, first, "line", way_out)
        return to_bag(self._split(column), name, place, strings=name in self.options.strings)

    def _split(self, column: pa.Array) -> pa.Array:
        """Return a list column where a separator is declared, without the empty pieces between separators."""
        separator = self.options.separator
        if separator is None:
            return column
        import pyarrow as pa
        import pyarrow.compute as pc

        pieces = pc.split_pattern(column, separator)
        emptied = pc.if_else(pc.equal(pieces.flatten(), ""), None, pieces.flatten())
        lengths = pieces.value_lengths().fill_null(0)
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
        return pa.ListArray.from_arrays(offsets, emptied)

    def arrow_chunks(self, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, pa.Array]]]:
        """Yield the number of a chunk's first line, and its columns as text, empty values being null."""
        import pyarrow as pa
        from pyarrow import csv as arrow

        delimiter = _delimiter(self.file.path, self.options)
        skipped = 1 if _has_header(self.options) else 0
        wrong: list[Any] = []

        def refuse(row: Any) -> str:
            wrong.append(row)
            return "error"

        try:
            reader = arrow.open_csv(
                self.file.open(self.options.encoding),
                arrow.ReadOptions(
                    use_threads=False,
                    block_size=BLOCK_BYTES,
                    skip_rows=skipped,
                    column_names=list(self.all_columns),
                ),
                arrow.ParseOptions(
                    delimiter=delimiter,
                    quote_char='"' if _is_quoted(delimiter) else False,
                    ignore_empty_lines=False,
                    invalid_row_handler=refuse,
                ),
                arrow.ConvertOptions(
                    include_columns=list(columns),
                    column_types=dict.fromkeys(columns, pa.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=True,
                ),
            )
            line = 1 + skipped
            for chunk in reader:
                yield line, {name: chunk.column(name) for name in columns}
                line += chunk.num_rows
        except (pa.ArrowInvalid, OSError, UnicodeError) as error:
            if wrong:
                found, expected = wrong[0].actual_columns, wrong[0].expected_columns
                raise InputError(
                    f"{self.name}: {_where(wrong[0])}: found {found} columns; accepted: {expected} "
                    f"({', '.join(self.all_columns)}), separated by {delimiter!r}"
                ) from None
            # A header alone, with or without the end of its line.
            if "Empty CSV file" in str(error) or "Could not skip initial" in str(error):
                return
            raise self.file.unreadable(self.options.encoding, error) from None


def _where(row: Any) -> str:
    return f"line {row.number}" if row.number is not None else f"the line {row.text!r}"


def _header(line: str, delimiter: str) -> tuple[str, ...]:
    """Return the names in a header line; a column without one, such as an index, gets its number."""
    row = next(csv.reader([line], delimiter=delimiter)) if _is_quoted(delimiter) else line.split(delimiter)
    return tuple(name.strip() or f"column_{k}" for k, name in enumerate(row, start=1))


def _is_quoted(delimiter: str) -> bool:
    """Whether values may stand in quotes: only where commas delimit, since names hold quotes of their own."""
    return delimiter == ","


def _has_header(options: TextOptions) -> bool:
    return not options.names if options.header is None else options.header


def _delimiter(path: Path, options: TextOptions) -> str:
    if options.delimiter is not None:
        if len(options.delimiter) != 1 or not options.delimiter.isascii() or options.delimiter in '"\r\n\0':
            raise InputError(
                f"delimiter: found {options.delimiter!r}; accepted: one ASCII character, no quote or line end"
            )
        return options.delimiter
    return "\t" if path.name.removesuffix(".gz").removesuffix(".zst").endswith(".tsv") else ","


def open_text(path: Path, options: TextOptions) -> TextTrace:
    """Return the trace in a delimited text file.

    Raises:
        InputError: missing file, no header where one is needed, or a column that is not there.
    """
    file = TextFile(path)
    delimiter = _delimiter(path, options)
    if options.separator is not None and options.separator in ("", delimiter):
        raise InputError(
            f"separator: found {options.separator!r}; accepted: characters other than the delimiter {delimiter!r}"
        )
    first = file.first_line(options.encoding)
    names = options.names
    if not names:
        if not _has_header(options):
            raise InputError(f"{path}: without a header line the columns need names (--names)")
        if not first.strip():
            raise InputError(f"{path}: line 1: found no names of columns; accepted: a header line, or --names")
        names = _header(first, delimiter)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{path}: column '{twice}' is named twice; columns need names of their own (--names)")
    for option, wanted in (("columns", options.columns), ("strings", options.strings)):
        for column in wanted:
            if column not in names:
                raise InputError(
                    f"{path}: {option}: no column '{column}'{nearest(column, names)}; present: {', '.join(names)}"
                )
    return TextTrace(file, options, names, options.columns or names)
