"""Batches in every form are understood, and what does not fit the model is named."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from recshard.errors import InputError
from recshard.placement import Placement
from recshard.runtime.collection import TieredEmbeddingBagCollection
from recshard.runtime.device import DeviceShards
from recshard.runtime.optim import optimizer_for
from tests.plans import cut_case
from tests.runtime.cases import loss_of, random_batch, runnable, whole_gradients


@dataclass(frozen=True)
class Jagged:
    """What TorchRec's KeyedJaggedTensor is asked for."""

    features: list[str]
    all_values: Tensor
    all_lengths: Tensor
    all_weights: Tensor | None

    def keys(self) -> list[str]:
        return self.features

    def values(self) -> Tensor:
        return self.all_values

    def lengths(self) -> Tensor:
        return self.all_lengths

    def weights_or_none(self) -> Tensor | None:
        return self.all_weights


@pytest.fixture(scope="module")
def module() -> TieredEmbeddingBagCollection:
    return TieredEmbeddingBagCollection.from_plan(runnable(np.random.default_rng(0), "both"))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_keyed_jagged_tensor_is_a_batch(module: TieredEmbeddingBagCollection, weighted: bool) -> None:
    batch = random_batch(np.random.default_rng(8), module.model.tables, weighted)
    order = sorted(batch, reverse=True)
    flat = [torch.cat([batch[feature][k] for feature in order]) for k in range(3 if weighted else 2)]
    jagged = Jagged(order, flat[0], flat[1].to(torch.int32), flat[2] if weighted else None)
    expected = module(batch)
    for feature, rows in module(jagged).items():
        torch.testing.assert_close(rows, expected[feature], rtol=0, atol=0)


def test_numbers_of_any_kind_are_a_batch(module: TieredEmbeddingBagCollection) -> None:
    tensors = torch.tensor([1, 2, 3]), torch.tensor([2, 0, 1]), torch.tensor([0.5, 1.0, 2.0])
    expected = module(bags(b=tensors))["b"]
    for form in (lambda t: t.numpy(), lambda t: t.tolist()):
        assert torch.equal(module(bags(b=tuple(map(form, tensors))))["b"], expected)


def bags(**changes: Any) -> dict[str, Any]:
    names = ["a", "a_last", "b", "c", "d"]
    batch = {f: (torch.tensor([1, 2, 3]), torch.tensor([2, 0, 1])) for f in names}
    return {f: entry for f, entry in (batch | changes).items() if entry is not None}


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (bags(b=None), r"feature 'b' is missing; found: a, a_last, c, d"),
        (bags(bb=(torch.tensor([1]), torch.tensor([1]))), r"no table has a feature 'bb' \(did you mean 'b'\?\)"),
        (bags(b=(torch.tensor([1]), torch.tensor([2]))), r"'b': lengths add up to 2, and there are 1 values"),
        (bags(b=(torch.tensor([1]), torch.tensor([2, -1]))), r"'b': lengths: found -1; accepted: 0 or more"),
        (bags(b=(torch.tensor([1.0]), torch.tensor([1]))), r"feature 'b': values: found float32 of shape \(1,\)"),
        (bags(b=(torch.tensor([[1]]), torch.tensor([1]))), r"feature 'b': values: found int64 of shape \(1, 1\)"),
        (bags(b=(torch.tensor([1]), torch.tensor([1]))), r"feature 'a' has 3 bags and feature 'b' has 1"),
        (bags(b=torch.tensor([1])), r"feature 'b': found Tensor; accepted: \(values, lengths\)"),
        (bags(b=(torch.tensor([1, 1, 25]), torch.tensor([1, 1, 1]))), r"feature 'b': table 'b': found ID 25"),
        (
            bags(a_last=(torch.tensor([1, -3]), torch.tensor([1, 1, 0]))),
            r"feature 'a_last': table 'a': found ID -3 at lookup 1; accepted: rows 0 to 39",
        ),
        (bags(b=(None, [1])), r"feature 'b': values: found NoneType: .*; accepted: a tensor, or numbers"),
        (bags(b=(["x"], [1])), r"feature 'b': values: found list: .*; accepted: a tensor, or numbers"),
        (bags(b=([1j], [1])), r"feature 'b': values: found complex64 of shape \(1,\)"),
        (bags(b=([1, 2, 3], [2**63 - 1, 2**63 - 1, 5])), r"lengths add up to 18446744073709551619, and"),
        (bags(b=([1], [1, 0, 0], "heavy")), r"feature 'b': weights: found str"),
        (
            bags(d=(torch.tensor([1, 3]), torch.tensor([1, 1, 0]), torch.ones(3))),
            r"feature 'd': weights: found shape \(3,\); accepted: \(2,\)",
        ),
        (Jagged(["a", "b"], torch.tensor([1]), torch.tensor([1, 0, 0]), None), r"3 lengths for 2 features"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(module: TieredEmbeddingBagCollection, batch: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        module(batch)


def test_a_device_wants_only_the_features_of_its_tables() -> None:
    plan = runnable(np.random.default_rng(3), "none")
    alone = int(plan.placement.device[0])
    shards = DeviceShards.from_plan(plan, [alone])
    here = [f for j, t in enumerate(plan.tables.tables) if plan.placement.device[j] == alone for f in t.features]
    full = bags()
    assert {feature for feature, _ in shards(full)} == set(here)
    assert shards({feature: full[feature] for feature in here}).keys() == shards(full).keys()
    with pytest.raises(InputError, match=r"devices: found 3; accepted: 0 to 2"):
        DeviceShards.from_plan(plan, [3])


def test_a_batch_may_be_overwritten_before_backward() -> None:
    module = TieredEmbeddingBagCollection.from_plan(runnable(np.random.default_rng(0), "none"))
    found = []
    for overwritten in (False, True):
        module.zero_grad()
        batch = bags()
        loss = loss_of(module(batch), 0)
        for rows, lengths in batch.values():
            if overwritten:
                rows.fill_(0)
                lengths.fill_(0)
        loss.backward()
        found.append(whole_gradients(module))
    for name, gradient in found[0].items():
        assert torch.equal(found[1][name], gradient)


def test_weights_are_for_sums_and_modes_are_known(module: TieredEmbeddingBagCollection) -> None:
    plan = runnable(np.random.default_rng(0), "both")
    mean = TieredEmbeddingBagCollection.from_plan(plan, mode={"d": "mean"})
    weighted = (torch.tensor([1, 3]), torch.tensor([1, 1, 0]), torch.ones(2))
    with pytest.raises(InputError, match=r"table 'd': weights of lookups are accepted where bags are summed"):
        mean(bags(d=weighted))
    assert set(mean(bags(c=weighted))) == {"a", "a_last", "b", "c", "d"}
    with pytest.raises(InputError, match=r"table 'a': mode: found 'max'; accepted: sum, mean"):
        TieredEmbeddingBagCollection.from_plan(plan, mode="max")
    with pytest.raises(InputError, match=r"mode: no table 'dd' \(did you mean 'd'\?\)"):
        TieredEmbeddingBagCollection.from_plan(plan, mode={"dd": "sum"})


def test_an_optimizer_that_is_not_executed_is_named() -> None:
    plan = cut_case(np.random.default_rng(0), "none").plan
    module = TieredEmbeddingBagCollection.from_plan(plan)
    with pytest.raises(InputError, match=r"table 'b': optimizer: found 'adam'; the runtime executes sgd, rowwise"):
        optimizer_for(module, plan, 0.1)
    assert optimizer_for(module, plan, 0.1, optimizer="sgd").param_groups[0]["rule"] == "sgd"


def test_an_optimizer_is_for_the_tables_of_its_plan() -> None:
    plan = runnable(np.random.default_rng(0), "none")
    module = TieredEmbeddingBagCollection.from_plan(plan)
    names = tuple(replace(table, name=f"{table.name}2") for table in plan.tables.tables)
    other = replace(plan, tables=plan.tables.with_tables(names))
    with pytest.raises(InputError, match=r"TieredEmbeddingBagCollection: table 'a' is not the plan's"):
        optimizer_for(module, other, 0.1)
    with pytest.raises(InputError, match=r"Linear: no tables of a plan are in it"):
        optimizer_for(torch.nn.Linear(2, 2), plan, 0.1)
    with pytest.raises(InputError, match=r"a row optimizer cannot be copied or pickled"):
        copy.deepcopy(optimizer_for(module, plan, 0.1))


def test_a_device_that_holds_nothing_has_an_optimizer_too() -> None:
    plan = runnable(np.random.default_rng(3), "row")
    placed = plan.placement
    free = replace(
        plan, placement=Placement(np.where(placed.device == 1, 0, placed.device), placed.rows, placed.shards)
    )
    shards = DeviceShards.from_plan(free, [1])
    assert shards({}) == {}
    optimizer = optimizer_for(shards, free, 0.1)
    optimizer.zero_grad()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())


def test_a_remap_of_another_plan_is_refused() -> None:
    one, other = (runnable(np.random.default_rng(seed), "row") for seed in (0, 1))
    remaps = [table.remap for table in DeviceShards.from_plan(one).tables]
    with pytest.raises(InputError, match=r"the remap given is of another plan"):
        DeviceShards.from_plan(other, remaps=remaps)
