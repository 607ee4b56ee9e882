"""Checkpoints of whole tables: what was trained under one plan goes on under another.

A folder: `checkpoint.json`, and a safetensors file a table with its `weight` and, for row-wise Adagrad, a `sum`
for every range of columns that has a state of its own. It is written whole or not at all, and read after every
file of it was found to be what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from recshard.errors import InputError
from recshard.files import new_folder, read_json
from recshard.runtime.memory import DTYPES
from recshard.runtime.optim import RowOptimizer
from recshard.runtime.table_parts import TableParts
from recshard.runtime.weights import (
    Shape,
    check_in_place,
    check_model,
    model_of,
    read_part,
    tables_in,
    whole_table,
    write_part,
    write_table,
)
from recshard.spec import Spec, parse_spec

MARKER = "checkpoint.json"
VERSION = 1
_KIND = "checkpoint"
_AGAIN = "nothing was changed: take another checkpoint"
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_STORED = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}  # as safetensors calls them

Range = tuple[int, int]


class _Table(Spec):
    name: str
    file: str
    rows: int
    dim: int
    dtype: str
    sums: list[tuple[int, int]]


class _Document(Spec):
    format_version: int
    tables: list[_Table]


@dataclass(frozen=True)
class WholeTable:
    """A table with its optimizer's state.

    Attributes:
        name: of the table.
        weight: shape (rows, dim).
        sums: by range of columns (first, end), the state of every row, float32, shape (rows,).
    """

    name: str
    weight: Tensor
    sums: Mapping[Range, Tensor]


def save_checkpoint(module: nn.Module, folder: str | Path, optimizer: RowOptimizer | None = None) -> None:
    """Write all tables in a module to a folder, whole or not at all; an older checkpoint there is replaced.

    One table at a time is held in memory.

    Args:
        optimizer: whose state to keep beside them.

    Raises:
        InputError: no tables or only some parts of one are here, `optimizer` is not theirs, or the folder is
            something else or cannot be written.
    """
    if not model_of(module):
        raise InputError(f"{folder}: no tables of a plan are in the {type(module).__name__}; nothing was written")
    check_optimizer(module, optimizer)
    write_checkpoint(folder, (read_whole(table, optimizer) for table in tables_in(module).values()))


def write_checkpoint(folder: str | Path, tables: Iterable[WholeTable]) -> None:
    """Write tables to a folder one after the other, whole or not at all; an older checkpoint there is replaced.

    Raises:
        InputError: the folder is something else, or cannot be written.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    with new_folder(folder, MARKER) as target:
        entries = []
        for number, table in enumerate(tables):
            rows, dim = table.weight.shape
            file = f"{number:05d}.safetensors"
            tensors = {"weight": table.weight} | {_key(columns): total for columns, total in table.sums.items()}
            try:
                save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, target / file)
            except SafetensorError as error:
                raise InputError(f"{folder}: table '{table.name}' cannot be written: {error}") from None
            entries.append(
                _Table(
                    name=table.name, file=file, rows=rows, dim=dim, dtype=_NAMES[table.weight.dtype],
                    sums=sorted(table.sums),
                )
            )  # fmt: skip
        document = _Document(format_version=VERSION, tables=entries)
        (target / MARKER).write_text(document.model_dump_json(indent=1) + "\n", encoding="utf-8")


def read_whole(table: TableParts, optimizer: RowOptimizer | None) -> WholeTable:
    """Return a table, all of whose parts are here, with its state."""
    weight = whole_table(table)
    sums: dict[Range, Tensor] = {}
    for part, parameter, _ in table.parts():
        block = optimizer.blocks.get(parameter) if optimizer is not None else None
        if block is not None:
            columns = (part.first_column, part.first_column + part.columns)
            total = sums.setdefault(columns, torch.empty(table.remap.rows))
            read_part(table, part, block, total)
    return WholeTable(table.remap.table, weight, sums)


def load_checkpoint(
    module: nn.Module,
    folder: str | Path,
    optimizer: RowOptimizer | None = None,
    *,
    before_writing: Callable[[], None] = lambda: None,
) -> None:
    """Read a checkpoint into the parts that a module holds, whatever plan it was written under.

    Nothing is written before everything was checked. A column shard takes over the state of the same columns;
    where the checkpoint's columns were cut elsewhere, the mean over its columns of the states that they had.

    Args:
        optimizer: to read its state too.
        before_writing: called once everything was checked; where it raises, nothing is written.

    Raises:
        InputError: no checkpoint, another model's, damaged, or one without the state that `optimizer` needs, or an
            optimizer of other parameters.
    """
    from safetensors import SafetensorError, safe_open

    check_optimizer(module, optimizer)
    source = Path(folder)
    document = parse_spec(read_json(source, MARKER, _KIND, VERSION), _Document, str(source / MARKER))
    entries = {entry.name: entry for entry in document.tables}
    found = {e.name: Shape(e.rows, e.dim, _dtype(source, e)) for e in document.tables}
    check_model(model_of(module), found, str(source))
    tables = tables_in(module)
    check_in_place(tables.values())
    with ExitStack() as stack:
        files = {}
        for name, table in tables.items():
            _check_state(source, entries[name], table, optimizer)
            path = source / entries[name].file
            try:
                files[name] = stack.enter_context(safe_open(path, framework="pt"))
            except (OSError, SafetensorError) as error:
                raise InputError(f"{path}: table '{name}': cannot be read: {error}; {_AGAIN}") from None
            _check_file(source, entries[name], files[name])
        before_writing()
        for name, table in tables.items():
            write_table(table, files[name].get_tensor("weight"))
            _write_sums(table, {c: files[name].get_tensor(_key(c)) for c in entries[name].sums}, optimizer)


def check_optimizer(module: nn.Module, optimizer: object) -> None:
    """Raise InputError unless an optimizer, where there is one, updates all tables in a module but the frozen."""
    if optimizer is None:
        return
    if not isinstance(optimizer, RowOptimizer):
        raise InputError(
            f"optimizer: found {type(optimizer).__name__}; accepted: one of recshard.runtime, such as "
            "optimizer_for makes, or none: the state of others is kept with their own state_dict()"
        )
    known = {weight for group in optimizer.param_groups for weight in group["params"]}
    for name, table in tables_in(module).items():
        if any(weight.requires_grad and weight not in known for weight in table.weights):
            raise InputError(
                f"optimizer: table '{name}' is not among its parameters, and its state would be left out; "
                "accepted: the optimizer that was made for this module"
            )


def _write_sums(table: TableParts, sums: Mapping[Range, Tensor], optimizer: RowOptimizer | None) -> None:
    if optimizer is None or not sums:
        return
    spread: dict[Range, Tensor] = {}
    for part, parameter, _ in table.parts():
        block = optimizer.blocks.get(parameter)
        if block is None:
            continue
        columns = (part.first_column, part.first_column + part.columns)
        if columns not in spread:
            spread[columns] = sums[columns] if columns in sums else _mean_over(columns, sums)
        write_part(table, part, block, spread[columns])


def _mean_over(columns: Range, sums: Mapping[Range, Tensor]) -> Tensor:
    """Return the mean, over some columns, of the states that they had: a state is a sum of means over columns."""
    total = torch.zeros_like(next(iter(sums.values())))
    for (first, end), state in sums.items():
        shared = min(end, columns[1]) - max(first, columns[0])
        if shared > 0:
            total += state * (shared / (columns[1] - columns[0]))
    return total


def _check_file(folder: Path, entry: _Table, file: Any) -> None:
    expected: dict[str, tuple[str, list[int]]] = {"weight": (_STORED[entry.dtype], [entry.rows, entry.dim])}
    expected |= {_key(columns): ("F32", [entry.rows]) for columns in entry.sums}
    path, present = folder / entry.file, set(file.keys())
    for key, (dtype, shape) in expected.items():
        if key not in present:
            raise InputError(f"{path}: table '{entry.name}': '{key}' is missing; {_AGAIN}")
        kept = file.get_slice(key)
        if (kept.get_dtype(), list(kept.get_shape())) != (dtype, shape):
            raise InputError(
                f"{path}: table '{entry.name}': {key}: found {kept.get_dtype()} of shape {kept.get_shape()}; "
                f"accepted: {dtype} of shape {shape}; {_AGAIN}"
            )


def _check_state(folder: Path, entry: _Table, table: TableParts, optimizer: RowOptimizer | None) -> None:
    ends = [0, *(end for _, end in entry.sums)]
    if entry.sums and ([first for first, _ in entry.sums] != ends[:-1] or ends[-1] != entry.dim):
        raise InputError(
            f"{folder / MARKER}: table '{entry.name}': sums: found {entry.sums}; accepted: ranges that follow "
            f"each other from 0 to {entry.dim}; {_AGAIN}"
        )
    if optimizer is not None and not entry.sums and any(w in optimizer.blocks for w in table.weights):
        raise InputError(
            f"{folder / MARKER}: table '{entry.name}' has no optimizer state, and row-wise Adagrad needs it; "
            "nothing was changed: take a checkpoint that was saved with its optimizer, or load without one and "
            "begin with none"
        )


def _dtype(folder: Path, entry: _Table) -> torch.dtype:
    if entry.dtype not in DTYPES:
        raise InputError(
            f"{folder / MARKER}: table '{entry.name}': dtype: found '{entry.dtype}'; accepted: {', '.join(DTYPES)}"
        )
    return DTYPES[entry.dtype]


def _key(columns: Range) -> str:
    return f"sum[{columns[0]}:{columns[1]}]"
