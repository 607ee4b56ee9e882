"""`recshard bench` as a user types it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recshard.bench.calibrate import NotSlower
from recshard.bench.places import memory_behind
from recshard.cli.bench import command
from recshard.errors import InputError
from recshard.plan import make_plan, save_plan
from recshard.profile.build import profile_trace
from recshard.topology import Group, Tier, Topology
from recshard.trace import open_trace


def run(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "recshard", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trace and a plan."""
    folder = tmp_path_factory.mktemp("home")
    rng = np.random.default_rng(0)
    rows = (rng.zipf(1.4, (3000, 2)) - 1) % 4000
    (folder / "log.csv").write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in rows))
    profile = profile_trace(open_trace(str(folder / "log.csv")))
    tiers = (Tier("hbm", None, 1e12, 0.2), Tier("uvm", None, 1e10, 2.0))
    save_plan(make_plan(profile, Topology((Group(1, 2, tiers),)), "search"), folder / "plan")
    return folder


@pytest.fixture(autouse=True)
def on_a_disk(tmp_path: Path) -> None:
    if memory_behind(tmp_path):
        pytest.skip("temporary files are in memory here")


def test_bench_times_the_plan_its_rivals_and_a_page_cache_on_the_same_steps(home: Path, tmp_path: Path) -> None:
    arguments = ("bench", "plan", "log.csv", "--steps", "4", "--batch-size", "1000", "--warm-up", "1")
    places = ("--place", "hbm=host", "--place", "uvm=file", "--folder", tmp_path)
    done = run(*arguments, *places, "--json", cwd=home)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert "tier 'uvm' is a file read past the page cache" in done.stderr
    assert (document["batch_size"], document["steps"], document["warm_up"]) == (1000, 4, 1)
    assert [tier["memory"] for tier in document["tiers"]] == ["host", "file"]
    fast, slow = (tier["bytes_per_s"] for tier in document["tiers"])
    assert fast > 2 * slow > 0
    names = [contender["name"] for contender in document["contenders"]]
    assert names[0] == "search"
    assert names[-1] == "lru"
    for contender in document["contenders"]:
        assert sum(contender["accesses"].values()) == 4 * 1000 * 2
        assert contender["p10_ms"] <= contender["measured_ms"] <= contender["p90_ms"]
        assert contender["reads_ms"] > 0
        assert len(contender["devices"]) == 2
        assert (contender["predicted_ms"] is None) == (contender["name"] == "lru")
    assert sorted(document["order"]["predicted"]) == sorted(document["order"]["measured"]) == sorted(names[:-1])
    assert document["passes"] >= 2, "five steps of a thousand samples are more than the trace has"
    assert list(tmp_path.iterdir()) == []


def test_bench_says_no_where_the_slow_tier_is_not_slower(home: Path) -> None:
    with pytest.raises(NotSlower, match="all tiers stand in one memory"):
        command(home / "plan", [str(home / "log.csv")], place=["hbm=host", "uvm=host"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"place": ["uvm"]}, "--place: found 'uvm'; accepted: TIER=MEMORY"),
        ({"place": ["uvn=file"]}, "no tier 'uvn' (did you mean 'uvm'?)"),
        ({"place": ["uvm=disk"]}, "found 'disk'"),
        ({"folder": Path(__file__, "x")}, "test_bench.py/x: cannot be written"),
        ({"samples": "9000:"}, "empty"),
    ],
)
def test_bench_refuses_bad_input_with_one_message(home: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        command(home / "plan", [str(home / "log.csv")], **arguments)


def test_bench_fails_with_one_line_and_status_2(home: Path) -> None:
    done = run("bench", "none", "log.csv", cwd=home)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "recshard: none: no such plan\n"
