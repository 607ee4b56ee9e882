"""Weights: those of whole tables cut into the parts', and put together again, bit by bit the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from recshard.errors import InputError
from recshard.export.torchrec.layout import Layout
from recshard.remap import Part
from recshard.tables import EmbeddingTable


def part_of(layout: Layout, part: Part, whole: torch.Tensor) -> torch.Tensor:
    """Return a part's weights, shape (part.rows, part.columns), from those of its table, shape (rows, dim)."""
    rows = torch.from_numpy(layout.remaps[part.table].rows_of(part)).to(whole.device)
    return whole[rows, part.first_column : part.first_column + part.columns]


def put_back(layout: Layout, part: Part, weight: torch.Tensor, whole: torch.Tensor) -> None:
    """Write a part's weights into those of its table: the inverse of `part_of`."""
    rows = torch.from_numpy(layout.remaps[part.table].rows_of(part)).to(whole.device)
    whole[rows, part.first_column : part.first_column + part.columns] = weight.to(whole.device)


def check_whole(layout: Layout, weights: Mapping[str, torch.Tensor]) -> None:
    """Check that weights are those of the plan's tables.

    Raises:
        InputError: tables are missing, unknown or of another shape or type, or no tensors; names every difference.
    """
    given: Mapping[str, object] = weights
    for name, value in given.items():
        if not isinstance(value, torch.Tensor):
            raise InputError(
                f"weights: table '{name}': found {type(value).__name__}; accepted: a tensor, the whole table "
                "(of an nn.EmbeddingBag, its weight)"
            )
    found = {name: tuple(weight.shape) for name, weight in weights.items()}
    wrong = differences(planned_shapes(layout.tables), found)
    if wrong:
        raise InputError(f"weights: not of the model that the plan is for: {wrong}; plan for this model's tables")
    # Converted in silence, a table would not come back bit by bit.
    types = {name: str(weight.dtype).removeprefix("torch.") for name, weight in weights.items()}
    others = [
        f"table '{table.name}' has weights of {types[table.name]}, the plan's are {table.dtype}"
        for table in layout.tables
        if types[table.name] != table.dtype
    ]
    if others:
        raise InputError(f"weights: {'; '.join(others)}; convert them first, or plan for tables of that dtype")


def planned_shapes(tables: Sequence[EmbeddingTable]) -> dict[str, tuple[int, ...]]:
    """Return the shape of every table's weights, by name."""
    return {table.name: (table.rows, table.dim) for table in tables}


def differences(planned: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]]) -> str:
    """Return what keeps tables, by name and shape, from being those planned; empty where nothing does."""
    texts = [f"no table '{name}'" for name in planned if name not in found]
    texts += [f"table '{name}' is unknown to the plan" for name in found if name not in planned]
    texts += [
        f"table '{name}' has shape {shape}, the plan's has {planned[name]}"
        for name, shape in found.items()
        if name in planned and shape != planned[name]
    ]
    return "; ".join(texts)
