"""Tables in parts give the outputs and gradients of whole ones, and train to the same weights.

Sums are taken in another order than those of the unsplit model: float32 agrees within 1e-5 of the largest number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.runtime.collection import TieredEmbeddingBagCollection
from recshard.runtime.device import DeviceShards
from recshard.runtime.direct import DirectReader
from recshard.runtime.optim import RowwiseAdagrad, optimizer_for
from recshard.runtime.weights import tables_in, whole
from recshard.tables import Dtype, Optimizer
from tests.plans import Kind
from tests.runtime.cases import PLACES, Unsplit, loss_of, random_batch, random_weights, runnable, whole_gradients

KINDS = st.sampled_from(["none", "column", "row", "both"])
SEEDS = st.integers(0, 2**32 - 1)
TOLERANCE = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}


def assert_close(found: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-5) -> None:
    scale = float(expected.detach().abs().max()) if expected.numel() else 1.0
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance * max(scale, 1.0))


def pair(
    rng: np.random.Generator, kind: Kind, mode: str = "sum", dtype: Dtype = "float32", **options: Any
) -> tuple[TieredEmbeddingBagCollection, Unsplit]:
    plan = runnable(rng, kind, dtype=dtype)
    weights = random_weights(rng, plan.tables.tables)
    tiered = TieredEmbeddingBagCollection.from_plan(plan, mode=mode, weights=weights, **options)
    return tiered, Unsplit(plan.tables.tables, weights, mode)


@settings(max_examples=40, deadline=None)
@given(SEEDS, KINDS, st.sampled_from(["sum", "mean", "weighted"]))
def test_outputs_and_gradients_equal_those_of_whole_tables(seed: int, kind: Kind, pooling: str) -> None:
    rng = np.random.default_rng(seed)
    tiered, unsplit = pair(rng, kind, mode="mean" if pooling == "mean" else "sum")
    batch = random_batch(rng, tiered.model.tables, weighted=pooling == "weighted")
    copy = {f: (*entry[:2], entry[2].clone()) if len(entry) == 3 else entry for f, entry in batch.items()}
    for entry in [*batch.values(), *copy.values()]:
        if len(entry) == 3:
            entry[2].requires_grad_()
    found, expected = tiered(batch), unsplit(copy)
    assert found.keys() == expected.keys()
    for feature, output in expected.items():
        assert_close(found[feature], output)
    loss_of(found, seed).backward()
    loss_of(expected, seed).backward()
    for name, gradient in whole_gradients(tiered).items():
        own = unsplit.bags[name].weight.grad
        assert_close(gradient, torch.zeros_like(gradient) if own is None else own)
    for mine, other in zip(batch.values(), copy.values(), strict=True):
        if len(mine) == 3 and len(other) == 3 and other[2].grad is not None:
            assert mine[2].grad is not None
            assert_close(mine[2].grad, other[2].grad)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("weighted", [False, True])
def test_half_precision_agrees_within_its_rounding(dtype: Dtype, weighted: bool) -> None:
    rng = np.random.default_rng(5)
    tiered, unsplit = pair(rng, "both", dtype=dtype)
    batch = random_batch(rng, tiered.model.tables, weighted)
    found, expected = tiered(batch), unsplit(batch)
    for feature, output in expected.items():
        assert found[feature].dtype == output.dtype
        assert_close(found[feature], output, TOLERANCE[dtype])
    loss_of(found, 1).backward()
    loss_of(expected, 1).backward()
    for name, gradient in whole_gradients(tiered).items():
        assert_close(gradient, unsplit.bags[name].weight.grad, TOLERANCE[dtype])


def adagrad_step(
    weights: dict[str, torch.Tensor], sums: dict[str, torch.Tensor], unsplit: Unsplit, lr: float
) -> None:
    """Row-wise Adagrad over whole tables, written from its formula."""
    for name, bag in unsplit.bags.items():
        gradient = bag.weight.grad
        if gradient is None:
            continue
        for row in gradient.abs().sum(1).nonzero()[:, 0].tolist():
            sums[name][row] += gradient[row].pow(2).mean()
            weights[name][row] -= lr * gradient[row] / (sums[name][row].sqrt() + 1e-8)


@settings(max_examples=12, deadline=None)
@given(SEEDS, KINDS, st.sampled_from([{}, PLACES]))
def test_ten_steps_of_sgd_end_at_the_same_weights(seed: int, kind: Kind, places: dict[str, str]) -> None:
    rng = np.random.default_rng(seed)
    plan = runnable(rng, kind, "sgd")
    weights = random_weights(rng, plan.tables.tables)
    tiered = TieredEmbeddingBagCollection.from_plan(plan, weights=weights, places=places)
    unsplit = Unsplit(plan.tables.tables, weights)
    mine, reference = optimizer_for(tiered, plan, 0.05), torch.optim.SGD(unsplit.parameters(), 0.05)
    for step in range(10):
        batch = random_batch(rng, plan.tables.tables)
        for model, optimizer in ((tiered, mine), (unsplit, reference)):
            optimizer.zero_grad()
            loss_of(model(batch), step).backward()
            optimizer.step()
    for name, weight in whole(tiered).items():
        assert_close(weight, unsplit.weights()[name])


@settings(max_examples=12, deadline=None)
@given(SEEDS, st.sampled_from(["none", "row"]), st.sampled_from([{}, PLACES]))
def test_ten_steps_of_rowwise_adagrad_end_at_the_same_weights(
    seed: int, kind: Kind, places: dict[str, str]
) -> None:
    rng = np.random.default_rng(seed)
    plan = runnable(rng, kind, "rowwise_adagrad")
    weights = random_weights(rng, plan.tables.tables)
    tiered = TieredEmbeddingBagCollection.from_plan(plan, weights=weights, places=places)
    unsplit = Unsplit(plan.tables.tables, weights)
    optimizer = optimizer_for(tiered, plan, 0.05)
    sums = {t.name: torch.zeros(t.rows) for t in plan.tables.tables}
    for step in range(10):
        batch = random_batch(rng, plan.tables.tables)
        optimizer.zero_grad()
        loss_of(tiered(batch), step).backward()
        optimizer.step()
        unsplit.zero_grad()
        loss_of(unsplit(batch), step).backward()
        with torch.no_grad():
            adagrad_step(unsplit.weights(), sums, unsplit, 0.05)
    for name, weight in whole(tiered).items():
        assert_close(weight, unsplit.weights()[name], 1e-4)


@pytest.mark.parametrize("optimizer", ["sgd", "rowwise_adagrad"])
def test_a_learning_rate_may_be_a_tensor(optimizer: Optimizer) -> None:
    trained = []
    for lr in (0.25, torch.tensor(0.25)):
        rng = np.random.default_rng(2)
        plan = runnable(rng, "row", optimizer)
        module = TieredEmbeddingBagCollection.from_plan(plan, weights=random_weights(rng, plan.tables.tables))
        rows = optimizer_for(module, plan, 0.1)
        for group in rows.param_groups:
            group["lr"] = lr
        loss_of(module(random_batch(rng, plan.tables.tables)), 0).backward()
        rows.step()
        trained.append(whole(module))
    assert all(torch.equal(weight, trained[1][name]) for name, weight in trained[0].items())


def test_what_has_no_second_derivative_says_so() -> None:
    module = TieredEmbeddingBagCollection.from_plan(runnable(np.random.default_rng(2), "row"))
    weights = torch.ones(3, requires_grad=True)
    batch = {f.name: (torch.tensor([0, 1, 2]), torch.tensor([2, 1]), weights) for f in module.model.features}
    total = loss_of(module(batch), 0)
    (first,) = torch.autograd.grad(total, weights, create_graph=True)
    (again,) = torch.autograd.grad(loss_of(module(batch), 0), weights)
    assert_close(first.detach(), again)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_a_column_shard_keeps_a_state_of_its_own() -> None:
    weight = torch.nn.Parameter(torch.ones(2, 4))
    halves = [torch.nn.Parameter(torch.ones(2, 2)) for _ in range(2)]
    gradient = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    weight.grad = torch.sparse_coo_tensor(torch.tensor([[1]]), gradient, (2, 4), check_invariants=True)
    for number, half in enumerate(halves):
        part = gradient[:, 2 * number : 2 * number + 2]
        half.grad = torch.sparse_coo_tensor(torch.tensor([[1]]), part, (2, 2), check_invariants=True)
    RowwiseAdagrad([weight, *halves], 1.0).step()
    square = gradient[0].square()
    assert_close(weight.detach()[1], 1 - gradient[0] / square.mean().sqrt())
    for number, half in enumerate(halves):
        mine = slice(2 * number, 2 * number + 2)
        assert_close(half.detach()[1], 1 - gradient[0, mine] / square[mine].mean().sqrt())


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("kind", ["none", "row"])
def test_rows_in_files_give_and_become_the_same_as_in_memory(kind: Kind, direct: bool) -> None:
    results = []
    for places in ({}, {"hbm": "file", "dram": "host", "uvm": "file"}):
        rng = np.random.default_rng(11)
        plan = runnable(rng, kind, "rowwise_adagrad")
        weights = random_weights(rng, plan.tables.tables)
        module = TieredEmbeddingBagCollection.from_plan(plan, places=places, direct=direct, weights=weights)
        optimizer = optimizer_for(module, plan, 0.1)
        outputs = []
        for step in range(4):
            batch = random_batch(rng, plan.tables.tables, weighted=True)
            optimizer.zero_grad()
            out = module(batch)
            outputs.append({feature: rows.detach().clone() for feature, rows in out.items()})
            loss_of(out, step).backward()
            optimizer.step()
        kinds = {block.kind for table in tables_in(module).values() for block in table.blocks}
        assert ("file" in kinds) == bool(places)
        results.append((outputs, whole(module)))
    (first, weights), (second, others) = results
    for one, other in zip(first, second, strict=True):
        for feature, rows in one.items():
            assert_close(other[feature], rows)
    for name, weight in weights.items():
        assert_close(others[name], weight)


def test_the_rows_of_all_tables_in_files_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(11)
    plan = runnable(rng, "both")
    places = dict.fromkeys(plan.tier_names, "file")
    module = TieredEmbeddingBagCollection.from_plan(plan, places=places, direct=True)
    reads, real = [], DirectReader._read
    monkeypatch.setattr(DirectReader, "_read", lambda self, *rows: (reads.append(len(rows[0])), real(self, *rows)))
    batch = random_batch(rng, plan.tables.tables)
    module(batch)
    distinct = sum(len(set(rows.tolist())) for rows, *_ in batch.values())
    assert len(reads) == 1
    assert reads[0] >= distinct > 0


def test_each_device_adds_its_share() -> None:
    rng = np.random.default_rng(3)
    plan = runnable(rng, "row")
    weights = random_weights(rng, plan.tables.tables)
    together = TieredEmbeddingBagCollection.from_plan(plan, weights=weights)
    batch = random_batch(rng, plan.tables.tables)
    expected = together.shards(batch)
    found = {}
    for device in range(plan.problem.devices):
        shards = DeviceShards.from_plan(plan, [device], remaps=[t.remap for t in tables_in(together).values()])
        for name, table in tables_in(shards).items():
            assert {part.device for part in table.held} == {device}
            for part, weight, _ in table.parts():
                whole_columns = weights[name][:, part.first_column : part.first_column + part.columns]
                weight.data.copy_(whole_columns[torch.from_numpy(table.remap.rows_of(part))])
        found |= shards(batch)
    assert found.keys() == expected.keys()
    for key, rows in expected.items():
        torch.testing.assert_close(found[key], rows, rtol=0, atol=0)
