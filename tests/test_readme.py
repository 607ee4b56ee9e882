"""What the README says is so: its example runs, its map names every room, its commands exist."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import recshard
from recshard.plan import save_plan
from tests.runtime.cases import runnable

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_example_runs(tmp_path: Path) -> None:
    example = re.search(r"```python\n(import recshard.*?)```", README, re.DOTALL)
    assert example is not None
    done = subprocess.run(
        [sys.executable, "-c", example.group(1)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    bottleneck, gap, predicted, replayed = map(float, done.stdout.split())
    assert bottleneck > 0
    assert 0 <= gap < 0.01
    assert abs(predicted - replayed) < 0.02


def test_the_example_of_the_runtime_runs_and_trains(tmp_path: Path) -> None:
    example = re.search(r"```python\n(import torch\n.*?)```", README, re.DOTALL)
    assert example is not None
    plan = runnable(np.random.default_rng(0), "row", "rowwise_adagrad")
    save_plan(replace(plan, tier_names=("hbm", "dram", "uvm")), tmp_path / "plan")
    shown = "print(pooled['a'].shape, pooled['a'].abs().sum().item() > 0)"
    done = subprocess.run(
        [sys.executable, "-c", f"{example.group(1)}\n{shown}"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "torch.Size([3, 8]) True\n", done.stderr
    tables = {file.name for file in (tmp_path / "checkpoint").iterdir()}
    assert len(tables) == len(plan.tables) + 1


def test_names_that_the_readme_imports_exist() -> None:
    pytest.importorskip("torchrec", reason="TorchRec is not installed")
    imports = re.findall(r"^from (recshard[\w.]*) import (.*)$", README, re.MULTILINE)
    assert len(imports) >= 2
    for module, names in imports:
        for name in names.split(","):
            assert callable(getattr(importlib.import_module(module), name.strip()))


def test_the_map_names_every_room_and_nothing_else() -> None:
    table = README[README.index("| room |") :]
    named = set(
        re.findall(r"`([\w./]+)`", "\n".join(line.split("|")[1] for line in table.splitlines() if "|" in line))
    )
    named = {name if "/" in name else f"recshard/{name}" for name in named}
    named |= {"recshard/presets/"} if "presets/" in named else set()
    rooms = {
        f"recshard/{p.name}{'/' if p.is_dir() else ''}" for p in (ROOT / "recshard").iterdir() if p.name[0] != "_"
    }
    rooms |= {"traces/", "solver_models/", "analysis/", "tests/"}
    assert {name for name in named if name != "presets/"} == rooms


def test_every_command_that_the_readme_types_exists() -> None:
    from recshard.cli.app import app

    commands = {command.name for command in app.registered_commands}
    typed = set(re.findall(r"^recshard (\w+)", README, re.MULTILINE))
    assert typed
    assert typed <= commands


def test_every_public_name_is_there() -> None:
    assert recshard.__all__
    for name in recshard.__all__:
        assert callable(getattr(recshard, name))


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, recshard; print([m for m in ('torch', 'pandas', 'numba', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
