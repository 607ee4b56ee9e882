"""A module that is copied has rows of its own, and rows that left their tier are not taken for those in it."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from recshard.errors import InputError
from recshard.plan import Plan, make_plan
from recshard.profile.build import profile_trace
from recshard.runtime import (
    TieredEmbeddingBagCollection,
    load_checkpoint,
    load_whole,
    optimizer_for,
    save_checkpoint,
    whole,
)
from recshard.tables import EmbeddingTable, TableSet
from recshard.topology import Group, Tier, Topology
from tests.runtime.cases import PLACES, random_batch, random_weights, runnable
from tests.traces import MemoryTrace


@pytest.mark.parametrize("places", [PLACES, dict.fromkeys(PLACES, "host")])
def test_a_copy_has_the_same_rows_and_is_trained_by_itself(places: dict[str, str], tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    plan = runnable(rng, "row")
    weights = random_weights(rng, plan.tables.tables)
    first = TieredEmbeddingBagCollection.from_plan(plan, weights=weights, places=places, folder=tmp_path)
    second = copy.deepcopy(first)
    before = {name: weight.clone() for name, weight in whole(second).items()}
    assert all(torch.equal(before[name], weight) for name, weight in weights.items())
    batch = random_batch(np.random.default_rng(1), plan.tables.tables)
    torch.stack([out.sum() for out in second(batch).values()]).sum().backward()
    optimizer_for(second, plan, lr=1.0).step()
    assert not all(torch.equal(before[name], weight) for name, weight in whole(second).items())
    assert all(torch.equal(before[name], weight) for name, weight in whole(first).items())


def test_rows_that_were_given_other_memory_are_named() -> None:
    rng = np.random.default_rng(5)
    plan = runnable(rng, "none")
    bags = TieredEmbeddingBagCollection.from_plan(plan, places=dict.fromkeys(PLACES, "host"))
    bags.load_state_dict({name: weight.clone() for name, weight in bags.state_dict().items()}, assign=True)
    with pytest.raises(InputError, match=r"table 'a': the rows of part '.*' are no longer in the memory"):
        whole(bags)


def test_nothing_is_written_where_the_rows_of_one_table_left_their_tier(tmp_path: Path) -> None:
    plan = runnable(np.random.default_rng(5), "none")
    bags = TieredEmbeddingBagCollection.from_plan(plan, places=dict.fromkeys(PLACES, "host"))
    others = {name: torch.zeros_like(weight) for name, weight in whole(bags).items()}
    save_checkpoint(bags, tmp_path / "checkpoint")
    last = bags.shards.tables[-1].weights
    last[0] = torch.nn.Parameter(torch.ones_like(last[0]))
    before = {name: weight.clone() for name, weight in bags.named_parameters()}
    for write in (lambda: load_whole(bags, others), lambda: load_checkpoint(bags, tmp_path / "checkpoint")):
        with pytest.raises(InputError, match="no longer in the memory"):
            write()
        assert all(torch.equal(weight, before[name]) for name, weight in bags.named_parameters())


def plan_of(hot_row: int) -> Plan:
    """A plan whose parts have the same shapes whichever row of table b is hot."""
    tables = tuple(EmbeddingTable(name, 100, 8, features=(name,)) for name in "ab")
    trace = MemoryTrace({"a": [[3]] * 60, "b": [[hot_row]] * 60})
    topology = Topology((Group(1, 1, (Tier("hbm", 720, 1e9), Tier("uvm", 1e6, 1e7))),))
    return make_plan(profile_trace(trace, TableSet(tables, 32)), topology)


def test_a_state_dict_of_a_plan_with_other_hot_rows_is_refused_though_shapes_agree(tmp_path: Path) -> None:
    def bags(hot_row: int) -> TieredEmbeddingBagCollection:
        return TieredEmbeddingBagCollection.from_plan(plan_of(hot_row), places={"hbm": "host", "uvm": "file"})

    first, other, same = bags(3), bags(4), bags(3)
    assert [p.shape for p in first.parameters()] == [p.shape for p in other.parameters()]
    torch.save(first.state_dict(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    before = whole(other)
    with pytest.raises(InputError, match=r"table 'b': the state dict is of another plan"):
        torch.nn.Sequential(other).load_state_dict({f"0.{name}": value for name, value in state.items()})
    assert all(torch.equal(weight, before[name]) for name, weight in whole(other).items())
    same.load_state_dict(state)
    assert all(torch.equal(weight, whole(first)[name]) for name, weight in whole(same).items())


def test_the_optimizer_state_of_a_plan_with_other_hot_rows_is_refused_though_shapes_agree() -> None:
    plans = [plan_of(3), plan_of(4), plan_of(3)]
    bags = [TieredEmbeddingBagCollection.from_plan(p, places={"hbm": "host", "uvm": "host"}) for p in plans]
    first, other, same = (optimizer_for(b, p, 0.1) for b, p in zip(bags, plans, strict=True))
    rows = torch.tensor([3, 4])
    sum(out.sum() for out in bags[0]({name: (rows, torch.ones(2).long()) for name in "ab"}).values()).backward()
    first.step()
    with pytest.raises(InputError, match="the parts it is of hold other rows than these"):
        other.load_state_dict(first.state_dict())
    assert not any(bool(block.tensor.any()) for block in other.blocks.values())
    same.load_state_dict(first.state_dict())
    pairs = list(zip(first.blocks.values(), same.blocks.values(), strict=True))
    assert any(bool(block.tensor.any()) for block, _ in pairs)
    assert all(torch.equal(mine.tensor, own.tensor) for mine, own in pairs)
