"""One of several processes over gloo: runs every case of `test_distributed` and writes down what it got.

    python -m tests.runtime.distributed_worker FOLDER RANK SIZE

Both sides draw plans, weights and batches from the same seeds; nothing is handed over but files.
"""

from __future__ import annotations

import copy
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import Tensor

from recshard.errors import InputError
from recshard.plan import Plan
from recshard.runtime.distributed import DistributedTieredEmbeddingBagCollection as Distributed
from recshard.runtime.optim import optimizer_for
from recshard.tables import Optimizer
from tests.plans import Kind
from tests.runtime.cases import PLACES, Bags, loss_of, random_batch, random_weights, runnable

STEPS = 5
LR = 0.05
KINDS: tuple[Kind, ...] = ("none", "column", "row", "both")
Errors = dict[str, dict[str, object]]


@dataclass(frozen=True)
class Case:
    """A model that is trained for some steps.

    Attributes:
        average: gradients are those of the mean of the ranks' losses.
        weighted: lookups have weights, whose gradient one rank asks for.
    """

    seed: int
    kind: Kind
    optimizer: Optimizer = "rowwise_adagrad"
    average: bool = False
    weighted: bool = False
    mode: str = "sum"

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.optimizer}-{self.seed}"


CASES = [Case(seed, kind, "sgd" if seed % 2 else "rowwise_adagrad") for seed in range(2) for kind in KINDS] + [
    Case(10, "both", average=True),
    Case(11, "both", "sgd", average=True, weighted=True),
    Case(12, "row", "sgd", weighted=True),
    Case(13, "both", "sgd", mode="mean"),
]


def setting(case: Case, size: int) -> tuple[Plan, dict[str, Tensor], list[list[Bags]]]:
    """Return a plan, the weights to begin with, and the batch of every step and rank: ranks have uneven ones."""
    rng = np.random.default_rng(case.seed)
    plan = runnable(rng, case.kind, case.optimizer, devices=size)
    weights = random_weights(rng, plan.tables.tables)
    steps = [[random_batch(rng, plan.tables.tables) for _ in range(size)] for _ in range(STEPS)]
    steps[2][1] = {feature: (rows[:0], lengths[:0]) for feature, (rows, lengths, *_) in steps[2][1].items()}
    if case.weighted:
        # Weights on one rank, of two features: the other rank's lookups and features count once each.
        for step in steps:
            for feature in ("a", "c"):
                rows, lengths, *_ = step[0][feature]
                given = torch.from_numpy(rng.normal(size=len(rows))).float().requires_grad_()
                step[0][feature] = (rows, lengths, given)
    return plan, weights, steps


def train(case: Case, rank: int, size: int, folder: Path) -> None:
    plan, weights, steps = setting(case, size)
    module = Distributed.from_plan(plan, places=PLACES, weights=weights, average=case.average, mode=case.mode)
    optimizer = optimizer_for(module, plan, LR)
    results: dict[str, Tensor] = {}
    for step, batches in enumerate(steps):
        with torch.no_grad():
            unseen = module(batches[rank])
        outputs = module(batches[rank])
        assert all(torch.equal(unseen[feature], pooled) for feature, pooled in outputs.items())
        loss_of(outputs, step * size + rank).backward()
        optimizer.step()
        optimizer.zero_grad()
        results |= {f"{step}/{feature}": pooled.detach().contiguous() for feature, pooled in outputs.items()}
        for feature, (_, _, *given) in batches[rank].items():
            if given and given[0].grad is not None:
                results[f"{step}/{feature}/weights"] = given[0].grad
    save_file(results, folder / f"{case.name}-{rank}.safetensors")
    module.save_checkpoint(folder / f"{case.name}-checkpoint", optimizer)


def caught(act: Callable[[], object]) -> dict[str, object]:
    """Return the error that an act ends with, and the seconds that it took."""
    began = time.monotonic()
    try:
        act()
    except (InputError, AttributeError) as error:
        return {"error": type(error).__name__, "message": str(error), "seconds": time.monotonic() - began}
    return {"error": None, "message": "", "seconds": time.monotonic() - began}


def refuse(rank: int, size: int, folder: Path) -> Errors:
    """Return what a rank says of input that is bad on one of them; between two of these, a step that works."""
    plan, weights, steps = setting(CASES[3], size)
    module = Distributed.from_plan(plan, places=PLACES, weights=weights)
    good = steps[0][rank]
    before = {name: part.detach().clone() for name, part in module.named_parameters()}
    found: Errors = {}

    def check(name: str, act: Callable[[], object]) -> None:
        found[name] = caught(act)
        loss_of(module(good), 0).backward()

    seventh = torch.full_like(good["d"][1], 7), torch.ones_like(good["d"][1])  # table d has rows 0 to 6
    check("a row beyond the table", lambda: module(good | {"d": seventh} if rank == 1 else good))
    check("a missing feature", lambda: module({"a": good["a"]} if rank == 0 else good))
    check("no batch at all", lambda: module([1, 2] if rank == 0 else good))
    check("an empty one", lambda: module({} if rank == 1 else good))

    def silent() -> None:
        with torch.set_grad_enabled(rank == 0):
            module(good)

    check("gradients on one rank", silent)
    taken = folder / "taken"
    check("a folder that is taken", lambda: module.save_checkpoint(taken))
    moved = copy.deepcopy(module)
    if rank == 1:
        moved.load_state_dict({name: value.clone() for name, value in moved.state_dict().items()}, assign=True)
    check("rows that left their tier", lambda: moved.save_checkpoint(folder / "moved"))
    optimizer = optimizer_for(module, plan, LR) if rank == 1 else None
    check("state on one rank", lambda: module.save_checkpoint(folder / "moved", optimizer))
    damaged = folder / f"{CASES[3].name}-{'damaged' if rank == 1 else 'checkpoint'}"
    check("a damaged checkpoint", lambda: module.load_checkpoint(damaged))
    assert all(torch.equal(part, before[name]) for name, part in module.named_parameters())
    other, *_ = setting(CASES[2], size + 1)
    check("another number of devices", lambda: Distributed.from_plan(other, places=PLACES))
    short = weights | ({"a": weights["a"][:-1]} if rank == 1 else {})
    check("weights of another model", lambda: Distributed.from_plan(plan, places=PLACES, weights=short))
    return found


def go_on(rank: int, size: int, folder: Path) -> None:
    """Go on from the checkpoint of one plan under another, and write a checkpoint."""
    plan, *_ = setting(CASES[2], size)
    module = Distributed.from_plan(plan, places=PLACES)
    optimizer = optimizer_for(module, plan, LR)
    module.load_checkpoint(folder / f"{CASES[3].name}-checkpoint", optimizer)
    module.save_checkpoint(folder / "gone-on", optimizer)


def begin(folder: Path) -> None:
    """Draw a model's rows, the seed being the same on all ranks, and write a checkpoint of them."""
    plan, *_ = setting(CASES[3], dist.get_world_size())
    torch.manual_seed(5)
    module = Distributed.from_plan(plan, places=PLACES)
    drawn_next = module.ranks.tell([int(torch.randint(2**40, ()))])
    assert (drawn_next == drawn_next[0]).all()
    module.save_checkpoint(folder / "random")


def main() -> None:
    folder, rank, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=size, timeout=timedelta(seconds=60)
    )
    for case in CASES:
        train(case, rank, size, folder)
    if rank == 0:
        damage(folder / f"{CASES[3].name}-checkpoint", folder / f"{CASES[3].name}-damaged")
        (folder / "taken").mkdir()
        (folder / "taken" / "diary.txt").write_text("mine")
    dist.barrier()
    errors = refuse(rank, size, folder)
    go_on(rank, size, folder)
    begin(folder)
    (folder / f"errors-{rank}.json").write_text(json.dumps(errors))
    dist.destroy_process_group()


def damage(checkpoint: Path, copy: Path) -> None:
    """Copy a checkpoint, the file of every table cut short."""
    copy.mkdir()
    for file in checkpoint.iterdir():
        content = file.read_bytes()
        (copy / file.name).write_bytes(content if file.suffix == ".json" else content[:-8])


if __name__ == "__main__":
    main()
