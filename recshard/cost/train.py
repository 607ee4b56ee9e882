"""Training the cost model on measured shards, some held out to see how good it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

from recshard.cost.features import FEATURES, log_numbers
from recshard.cost.figures import Figures, compare
from recshard.cost.measurements import Measurements
from recshard.cost.model import Card, CostModel, FeatureRange, standardise
from recshard.cost.net import new_net
from recshard.cost.shards import WEIGHT_BYTES
from recshard.errors import InputError
from recshard.problem import FloatArray, IntArray

HELD_OUT = 0.2  # share of the shards
EPOCHS = 150
BATCH = 32  # shards in a step of training
LEARNING_RATE = 4e-3
MIN_SHARDS = 10


def train_cost_model(
    measurements: Measurements,
    seed: int = 0,
    epochs: int = EPOCHS,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> CostModel:
    """Return a model trained on four fifths of the shards; its card has the errors on the rest.

    The same measurements and seed give the same model. The error that training lowers is relative: a shard of
    1 ms counts as much as one of 100 ms.

    Args:
        measurements: what was measured; all of it on one kind of memory.
        seed: of the split, the first weights and the order of training.
        epochs: passes over the training shards.
        progress: called after each epoch with the number of epochs done and of all.

    Raises:
        InputError: fewer than ten shards, or no epoch.
    """
    shards, features, total_ms = measurements.shards, measurements.features, measurements.total_ms
    if shards.count < MIN_SHARDS:
        raise InputError(f"measurements: found {shards.count} shards; accepted: at least {MIN_SHARDS}")
    if epochs < 1:
        raise InputError(f"epochs: found {epochs}; accepted: a whole number of at least 1")
    train, held_out = split(shards.count, seed)
    seen = np.isin(shards.shard, train)
    ranges = _ranges(features[seen])
    scale_ms = float(np.median(total_ms[train]))

    net = new_net(seed)
    inputs = torch.from_numpy(standardise(features, ranges))
    target = torch.from_numpy(np.log(total_ms / scale_ms).astype(np.float32))
    first = torch.from_numpy(np.searchsorted(shards.shard, np.arange(shards.count + 1)))
    size = torch.diff(first)

    def loss(items: torch.Tensor) -> torch.Tensor:
        place = torch.repeat_interleave(torch.arange(len(items)), size[items])
        start = torch.cumsum(size[items], 0) - size[items]
        table = first[items][place] + torch.arange(len(place)) - start[place]
        predicted = net(inputs[table], place, len(items))
        return torch.nn.functional.smooth_l1_loss(torch.log(predicted), target[items], beta=0.1)

    fit(net, loss, torch.from_numpy(train), epochs=epochs, seed=seed, progress=progress)

    with torch.no_grad():
        predicted = scale_ms * net(inputs, torch.from_numpy(shards.shard), shards.count).numpy().astype(np.float64)
    card = Card(
        tiers=[measurements.tier],
        batch_size=measurements.batch_size,
        optimizer=measurements.optimizer,
        threads=measurements.threads,
        torch=measurements.torch,
        shards=shards.count,
        held_out_shards=len(held_out),
        tables_per_shard=int(size[torch.from_numpy(train)].max()),
        scale_ms=scale_ms,
        seed=seed,
        epochs=epochs,
        features=ranges,
        held_out=compare(predicted[held_out], total_ms[held_out]),
        baseline=compare(baseline_ms(measurements, train)[held_out], total_ms[held_out]),
    )
    return CostModel(net.eval(), card)


def fit(
    net: torch.nn.Module,
    loss: Callable[[torch.Tensor], torch.Tensor],
    items: torch.Tensor,
    *,
    epochs: int,
    seed: int,
    batch: int = BATCH,
    learning_rate: float = LEARNING_RATE,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Train a network in place: the loop that all learned parts share (Adam, rate falling to zero by a cosine).

    It runs on one thread: so the result does not depend on how many there are, and networks this small gain
    nothing from more, while threads that wait for each other on busy cores have made it ten times slower.

    Args:
        net: what learns.
        loss: the mean loss over some of the items, given their indices.
        items: indices of the items to learn from, shape (n,).
        epochs: passes over the items, each in an order of its own.
        seed: of those orders.
        batch: items in a step.
        learning_rate: of the first step.
        progress: called after each epoch with the number of epochs done and of all.
    """
    order = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(net.parameters(), lr=learning_rate)
    steps = epochs * -(-len(items) // batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    net.train()
    with one_thread():
        for epoch in range(epochs):
            shuffled = items[torch.randperm(len(items), generator=order)]
            for start in range(0, len(items), batch):
                optimizer.zero_grad()
                torch.autograd.backward(loss(shuffled[start : start + batch]))
                optimizer.step()
                schedule.step()
            if progress is not None:
                progress(epoch + 1, epochs)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread inside the block."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def split(shards: int, seed: int) -> tuple[IntArray, IntArray]:
    """Return the shards to train on and those to hold out, both in rising order."""
    order = np.random.default_rng(seed).permutation(shards)
    held_out = round(HELD_OUT * shards)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


def held_out_figures(model: CostModel, measurements: Measurements) -> Figures:
    """Return the model's errors on the shards that its card's seed holds out of `measurements`."""
    _, held_out = split(measurements.shards.count, model.card.seed)
    predicted = model.predict(measurements.features, measurements.shards.shard, measurements.shards.count)
    return compare(predicted[held_out], measurements.total_ms[held_out])


def baseline_ms(measurements: Measurements, train: IntArray) -> FloatArray:
    """Return what a straight line through bytes touched predicts for every shard, shape (s,), in ms.

    The bytes are those that the bandwidth model counts: accesses × dim × weight bytes. The line is fitted to the
    training shards by least squares of the relative error, which is what the network is trained for.
    """
    shards = measurements.shards
    touched = shards.pooling_factor * measurements.batch_size * shards.dim * WEIGHT_BYTES
    columns = np.column_stack([np.ones(shards.count), np.bincount(shards.shard, touched, shards.count)])
    total = measurements.total_ms
    line, *_ = np.linalg.lstsq(columns[train] / total[train, None], np.ones(len(train)), rcond=None)
    return np.asarray(columns @ line)


def _ranges(features: FloatArray) -> dict[str, FeatureRange]:
    """Return range, mean and deviation of each feature; one that never varies keeps deviation 1."""
    logs = log_numbers(features)
    deviation = logs.std(axis=0)
    deviation[deviation == 0] = 1.0
    return {
        name: FeatureRange(
            low=float(features[:, i].min()),
            high=float(features[:, i].max()),
            mean=float(logs[:, i].mean()),
            deviation=float(deviation[i]),
        )
        for i, name in enumerate(FEATURES)
    }
