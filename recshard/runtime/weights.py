"""Whole tables ↔ parts, row by row and bit by bit, so that a model can be put into tiers and taken out again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from recshard.errors import InputError, nearest
from recshard.remap import Part
from recshard.runtime.device import DeviceShards
from recshard.runtime.memory import DTYPES, Block, same_bytes
from recshard.runtime.modes import modes_of
from recshard.runtime.table_parts import TableParts
from recshard.tables import TableSet

_AT_ONCE = 1 << 26  # bytes copied at once

Weights: TypeAlias = Mapping[str, Tensor] | Mapping[str, nn.EmbeddingBag] | nn.ModuleDict


@dataclass(frozen=True)
class Shape:
    """What makes two tables interchangeable."""

    rows: int
    dim: int
    dtype: torch.dtype


def tables_in(module: nn.Module) -> dict[str, TableParts]:
    """Return the tables that have parts in a module, by name.

    Raises:
        InputError: a table is there twice, as in a model with a copy of itself.
    """
    found: dict[str, TableParts] = {}
    for inner in module.modules():
        if isinstance(inner, TableParts) and found.setdefault(inner.remap.table, inner) is not inner:
            raise InputError(
                f"table '{inner.remap.table}' is there twice in the {type(module).__name__}, and one would be "
                "taken for the other; accepted: a module with each table once; give the modules inside one by one"
            )
    return found


def model_of(module: nn.Module) -> dict[str, Shape]:
    """Return the shape of every table of the model that a module holds parts of, also of those it has none of."""
    found: dict[str, Shape] = {}
    for inner in module.modules():
        if isinstance(inner, DeviceShards):
            found |= {t.name: Shape(t.rows, t.dim, DTYPES[t.dtype]) for t in inner.model.tables}
        elif isinstance(inner, TableParts):
            found.setdefault(inner.remap.table, Shape(inner.remap.rows, inner.dim, inner.dtype))
    return found


def load_whole(module: nn.Module, weights: Weights) -> None:
    """Write whole tables into the parts that a module holds; nothing is written unless every table fits.

    Args:
        module: a runtime module, or one that contains some.
        weights: every table of the model, shape (rows, dim), or its `nn.EmbeddingBag`; also a state dict, whose
            names `embedding_bags.item.weight` and `item.weight` stand for table `item`.

    Raises:
        InputError: another model (the differences are named), an `nn.EmbeddingBag` with an option that lookups in
            parts do not have, or rows that are no longer in the memory of their tier.
    """
    tables, model = tables_in(module), model_of(module)
    given = named_tables(weights, model)
    check_model(model, {name: shape_of(weight) for name, weight in given.items()}, "weights")
    check_in_place(tables.values())
    for name, table in tables.items():
        write_table(table, given[name])


def check_in_place(tables: Iterable[TableParts]) -> None:
    """Raise InputError where the rows of a table are no longer in the memory of their tier."""
    for table in tables:
        for _ in table.parts():
            pass


def whole(module: nn.Module) -> dict[str, Tensor]:
    """Return every table in a module, shape (rows, dim), on the CPU.

    Raises:
        InputError: the module has only some parts of a table.
    """
    return {name: whole_table(table) for name, table in tables_in(module).items()}


def write_table(table: TableParts, weight: Tensor) -> None:
    """Write the rows of a whole table, shape (rows, dim), into the parts that are here."""
    for part, parameter, block in table.parts():
        write_part(table, part, block, weight.detach()[:, part.first_column : part.first_column + part.columns])
        # The bytes may have been written behind the parameter's back; what was kept of them is out of date.
        torch.autograd.graph.increment_version(parameter)


def whole_table(table: TableParts, out: Tensor | None = None) -> Tensor:
    """Return a whole table on the CPU, shape (rows, dim).

    Args:
        out: where to write the rows and columns that are here, leaving the others as they are.

    Raises:
        InputError: without `out`, only some parts of the table are here.
    """
    if out is None:
        if not table.is_whole:
            raise InputError(
                f"table '{table.remap.table}': {len(table.held)} of its {len(table.remap.parts)} parts are here; "
                "accepted: all of them; gather the table from the devices of the plan"
            )
        out = torch.empty(table.remap.rows, table.dim, dtype=table.dtype)
    for part, _, block in table.parts():
        read_part(table, part, block, out[:, part.first_column : part.first_column + part.columns])
    return out


def write_part(table: TableParts, part: Part, block: Block, whole: Tensor) -> None:
    """Write into the memory of a part, or of its state, its rows of `whole`, shape (rows of the table, …)."""
    _synchronise(block.tensor)
    to = same_bytes(block.host)
    for slots, rows in _pieces(table, part):
        to[slots].copy_(same_bytes(whole.index_select(0, rows.to(whole.device))))


def read_part(table: TableParts, part: Part, block: Block, whole: Tensor) -> None:
    """Write what the memory of a part, or of its state, holds to its rows of `whole`, shape (table's rows, …)."""
    _synchronise(block.tensor)
    found, to = same_bytes(block.host), same_bytes(whole)
    for slots, rows in _pieces(table, part):
        to[rows] = found[slots].cpu()


def named_tables(weights: Weights, model: Iterable[str]) -> dict[str, Tensor]:
    """Return tensors by name of the table, of whatever `load_whole` accepts.

    Raises:
        InputError: what is no table, a table that is there twice, or an `nn.EmbeddingBag` that is not accepted.
    """
    found: dict[str, Tensor] = {}
    for name, value in _named(weights, model):
        if isinstance(value, nn.EmbeddingBag):
            check_embedding_bag(name, value)
            value = value.weight
        if not isinstance(value, Tensor):
            raise InputError(
                f"weights: '{name}': found {type(value).__name__}; accepted: a tensor or an nn.EmbeddingBag"
            )
        if name in found:
            raise InputError(f"weights: table '{name}' is there under two names; give it once")
        found[name] = value
    return found


def modes_in(weights: Weights, model: Iterable[str]) -> dict[str, str]:
    """Return the mode of every table that is given as an `nn.EmbeddingBag`; errors as `named_tables`."""
    found = {}
    for name, bag in _named(weights, model):
        if isinstance(bag, nn.EmbeddingBag):
            check_embedding_bag(name, bag)
            found[name] = bag.mode
    return found


def modes_for(model: TableSet, mode: str | Mapping[str, str] | None, weights: Weights | None) -> dict[str, str]:
    """Return the mode of every table: that of its `nn.EmbeddingBag` where there is one, else `mode`, else `sum`.

    Raises:
        InputError: an unknown mode or table, or an `nn.EmbeddingBag` with another mode than `mode`.
    """
    own = modes_in(weights or {}, [table.name for table in model.tables])
    modes = modes_of(model, {} if mode is None else mode)
    for table, found in own.items():
        if mode is not None and modes.get(table) not in (None, found):
            raise InputError(
                f"table '{table}': mode: found '{modes[table]}', and its nn.EmbeddingBag has '{found}'; "
                "accepted: the same, or none here"
            )
    return modes | {table: found for table, found in own.items() if table in modes}


def _named(weights: Weights, model: Iterable[str]) -> Iterator[tuple[str, object]]:
    known = set(model)
    for key, value in weights.items():
        yield key if key in known else key.rpartition("embedding_bags.")[2].removesuffix(".weight"), value


def check_embedding_bag(name: str, bag: nn.EmbeddingBag) -> None:
    """Raise InputError where an `nn.EmbeddingBag` has an option that lookups in parts do not have."""
    found = {
        "max_norm": (bag.max_norm, None),
        "padding_idx": (bag.padding_idx, None),
        "scale_grad_by_freq": (bag.scale_grad_by_freq, False),
    }
    for field, (value, accepted) in found.items():
        if value != accepted:
            raise InputError(
                f"table '{name}': nn.EmbeddingBag with {field}={value}; accepted: {field}={accepted}: parts of a "
                "table know nothing of each other's rows"
            )
    if bag.mode == "max":
        raise InputError(f"table '{name}': nn.EmbeddingBag with mode='max'; accepted: sum, mean")


def shape_of(weight: Tensor) -> Shape:
    """Return the shape of a whole table."""
    rows, dim = weight.shape if weight.ndim == 2 else (0, 0)
    return Shape(rows, dim, weight.dtype)


def check_model(expected: Mapping[str, Shape], found: Mapping[str, Shape], source: str) -> None:
    """Raise InputError, naming the differences, unless two models have the same tables."""
    differences = [f"table '{name}' is missing" for name in expected if name not in found]
    differences += [
        f"table '{name}' is not the plan's{nearest(name, expected)}" for name in found if name not in expected
    ]
    for name, shape in expected.items():
        if name in found:
            differences += [
                f"table '{name}': {field}: found {_word(getattr(found[name], field))}, the plan has "
                f"{_word(getattr(shape, field))}"
                for field in ("rows", "dim", "dtype")
                if getattr(found[name], field) != getattr(shape, field)
            ]
    if differences:
        more = len(differences) - 5
        raise InputError(
            f"{source}: another model than the plan's: {'; '.join(differences[:5])}"
            f"{f' and {more} more' if more > 0 else ''}; nothing was changed: plan for this model, or load its own"
        )


def _pieces(table: TableParts, part: Part) -> Iterator[tuple[slice, Tensor]]:
    """Yield slots of a part and the rows that they hold, some at a time."""
    rows = torch.from_numpy(table.remap.rows_of(part))
    step = max(1, _AT_ONCE // (part.columns * table.dtype.itemsize))
    for start in range(0, part.rows, step):
        mine = rows[start : start + step]
        yield slice(start, start + len(mine)), mine


def _word(value: object) -> str:
    return str(value).removeprefix("torch.")


def _synchronise(tensor: Tensor) -> None:
    """Wait for what the GPU still has to do: pinned memory is read and written from here without asking it."""
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)
