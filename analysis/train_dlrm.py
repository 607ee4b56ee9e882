"""Train a small DLRM on the demo trace, its tables whole and its tables where a plan puts them: one loss curve.

    python analysis/train_dlrm.py [--steps 60] [--batch-size 1024] [--optimizer sgd --lr 300]

The 26 `id` features are the model's; the fast memory of four devices holds a fifth of its bytes, and one process
has all four. Clicks and dense features are drawn from a seeded teacher who has a taste for every row, so that the
model has something to learn. Both runs start from the same weights and see the same batches.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from recshard import Profile, make_plan, open_trace, profile_trace, take
from recshard.plan import Plan
from recshard.runtime.collection import TieredEmbeddingBagCollection
from recshard.runtime.dlrm import DLRM
from recshard.runtime.optim import SGD, RowwiseAdagrad, optimizer_for
from recshard.strategy.run import StrategyOptions
from recshard.tables import TableSet
from recshard.topology import Group, Tier, Topology
from recshard.trace.base import Trace
from recshard.trace.hashing import to_rows
from recshard.trace.selection import select

DENSE = 4
FEATURES = "id_"
TOPOLOGY = Topology((Group(1, 4, (Tier("hbm", None, 1555e9, 0.2), Tier("uvm", 1e9, 16e9))),))


class WholeBags(nn.Module):
    """A `torch.nn.EmbeddingBag` a table, all in host memory: what most models begin with."""

    def __init__(self, tables: TableSet, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.table_of = {f.name: f.table for f in tables.features}
        self.bags = nn.ModuleDict(
            {
                name: nn.EmbeddingBag.from_pretrained(
                    weight.clone(), freeze=False, mode="sum", sparse=True, include_last_offset=True
                )
                for name, weight in weights.items()
            }
        )

    def forward(self, batch: Mapping[str, tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
        """Return the pooled rows of every feature."""
        return {
            feature: self.bags[self.table_of[feature]](rows, functional.pad(lengths.cumsum(0), (1, 0)))
            for feature, (rows, lengths) in batch.items()
        }


@dataclass(frozen=True)
class Sample:
    """A batch to learn from."""

    dense: Tensor
    bags: dict[str, tuple[Tensor, Tensor]]
    clicked: Tensor


def samples(trace: Trace, tables: TableSet, batch_size: int, seed: int) -> Iterator[Sample]:
    """Yield batches with clicks, the same ones for the same seed, over and over again."""
    rng = np.random.default_rng(seed)
    taste = {t.name: rng.normal(size=t.rows) for t in tables.tables}
    slope = rng.normal(size=DENSE)
    for batch in itertools.chain.from_iterable(trace.batches(batch_size) for _ in itertools.count()):
        dense = rng.normal(size=(batch.samples, DENSE))
        liking = dense @ slope
        bags = {}
        for feature, bag in batch.bags.items():
            table = tables.tables[tables.table_index[feature]]
            rows = to_rows(bag.values, table, feature, trace.name)
            sample = np.repeat(np.arange(batch.samples), bag.lengths)
            liking += np.bincount(sample, taste[table.name][rows], minlength=batch.samples) / len(tables) ** 0.5
            bags[feature] = (torch.from_numpy(rows), torch.from_numpy(bag.lengths))
        clicked = rng.random(batch.samples) < 1 / (1 + np.exp(-2 * liking))
        yield Sample(torch.from_numpy(dense).float(), bags, torch.from_numpy(clicked).float())


def loss_curve(
    plan: Plan,
    trace: Trace,
    *,
    tiered: bool,
    steps: int,
    batch_size: int,
    optimizer: str = "rowwise_adagrad",
    lr: float = 0.05,
    seed: int = 0,
) -> list[float]:
    """Return the loss of every step of a DLRM, its tables in tiers or whole.

    Args:
        optimizer: of the rows, `rowwise_adagrad` or `sgd`; the towers have Adam.
        lr: learning rate of the rows.
    """
    torch.manual_seed(seed)
    tables = plan.tables
    weights = {t.name: torch.empty(t.rows, t.dim).uniform_(-(t.rows**-0.5), t.rows**-0.5) for t in tables.tables}
    if tiered:
        bags: nn.Module = TieredEmbeddingBagCollection.from_plan(plan, weights=weights)
        rows: torch.optim.Optimizer = optimizer_for(bags, plan, lr, optimizer=optimizer)
    else:
        bags = WholeBags(tables, weights)
        rows = {"sgd": SGD, "rowwise_adagrad": RowwiseAdagrad}[optimizer](bags.parameters(), lr=lr)
    model = DLRM(bags, [f.name for f in tables.features], tables.tables[0].dim, DENSE)
    towers = torch.optim.Adam([*model.bottom.parameters(), *model.top.parameters()], lr=1e-3)
    losses = []
    for sample in itertools.islice(samples(trace, tables, batch_size, seed), steps):
        loss = functional.binary_cross_entropy_with_logits(model(sample.dense, sample.bags), sample.clicked)
        rows.zero_grad()
        towers.zero_grad()
        loss.backward()
        rows.step()
        towers.step()
        losses.append(float(loss.detach()))
    return losses


def demo() -> tuple[Trace, Profile]:
    """Return the demo trace's `id` features, and a profile of every other sample."""
    whole = open_trace("demo")
    trace = select(whole, [name for name in whole.features if name.startswith(FEATURES)])
    return trace, profile_trace(take(trace, slice(0, None, 2)))


def main() -> None:
    """Print both curves and how far they are from each other."""
    parser = argparse.ArgumentParser(description="One loss curve, with and without a plan.")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--optimizer", choices=("rowwise_adagrad", "sgd"), default="rowwise_adagrad")
    parser.add_argument("--lr", type=float, default=0.05, help="of the rows; SGD wants some hundreds")
    options = parser.parse_args()
    if min(options.steps, options.batch_size) < 1:
        parser.error("--steps, --batch-size: accepted: 1 or more")
    trace, profile = demo()
    plan = make_plan(profile, TOPOLOGY, options=StrategyOptions(time_limit=2.0))
    print(f"{len(plan.tables)} tables, {plan.slow_share:.1%} of accesses in slow memory")
    whole, tiered = (
        loss_curve(
            plan,
            trace,
            tiered=tiered,
            steps=options.steps,
            batch_size=options.batch_size,
            optimizer=options.optimizer,
            lr=options.lr,
        )
        for tiered in (False, True)
    )
    print(f"{'step':>5} {'whole':>9} {'in tiers':>9}")
    for step in range(0, options.steps, max(options.steps // 12, 1)):
        print(f"{step:>5} {whole[step]:>9.5f} {tiered[step]:>9.5f}")
    print(f"largest difference: {max(abs(a - b) for a, b in zip(whole, tiered, strict=True)):.2g}")


if __name__ == "__main__":
    main()
