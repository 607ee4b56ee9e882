"""With a GPU: rows in its memory and in pinned host memory that it reads in place train as those in memory do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from recshard.runtime.checkpoint import load_checkpoint, save_checkpoint
from recshard.runtime.collection import TieredEmbeddingBagCollection
from recshard.runtime.optim import optimizer_for
from recshard.runtime.weights import tables_in, whole
from recshard.tables import Dtype, Optimizer
from tests.runtime.cases import loss_of, random_batch, random_weights, runnable

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
GPU = {"hbm": "cuda", "dram": "host", "uvm": "uvm"}
HOST = {"hbm": "host", "dram": "host", "uvm": "host"}
TOLERANCE = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 6e-2}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("optimizer", ["sgd", "rowwise_adagrad"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gpu_trains_to_the_weights_of_the_cpu(dtype: Dtype, optimizer: Optimizer, weighted: bool) -> None:
    results = []
    for places in (GPU, HOST):
        rng = np.random.default_rng(4)
        plan = runnable(rng, "both", optimizer, dtype)
        weights = random_weights(rng, plan.tables.tables)
        module = TieredEmbeddingBagCollection.from_plan(plan, places=places, weights=weights)
        for name, weight in whole(module).items():
            assert torch.equal(weight, weights[name])
        rows = optimizer_for(module, plan, 0.02)
        for step in range(6):
            batch = random_batch(rng, plan.tables.tables, weighted)
            rows.zero_grad()
            outputs = module(batch)
            assert all(out.is_cuda == (places is GPU) for out in outputs.values())
            loss_of({feature: out.cpu() for feature, out in outputs.items()}, step).backward()
            rows.step()
        results.append(whole(module))
    for name, weight in results[1].items():
        torch.testing.assert_close(results[0][name], weight, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_all_features_come_out_on_the_gpu_that_some_tables_are_on() -> None:
    rng = np.random.default_rng(3)
    plan = runnable(rng, "none")
    module = TieredEmbeddingBagCollection.from_plan(plan, places={"hbm": "host", "dram": "cuda", "uvm": "host"})
    on_gpu = {any(weight.is_cuda for weight in table.weights) for table in tables_in(module).values()}
    assert on_gpu == {True, False}
    outputs = module(random_batch(rng, plan.tables.tables))
    assert all(out.is_cuda for out in outputs.values())
    loss_of({feature: out.cpu() for feature, out in outputs.items()}, 0).backward()


def test_pinned_rows_are_one_memory_for_both_sides() -> None:
    plan = runnable(np.random.default_rng(0), "none", "rowwise_adagrad")
    module = TieredEmbeddingBagCollection.from_plan(plan, places=dict.fromkeys(GPU, "uvm"))
    for table in tables_in(module).values():
        for weight, block in zip(table.weights, table.blocks, strict=True):
            assert weight.is_cuda
            assert block.host.is_pinned()
            assert weight.data_ptr() == block.host.data_ptr()
            block.host.fill_(3)
            assert bool((weight + 0 == 3).all())
            with torch.no_grad():
                weight.index_copy_(0, torch.tensor([0], device="cuda"), torch.ones_like(weight[:1]))
            torch.cuda.synchronize()
            assert bool((block.host[0] == 1).all())


def test_a_checkpoint_of_the_gpu_goes_on_on_the_cpu(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    plan = runnable(rng, "both", "rowwise_adagrad")
    gpu = TieredEmbeddingBagCollection.from_plan(plan, places=GPU)
    optimizer = optimizer_for(gpu, plan, 0.1)
    loss_of({f: out.cpu() for f, out in gpu(random_batch(rng, plan.tables.tables)).items()}, 0).backward()
    optimizer.step()
    save_checkpoint(gpu, tmp_path / "c", optimizer)
    cpu = TieredEmbeddingBagCollection.from_plan(plan, places=HOST)
    other = optimizer_for(cpu, plan, 0.1)
    load_checkpoint(cpu, tmp_path / "c", other)
    for name, weight in whole(gpu).items():
        assert torch.equal(whole(cpu)[name], weight)
    for mine, block in zip(optimizer.blocks.values(), other.blocks.values(), strict=True):
        assert torch.equal(mine.host.cpu(), block.host)
