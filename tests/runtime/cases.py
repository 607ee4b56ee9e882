"""Plans, tables and batches to execute, and the unsplit model to compare with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from recshard.plan import Plan
from recshard.runtime.weights import tables_in
from recshard.tables import Dtype, EmbeddingTable, Optimizer
from tests.plans import Kind, cut_case

PLACES = {"hbm": "host", "dram": "host", "uvm": "file"}
Bags = dict[str, tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor]]


def runnable(
    rng: np.random.Generator, kind: Kind, optimizer: Optimizer = "sgd", dtype: Dtype = "float32", devices: int = 3
) -> Plan:
    """Return a random plan whose tables all have one optimizer and dtype; table `a` serves two features."""
    plan = cut_case(rng, kind, devices=devices).plan
    changed = tuple(
        replace(
            table,
            optimizer=optimizer,
            dtype=dtype,
            features=("a", "a_last") if table.name == "a" else table.features,
        )
        for table in plan.tables.tables
    )
    return replace(plan, tables=plan.tables.with_tables(changed))


def random_batch(rng: np.random.Generator, tables: Sequence[EmbeddingTable], weighted: bool = False) -> Bags:
    """Return some samples, none at times, of hot rows, repeated and rare ones, in bags that are empty at times."""
    size = int(rng.integers(0, 12))
    batch: Bags = {}
    for table in tables:
        for feature in table.features:
            lengths = torch.from_numpy(rng.integers(0, 6, size) * rng.integers(0, 2, size))
            n = int(lengths.sum())
            rows = torch.from_numpy(
                np.where(rng.random(n) < 0.5, rng.integers(0, 4, n), rng.integers(0, table.rows, n))
            )
            entry = (rows, lengths)
            batch[feature] = (*entry, torch.from_numpy(rng.normal(size=n)).float()) if weighted else entry
    return batch


def random_weights(rng: np.random.Generator, tables: Sequence[EmbeddingTable]) -> dict[str, Tensor]:
    """Return whole tables."""
    return {t.name: torch.from_numpy(rng.normal(size=(t.rows, t.dim))).to(getattr(torch, t.dtype)) for t in tables}


class Unsplit(nn.Module):
    """The same model as one `nn.EmbeddingBag` a table."""

    def __init__(self, tables: Sequence[EmbeddingTable], weights: Mapping[str, Tensor], mode: str = "sum") -> None:
        super().__init__()
        self.bags = nn.ModuleDict(
            {
                t.name: nn.EmbeddingBag.from_pretrained(weights[t.name].clone(), freeze=False, mode=mode)
                for t in tables
            }
        )
        self.table = {feature: t.name for t in tables for feature in t.features}

    def forward(self, batch: Bags) -> dict[str, Tensor]:
        out = {}
        for feature, (rows, lengths, *weights) in batch.items():
            bag = self.bags[self.table[feature]]
            offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])[:-1]
            out[feature] = bag(rows, offsets, weights[0].to(bag.weight.dtype) if weights else None)
        return out

    def weights(self) -> dict[str, Tensor]:
        return {name: bag.weight.detach() for name, bag in self.bags.items()}


def loss_of(outputs: Mapping[str, Tensor], seed: int) -> Tensor:
    """Return a number that depends on every output, and not in the same way on any two."""
    generator = torch.Generator().manual_seed(seed)
    return sum(
        (
            (out.float() * torch.randn(out.shape, generator=generator)).sum() + out.float().square().mean(1).sum()
            for _, out in sorted(outputs.items())
        ),
        torch.zeros(()),
    )


def whole_gradients(module: nn.Module) -> dict[str, Tensor]:
    """Return the gradient of every table, dense, shape (rows, dim)."""
    found = {}
    for name, table in tables_in(module).items():
        total = torch.zeros(table.remap.rows, table.dim, dtype=table.dtype)
        for part, weight, _ in table.parts():
            assert weight.grad is not None
            assert weight.grad.is_sparse
            rows = torch.from_numpy(table.remap.rows_of(part))
            total[rows, part.first_column : part.first_column + part.columns] = weight.grad.to_dense()
        found[name] = total
    return found
