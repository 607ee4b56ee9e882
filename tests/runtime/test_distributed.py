"""Two processes, a device each, are one model: outputs, gradients, weights and checkpoints of one process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from recshard.errors import InputError
from recshard.runtime.checkpoint import save_checkpoint
from recshard.runtime.collection import TieredEmbeddingBagCollection
from recshard.runtime.distributed import DistributedTieredEmbeddingBagCollection
from recshard.runtime.optim import optimizer_for
from tests.runtime.cases import PLACES, Unsplit, loss_of
from tests.runtime.distributed_worker import CASES, LR, Case, setting

SIZE = 2
CLOSE = {"rtol": 1e-4, "atol": 1e-4}  # float32 sums in another order, over five steps


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes wrote, which ran all cases."""
    folder = tmp_path_factory.mktemp("ranks")
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.runtime.distributed_worker", str(folder)]
    ranks = [
        subprocess.Popen([*command, str(r), str(SIZE)], cwd=root, stderr=subprocess.PIPE, text=True)
        for r in range(SIZE)
    ]
    try:
        said = [rank.communicate(timeout=240)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * SIZE, "\n".join(said)
    return folder


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_two_processes_are_one_model(case: Case, folder: Path, tmp_path: Path) -> None:
    plan, weights, steps = setting(case, SIZE)
    module = TieredEmbeddingBagCollection.from_plan(plan, places=PLACES, weights=weights, mode=case.mode)
    optimizer = optimizer_for(module, plan, LR)
    found = [load_file(folder / f"{case.name}-{rank}.safetensors") for rank in range(SIZE)]
    for step, batches in enumerate(steps):
        outputs = [module(batch) for batch in batches]
        losses = [loss_of(out, step * SIZE + rank) for rank, out in enumerate(outputs)]
        # A rank's own weights of lookups have the gradient of its own loss, by either convention.
        own = [b[f][2] for b in batches for f in b if len(b[f]) == 3]
        of_weights = torch.autograd.grad(sum(losses), own, retain_graph=True) if own else ()
        (sum(losses) / (SIZE if case.average else 1)).backward(inputs=list(module.parameters()))
        optimizer.step()
        optimizer.zero_grad()
        for rank, out in enumerate(outputs):
            for feature, pooled in out.items():
                torch.testing.assert_close(found[rank][f"{step}/{feature}"], pooled, **CLOSE)
        names = [(r, f) for r, b in enumerate(batches) for f in b if len(b[f]) == 3]
        for (rank, feature), gradient in zip(names, of_weights, strict=True):
            torch.testing.assert_close(found[rank][f"{step}/{feature}/weights"], gradient, **CLOSE)
    save_checkpoint(module, tmp_path / "one", optimizer)
    two, one = folder / f"{case.name}-checkpoint", tmp_path / "one"
    assert (two / "checkpoint.json").read_bytes() == (one / "checkpoint.json").read_bytes()
    for file in one.glob("*.safetensors"):
        trained = load_file(two / file.name)
        for key, tensor in load_file(file).items():
            torch.testing.assert_close(trained[key], tensor, **CLOSE)


def test_outputs_before_training_are_those_of_the_unsplit_model(folder: Path) -> None:
    for case in CASES:
        plan, weights, steps = setting(case, SIZE)
        unsplit = Unsplit(plan.tables.tables, weights, case.mode)
        for rank in range(SIZE):
            found = load_file(folder / f"{case.name}-{rank}.safetensors")
            for feature, pooled in unsplit(steps[0][rank]).items():
                torch.testing.assert_close(found[f"0/{feature}"], pooled, **CLOSE)


@pytest.mark.parametrize(
    ("what", "culprit", "message"),
    [
        ("a row beyond the table", 1, "feature 'd': table 'd': found ID 7 at lookup 0; accepted: rows 0 to 6"),
        ("a missing feature", 0, "batch: feature 'a_last' is missing"),
        ("an empty one", 1, "batch: feature 'a' is missing; found: none"),
        ("a folder that is taken", 0, "taken: exists and is not a folder with a checkpoint.json"),
        ("a damaged checkpoint", 1, "cannot be read"),
        ("rows that left their tier", 1, "are no longer in the memory of their tier"),
        ("weights of another model", 1, "table 'a': rows: found 39, the plan has 40"),
    ],
)
def test_what_is_wrong_on_one_rank_is_refused_by_all_at_once(
    folder: Path, what: str, culprit: int, message: str
) -> None:
    for rank in range(SIZE):
        said = json.loads((folder / f"errors-{rank}.json").read_text())[what]
        assert said["error"] == "InputError"
        assert message in said["message"]
        assert said["message"].startswith(f"rank {culprit}: ") == (rank != culprit)
        assert said["seconds"] < 10


def test_an_error_of_another_kind_stops_the_other_ranks_too(folder: Path) -> None:
    own, other = (json.loads((folder / f"errors-{r}.json").read_text())["no batch at all"] for r in range(SIZE))
    assert own["error"] == "AttributeError"
    assert (other["error"], other["message"]) == (
        "InputError",
        "rank 0: an error that is not recshard's; see its own output",
    )


def test_what_ranks_disagree_on_is_named(folder: Path) -> None:
    for rank in range(SIZE):
        errors = json.loads((folder / f"errors-{rank}.json").read_text())
        assert "some ranks give the state of its optimizer" in errors["state on one rank"]["message"]
        assert "torch.no_grad: on for some ranks" in errors["gradients on one rank"]["message"]
        assert (
            "found 2 processes; accepted: 3, one for each device" in errors["another number of devices"]["message"]
        )


def test_a_checkpoint_goes_on_under_another_plan_bit_by_bit(folder: Path) -> None:
    before, after = folder / f"{CASES[3].name}-checkpoint", folder / "gone-on"
    for file in before.glob("*.safetensors"):
        assert torch.equal(load_file(file)["weight"], load_file(after / file.name)["weight"])


def test_ranks_with_one_seed_draw_other_rows(folder: Path) -> None:
    for file in (folder / "random").glob("*.safetensors"):
        weight = load_file(file)["weight"]
        assert len(weight.unique()) > 0.99 * weight.numel()


def test_one_process_without_torch_distributed_is_told_what_to_do() -> None:
    plan, *_ = setting(CASES[0], SIZE)
    with pytest.raises(InputError, match=r"torch\.distributed is not initialised; call .* or use Tiered"):
        DistributedTieredEmbeddingBagCollection.from_plan(plan)
