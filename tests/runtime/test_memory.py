"""Every tier has a memory; the file tier takes its space first, and leaves nothing behind."""

from __future__ import annotations

import gc
import mmap
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from recshard.errors import InputError
from recshard.runtime.collection import TieredEmbeddingBagCollection
from recshard.runtime.file_rows import FileRoom
from recshard.runtime.memory import memories
from recshard.runtime.optim import optimizer_for
from tests.runtime.cases import runnable

FILES = {"hbm": "file", "dram": "file", "uvm": "file"}


def test_tiers_have_the_memory_of_their_name() -> None:
    here = torch.cuda.is_available()
    names = ("hbm", "uvm", "dram", "host", "ssd", "nvme", "file", "disk")
    assert memories(names) == (
        "cuda" if here else "host",
        "uvm" if here else "host",
        "host",
        "host",
        *["file"] * 4,
    )
    assert memories(("hbm", "cxl"), {"cxl": "file", "hbm": "host"}) == ("host", "file")


def test_a_tier_without_a_usual_memory_is_asked_for() -> None:
    with pytest.raises(InputError, match=r"tier 'cxl': no usual memory of that name; known tiers: hbm, .*places="):
        memories(("hbm", "cxl"))
    with pytest.raises(InputError, match=r"no tier 'hmb' \(did you mean 'hbm'\?\); the plan's tiers: hbm, uvm"):
        memories(("hbm", "uvm"), {"hmb": "host"})
    with pytest.raises(
        InputError, match=r"tier 'uvm': found 'flie' \(did you mean 'file'\?\); accepted: cuda, uvm"
    ):
        memories(("hbm", "uvm"), {"uvm": "flie"})


def test_files_go_with_the_module(tmp_path: Path) -> None:
    plan = runnable(np.random.default_rng(0), "both", "rowwise_adagrad")
    module = TieredEmbeddingBagCollection.from_plan(plan, places=FILES, folder=tmp_path)
    optimizer = optimizer_for(module, plan, 0.1)
    files = sorted(file for file in tmp_path.rglob("*") if file.is_file())
    parts = [part for table in module.shards.tables for part in table.held]
    pages = [
        sum(-(-4 * part.rows * width // mmap.PAGESIZE) for part, width in each)
        for each in ([(part, part.columns) for part in parts], [(part, 1) for part in parts])
    ]
    assert [file.stat().st_size for file in files] == [mmap.PAGESIZE * n for n in pages]
    del module, optimizer
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_files_stay_when_a_fork_of_the_process_ends(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from recshard.runtime.file_rows import FileRoom\n"
        "room = FileRoom(Path(sys.argv[1])); (file,) = room.make([1000])\n"
        "child = os.fork()\n"
        "if child: os.waitpid(child, 0); print(file.path.exists())\n"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_error_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = runnable(np.random.default_rng(0), "row", "rowwise_adagrad")
    real, full = os.posix_fallocate, [True]

    def fail(handle: int, start: int, size: int) -> None:
        if full[0]:
            raise OSError(28, "No space left on device")
        real(handle, start, size)

    monkeypatch.setattr(os, "posix_fallocate", fail)
    with pytest.raises(InputError, match=r"no room for the rows of the file tier: No space .*; needed: \d+ bytes"):
        TieredEmbeddingBagCollection.from_plan(plan, places=FILES, folder=tmp_path)
    gc.collect()
    assert list(tmp_path.iterdir()) == []
    full[0] = False
    module = TieredEmbeddingBagCollection.from_plan(plan, places=FILES, folder=tmp_path)
    kept = sorted(tmp_path.rglob("*.rows"))
    assert len(kept) == 1
    full[0] = True
    with pytest.raises(InputError, match="no room"):
        optimizer_for(module, plan, 0.1)
    assert sorted(tmp_path.rglob("*.rows")) == kept


def test_a_file_larger_than_is_allowed_is_an_error_and_no_crash(tmp_path: Path) -> None:
    script = (
        "import resource, sys; from pathlib import Path; from recshard.runtime.file_rows import FileRoom\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "FileRoom(Path(sys.argv[1])).make([1000, 2 << 20])\n"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "InputError" in done.stderr
    assert "File too large; needed: 2101248 bytes" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_else_than_a_full_disk_is_wrong_is_said(tmp_path: Path) -> None:
    room = FileRoom(tmp_path)
    (file,) = room.make([1000])
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = [os.open(tmp_path, os.O_RDONLY)]  # the lowest free number
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened[0] + 1, limits[1]))
    try:
        with pytest.raises(InputError, match=r"a file of the file tier cannot be opened: .* \(ulimit -n\)"):
            room.make([1000] * 20)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        os.close(opened[0])
    assert list(file.path.parent.iterdir()) == [file.path]
    shutil.rmtree(file.path.parent)
    with pytest.raises(InputError, match="the folder of the file tier was removed while in use"):
        room.make([1000])


def test_files_are_set_aside_and_not_only_promised(tmp_path: Path) -> None:
    room = FileRoom(tmp_path)
    (file,) = room.make([1 << 20])
    (named,) = FileRoom(str(tmp_path / "by name")).make([1])
    assert named.path.parent.parent == tmp_path / "by name"
    assert file.path.stat().st_blocks * 512 >= 1 << 20
    with pytest.raises(InputError, match="cannot be written"):
        FileRoom(file.path / "below").make([1])


def test_parts_stay_where_the_plan_has_them() -> None:
    plan = runnable(np.random.default_rng(0), "none")
    module = TieredEmbeddingBagCollection.from_plan(plan, places=FILES)
    owner = torch.nn.Sequential(torch.nn.Linear(2, 2), module)
    owner.double().to("cpu")
    assert owner[0].weight.dtype == torch.float64
    for table in module.shards.tables:
        for weight, block in zip(table.weights, table.blocks, strict=True):
            assert weight.data_ptr() == block.tensor.data_ptr()
            assert weight.dtype == torch.float32
