"""One process a device: tables where the plan puts them, IDs and pooled rows exchanged between all.

A step: every rank sends the rows that its samples look up to the devices that hold the tables, one message a pair
of ranks; the devices pool what their parts contribute and send it back. A device gets all lookups of a table
that it has a part of, since only where the parts stand is it known which rows they hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from recshard.errors import InputError
from recshard.plan.plan import Plan
from recshard.problem import IntArray
from recshard.remap import TableRemap
from recshard.runtime.batch import Bags, Batch, read_batch
from recshard.runtime.checkpoint import Range, WholeTable, check_optimizer, load_checkpoint, write_checkpoint
from recshard.runtime.device import DeviceShards
from recshard.runtime.memory import dtype_of
from recshard.runtime.optim import RowOptimizer
from recshard.runtime.pooling import put_together, shards_by_feature
from recshard.runtime.ranks import Ranks, exchange_with_gradient
from recshard.runtime.weights import (
    Weights,
    check_in_place,
    load_whole,
    modes_for,
    read_part,
    tables_in,
    whole_table,
)


class DistributedTieredEmbeddingBagCollection(nn.Module):
    """The embedding bags of a model over the devices of a plan, rank r of the group being device r.

    Every rank gives its own samples, as many as it has, and gets their pooled rows: the interface is that of
    `TieredEmbeddingBagCollection`. Forward and backward are collective: every rank calls both.

    Gradients are those of the *sum* of the ranks' losses, or of their mean with `average`, which goes with
    `DistributedDataParallel` for the other layers of a model.

    Attributes:
        shards: the parts that are here.
        model: all tables of the plan.
        ranks: the processes.
    """

    def __init__(
        self, plan: Plan, shards: DeviceShards, ranks: Ranks, modes: Mapping[str, str], *, average: bool = False
    ) -> None:
        """Take the parts of this rank; see `from_plan`."""
        super().__init__()
        self.shards, self.ranks, self.model, self.average = shards, ranks, plan.tables, average
        self._ranges = _ranges(plan)
        self._features = [feature.name for feature in plan.tables.features]
        self._means = {
            f for f, j in plan.tables.table_index.items() if modes[plan.tables.tables[j].name] == "mean"
        }
        self._shards_of = shards_by_feature(plan.shards, plan.tables)
        # By device: the features it needs, and what it answers with: feature, shard and width.
        owner, width = plan.placement.device.tolist(), plan.shards.columns.tolist()
        self._answers: list[list[tuple[str, int, int]]] = [[] for _ in range(ranks.size)]
        for feature, ranges in self._shards_of.items():
            for s in (s for shards_of_range in ranges for s in shards_of_range):
                self._answers[owner[s]].append((feature, s, width[s]))
        self._needs = [list(dict.fromkeys(feature for feature, _, _ in answers)) for answers in self._answers]
        dtypes = {dtype_of(table.name, table.dtype) for table in plan.tables.tables}
        self._sent_as = dtypes.pop() if len(dtypes) == 1 else torch.float32

    @classmethod
    def from_plan(
        cls,
        plan: Plan,
        *,
        group: dist.ProcessGroup | None = None,
        average: bool = False,
        places: Mapping[str, str] | None = None,
        folder: str | Path | None = None,
        direct: bool = False,
        remaps: Sequence[TableRemap] | None = None,
        mode: str | Mapping[str, str] | None = None,
        weights: Weights | None = None,
    ) -> Self:
        """Return the part of a model that stands on this rank's device; collective.

        Args:
            group: with as many processes as the plan has devices; None: all processes.
            average: gradients are divided by the number of ranks.
            mode: as `TieredEmbeddingBagCollection.from_plan`.
            weights: every table whole, as `load_whole` accepts, the same on all ranks; None: random.

        Other arguments are those of `DeviceShards.from_plan`.

        Raises:
            InputError: torch.distributed was not initialised, another number of processes than of devices, or what
                `DeviceShards.from_plan` and `load_whole` raise, on this rank or on another.
        """
        ranks = Ranks(group)
        if ranks.size != plan.problem.devices:
            raise InputError(
                f"torch.distributed: found {ranks.size} processes; accepted: {plan.problem.devices}, one for each "
                f"device of the plan; start {plan.problem.devices}, or plan for a topology of {ranks.size}"
            )
        with ranks.together():
            modes = modes_for(plan.tables, mode, weights)
            shards = DeviceShards.from_plan(
                plan, [ranks.rank], places=places, folder=folder, direct=direct, remaps=remaps, mode=modes,
                random=False,
            )  # fmt: skip
            module = cls(plan, shards, ranks, modes, average=average)
            if weights is not None:
                load_whole(module, weights)
            else:
                _draw(shards, ranks.rank)
        return module

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the pooled rows of every feature for this rank's samples, shape (bags, dim).

        Args:
            batch: (rows, lengths) or (rows, lengths, weights) by feature, or a KeyedJaggedTensor.

        Raises:
            InputError: a batch that does not fit the model, on this rank or on another; then no rank did anything.
        """
        with self.ranks.together():
            bags = read_batch(batch, self.model.table_index, self._features)
            self._check(bags)
        told = self.ranks.tell(self._header(bags))
        samples, gradients = told[:, 0].tolist(), told[:, 1]
        if gradients.min() != gradients.max():
            raise InputError("torch.no_grad: on for some ranks and off for others; accepted: the same on all")
        weighted = {feature for number, feature in enumerate(self._features) if told[:, 3 + number].any()}
        gathered, weights = self._gather(bags, samples, weighted, bool(told[:, 2].any() and gradients.any()))
        pooled = self.shards(gathered)
        return self._answer(pooled, samples, weights)

    def tables_gathered(self, optimizer: RowOptimizer | None = None) -> Iterator[WholeTable]:
        """Yield every table with its state, whole on rank 0, and of no use on the others; collective.

        One table at a time is held in memory, on every rank.

        Raises:
            InputError: an optimizer of other parameters, or rows that are not where they were put; on every rank.
        """
        held = tables_in(self)
        with self.ranks.together():
            # What may fail on one rank does so before the first table, in which all take part.
            check_optimizer(self, optimizer)
            check_in_place(held.values())
        blocks = optimizer.blocks if optimizer is not None else {}
        own = [held[t.name].weights[0] in blocks if t.name in held else None for t in self.model.tables]
        with_state = self.ranks.tell([int(state is True) for state in own])
        without = self.ranks.tell([int(state is False) for state in own])
        for j, declared in enumerate(self.model.tables):
            if with_state[:, j].any() and without[:, j].any():
                raise InputError(
                    f"table '{declared.name}': some ranks give the state of its optimizer and others none; "
                    "accepted: an optimizer of the same kind on all ranks, or on none"
                )
        for j, declared in enumerate(self.model.tables):
            weight = torch.zeros(declared.rows, declared.dim, dtype=dtype_of(declared.name, declared.dtype))
            sums = {columns: torch.zeros(declared.rows) for columns in self._ranges[j] if with_state[:, j].any()}
            table = held.get(declared.name)
            if table is not None:
                whole_table(table, weight)
                for part, parameter, _ in table.parts():
                    if optimizer is not None and parameter in optimizer.blocks:
                        total = sums[part.first_column, part.first_column + part.columns]
                        read_part(table, part, optimizer.blocks[parameter], total)
            for tensor in (weight, *sums.values()):
                self.ranks.collect(tensor)
            yield WholeTable(declared.name, weight, sums)

    def save_checkpoint(self, folder: str | Path, optimizer: RowOptimizer | None = None) -> None:
        """Write what `checkpoint.save_checkpoint` does for a model in one process; collective, rank 0 writes.

        Raises:
            InputError: the folder is something else or cannot be written; raised on every rank.
        """
        with self.ranks.together():
            tables = self.tables_gathered(optimizer)
            try:
                if self.ranks.rank == 0:
                    write_checkpoint(folder, tables)
            finally:
                for _ in tables:  # the other ranks gather until the end, also where this one cannot write
                    pass

    def load_checkpoint(self, folder: str | Path, optimizer: RowOptimizer | None = None) -> None:
        """Read a checkpoint into the parts of every rank, each reading its own; collective.

        Raises:
            InputError: as `checkpoint.load_checkpoint`, on this rank or on another; then no rank wrote anything.
        """
        with ExitStack() as stack:
            stack.enter_context(self.ranks.together())
            # Leaving that block is where ranks agree: all have checked what they will read, none has written.
            load_checkpoint(self, folder, optimizer, before_writing=stack.close)

    def _header(self, bags: Mapping[str, Bags]) -> list[int]:
        """Return what other ranks must know: samples, whether gradients are asked for, and which have weights."""
        given = [bags[feature].weights for feature in self._features]
        asked = any(w is not None and w.requires_grad for w in given)
        return [
            len(bags[self._features[0]]) if self._features else 0,
            int(torch.is_grad_enabled()),
            int(asked),
            *(int(w is not None) for w in given),
        ]

    def _check(self, bags: Mapping[str, Bags]) -> None:
        for feature, j in self.model.table_index.items():
            table = self.model.tables[j]
            if bags[feature].weights is not None and feature in self._means:
                raise InputError(
                    f"table '{table.name}': weights of lookups are accepted where bags are summed (mode='sum'); "
                    "found mode='mean'"
                )
            try:
                TableRemap(table.name, table.rows, (), None).check(bags[feature].values)
            except InputError as error:
                raise InputError(f"feature '{feature}': {error}") from None

    def _gather(
        self, bags: Mapping[str, Bags], samples: Sequence[int], weighted: set[str], gradient: bool
    ) -> tuple[dict[str, tuple[Tensor, ...]], Tensor | None]:
        """Return the bags of all ranks for the features that this device needs, and their weights in one tensor.

        Args:
            samples: of every rank.
            weighted: features whose lookups have weights on some rank.
            gradient: whether some rank asks for the gradient of the weights.
        """
        ranks, needs = self.ranks, self._needs[self.ranks.rank]
        lengths = {feature: b.lengths for feature, b in bags.items()}
        sizes = ranks.exchange_numbers(
            _flat([lengths[f] for needed in self._needs for f in needed]),
            [len(needed) * samples[ranks.rank] for needed in self._needs],
            [len(needs) * n for n in samples],
        )
        begins = np.cumsum([0, *(len(needs) * n for n in samples)])
        counts = [sizes[begins[s] : begins[s + 1]].reshape(len(needs), n) for s, n in enumerate(samples)]
        values = ranks.exchange_numbers(
            _flat([bags[f].values for needed in self._needs for f in needed]),
            [sum(len(bags[f].values) for f in needed) for needed in self._needs],
            [int(count.sum()) for count in counts],
        )
        totals = np.array([count.sum(axis=1) for count in counts], dtype=np.int64).reshape(len(counts), len(needs))
        found = _by_feature(torch.from_numpy(values), totals)
        given: list[Tensor] = []
        weights: Tensor | None = None
        if weighted:
            chosen = [number for number, feature in enumerate(needs) if feature in weighted]
            weights = self._exchange_weights(bags, weighted, totals[:, chosen].sum(axis=1).tolist(), gradient)
            given = _by_feature(weights, totals[:, chosen])
        own = iter(given)
        gathered: dict[str, tuple[Tensor, ...]] = {}
        for number, feature in enumerate(needs):
            length = torch.from_numpy(_flat([count[number] for count in counts]))
            entry = (found[number], length)
            gathered[feature] = (*entry, next(own)) if feature in weighted else entry
        return gathered, weights

    def _exchange_weights(
        self, bags: Mapping[str, Bags], weighted: set[str], received: Sequence[int], gradient: bool
    ) -> Tensor:
        sent = [[f for f in needed if f in weighted] for needed in self._needs]
        pieces = [
            torch.ones(len(bags[f].values), device=self.ranks.device) if w is None else w.to(self.ranks.device)
            for needed in sent
            for f in needed
            for w in [bags[f].weights]
        ]
        tensor = torch.cat([torch.empty(0, device=self.ranks.device), *(p.to(torch.float32) for p in pieces)])
        sizes = [sum(len(bags[f].values) for f in needed) for needed in sent]
        if not gradient:
            return self.ranks.exchange(tensor.detach(), sizes, received)
        # These are the gradients of a rank's own loss, whatever is done to those of the rows.
        scale = float(self.ranks.size) if self.average else 1.0
        return exchange_with_gradient(tensor, self.ranks, sizes, received, scale=scale)

    def _answer(
        self, pooled: Mapping[tuple[str, int], Tensor], samples: Sequence[int], weights: Tensor | None
    ) -> dict[str, Tensor]:
        """Return the pooled rows of this rank's samples, from those of all samples that every device has."""
        ranks, mine = self.ranks, samples[self.ranks.rank]
        widths = [sum(width for _, _, width in answers) for answers in self._answers]
        own = [pooled[feature, s] for feature, s, _ in self._answers[ranks.rank]]
        sent = torch.cat(own, 1).to(self._sent_as).view(-1) if own else torch.empty(0, dtype=self._sent_as)
        back = exchange_with_gradient(
            sent, ranks, [n * widths[ranks.rank] for n in samples], [mine * width for width in widths],
            with_it=weights if weights is not None and weights.requires_grad else None,
            scale=1.0 / ranks.size if self.average else 1.0,
        )  # fmt: skip
        received: dict[tuple[str, int], Tensor] = {}
        pieces = torch.split_with_sizes(back, [mine * width for width in widths])
        for answers, width, piece in zip(self._answers, widths, pieces, strict=True):
            columns, first = piece.view(mine, width), 0
            for feature, s, own_width in answers:
                table = self.model.tables[self.model.table_index[feature]]
                received[feature, s] = columns[:, first : first + own_width].to(dtype_of(table.name, table.dtype))
                first += own_width
        return put_together(received, self._shards_of)


def _draw(shards: DeviceShards, rank: int) -> None:
    """Draw the rows of a rank, others than those of any other, where all ranks begin with one seed.

    Afterwards their generators agree as before, so that the other layers of a model are the same on all.
    """
    seed = int(torch.randint(2**40, ()))
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if torch.cuda.is_available() else []):
        torch.manual_seed(seed + rank)
        shards.reset_parameters()


def _ranges(plan: Plan) -> list[list[Range]]:
    """Return the ranges of columns that each table is cut into, first to last."""
    found: list[set[Range]] = [set() for _ in plan.tables.tables]
    for table, first, width in zip(plan.shards.table, plan.shards.first_column, plan.shards.columns, strict=True):
        found[table].add((int(first), int(first + width)))
    return [sorted(ranges) for ranges in found]


def _flat(arrays: Sequence[IntArray]) -> IntArray:
    return np.concatenate([np.empty(0, dtype=np.int64), *arrays])


def _by_feature(tensor: Tensor, sizes: IntArray) -> list[Tensor]:
    """Return the elements of each feature, from a tensor with those of all features of one rank after the other.

    Args:
        sizes: elements of each rank and feature, shape (ranks, features).
    """
    ranks, features = sizes.shape
    pieces = torch.split_with_sizes(tensor, sizes.reshape(-1).tolist())
    return [torch.cat([pieces[r * features + f] for r in range(ranks)]) for f in range(features)]
