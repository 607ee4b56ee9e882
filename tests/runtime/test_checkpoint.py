"""Checkpoints are of whole tables, go on under another plan, and are read and written whole or not at all."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor

from recshard.errors import InputError
from recshard.plan import Plan
from recshard.runtime.checkpoint import load_checkpoint, save_checkpoint
from recshard.runtime.collection import TieredEmbeddingBagCollection
from recshard.runtime.device import DeviceShards
from recshard.runtime.optim import RowOptimizer, optimizer_for
from recshard.runtime.weights import tables_in, whole
from tests.plans import SIZES, Kind
from tests.runtime.cases import PLACES, loss_of, random_batch, runnable

Pair = tuple[TieredEmbeddingBagCollection, RowOptimizer]


def plan_of(kind: Kind, seed: int = 0) -> Plan:
    return runnable(np.random.default_rng(seed), kind, "rowwise_adagrad")


def model(plan: Plan, places: dict[str, str] | None = None) -> Pair:
    module = TieredEmbeddingBagCollection.from_plan(plan, places=places)
    return module, optimizer_for(module, plan, 0.1)


def train(pair: Pair, seed: int, steps: int = 3) -> None:
    rng = np.random.default_rng(seed)
    for step in range(steps):
        pair[1].zero_grad()
        loss_of(pair[0](random_batch(rng, pair[0].model.tables)), step).backward()
        pair[1].step()


def bytes_of(pair: Pair) -> list[bytes]:
    tensors = [block.host for table in tables_in(pair[0]).values() for block in table.blocks]
    return [t.numpy().tobytes() for t in tensors + [block.host for block in pair[1].blocks.values()]]


@pytest.mark.parametrize(("first", "second"), [("none", "row"), ("row", "none"), ("both", "both"), ("row", "row")])
def test_training_goes_on_under_another_plan(tmp_path: Path, first: Kind, second: Kind) -> None:
    one = model(plan_of(first, 1), PLACES)
    other = model(plan_of(second, 1 if first == "both" else 2))
    train(one, 5)
    save_checkpoint(one[0], tmp_path / "c", one[1])
    load_checkpoint(other[0], tmp_path / "c", other[1])
    for name, weight in whole(one[0]).items():
        assert torch.equal(weight, whole(other[0])[name])
    train(one, 6)
    train(other, 6)
    for name, weight in whole(one[0]).items():
        torch.testing.assert_close(whole(other[0])[name], weight, rtol=0, atol=1e-4)


def test_state_of_columns_cut_elsewhere_is_their_mean(tmp_path: Path) -> None:
    cut, uncut = model(plan_of("column", 4)), model(plan_of("none", 4))
    train(cut, 7)
    save_checkpoint(cut[0], tmp_path / "c", cut[1])
    load_checkpoint(uncut[0], tmp_path / "c", uncut[1])
    mixed = 0
    for name, table in tables_in(cut[0]).items():
        mean = torch.zeros(table.remap.rows)
        for part, weight, _ in table.parts():
            rows = torch.from_numpy(table.remap.rows_of(part))
            mean[rows] += cut[1].blocks[weight].host * part.columns / table.dim
        mixed += len(table.remap.covers) > 1
        for part, weight, _ in tables_in(uncut[0])[name].parts():
            rows = torch.from_numpy(tables_in(uncut[0])[name].remap.rows_of(part))
            torch.testing.assert_close(uncut[1].blocks[weight].host, mean[rows], rtol=1e-6, atol=1e-8)
    assert mixed


def test_each_device_reads_its_parts(tmp_path: Path) -> None:
    plan = plan_of("both")
    module, optimizer = model(plan)
    save_checkpoint(module, tmp_path / "c", optimizer)
    for device in range(plan.problem.devices):
        shards = DeviceShards.from_plan(plan, [device])
        load_checkpoint(shards, tmp_path / "c", optimizer_for(shards, plan, 0.1))
        for name, table in tables_in(shards).items():
            for part, weight, _ in table.parts():
                rows = torch.from_numpy(table.remap.rows_of(part))
                columns = slice(part.first_column, part.first_column + part.columns)
                assert torch.equal(weight.detach(), whole(module)[name][rows, columns])


def _cut_short(folder: Path) -> None:
    file = folder / "00002.safetensors"
    file.write_bytes(file.read_bytes()[:-8])


def _narrower(folder: Path) -> None:
    weight = torch.zeros(SIZES["c"], 23)
    safetensors.torch.save_file(
        {"weight": weight, "sum[0:24]": torch.zeros(SIZES["c"])}, folder / "00002.safetensors"
    )


def _without_state(folder: Path) -> None:
    safetensors.torch.save_file({"weight": torch.zeros(SIZES["c"], 24)}, folder / "00002.safetensors")


def _missing(folder: Path) -> None:
    (folder / "00003.safetensors").unlink()


def _change(**changes: Any) -> Any:
    def damage(folder: Path) -> None:
        document = json.loads((folder / "checkpoint.json").read_text())
        document["tables"][2] |= changes
        (folder / "checkpoint.json").write_text(json.dumps(document))

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_cut_short, r"00002.safetensors: table 'c': cannot be read: .*nothing was changed"),
        (_narrower, r"table 'c': weight: found F32 of shape \[60, 23\]; accepted: F32 of shape \[60, 24\]"),
        (_without_state, r"table 'c': 'sum\[0:24\]' is missing"),
        (_missing, r"00003.safetensors: table 'd': cannot be read"),
        (_change(rows=61), r"table 'c': rows: found 61, the plan has 60"),
        (_change(dtype="float8"), r"table 'c': dtype: found 'float8'"),
        (_change(sums=[]), r"table 'c' has no optimizer state, and row-wise Adagrad needs it"),
        (_change(sums=[[0, 20]]), r"table 'c': sums: found \[\(0, 20\)\]; accepted: ranges that follow"),
        (_change(name="x"), r"table 'c' is missing; table 'x' is not the plan's"),
        (_change(more=1), r"checkpoint.json: unknown key"),
        (lambda folder: (folder / "checkpoint.json").write_text("{"), r"cannot be read as a checkpoint's JSON"),
        (lambda folder: (folder / "checkpoint.json").unlink(), r"not a checkpoint: it has no checkpoint.json"),
    ],
)
def test_a_damaged_checkpoint_changes_nothing(tmp_path: Path, damage: Any, message: str) -> None:
    saved = model(plan_of("none"))
    save_checkpoint(saved[0], tmp_path / "c", saved[1])
    damage(tmp_path / "c")
    pair = model(plan_of("row", 1))
    train(pair, 1)
    before = bytes_of(pair)
    with pytest.raises(InputError, match=message):
        load_checkpoint(pair[0], tmp_path / "c", pair[1])
    assert bytes_of(pair) == before


def test_a_failing_write_leaves_the_old_checkpoint_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = model(plan_of("row"))
    save_checkpoint(pair[0], tmp_path / "c", pair[1])
    before = {file.name: file.read_bytes() for file in (tmp_path / "c").iterdir()}
    train(pair, 1)
    real = safetensors.torch.save_file

    def fail(tensors: dict[str, Tensor], path: Path) -> None:
        if path.name.startswith("00002"):
            raise safetensors.SafetensorError("I/O error: No space left on device (os error 28)")
        real(tensors, path)

    monkeypatch.setattr(safetensors.torch, "save_file", fail)
    with pytest.raises(InputError, match=r"table 'c' cannot be written: .*No space left"):
        save_checkpoint(pair[0], tmp_path / "c", pair[1])
    assert {file.name: file.read_bytes() for file in (tmp_path / "c").iterdir()} == before
    assert [file.name for file in tmp_path.iterdir()] == ["c"]


def test_an_optimizer_takes_its_own_state_back_and_no_other() -> None:
    pair, again = model(plan_of("row"), PLACES), model(plan_of("row"), PLACES)
    train(pair, 2)
    again[1].load_state_dict(pair[1].state_dict())
    assert bytes_of(again)[len(bytes_of(again)) // 2 :] == bytes_of(pair)[len(bytes_of(pair)) // 2 :]
    other = model(plan_of("none", 3))
    before = bytes_of(other)
    with pytest.raises(InputError, match="it is of another plan"):
        other[1].load_state_dict(pair[1].state_dict())
    assert bytes_of(other) == before


def test_an_optimizer_that_is_not_the_modules_is_refused(tmp_path: Path) -> None:
    pair, other = model(plan_of("row")), model(plan_of("row"))
    save_checkpoint(pair[0], tmp_path / "c", pair[1])
    for act in (save_checkpoint, load_checkpoint):
        with pytest.raises(InputError, match=r"optimizer: table 'a' is not among its parameters"):
            act(pair[0], tmp_path / "c", other[1])
        with pytest.raises(InputError, match=r"optimizer: found SGD; accepted: one of recshard.runtime"):
            act(pair[0], tmp_path / "c", torch.optim.SGD(pair[0].parameters(), 0.1))
    for parameter in pair[0].parameters():
        parameter.requires_grad_(False)
    save_checkpoint(pair[0], tmp_path / "frozen", other[1])
    load_checkpoint(pair[0], tmp_path / "frozen")


def test_a_model_with_a_copy_of_itself_is_not_saved_as_one(tmp_path: Path) -> None:
    online, _ = model(plan_of("none"))
    both = torch.nn.ModuleList([online, copy.deepcopy(online)])
    with pytest.raises(InputError, match=r"table 'a' is there twice in the ModuleList"):
        save_checkpoint(both, tmp_path / "c")
    with pytest.raises(InputError, match=r"no tables of a plan are in the Linear; nothing was written"):
        save_checkpoint(torch.nn.Linear(1, 1), tmp_path / "c")
    assert not list(tmp_path.iterdir())
    save_checkpoint(torch.nn.ModuleList([online, online]), tmp_path / "c")
