"""One table in tiers answers as the `nn.EmbeddingBag` it was made from, and becomes one again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from recshard.errors import InputError
from recshard.remap import remap_of
from recshard.runtime.tiered import TieredEmbeddingBag
from recshard.runtime.weights import tables_in
from tests.plans import SIZES, Kind
from tests.runtime.cases import runnable, whole_gradients

CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["none", "column", "row", "both"]),
    st.sampled_from(["sum", "mean", "weighted"]),
    st.sampled_from(["two dimensions", "offsets", "last offset"]),
)
def test_it_answers_as_the_embedding_bag_it_was_made_from(seed: int, kind: Kind, pooling: str, form: str) -> None:
    rng = np.random.default_rng(seed)
    plan = runnable(rng, kind)
    name = rng.choice(list(SIZES))
    dim = next(t.dim for t in plan.tables.tables if t.name == name)
    bag = nn.EmbeddingBag(
        SIZES[name], dim, mode="mean" if pooling == "mean" else "sum", include_last_offset=form == "last offset"
    )
    tiered = TieredEmbeddingBag.from_plan(plan, name, bag, places={"uvm": "file"})
    rows: Any = torch.from_numpy(rng.integers(0, SIZES[name], (4, 5)))
    weights = torch.from_numpy(rng.normal(size=(4, 5))).float() if pooling == "weighted" else None
    offsets = None
    if form != "two dimensions":
        rows, weights = rows.reshape(-1), None if weights is None else weights.reshape(-1)
        offsets = torch.tensor([0, 3, 3, 11] + ([20] if form == "last offset" else []))
    found, expected = tiered(rows, offsets, weights), bag(rows, offsets, weights)
    torch.testing.assert_close(found, expected, **CLOSE)
    found.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(whole_gradients(tiered)[name], bag.weight.grad, rtol=1e-5, atol=1e-3)
    again = tiered.to_embedding_bag()
    assert torch.equal(again.weight, bag.weight)
    assert (again.mode, again.include_last_offset) == (bag.mode, bag.include_last_offset)


def tiered() -> TieredEmbeddingBag:
    return TieredEmbeddingBag(
        remap_of(runnable(np.random.default_rng(0), "row"), 0), torch.zeros(40, 8), ["host"] * 3
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.tensor([1, 2]),), r"found input of shape \(2,\) without offsets"),
        ((torch.tensor([[1, 2]]), torch.tensor([0])), r"offsets with bags of equal size"),
        ((torch.tensor([1, 2]), torch.tensor([1])), r"offsets: found from 1 to 1; accepted: from 0 on"),
        ((torch.tensor([1, 2, 3]), torch.tensor([0, 2, 1])), r"lengths: found -1"),
        ((torch.tensor([1, 2, 3]), torch.tensor([[0, 2]])), r"offsets: found shape \(1, 2\); accepted: one dim"),
        ((torch.ones(2, 3).long(), None, torch.ones(3, 2)), r"per_sample_weights: found shape \(3, 2\)"),
        (
            (torch.tensor([1, 40]), torch.tensor([0])),
            r"table 'a': found ID 40 at lookup 1; accepted: rows 0 to 39",
        ),
        (
            (torch.tensor([1, 2]), torch.tensor([0]), torch.ones(3)),
            r"weights: found shape \(3,\); accepted: \(2,\)",
        ),
    ],
)
def test_lookups_that_do_not_fit_are_named(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        tiered()(*arguments)


def test_a_table_that_does_not_fit_its_remap_is_named() -> None:
    plan = runnable(np.random.default_rng(0), "row")
    remap = remap_of(plan, 0)
    with pytest.raises(
        InputError, match=r"table 'a': weight: found float32 of shape \(41, 8\); accepted: .*\(40, 8\)"
    ):
        TieredEmbeddingBag(remap, torch.zeros(41, 8), ["host"] * 3)
    with pytest.raises(InputError, match=r"table 'a': weight: found int8"):
        TieredEmbeddingBag(remap, torch.zeros(40, 8, dtype=torch.int8), ["host"] * 3)
    with pytest.raises(InputError, match=r"table 'a': kinds: found \(\); accepted: one of cuda, uvm, host, file"):
        TieredEmbeddingBag(remap, torch.zeros(40, 8), [])
    with pytest.raises(InputError, match=r"table 'a': rows: found 41, the plan has 40"):
        TieredEmbeddingBag.from_plan(plan, "a", nn.EmbeddingBag(41, 8))
    with pytest.raises(InputError, match=r"no table 'e'"):
        TieredEmbeddingBag.from_plan(plan, "e", nn.EmbeddingBag(41, 8))
    with pytest.raises(InputError, match=r"table 'a': nn.EmbeddingBag with padding_idx=1"):
        TieredEmbeddingBag.from_plan(plan, "a", nn.EmbeddingBag(40, 8, padding_idx=1))


def test_what_is_trained_comes_back() -> None:
    bag = nn.EmbeddingBag(40, 8, mode="sum")
    module = TieredEmbeddingBag.from_plan(
        runnable(np.random.default_rng(0), "row"), "a", bag, places={"uvm": "file"}
    )
    for _, weight, _ in tables_in(module)["a"].parts():
        weight.data.add_(1)
    assert torch.equal(module.to_embedding_bag().weight, bag.weight + 1)
