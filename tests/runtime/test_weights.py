"""Whole tables go into parts and come out again bit by bit; another model is refused before a byte is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from recshard.errors import InputError
from recshard.plan import Plan
from recshard.runtime.collection import TieredEmbeddingBagCollection
from recshard.runtime.device import DeviceShards
from recshard.runtime.weights import load_whole, whole
from recshard.tables import Dtype
from tests.plans import SIZES, Kind
from tests.runtime.cases import PLACES, random_weights, runnable

KINDS = st.sampled_from(["none", "column", "row", "both"])
SEEDS = st.integers(0, 2**32 - 1)


def any_bits(rng: np.random.Generator, plan: Plan) -> dict[str, Tensor]:
    """Return tables of random bytes: of every number and of every NaN, infinity and zero that there is."""
    found = {}
    for t in plan.tables.tables:
        tensor = torch.from_numpy(rng.integers(0, 256, (t.rows, t.weight_bytes), dtype=np.uint8))
        found[t.name] = tensor.view(getattr(torch, t.dtype))
    found["a"][0, :3] = torch.tensor([-0.0, float("nan"), float("-inf")])
    return found


def bits(weights: dict[str, Tensor]) -> dict[str, bytes]:
    return {name: weight.contiguous().view(torch.uint8).numpy().tobytes() for name, weight in weights.items()}


@settings(max_examples=40, deadline=None)
@given(SEEDS, KINDS, st.sampled_from(["float32", "float16", "bfloat16"]), st.sampled_from([{}, PLACES]))
def test_tables_come_back_bit_by_bit(seed: int, kind: Kind, dtype: Dtype, places: dict[str, str]) -> None:
    rng = np.random.default_rng(seed)
    plan = runnable(rng, kind, dtype=dtype)
    weights = any_bits(rng, plan)
    module = TieredEmbeddingBagCollection.from_plan(plan, places=places, weights=weights)
    assert bits(whole(module)) == bits(weights)
    other = any_bits(rng, plan)
    load_whole(module, other)
    assert bits(whole(module)) == bits(other)


@pytest.mark.parametrize("form", ["bags", "module", "state", "prefixed"])
def test_embedding_bags_and_their_state_dicts_are_known(form: str) -> None:
    plan = runnable(np.random.default_rng(0), "both")
    bags = nn.ModuleDict({t.name: nn.EmbeddingBag(t.rows, t.dim, mode="sum") for t in plan.tables.tables})
    owner = nn.Module()
    owner.embedding_bags = bags
    given: Any = {"bags": dict(bags), "module": bags, "state": bags.state_dict(), "prefixed": owner.state_dict()}
    module = TieredEmbeddingBagCollection.from_plan(plan, weights=given[form])
    assert bits(whole(module)) == bits({name: bag.weight.detach() for name, bag in bags.items()})


def test_the_mode_is_that_of_the_embedding_bags() -> None:
    plan = runnable(np.random.default_rng(0), "both")
    bags = {
        t.name: nn.EmbeddingBag(t.rows, t.dim, mode="mean" if t.name == "b" else "sum") for t in plan.tables.tables
    }
    module = TieredEmbeddingBagCollection.from_plan(plan, weights=bags)
    batch = {f: (torch.tensor([1, 2, 2]), torch.tensor([3])) for f in plan.tables.table_index}
    for feature, rows in module(batch).items():
        bag = bags[feature.removesuffix("_last")]
        torch.testing.assert_close(rows, bag(torch.tensor([[1, 2, 2]])), rtol=0, atol=1e-5)
    with pytest.raises(InputError, match=r"table 'b': mode: found 'sum', and its nn.EmbeddingBag has 'mean'"):
        TieredEmbeddingBagCollection.from_plan(plan, weights=bags, mode="sum")


def test_another_model_is_refused_by_its_differences_and_nothing_is_written() -> None:
    rng = np.random.default_rng(1)
    plan = runnable(rng, "row")
    module = TieredEmbeddingBagCollection.from_plan(plan)
    before = bits(whole(module))
    other = random_weights(rng, plan.tables.tables)
    other["aa"] = other.pop("a")
    other["b"] = other["b"][:-1]
    other["c"] = other["c"][:, :3].half()
    with pytest.raises(InputError) as error:
        load_whole(module, other)
    assert "table 'a' is missing" in str(error.value)
    assert "table 'aa' is not the plan's" in str(error.value)
    assert f"table 'b': rows: found {SIZES['b'] - 1}, the plan has {SIZES['b']}" in str(error.value)
    assert "table 'c': dim: found 3, the plan has 24" in str(error.value)
    assert "table 'c': dtype: found float16, the plan has float32" in str(error.value)
    assert bits(whole(module)) == before


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"max_norm": 1.0}, "max_norm=1.0"),
        ({"padding_idx": 0}, "padding_idx=0"),
        ({"scale_grad_by_freq": True}, "scale_grad_by_freq=True"),
        ({"mode": "max"}, "mode='max'"),
    ],
)
def test_an_embedding_bag_with_other_rules_is_refused(options: dict[str, Any], field: str) -> None:
    plan = runnable(np.random.default_rng(0), "none")
    bags = {t.name: nn.EmbeddingBag(t.rows, t.dim, mode="sum") for t in plan.tables.tables}
    bags["c"] = nn.EmbeddingBag(SIZES["c"], 24, **({"mode": "sum"} | options))
    with pytest.raises(InputError, match=rf"table 'c': nn.EmbeddingBag with {field}"):
        TieredEmbeddingBagCollection.from_plan(plan, weights=bags)


def test_a_table_with_parts_elsewhere_is_not_given_as_whole() -> None:
    plan = runnable(np.random.default_rng(2), "row")
    shards = DeviceShards.from_plan(plan, [0])
    with pytest.raises(InputError, match=r"parts are here; accepted: all of them"):
        whole(shards)


def test_quantised_tables_are_refused() -> None:
    plan = runnable(np.random.default_rng(0), "none", dtype="int8")
    with pytest.raises(InputError, match=r"table 'a': dtype: found 'int8'; the runtime executes float32, float16"):
        TieredEmbeddingBagCollection.from_plan(plan)
