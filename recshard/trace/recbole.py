"""RecBole's atomic files: tab-separated text whose header tells the type of every column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from recshard.errors import InputError, nearest
from recshard.trace.base import DEFAULT_BATCH, Bag, Batch
from recshard.trace.columns import Place, to_bag
from recshard.trace.lines import TextFile
from recshard.trace.rebatch import rebatch
from recshard.trace.text import TextOptions, TextTrace

if TYPE_CHECKING:
    import pyarrow as pa

_TYPES = ("token", "token_seq", "float", "float_seq")


@dataclass(frozen=True)
class RecboleTrace:
    """An atomic file; every column of tokens read is a feature, columns of floats are none.

    Attributes:
        text: the file, its columns under their names without types.
        features: those read.
        sequences: features that hold several tokens, separated by blanks.
        strings: features whose tokens are names, to be hashed to IDs; all others hold whole numbers.
    """

    text: TextTrace
    features: tuple[str, ...]
    sequences: tuple[str, ...]
    strings: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.text.name

    def batches(self, batch_size: int = DEFAULT_BATCH) -> Iterator[Batch]:
        return rebatch(self._chunks(), batch_size)

    def _chunks(self) -> Iterator[Batch]:
        for first, columns in self.text.arrow_chunks(self.features):
            bags = {name: self._bag(name, column, first) for name, column in columns.items()}
            yield Batch(len(next(iter(columns.values()))), bags)

    def _bag(self, name: str, column: pa.Array, first: int) -> Bag:
        way_out = (
            f"the first tokens of '{name}' are numbers, so all must be: declare it as a column of strings, or "
            f"leave it out (--strings {name}, --columns)"
        )
        place = Place(self.name, first, "line", way_out)
        return to_bag(_tokens(column, name in self.sequences), name, place, strings=name in self.strings)


def _tokens(column: pa.Array, is_sequence: bool) -> pa.Array:
    if not is_sequence:
        return column
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(column)
    # A value of blanks alone has no tokens; splitting would give it an empty one.
    return pc.utf8_split_whitespace(pc.if_else(pc.equal(trimmed, ""), None, trimmed))


def _holds_numbers(tokens: pa.Array) -> bool:
    """Return whether every token of a chunk is a whole number in digits."""
    import pyarrow as pa
    import pyarrow.compute as pc

    flat = tokens.flatten() if pa.types.is_list(tokens.type) else tokens
    return pc.all(pc.ascii_is_decimal(pc.utf8_trim_whitespace(flat))).as_py() is not False


def open_recbole(
    paths: Sequence[Path], columns: tuple[str, ...], strings: tuple[str, ...], encoding: str
) -> list[RecboleTrace]:
    """Return the traces in atomic files (`.inter`, `.user`, `.item`).

    A column is one of strings if `strings` names it, or if the first chunk of any file holds a token of it that is
    no whole number: a token must have one ID in all files.

    Args:
        columns: features to read; empty: all columns of tokens.
        strings: columns of tokens to hash even where the first ones look like numbers.

    Raises:
        InputError: a missing file, a header without types, no column of tokens, or a column that is not there.
    """
    traces = [_opened(path, columns, strings, encoding) for path in paths]
    found = set(strings).union(*(_found_strings(trace) for trace in traces))
    return [replace(trace, strings=tuple(sorted(found))) for trace in traces]


def _opened(path: Path, columns: tuple[str, ...], strings: tuple[str, ...], encoding: str) -> RecboleTrace:
    file = TextFile(path)
    types: dict[str, str] = {}
    for field in file.first_line(encoding).split("\t"):
        name, _, kind = field.strip().rpartition(":")
        if not name or kind not in _TYPES:
            raise InputError(
                f"{path}: line 1: found the column {field!r}; accepted: NAME:TYPE, separated by tabs, where TYPE "
                f"is {', '.join(_TYPES)}; read other text with --format text"
            )
        if name in types:
            raise InputError(f"{path}: line 1: column '{name}' is there twice; columns need names of their own")
        types[name] = kind
    tokens = tuple(name for name, kind in types.items() if kind.startswith("token"))
    if not tokens:
        raise InputError(f"{path}: line 1: found no column of type token or token_seq; accepted: one or more")
    for option, wanted in (("columns", columns), ("strings", strings)):
        for column in wanted:
            if column in types and column not in tokens:
                raise InputError(
                    f"{path}: {option}: column '{column}' holds {types[column]}; accepted: columns of tokens: "
                    f"{', '.join(tokens)}"
                )
            if column not in tokens:
                raise InputError(
                    f"{path}: {option}: no column '{column}'{nearest(column, tokens)}; present: "
                    f"{', '.join(tokens)}"
                )
    options = TextOptions(delimiter="\t", names=tuple(types), header=True, encoding=encoding)
    features = columns or tokens
    return RecboleTrace(
        TextTrace(file, options, options.names, features),
        features,
        tuple(name for name in features if types[name] == "token_seq"),
        strings,
    )


def _found_strings(trace: RecboleTrace) -> set[str]:
    for _, columns in trace.text.arrow_chunks(trace.features):
        return {
            name
            for name, column in columns.items()
            if not _holds_numbers(_tokens(column, name in trace.sequences))
        }
    return set()
