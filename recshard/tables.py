"""Embedding tables: what the model declares, and how a raw ID becomes a row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from operator import index
from pathlib import Path
from typing import Literal, SupportsIndex, get_args

from pydantic import ValidationInfo, field_validator

from recshard.errors import InputError, nearest
from recshard.spec import Spec, read_spec

Dtype = Literal["float32", "float16", "bfloat16", "int8"]
Optimizer = Literal["sgd", "rowwise_adagrad", "adagrad", "adam"]
Ids = Literal["rows", "mod", "hash"]

WEIGHT_BYTES: dict[str, int] = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}
DEFAULT_DIM = 64
DEFAULT_BATCH_SIZE = 65536
WRITTEN = "# Embedding tables, written by recshard."  # the first line of every tables.toml that is
_MOST = 10**12  # rows or elements: more is a slip of the keyboard


@dataclass(frozen=True)
class Feature:
    """A categorical input of the model, and the table that serves it."""

    name: str
    table: str


@dataclass(frozen=True)
class EmbeddingTable:
    """One embedding table (EMB).

    Attributes:
        name: unique in the model.
        rows: hash size; 0 while it is still to be inferred from a trace.
        dim: elements of a row.
        dtype: of the weights.
        optimizer: decides the state bytes kept beside each row.
        features: names of the features that look up rows here.
        ids: how a raw ID becomes a row: it is one (`rows`), modulo `rows`, or hashed; None: to be inferred.
    """

    name: str
    rows: int
    dim: int = DEFAULT_DIM
    dtype: Dtype = "float32"
    optimizer: Optimizer = "rowwise_adagrad"
    features: tuple[str, ...] = ()
    ids: Ids | None = "rows"

    @property
    def weight_bytes(self) -> int:
        """Bytes of one row's weights."""
        return self.dim * WEIGHT_BYTES[self.dtype]

    @property
    def row_bytes(self) -> int:
        """Bytes of memory that one row takes: weights and optimizer state."""
        per_element = {"sgd": 0, "rowwise_adagrad": 0, "adagrad": 4, "adam": 8}
        return self.weight_bytes + per_element[self.optimizer] * self.dim + self.row_state_bytes

    @property
    def row_state_bytes(self) -> int:
        """Bytes of optimizer state that a row has once, however many elements it has."""
        return 4 if self.optimizer == "rowwise_adagrad" else 0

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to infer from a trace."""
        return self.rows > 0 and self.ids is not None


@dataclass(frozen=True)
class TableSet:
    """The model's embedding tables and the samples of one training step over all devices."""

    tables: tuple[EmbeddingTable, ...]
    batch_size: int = DEFAULT_BATCH_SIZE

    def __len__(self) -> int:
        return len(self.tables)

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """Every feature with its table, in table order."""
        return tuple(Feature(f, t.name) for t in self.tables for f in t.features)

    @cached_property
    def table_index(self) -> dict[str, int]:
        """Index of the table that serves each feature, by feature name."""
        return {f: j for j, t in enumerate(self.tables) for f in t.features}

    @property
    def model_bytes(self) -> int:
        """Bytes of all rows of all tables."""
        return sum(t.rows * t.row_bytes for t in self.tables)

    def with_tables(self, tables: tuple[EmbeddingTable, ...]) -> TableSet:
        """Return the same batch size over other tables."""
        return replace(self, tables=tables)


def check_size(value: object, what: str) -> None:
    """Raise ValueError unless `value` is a number of rows, elements or samples that a model could have."""
    if not (isinstance(value, SupportsIndex) and not isinstance(value, bool) and 1 <= index(value) <= _MOST):
        raise ValueError(f"{what}: found {value!r}; accepted: a whole number of 1 or more, at most {_MOST}")


class _TableSpec(Spec):
    name: str
    rows: int | None = None
    dim: int = DEFAULT_DIM
    dtype: Dtype = "float32"
    optimizer: Optimizer = "rowwise_adagrad"
    features: list[str] | None = None
    ids: Ids | None = None

    @field_validator("rows", "dim")
    @classmethod
    def _positive(cls, value: int | None) -> int | None:
        if value is not None and not 1 <= value <= _MOST:
            raise ValueError(f"found {value}; accepted: a whole number of 1 or more, at most {_MOST}")
        return value

    @field_validator("dtype", "optimizer", "ids", mode="before")
    @classmethod
    def _known_word(cls, value: object, info: ValidationInfo) -> object:
        words = {"dtype": get_args(Dtype), "optimizer": get_args(Optimizer), "ids": get_args(Ids)}
        accepted = words[str(info.field_name)]
        if value not in accepted:
            raise ValueError(f"found {value!r}{nearest(str(value), accepted)}; accepted: {', '.join(accepted)}")
        return value


class _TablesSpec(Spec):
    batch_size: int = DEFAULT_BATCH_SIZE
    tables: list[_TableSpec]

    @field_validator("batch_size")
    @classmethod
    def _positive(cls, value: int) -> int:
        if not 1 <= value <= _MOST:
            raise ValueError(f"found {value}; accepted: a whole number of 1 or more, at most {_MOST}")
        return value


def load_tables(path: str | Path) -> TableSet:
    """Return the tables declared in a TOML file; rows and ids left out there stay to be inferred.

    Raises:
        InputError: the file is missing or does not fit the schema, two tables share a name, or two
            tables claim one feature.
    """
    spec = read_spec(path, _TablesSpec)
    tables = tuple(
        EmbeddingTable(
            name=t.name,
            rows=t.rows or 0,
            dim=t.dim,
            dtype=t.dtype,
            optimizer=t.optimizer,
            features=tuple(t.features) if t.features is not None else (t.name,),
            ids=t.ids if t.ids is not None else ("rows" if t.rows else None),
        )
        for t in spec.tables
    )
    _check_unique(tables, str(path))
    return TableSet(tables, spec.batch_size)


def _check_unique(tables: tuple[EmbeddingTable, ...], source: str) -> None:
    if not tables:
        raise InputError(f"{source}: no tables; accepted: one [[tables]] block or more")
    served: dict[str, str] = {}
    seen: set[str] = set()
    for table in tables:
        if table.name in seen:
            raise InputError(f"{source}: table '{table.name}' is declared twice; names must be unique")
        seen.add(table.name)
        if not table.features:
            raise InputError(f"{source}: table '{table.name}' serves no feature; list at least one in 'features'")
        for feature in table.features:
            if feature in served:
                raise InputError(
                    f"{source}: feature '{feature}' is claimed by tables '{served[feature]}' and "
                    f"'{table.name}'; a feature has one table"
                )
            served[feature] = table.name


def format_tables(tables: TableSet) -> str:
    """Return the TOML text that `load_tables` reads back to the same tables."""
    lines = [WRITTEN, f"batch_size = {tables.batch_size}"]
    for t in tables.tables:
        lines += ["", "[[tables]]", f"name = {_quote(t.name)}", f"rows = {t.rows}", f"dim = {t.dim}"]
        lines += [f"dtype = {_quote(t.dtype)}", f"optimizer = {_quote(t.optimizer)}"]
        lines += [f"features = [{', '.join(_quote(f) for f in t.features)}]"]
        if t.ids is not None:
            lines += [f"ids = {_quote(t.ids)}"]
    return "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)
