"""Recipes: TOML files that describe a synthetic trace, or a public data set and how to obtain it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import numpy as np
from pydantic import Field, field_validator, model_validator

from recshard import content
from recshard.errors import InputError
from recshard.spec import Spec, parse_spec, read_toml
from recshard.tables import DEFAULT_BATCH_SIZE, DEFAULT_DIM, Dtype, EmbeddingTable, Ids, Optimizer
from recshard.trace.synthetic import SyntheticTable, SyntheticTrace

_MOST_ROWS = 3_000_000_000  # ranks are permuted in 64-bit arithmetic

Range = float | tuple[float, float]


class _Usage(Spec):
    """What a table and a family of tables have in common; a pair is a range."""

    rows: int | tuple[int, int]
    dim: int | list[int] = DEFAULT_DIM
    dtype: Dtype = "float32"
    optimizer: Optimizer = "rowwise_adagrad"
    exponent: Range = 1.0
    pooling_factor: Range = 1.0
    coverage: Range = 1.0
    raw_ids: int | tuple[int, int] | None = None
    ids: Ids | None = None

    @field_validator("rows", "raw_ids")
    @classmethod
    def _sizes(cls, value: int | tuple[int, int] | None) -> int | tuple[int, int] | None:
        for bound in value if isinstance(value, tuple) else (value,):
            if bound is not None and not 1 <= bound <= _MOST_ROWS:
                raise ValueError(f"found {bound}; accepted: 1 … {_MOST_ROWS}")
        return _rising(value)

    @field_validator("dim")
    @classmethod
    def _dims(cls, value: int | list[int]) -> int | list[int]:
        dims = value if isinstance(value, list) else [value]
        if not dims or min(dims) < 1:
            raise ValueError(f"found {value}; accepted: a whole number of 1 or more, or a list to choose from")
        return value

    @model_validator(mode="after")
    def _raw_ids_are_mapped(self) -> Self:
        if self.raw_ids is not None and self.ids == "rows":
            raise ValueError(
                f'found raw_ids = {self.raw_ids} with ids = "rows"; accepted: ids = "hash" or "mod" where there '
                "are raw IDs"
            )
        return self

    @field_validator("exponent", "pooling_factor", "coverage")
    @classmethod
    def _in_range(cls, value: Range, info: Any) -> Range:
        least, most = {"exponent": (0, 10), "pooling_factor": (1, 10_000), "coverage": (0, 1)}[info.field_name]
        for bound in value if isinstance(value, tuple) else (value,):
            if not least <= bound <= most:
                raise ValueError(f"found {bound}; accepted: {least} … {most}")
        return _rising(value)


V = TypeVar("V")


def _rising(value: V) -> V:
    if isinstance(value, tuple) and value[0] > value[1]:
        raise ValueError(f"found {list(value)}; accepted: a range from its least to its most")
    return value


class _Table(_Usage):
    name: str


class _Family(_Usage):
    name: str
    count: int

    @field_validator("count")
    @classmethod
    def _positive(cls, value: int) -> int:
        return _at_least(1, value)


class _Synthetic(Spec):
    description: str = ""
    samples: int
    batch_size: int = DEFAULT_BATCH_SIZE
    seed: int = 0
    tables: tuple[_Table, ...] = ()
    families: tuple[_Family, ...] = ()

    @field_validator("samples", "batch_size")
    @classmethod
    def _positive(cls, value: int) -> int:
        return _at_least(1, value)

    @field_validator("seed")
    @classmethod
    def _not_negative(cls, value: int) -> int:
        return _at_least(0, value)


def _at_least(least: int, value: int) -> int:
    if value < least:
        raise ValueError(f"found {value}; accepted: a whole number of {least} or more")
    return value


class FileSpec(Spec):
    """How a delimited file is written, as `TextOptions`."""

    delimiter: str | None = None
    names: tuple[str, ...] = ()
    header: bool | None = None
    encoding: str = "utf-8"
    separator: str | None = None
    columns: tuple[str, ...] = ()
    strings: tuple[str, ...] = ()


class JoinSpec(FileSpec):
    """A side table: its row is found by `key` = the ID of feature `on`; its columns become features."""

    file: str
    on: str
    key: str
    flags: dict[str, list[str]] = Field(default_factory=dict)


class DatasetSpec(FileSpec):
    """A public data set: what its files are called, how they are read, and where they come from."""

    description: str = ""
    source: str
    format: Literal["text", "criteo", "recbole", "libfm", "bags", "parquet", "arrays", "dlrm"]
    files: list[str]
    joins: tuple[JoinSpec, ...] = ()


def load_recipe(name_or_path: str | Path) -> SyntheticTrace | DatasetSpec:
    """Return the recipe that a bundled name or a TOML file stands for.

    Raises:
        InputError: no such recipe, or one that does not fit its schema.
    """
    path = content.find(name_or_path, "traces", "recipe")
    document = read_toml(path)
    if "files" in document or "format" in document:
        return parse_spec(document, DatasetSpec, str(path))
    return _synthetic(parse_spec(document, _Synthetic, str(path)), path)


def synthetic(name_or_path: str | Path) -> SyntheticTrace:
    """Return the synthetic trace of a recipe.

    Raises:
        InputError: as `load_recipe`, or the recipe is of a data set.
    """
    recipe = load_recipe(name_or_path)
    if isinstance(recipe, DatasetSpec):
        raise InputError(f"{name_or_path}: describes a data set; accepted here: the recipe of a synthetic model")
    return recipe


def _synthetic(spec: _Synthetic, path: Path) -> SyntheticTrace:
    """Draw the members of families; each family has a generator of its own, so that adding one moves no other."""
    parts = [_part(table, table.name, np.random.default_rng([spec.seed, 0])) for table in spec.tables]
    for number, family in enumerate(spec.families, start=1):
        rng = np.random.default_rng([spec.seed, number])
        width = len(str(max(0, family.count - 1)))
        parts += [_part(family, f"{family.name}_{i:0{width}d}", rng) for i in range(family.count)]
    if not parts:
        raise InputError(f"{path}: no tables; accepted: [[tables]] or [[families]]")
    names = [part.table.name for part in parts]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{path}: table '{twice}' is declared twice; names must be unique")
    return SyntheticTrace(path.stem, spec.samples, spec.seed, tuple(parts), spec.batch_size)


def _part(usage: _Usage, name: str, rng: np.random.Generator) -> SyntheticTable:
    rows = _drawn_size(usage.rows, rng)
    raw_ids = None if usage.raw_ids is None else _drawn_size(usage.raw_ids, rng)
    ids: Ids = usage.ids or ("rows" if raw_ids is None else "hash")
    dim = int(rng.choice(usage.dim)) if isinstance(usage.dim, list) else usage.dim
    table = EmbeddingTable(name, rows, dim, usage.dtype, usage.optimizer, (name,), ids)
    exponent = _drawn(usage.exponent, rng)
    return SyntheticTable(table, exponent, _drawn(usage.pooling_factor, rng), _drawn(usage.coverage, rng), raw_ids)


def _drawn(value: Range, rng: np.random.Generator) -> float:
    return float(rng.uniform(*value)) if isinstance(value, tuple) else float(value)


def _drawn_size(value: int | tuple[int, int], rng: np.random.Generator) -> int:
    """Return a size, of a range log-uniformly: sizes of embedding tables span orders of magnitude."""
    if isinstance(value, tuple):
        return round(float(np.exp(rng.uniform(*np.log(value)))))
    return value
