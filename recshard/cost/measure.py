"""Measuring: times fused multi-table lookups of random shards in this machine's host memory.

A step of a shard is a forward lookup with sum pooling, and a backward pass that ends in row-wise Adagrad on the
rows reached. Tables of one dim are one weight matrix and one operator. Memory stays under 1 GB (see `shards`).
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from torch.nn.functional import embedding_bag

from recshard.cost.measurements import Measurements
from recshard.cost.shards import Shards, draw_rows, random_shards
from recshard.errors import InputError
from recshard.problem import IntArray

BATCH_SIZE = 2048
REPETITIONS = 5
LEARNING_RATE = 1e-3
EPSILON = 1e-8

Bags = tuple[torch.Tensor, torch.Tensor]


class FusedLookup:
    """The tables of one dim as one operator: a lookup, and its backward pass fused with row-wise Adagrad.

    Attributes:
        weight: rows of all tables, one table after another, shape (r, dim); updated in place.
        state: mean squared gradient of each row, summed over steps, shape (r,); updated in place.
    """

    def __init__(self, weight: torch.Tensor, state: torch.Tensor) -> None:
        self.weight = weight
        self.state = state

    def forward(self, bags: Bags) -> torch.Tensor:
        """Return the sum of the rows of each bag, shape (bags, dim).

        Args:
            bags: row of each access, shape (a,), and where each bag begins, shape (bags,); there is one bag for
                every table and sample.
        """
        rows, begin = bags
        return embedding_bag(rows, self.weight, begin, mode="sum")

    def backward(self, bags: Bags, gradient: torch.Tensor) -> None:
        """Update the rows that the bags reach by the gradient of the bags' sums, shape (bags, dim).

        A row's gradient is the sum of the gradients of the bags that hold it: the lookup turned round, with
        accesses sorted by row. The gradient of every single access is never written down.
        """
        rows, begin = bags
        length = torch.diff(begin, append=torch.tensor([len(rows)]))
        bag = torch.repeat_interleave(torch.arange(len(begin)), length)
        in_order, order = torch.sort(rows.int())
        reached, count = torch.unique_consecutive(in_order, return_counts=True)
        reached = reached.long()
        row_gradient = embedding_bag(bag[order], gradient, torch.cumsum(count, 0) - count, mode="sum")
        squared = torch.linalg.vector_norm(row_gradient, dim=1).square_().div_(row_gradient.shape[1])
        self.state.index_add_(0, reached, squared)
        step = self.state[reached].sqrt_().add_(EPSILON).reciprocal_()
        self.weight.index_add_(0, reached, row_gradient.mul_(step[:, None]), alpha=-LEARNING_RATE)


def measure_shards(
    count: int,
    seed: int,
    *,
    batch_size: int = BATCH_SIZE,
    repetitions: int = REPETITIONS,
    progress: Callable[[int, int], None] | None = None,
) -> Measurements:
    """Measure `count` random shards on this machine's CPU and host memory.

    All shards are measured once, then all again, and so on: whatever else the machine does for a second or two
    then spoils one repetition of many shards, which the median leaves out, instead of all those of a few. Every
    repetition reads batches of its own, as training does: one to warm up, one that is timed.

    Args:
        count: shards to measure; 300 take about a minute on two cores.
        seed: of the shards and batches: the same seed measures the same lookups.
        batch_size: samples in a batch.
        repetitions: batches timed per shard; the median is kept.
        progress: called after each timed batch with the number of those done and of all.

    Raises:
        InputError: a count, batch size or number of repetitions below 1.
    """
    for name, value in (("count", count), ("batch size", batch_size), ("repetitions", repetitions)):
        if value < 1:
            raise InputError(f"{name}: found {value}; accepted: a whole number of at least 1")
    rng = np.random.default_rng(seed)
    shards = random_shards(count, batch_size, rng)
    memory = _allocate(shards)
    times = np.empty((repetitions, count, 2))
    for repetition in range(repetitions):
        for s in range(count):
            times[repetition, s] = _measure_shard(_tables_of(shards, s), memory, batch_size, rng)
            if progress is not None:
                progress(repetition * count + s + 1, repetitions * count)
    forward_ms, backward_ms = 1e3 * np.median(times, axis=0).T
    return Measurements(
        shards=shards,
        forward_ms=forward_ms,
        backward_ms=backward_ms,
        tier="host",
        batch_size=batch_size,
        optimizer="rowwise_adagrad",
        repetitions=repetitions,
        threads=torch.get_num_threads(),
        torch=str(torch.__version__),
        seed=seed,
    )


def _allocate(shards: Shards) -> tuple[torch.Tensor, torch.Tensor]:
    """Return memory for the weights and the state of the largest shard, written once so that it exists."""
    elements = np.bincount(shards.shard, shards.rows * shards.dim).max()
    rows = np.bincount(shards.shard, shards.rows).max()
    return torch.full((int(elements),), 0.01), torch.full((int(rows),), 0.01)


def _tables_of(shards: Shards, shard: int) -> Shards:
    part = shards.shard == shard
    return Shards(
        shards.shard[part] * 0,
        shards.dim[part],
        shards.rows[part],
        shards.pooling_factor[part],
        shards.exponent[part],
    )


def _measure_shard(
    tables: Shards, memory: tuple[torch.Tensor, torch.Tensor], batch_size: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Return the seconds of a forward, and of a backward with optimizer, after a batch that is not timed."""
    groups = [np.flatnonzero(tables.dim == dim) for dim in np.unique(tables.dim)]
    lookups, gradients = [], []
    elements = rows = 0
    for group in groups:
        dim, size = int(tables.dim[group[0]]), int(tables.rows[group].sum())
        weight = memory[0][elements : elements + size * dim].view(size, dim)
        lookups.append(FusedLookup(weight, memory[1][rows : rows + size]))
        gradients.append(torch.full((len(group) * batch_size, dim), 1e-3))
        elements, rows = elements + size * dim, rows + size
    seconds = (0.0, 0.0)
    for _ in ("warm-up", "timed"):
        bags = [_draw_bags(tables, group, batch_size, rng) for group in groups]
        start = time.perf_counter()
        outputs = [lookup.forward(bag) for lookup, bag in zip(lookups, bags, strict=True)]
        middle = time.perf_counter()
        for lookup, bag, gradient in zip(lookups, bags, gradients, strict=True):
            lookup.backward(bag, gradient)
        seconds = (middle - start, time.perf_counter() - middle)
        del outputs
    return seconds


def _draw_bags(tables: Shards, group: IntArray, batch_size: int, rng: np.random.Generator) -> Bags:
    """Return a random batch for the tables of one dim: rows of the fused matrix, and where each bag begins.

    Each access belongs to a random sample, so bags vary in length around the pooling factor, down to nothing.
    """
    first_row = np.cumsum(tables.rows[group]) - tables.rows[group]
    rows, lengths = [], []
    for j, first in zip(group, first_row, strict=True):
        accesses = max(1, round(float(tables.pooling_factor[j]) * batch_size))
        rows.append(first + draw_rows(int(tables.rows[j]), float(tables.exponent[j]), accesses, rng))
        lengths.append(np.bincount(rng.integers(0, batch_size, accesses), minlength=batch_size))
    length = np.concatenate(lengths)
    return torch.from_numpy(np.concatenate(rows)), torch.from_numpy(np.cumsum(length) - length)
