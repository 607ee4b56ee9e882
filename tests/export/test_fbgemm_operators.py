"""FBGEMM's own operators, made from a plan and fed through its remaps, are the unsplit model."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.errors import InputError
from recshard.export.fbgemm import export_fbgemm, load_fbgemm, operator, put_in_place, specs_of
from recshard.plan import Plan
from tests.plans import Kind, cut_case
from tests.runtime.cases import Bags, Unsplit, loss_of, random_batch, random_weights, runnable

pytest.importorskip("fbgemm_gpu", reason="fbgemm_gpu is not installed: pip install recshard[torchrec]")

KINDS = st.sampled_from(["none", "column", "row", "both"])
SEEDS = st.integers(0, 2**32 - 1)
CLOSE = {"rtol": 1e-5, "atol": 1e-5}  # float32 sums in another order
LR, EPS = 0.1, 1e-8


def batches(rng: np.random.Generator, plan: Plan, n: int, weighted: bool = False) -> list[Bags]:
    return [random_batch(rng, plan.tables.tables, weighted) for _ in range(n)]


def tracked(batch: Bags) -> Bags:
    """Return the batch with weights of lookups whose gradient is asked for."""
    return {
        f: (rows, lengths, *(w.clone().requires_grad_() for w in rest))
        for f, (rows, lengths, *rest) in batch.items()
    }


@settings(max_examples=25, deadline=None)
@given(SEEDS, KINDS, st.booleans())
def test_outputs_over_all_devices_are_those_of_the_unsplit_model(seed: int, kind: Kind, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    plan = runnable(rng, kind)
    weights = random_weights(rng, plan.tables.tables)
    (batch,) = batches(rng, plan, 1, weighted)
    devices = [operator(plan, d, weights=weights, use_cpu=True) for d in range(plan.problem.devices)]
    here, there = tracked(batch), tracked(batch)
    found = put_in_place([device(here) for device in devices])
    expected = Unsplit(plan.tables.tables, weights)(there)
    assert found.keys() == expected.keys()
    for feature, pooled in expected.items():
        torch.testing.assert_close(found[feature], pooled, **CLOSE)
    if weighted:
        loss_of(found, 0).backward()
        loss_of(expected, 0).backward()
        for feature in batch:
            torch.testing.assert_close(here[feature][2].grad, there[feature][2].grad, **CLOSE)


@pytest.mark.parametrize("optimizer", ["sgd", "rowwise_adagrad"])
@settings(max_examples=12, deadline=None)
@given(SEEDS, KINDS)
def test_five_steps_end_at_the_weights_of_the_unsplit_model(optimizer: str, seed: int, kind: Kind) -> None:
    rng = np.random.default_rng(seed)
    plan = runnable(rng, kind, "adagrad")  # declared, and not what is asked for
    weights = random_weights(rng, plan.tables.tables)
    devices = [
        operator(plan, d, weights=weights, use_cpu=True, optimizer=optimizer, learning_rate=LR, eps=EPS)
        for d in range(plan.problem.devices)
    ]
    unsplit = Unsplit(plan.tables.tables, weights)
    # Column shards keep a row's state each for its own columns: the reference does the same.
    cuts = {
        j: sorted({(int(plan.shards.first_column[s]), int(plan.shards.columns[s])) for s in plan.shards_of(j)})
        for j in range(len(plan.tables))
    }
    states = {(j, first): torch.zeros(plan.tables.tables[j].rows) for j in cuts for first, _ in cuts[j]}
    for step, batch in enumerate(batches(rng, plan, 5)):
        loss_of(put_in_place([device(batch) for device in devices]), step).backward()
        unsplit.zero_grad()
        loss_of(unsplit(batch), step).backward()
        with torch.no_grad():
            for j, table in enumerate(plan.tables.tables):
                weight = unsplit.bags[table.name].weight
                for first, columns in cuts[j]:
                    gradient = weight.grad[:, first : first + columns]
                    change = gradient
                    if optimizer == "rowwise_adagrad":
                        states[j, first] += gradient.square().mean(1)
                        change = gradient / (states[j, first].sqrt() + EPS)[:, None]
                    weight[:, first : first + columns] -= LR * change
    trained = {name: torch.full_like(weight, torch.nan) for name, weight in weights.items()}
    for device in devices:
        device.write_whole(trained)
    for name, weight in unsplit.weights().items():
        torch.testing.assert_close(trained[name], weight, rtol=1e-4, atol=1e-4)


def test_operators_made_from_files_are_those_made_from_the_plan(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    plan = runnable(rng, "both")
    export_fbgemm(plan, tmp_path / "specs")
    weights = random_weights(rng, plan.tables.tables)
    (batch,) = batches(rng, plan, 1)
    for d in range(plan.problem.devices):
        from_files = operator(tmp_path / "specs", d, weights=weights, use_cpu=True)(batch)
        from_plan = operator(plan, d, weights=weights, use_cpu=True)(batch)
        assert from_files.keys() == from_plan.keys()
        assert all(torch.equal(from_files[key], from_plan[key]) for key in from_plan)


def test_weights_come_back_bit_by_bit_and_start_small_where_none_are_given() -> None:
    rng = np.random.default_rng(5)
    plan = runnable(rng, "both", dtype="float16")
    weights = random_weights(rng, plan.tables.tables)
    back = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    for d in range(plan.problem.devices):
        operator(plan, d, weights=weights, use_cpu=True).write_whole(back)
    assert all(torch.equal(back[name], weights[name]) for name in weights)
    fresh = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    for d in range(plan.problem.devices):
        operator(plan, d, use_cpu=True).write_whole(fresh)
    for weight in fresh.values():
        assert 0 < weight.float().abs().max() <= len(weight) ** -0.5 + 1e-3
        assert weight.float().std() > 0.3 * len(weight) ** -0.5


def test_caches_are_written_back_before_weights_are_read_and_emptied_once_they_are_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A cache stands on a GPU only; what is asked of the operator is the same everywhere.
    rng = np.random.default_rng(5)
    plan = runnable(rng, "none", devices=1)
    weights = random_weights(rng, plan.tables.tables)
    device = operator(plan, 0, weights=weights, use_cpu=True)
    (op,) = device.operators
    done: list[str] = []
    for name in ("flush", "split_embedding_weights", "reset_cache_states"):
        real = getattr(op, name)

        def noted(name: str = name, real: Callable[[], object] = real) -> object:
            done.append(name)
            return real()

        monkeypatch.setattr(op, name, noted)
    device.write_whole({name: weight.clone() for name, weight in weights.items()})
    assert done == ["flush", "split_embedding_weights"]
    done.clear()
    device.load_whole(weights)
    assert done == ["flush", "split_embedding_weights", "reset_cache_states"]


def test_a_device_has_an_operator_for_each_optimizer_and_no_more() -> None:
    rng = np.random.default_rng(7)
    plan = runnable(rng, "none", devices=1)
    first, *others = plan.tables.tables
    plan = replace(plan, tables=plan.tables.with_tables((replace(first, optimizer="rowwise_adagrad"), *others)))
    weights = random_weights(rng, plan.tables.tables)
    (batch,) = batches(rng, plan, 1)
    mixed, alike = (
        operator(plan, 0, weights=weights, use_cpu=True),
        operator(plan, 0, use_cpu=True, optimizer="sgd"),
    )
    assert [len(mixed.operators), len(alike.operators)] == [2, 1]
    found, expected = put_in_place([mixed(batch)]), Unsplit(plan.tables.tables, weights)(batch)
    for feature, pooled in expected.items():
        torch.testing.assert_close(found[feature], pooled, **CLOSE)


def test_a_device_that_holds_nothing_answers_with_nothing() -> None:
    plan = runnable(np.random.default_rng(1), "none", devices=1)
    specs = specs_of(plan)
    assert operator(replace(specs, devices=(*specs.devices, ())), 1, use_cpu=True)({}) == {}


def test_what_fbgemm_has_no_operator_for_is_refused() -> None:
    rng = np.random.default_rng(2)
    plan = cut_case(rng, "none", devices=1).plan  # table b declares adam
    with pytest.raises(
        InputError, match=r"part 'b.*': optimizer: FBGEMM has no 'adam' on the CPU; accepted there"
    ):
        operator(plan, 0, use_cpu=True)
    with pytest.raises(InputError, match=r"optimizer: found 'adagard' .did you mean 'adagrad'"):
        operator(plan, 0, use_cpu=True, optimizer="adagard")
    with pytest.raises(InputError, match="device: found 1; accepted: 0 to 0"):
        operator(plan, 1, use_cpu=True)
    runs = runnable(rng, "none", devices=1)
    with pytest.raises(InputError, match="dtype: found 'int8'; accepted: float32, float16"):
        operator(runnable(rng, "none", dtype="int8", devices=1), 0, use_cpu=True)
    specs = specs_of(runs)
    odd = tuple(spec.model_copy(update={"dim": 6}) for spec in specs.devices[0])
    with pytest.raises(InputError, match="dim: found 6; FBGEMM accepts multiples of 4"):
        operator(replace(specs, devices=(odd,)), 0, use_cpu=True)
    weights = random_weights(rng, runs.tables.tables)
    with pytest.raises(InputError, match=r"weights: table 'a': found shape \(40, 4\); accepted: \(40, 8\)"):
        operator(runs, 0, use_cpu=True, weights=weights | {"a": weights["a"][:, :4]})
    with pytest.raises(InputError, match="weights: table 'a' is missing"):
        operator(runs, 0, use_cpu=True, weights={})


def test_weights_of_another_dtype_are_refused_in_and_out() -> None:
    rng = np.random.default_rng(2)
    plan = runnable(rng, "none", devices=1)
    weights = random_weights(rng, plan.tables.tables)
    device = operator(plan, 0, use_cpu=True)
    wrong = weights | {"a": weights["a"].half()}
    for call in (device.load_whole, device.write_whole):
        with pytest.raises(InputError, match=r"table 'a': found float16; accepted: float32, .*; convert"):
            call(wrong)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"wieght_decay": 0.1}, r"option 'wieght_decay': .*did you mean 'weight_decay'"),
        ({"pooling_mode": 1}, "option 'pooling_mode': found one of your own; accepted: none"),
        ({"learning_rate": -0.1}, "learning_rate: found -0.1; accepted: a number, 0 or more"),
        ({"learning_rate": float("nan")}, "learning_rate: found nan"),
        ({"learning_rate": "fast"}, "learning_rate: found 'fast'"),
        ({"device": "0"}, "device: found 0; accepted: 0 to 0"),
        ({"weights": {"a": torch.nn.EmbeddingBag(40, 8)}}, "table 'a': found EmbeddingBag; accepted: a tensor"),
    ],
)
def test_options_that_make_no_operator_are_refused(options: dict[str, Any], words: str) -> None:
    plan = runnable(np.random.default_rng(2), "none", devices=1)
    with pytest.raises(InputError, match=words):
        operator(plan, **({"device": 0, "use_cpu": True} | options))


def test_operators_for_a_gpu_are_refused_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="use_cpu: found False, and torch finds no CUDA here"):
        operator(runnable(np.random.default_rng(2), "none", devices=1), 0, use_cpu=False)


def test_a_row_beyond_its_table_is_named() -> None:
    plan = runnable(np.random.default_rng(4), "none", devices=1)
    batch: Bags = {f.name: (torch.tensor([3]), torch.tensor([1])) for f in plan.tables.features}
    batch["d"] = (torch.tensor([7]), torch.tensor([1]))
    with pytest.raises(InputError, match="table 'd': found ID 7 at lookup 0; accepted: rows 0 to 6"):
        operator(plan, 0, use_cpu=True)(batch)


def test_without_fbgemm_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = runnable(np.random.default_rng(4), "none", devices=1)
    monkeypatch.setitem(sys.modules, "fbgemm_gpu.split_table_batched_embeddings_ops_training", None)
    with pytest.raises(InputError, match=r"fbgemm_gpu cannot be imported .*; install recshard\[torchrec\]"):
        operator(plan, 0, use_cpu=True)


def test_specs_read_back_are_the_plan_s(tmp_path: Path) -> None:
    plan = cut_case(np.random.default_rng(8), "both").plan
    export_fbgemm(plan, tmp_path / "specs")
    read, made = load_fbgemm(tmp_path / "specs"), specs_of(plan)
    assert read.devices == made.devices
    assert read.remaps.keys() == made.remaps.keys() == {table.name for table in plan.tables.tables}
    for name, remap in made.remaps.items():
        assert read.remaps[name].parts == remap.parts
        assert np.array_equal(read.remaps[name].ranks, remap.ranks)  # two Nones are equal too
