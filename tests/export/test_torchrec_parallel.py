"""Two processes train a plan under `DistributedModelParallel` to the weights of the model that was not split."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torchrec", reason="TorchRec is not installed")

import torch
from safetensors.torch import load_file

from tests.export import torchrec_worker as worker

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All cases, trained by the same two processes: loading TorchRec takes seconds."""
    folder = tmp_path_factory.mktemp("trained")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-m", "tests.export.torchrec_worker"]
    running = [
        subprocess.Popen(
            [*command, str(rank), str(folder), *worker.CASES],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(worker.WORLD)
    ]
    try:
        said = [process.communicate(timeout=300)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    for process, text in zip(running, said, strict=True):
        assert process.returncode == 0, text[-4000:]
    return folder


def unsplit(name: str) -> dict[str, torch.Tensor]:
    """Return the weights after training in one process, by torch's own bags and formulas."""
    case, plan = worker.CASES[name], worker.cut_of(name).plan
    start = worker.initial(plan)
    model = worker.Model(worker.whole_ebc(plan.tables, case.pooling), start["over"].shape[1])
    bags = {name: bag.weight for name, bag in model.pooled.embedding_bags.items()}
    with torch.no_grad():
        model.over.weight.copy_(start["over"])
        model.over.bias.zero_()
        for table, weight in bags.items():
            weight.copy_(start[table])
    state = {table: torch.zeros(len(weight)) for table, weight in bags.items()}
    for step in range(worker.STEPS):
        model.zero_grad()
        losses = [model(worker.batch_of(plan, step, rank)) for rank in range(worker.WORLD)]
        torch.stack(losses).mean().backward()
        with torch.no_grad():
            for table, weight in bags.items():
                change = weight.grad
                if case.optimizer == "adagrad":
                    state[table] += change.square().mean(dim=1)
                    change = change / (state[table].sqrt() + worker.EPS)[:, None]
                weight -= worker.RATE * change
            for weight in model.over.parameters():
                weight -= worker.RATE * weight.grad
    return {table: weight.detach() for table, weight in bags.items()} | {"over": model.over.weight.detach()}


@pytest.mark.parametrize("name", worker.CASES)
def test_two_processes_train_to_the_weights_of_the_unsplit_model(trained: Path, name: str) -> None:
    files = [load_file(trained / f"{name}.{rank}.safetensors") for rank in range(worker.WORLD)]
    start = worker.initial(worker.cut_of(name).plan)
    for key, expected in unsplit(name).items():
        assert not torch.allclose(expected, start[key], rtol=1e-4, atol=1e-5)  # it did learn
        found = torch.full_like(expected, float("nan"))
        for file in files:
            for piece, weight in file.items():
                table, *corner = piece.split("|")
                if table == key:
                    row, column = map(int, corner or (0, 0))
                    found[row : row + weight.shape[0], column : column + weight.shape[1]] = weight
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name, case in worker.CASES.items() if case.by != "whole"])
def test_every_process_puts_the_same_tables_together(trained: Path, name: str) -> None:
    first, second = (load_file(trained / f"{name}.{rank}.safetensors") for rank in range(worker.WORLD))
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_a_planner_that_refuses_refuses_in_every_process(trained: Path) -> None:
    for rank in range(worker.WORLD):
        assert "no table 'a'" in (trained / f"refusal.{rank}").read_text()
