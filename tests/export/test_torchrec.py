"""What TorchRec runs of a plan gives the outputs, gradients and weights of the model that was not split."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.errors import InputError
from tests.plans import Kind, cut_case

pytest.importorskip("torchrec", reason="TorchRec is not installed")

import torch
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor, PoolingType

from recshard.export.torchrec import PartsEmbeddingBagCollection, PartsTransform, embedding_bag_configs, layout_of
from recshard.plan import Plan

KINDS = st.sampled_from(["none", "column", "row", "both"])
SEEDS = st.integers(0, 2**32 - 1)


def unsplit(plan: Plan, pooling: str, is_weighted: bool = False) -> EmbeddingBagCollection:
    configs = [
        EmbeddingBagConfig(
            name=table.name,
            num_embeddings=table.rows,
            embedding_dim=table.dim,
            feature_names=list(table.features),
            pooling=PoolingType[pooling.upper()],
        )
        for table in plan.tables.tables
    ]
    return EmbeddingBagCollection(tables=configs, is_weighted=is_weighted)


def whole_weights(ebc: EmbeddingBagCollection) -> dict[str, torch.Tensor]:
    return {name: bag.weight.detach() for name, bag in ebc.embedding_bags.items()}


def random_batch(
    rng: np.random.Generator, plan: Plan, samples: int = 9, weighted: bool = False
) -> KeyedJaggedTensor:
    tables = plan.tables.tables
    lengths = rng.integers(0, 4, (len(tables), samples))
    rows = [rng.integers(0, table.rows, lengths[j].sum()) for j, table in enumerate(tables)]
    return KeyedJaggedTensor(
        keys=[table.features[0] for table in tables],
        values=torch.from_numpy(np.concatenate(rows)),
        lengths=torch.from_numpy(lengths.ravel()),
        weights=torch.from_numpy(rng.random(lengths.sum(), dtype=np.float32)) if weighted else None,
    )


@settings(max_examples=20, deadline=None)
@given(SEEDS, KINDS, st.sampled_from(["sum", "mean"]))
def test_outputs_and_gradients_are_those_of_the_unsplit_model(seed: int, kind: Kind, pooling: str) -> None:
    rng = np.random.default_rng(seed)
    plan = cut_case(rng, kind).plan
    whole = unsplit(plan, pooling)
    split = PartsEmbeddingBagCollection.from_whole(plan, whole_weights(whole), pooling=pooling)
    batch = random_batch(rng, plan)
    expected, found = whole(batch), split(batch)
    assert found.keys() == expected.keys()
    assert found.length_per_key() == expected.length_per_key()
    torch.testing.assert_close(found.values(), expected.values(), rtol=1e-5, atol=1e-6)
    direction = torch.from_numpy(rng.standard_normal(expected.values().shape, dtype=np.float32))
    (expected.values() * direction).sum().backward()
    (found.values() * direction).sum().backward()
    gradients = PartsEmbeddingBagCollection(plan)
    for name, bag in split.parts.embedding_bags.items():
        gradients.parts.embedding_bags[name].weight.data.copy_(bag.weight.grad)
    for name, gradient in gradients.to_whole().items():
        torch.testing.assert_close(gradient, whole.embedding_bags[name].weight.grad, rtol=1e-5, atol=1e-6)


@settings(max_examples=10, deadline=None)
@given(SEEDS, KINDS)
def test_weights_go_with_their_lookups(seed: int, kind: Kind) -> None:
    rng = np.random.default_rng(seed)
    plan = cut_case(rng, kind).plan
    whole = unsplit(plan, "sum", is_weighted=True)
    split = PartsEmbeddingBagCollection.from_whole(plan, whole_weights(whole), is_weighted=True)
    batch = random_batch(rng, plan, weighted=True)
    torch.testing.assert_close(split(batch).values(), whole(batch).values(), rtol=1e-5, atol=1e-6)


@settings(max_examples=10, deadline=None)
@given(SEEDS, KINDS)
def test_weights_come_back_bit_by_bit(seed: int, kind: Kind) -> None:
    plan = cut_case(np.random.default_rng(seed), kind).plan
    weights = whole_weights(unsplit(plan, "sum"))
    back = PartsEmbeddingBagCollection.from_whole(plan, weights).to_whole()
    assert list(back) == list(weights)
    assert all(torch.equal(back[name], weight) for name, weight in weights.items())


def test_every_part_is_a_table_with_an_input_for_every_feature() -> None:
    plan = cut_case(np.random.default_rng(0), "both").plan
    layout = layout_of(plan)
    configs = embedding_bag_configs(layout)
    assert [c.name for c in configs] == [part.name for part in layout.parts]
    assert sum(c.num_embeddings * c.embedding_dim for c in configs) == sum(
        t.rows * t.dim for t in plan.tables.tables
    )
    keys = [key for config in configs for key in config.feature_names]
    assert PartsTransform(layout)(random_batch(np.random.default_rng(1), plan)).keys() == keys


def test_a_batch_transformed_where_it_was_loaded_is_taken_as_it_is() -> None:
    rng = np.random.default_rng(3)
    plan = cut_case(rng, "both").plan
    split = PartsEmbeddingBagCollection(plan, pooling="mean")
    batch = random_batch(rng, plan)
    assert torch.equal(split(split.transform(batch)).values(), split(batch).values())


def test_an_id_beyond_its_table_is_named() -> None:
    plan = cut_case(np.random.default_rng(4), "row").plan
    batch = random_batch(np.random.default_rng(4), plan)
    values = batch.values().clone()
    values[0] = 1000
    wrong = KeyedJaggedTensor(keys=batch.keys(), values=values, lengths=batch.lengths())
    with pytest.raises(InputError, match=r"table 'a': found ID 1000 at lookup 0; accepted: rows 0 to 39"):
        PartsTransform(plan)(wrong)


@pytest.mark.parametrize(
    ("values", "lengths", "words"),
    [
        (torch.tensor([1.7, 2.0, 0.0]), torch.tensor([3, 0, 0, 0]), "'a': values: found float32"),
        (torch.tensor([True]), torch.tensor([1, 0, 0, 0]), "'a': values: found bool"),
        (torch.tensor([1, 2]), torch.tensor([1, 0, 0, 2]), "'d': lengths add up to 2, and there are 1 values"),
        (torch.tensor([1]), torch.tensor([-1, 1, 1, 0]), "'a': lengths: found -1; accepted: 0 or more"),
    ],
)
def test_a_batch_that_is_none_is_refused(values: torch.Tensor, lengths: torch.Tensor, words: str) -> None:
    plan = cut_case(np.random.default_rng(4), "row").plan
    batch = KeyedJaggedTensor(keys=["a", "b", "c", "d"], values=values, lengths=lengths)
    with pytest.raises(InputError, match=words):
        PartsTransform(plan)(batch)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_features_are_found_by_name_whatever_their_order_and_type(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(4)
    plan = cut_case(rng, "both").plan
    whole = unsplit(plan, "sum")
    split = PartsEmbeddingBagCollection.from_whole(plan, whole_weights(whole))
    batch = random_batch(rng, plan)
    bags = dict(batch.to_dict())
    keys = ["unknown", *reversed(batch.keys())]
    bags["unknown"] = bags["a"]
    other = KeyedJaggedTensor(
        keys=keys,
        values=torch.cat([bags[key].values() for key in keys]).to(dtype),
        lengths=torch.cat([bags[key].lengths() for key in keys]).to(dtype),
    )
    torch.testing.assert_close(split(other).values(), whole(batch).values(), rtol=1e-5, atol=1e-6)


def test_a_batch_of_no_samples_is_one_for_the_parts() -> None:
    layout = layout_of(cut_case(np.random.default_rng(4), "both").plan)
    none = torch.empty(0, dtype=torch.int64)
    parts = PartsTransform(layout)(KeyedJaggedTensor(keys=layout.feature_names, values=none, lengths=none))
    assert [parts.stride(), parts.values().numel(), parts.keys()] == [0, 0, layout.all_keys]


def test_a_batch_without_a_feature_of_the_plan_is_refused() -> None:
    plan = cut_case(np.random.default_rng(5), "none").plan
    batch = KeyedJaggedTensor(keys=["a"], values=torch.tensor([1]), lengths=torch.tensor([1]))
    with pytest.raises(InputError, match="features are missing: b, c, d"):
        PartsTransform(plan)(batch)


def test_weights_of_another_model_are_refused_by_what_differs() -> None:
    plan = cut_case(np.random.default_rng(6), "none").plan
    weights = whole_weights(unsplit(plan, "sum"))
    weights["a"] = torch.zeros(41, 8)
    weights["x"] = weights.pop("d")
    split = PartsEmbeddingBagCollection(plan)
    before = split.to_whole()
    with pytest.raises(InputError) as error:
        split.load_whole(weights)
    for words in ("no table 'd'", "'x' is unknown", r"'a' has shape (41, 8), the plan's has (40, 8)"):
        assert words in str(error.value)
    assert all(torch.equal(weight, before[name]) for name, weight in split.to_whole().items())


def test_weights_of_another_dtype_are_refused() -> None:
    plan = cut_case(np.random.default_rng(6), "none").plan
    weights = whole_weights(unsplit(plan, "sum"))
    split = PartsEmbeddingBagCollection(plan)
    before = split.to_whole()
    with pytest.raises(InputError, match=r"table 'a' has weights of float16, the plan's are float32; convert"):
        split.load_whole(weights | {"a": weights["a"].half()})
    assert all(torch.equal(weight, before[name]) for name, weight in split.to_whole().items())


def test_modules_in_place_of_weights_are_refused() -> None:
    plan = cut_case(np.random.default_rng(6), "none").plan
    with pytest.raises(InputError, match="table 'a': found EmbeddingBag; accepted: a tensor"):
        PartsEmbeddingBagCollection.from_whole(plan, unsplit(plan, "sum").embedding_bags)


def test_weights_are_not_lost_on_the_meta_device() -> None:
    plan = cut_case(np.random.default_rng(6), "none").plan
    weights = whole_weights(unsplit(plan, "sum"))
    with pytest.raises(InputError, match="stands on the meta device and has no weights"):
        PartsEmbeddingBagCollection.from_whole(plan, weights, device=torch.device("meta"))
    with pytest.raises(InputError, match="stands on the meta device and has no weights"):
        PartsEmbeddingBagCollection(plan, device=torch.device("meta")).to_whole()


def test_an_unknown_pooling_is_refused() -> None:
    plan = cut_case(np.random.default_rng(7), "none").plan
    with pytest.raises(InputError, match="found 'max'; accepted: sum, mean"):
        PartsTransform(plan, {"a": "max"})


def test_the_state_dict_of_a_plan_with_other_hot_rows_is_refused() -> None:
    plan = cut_case(np.random.default_rng(3), "row").plan
    first, same, other = (PartsEmbeddingBagCollection(plan) for _ in range(3))
    state = first.state_dict()
    same.load_state_dict(state)
    assert all(torch.equal(weight, same.to_whole()[name]) for name, weight in first.to_whole().items())
    remap = next(remap for remap in other.layout.remaps if remap.ranks is not None)
    assert remap.ranks is not None
    remap.ranks[[0, 1]] = remap.ranks[[1, 0]]  # as another trace would have them
    before = other.to_whole()
    with pytest.raises(InputError, match=f"table '{remap.table}': the state dict is of another plan"):
        other.load_state_dict(state)
    assert all(torch.equal(weight, before[name]) for name, weight in other.to_whole().items())
