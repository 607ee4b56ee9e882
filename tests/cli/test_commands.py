"""The commands as a user types them: what they print, what they write, and how they fail."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recshard.content import content_dir

CSV = "user,item,tags\n" + "".join(
    f"{n * 7 % 40},{n * n % 90},{'|'.join(str(t) for t in range(n % 4))}\n" for n in range(300)
)
TOPOLOGY = """
devices_per_node = 2
[[tiers]]
name = "hbm"
capacity = "20%"
bandwidth = "1555 GB/s"
[[tiers]]
name = "uvm"
capacity = "200%"
bandwidth = "16 GB/s"
"""


def run(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "recshard", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


def run_json(*arguments: str | Path, cwd: Path) -> dict[str, Any]:
    done = run(*arguments, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)  # exactly one object, and nothing else
    assert isinstance(document, dict)
    return document


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trace, a topology, a profile and a plan."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "log.csv").write_text(CSV)
    (folder / "topology.toml").write_text(TOPOLOGY)
    assert run("profile", "log.csv", "--separator", "|", "-o", "profile", cwd=folder).returncode == 0
    assert run("plan", "profile", "-t", "topology.toml", "-o", "plan", cwd=folder).returncode == 0
    return folder


def test_profile_prints_what_it_stores(home: Path, tmp_path: Path) -> None:
    document = run_json("profile", home / "log.csv", "--separator", "|", "-o", "p", cwd=tmp_path)
    assert document == json.loads((tmp_path / "p" / "profile.json").read_text())
    assert document["samples"] == 300
    tags = next(f for f in document["features"] if f["name"] == "tags")
    assert tags["lookups"] == 75 * (1 + 2 + 3)
    assert tags["coverage"] == 0.75
    assert (tmp_path / "p.tables.toml").is_file()


def test_a_random_share_of_the_samples_is_the_same_for_a_seed(home: Path, tmp_path: Path) -> None:
    arguments = ("profile", home / "log.csv", "--separator", "|", "--sample", "0.25")
    first = run_json(*arguments, "--seed", "3", "-o", "a", cwd=tmp_path)
    again = run_json(*arguments, "--seed", "3", "-o", "b", cwd=tmp_path)
    other = run_json(*arguments, "--seed", "4", "-o", "c", cwd=tmp_path)
    assert first == again
    assert first["sampled"] == 0.25
    assert 45 < first["samples"] < 105
    assert first["features"] != other["features"]


def test_little_memory_gives_the_same_profile(home: Path, tmp_path: Path) -> None:
    arguments = ("profile", home / "log.csv", "--separator", "|", "--memory", "0.125", "--threads", "2")
    assert run(*arguments, "-o", "p", cwd=tmp_path).returncode == 0
    for name in ("rows.parquet", "classes.parquet", "lengths.parquet"):
        assert (tmp_path / "p" / name).read_bytes() == (home / "profile" / name).read_bytes()


def test_hash_recommends_sizes_that_tables_toml_takes(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("raw\n" + "\n".join(str(n * n * 977) for n in range(400)))
    assert run("profile", "log.csv", "-o", "p", cwd=tmp_path).returncode == 0
    document = run_json("hash", "p", "--target", "0.02", "-o", "new.toml", cwd=tmp_path)
    (entry,) = document["tables"]
    assert entry["table"] == "raw"
    assert entry["distinct_ids"] == 400
    assert entry["expected_then"] <= 0.02
    assert document["freed_bytes"] == (entry["rows_now"] - entry["rows"]) * 260 < 0
    again = run_json("profile", "log.csv", "--tables", "new.toml", "-o", "q", cwd=tmp_path)
    assert again["tables"][0]["rows"] == entry["rows"]
    assert again["tables"][0]["hashing"]["collided_accesses"] < 40
    assert "costs" in run("hash", "p", "--target", "0.02", cwd=tmp_path).stdout


def test_drift_says_what_moved_and_what_the_old_plan_loses(home: Path, tmp_path: Path) -> None:
    cells = [line.split(",") for line in CSV.splitlines()[1:]]
    lines = [f"{user},{(int(item) + 1) % 86},{tags}" for user, item, tags in cells]
    (tmp_path / "next.csv").write_text("user,item,tags\n" + "\n".join(lines))
    tables = home / "profile.tables.toml"
    done = run("profile", "next.csv", "--separator", "|", "--tables", tables, "-o", "next", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = run_json("drift", home / "profile", "next", "-t", home / "topology.toml", cwd=tmp_path)
    moved = {table["name"]: table["moved"] for table in document["tables"]}
    assert document["tables"][0]["name"] == "item"
    assert moved["item"] > 0.3
    assert moved["user"] == 0
    assert document["loss"] >= -1e-9
    assert document["plan"]["bottleneck_ms"] >= document["new_plan"]["bottleneck_ms"]
    kept = run_json("drift", home / "profile", "next", "--plan", home / "plan", cwd=tmp_path)
    assert kept["plan"]["samples"] == 300
    assert "loss" not in kept
    text = run("drift", home / "profile", "next", "-t", home / "topology.toml", cwd=tmp_path)
    assert "the old one loses" in " ".join(text.stdout.split())
    same = run_json("drift", home / "profile", home / "profile", cwd=tmp_path)
    assert same["moved"] == 0


def test_plan_json_keeps_the_contract(home: Path, tmp_path: Path) -> None:
    document = run_json("plan", home / "profile", "-t", home / "topology.toml", "-o", "plan", cwd=tmp_path)
    assert {"status", "bottleneck_ms", "lower_bound_ms", "gap", "seconds", "devices"} <= document.keys()
    assert document["status"] in ("optimal", "feasible")
    for device in document["devices"]:
        assert {"cost_ms", "tables", "tiers"} <= device.keys()
        for tier in device["tiers"].values():
            assert {"bytes", "rows", "access_share"} <= tier.keys()
    assert document["bottleneck_ms"] == max(device["cost_ms"] for device in document["devices"])


def test_replay_json_keeps_the_contract(home: Path) -> None:
    document = run_json("replay", "plan", "log.csv", "--separator", "|", "--samples", "1::2", cwd=home)
    assert {"slow_share", "predicted_slow_share", "bottleneck_ms", "imbalance", "devices"} <= document.keys()
    accesses = [device["accesses"] for device in document["devices"]]
    assert all(counts.keys() == {"hbm", "uvm"} for counts in accesses)
    lookups = sum(2 + n % 4 for n in range(1, 300, 2))
    assert sum(sum(counts.values()) for counts in accesses) == lookups == document["lookups"]


def test_compare_json_keeps_the_contract(home: Path) -> None:
    document = run_json(
        "compare", "profile", "-t", "topology.toml", "--strategies", "search,milp,lookup", cwd=home
    )
    assert [entry["name"] for entry in document["strategies"]] == ["search", "milp", "lookup"]
    for entry in document["strategies"]:
        assert {"bottleneck_ms", "slow_share", "imbalance", "gap", "seconds"} <= entry.keys()


def test_an_infeasible_plan_says_so_in_json_too(home: Path) -> None:
    (home / "tiny.toml").write_text(TOPOLOGY.replace("200%", "1 KB"))
    done = run("plan", "profile", "-t", "tiny.toml", "-o", "x", "--json", cwd=home)
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["status"] == "infeasible"
    assert document["reason"].endswith(document["explanation"]["message"])
    assert document["explanation"]["tables"][0]["table"] == "item"
    shown = run("plan", "profile", "-t", "tiny.toml", "-o", "x", cwd=home)
    assert "the table that no device can hold" in shown.stderr
    assert document["reason"] in shown.stderr
    compared = run("compare", "profile", "-t", "tiny.toml", "--strategies", "search,size", "--json", cwd=home)
    assert compared.returncode == 1
    assert {entry["status"] for entry in json.loads(compared.stdout)["strategies"]} == {"infeasible"}
    demo = run("demo", "-t", "tiny.toml", cwd=home)
    assert demo.returncode == 1
    assert "Traceback" not in demo.stderr


def test_a_reader_who_has_seen_enough_is_no_error(home: Path) -> None:
    command = f"set -o pipefail; {sys.executable} -m recshard report plan --json | true"
    assert subprocess.run(["bash", "-c", command], cwd=home, check=False).returncode == 0
    full = subprocess.run(["bash", "-c", f"{sys.executable} -m recshard topology > /dev/full"], cwd=home,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert full.returncode == 2
    assert full.stderr.count("\n") == 1


def test_check_says_plainly_what_it_cannot_check(home: Path) -> None:
    document = run_json("check", "plan", cwd=home)
    assert document["verdict"] == "unchecked"
    treated = run("check", "plan", "--treat", "hbm=host", "--treat", "uvm=host", "--json", cwd=home)
    verdict = json.loads(treated.stdout)["verdict"]
    assert verdict in ("agrees", "doubtful", "disagrees")
    assert treated.returncode == (1 if verdict == "disagrees" else 0)


def test_export_writes_a_part_per_tier_and_the_remap(home: Path, tmp_path: Path) -> None:
    document = run_json("export", home / "plan", "--to", "fbgemm", "-o", "specs", cwd=tmp_path)
    parts = [part for device in document["devices"] for part in device]
    assert {part["location"] for part in parts} <= {"DEVICE", "MANAGED"}
    for part in parts:
        if part["remap"]:
            assert (tmp_path / "specs" / part["remap"]).is_file()


def test_synth_writes_a_trace_that_profiles_with_its_tables(tmp_path: Path) -> None:
    recipe = '[[families]]\nname = "t"\ncount = 3\nrows = [10, 1000]\npooling_factor = 2.0\ncoverage = 0.5\n'
    (tmp_path / "tiny.toml").write_text("samples = 500\n" + recipe)
    document = run_json("synth", "tiny.toml", "-o", "t.parquet", cwd=tmp_path)
    assert document["samples"] == 500
    stored = run_json("profile", "t.parquet", "--tables", "t.parquet.tables.toml", "-o", "a", cwd=tmp_path)
    direct = run_json("profile", "tiny.toml", "-o", "b", cwd=tmp_path)
    assert stored["tables"] == direct["tables"]
    assert stored["features"] == direct["features"]
    assert run_json("synth", "tiny.toml", "--profile", "c", cwd=tmp_path)["samples"] == 500
    assert json.loads((tmp_path / "c" / "profile.json").read_text()) == direct


def test_measure_times_this_machine(tmp_path: Path) -> None:
    measured = run_json("measure", "--shards", "2", "-o", "times", cwd=tmp_path)
    assert (measured["tier"], measured["shards"]) == ("host", 2)
    assert 0 < measured["total_ms"][0] <= measured["total_ms"][2]
    refused = run("train", "times", "-o", "model", cwd=tmp_path)
    assert refused.returncode == 2
    assert "at least 10" in refused.stderr


def test_train_makes_a_cost_model_that_check_takes(home: Path, tmp_path: Path) -> None:
    bundled = content_dir("solver_models") / "cost-host-measurements"
    card = run_json("train", bundled, "--epochs", "2", "-o", "model", cwd=tmp_path)
    assert card["shards"] == 800
    assert run("check", home / "plan", "--cost-model", "model", cwd=tmp_path).returncode == 0


def test_reports_are_printed_without_json(home: Path) -> None:
    report = run("report", "plan", cwd=home)
    assert report.returncode == 0
    assert "costliest" in report.stdout
    assert "The slowest device takes" in report.stdout
    assert run("report", "plan", "-o", "report.html", cwd=home).returncode == 0
    page = (home / "report.html").read_text()
    assert page.count("<svg") == 3
    assert "src=" not in page  # nothing is fetched
    assert "a100-40gb-x16" in run("topology", cwd=home).stdout
    assert "bandwidth" in run("topology", "h100-80gb-x8", cwd=home).stdout


def test_help_does_not_load_what_takes_long() -> None:
    code = (
        "import sys; import recshard.cli.app; "
        "print([m for m in ('torch', 'pandas', 'numba', 'numpy', 'scipy', 'pulp', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


PLAN = ["plan", "profile", "-o", "x", "-t"]
PROFILE = ["profile", "-o", "x"]
BAD = {
    "missing trace": (2, [*PROFILE, "nothing.csv"], ["nothing.csv", "no such file"]),
    "unknown recipe": (2, [*PROFILE, "dmeo"], ["dmeo", "did you mean 'demo'"]),
    "unknown format": (2, [*PROFILE, "log.csv", "-f", "cvs"], ["cvs", "parquet"]),
    "wrong column": (2, [*PROFILE, "log.csv", "--columns", "itme"], ["itme", "did you mean 'item'"]),
    "non-numeric": (2, [*PROFILE, "log.csv"], ["log.csv", "line 4", "'tags'", "'0|1'"]),
    "negative": (2, [*PROFILE, "minus.csv"], ["minus.csv", "line 3", "'item'", "-5"]),
    "empty trace": (2, [*PROFILE, "empty.csv"], ["empty.csv", "empty"]),
    "outside its table": (
        2,
        [*PROFILE, "log.csv", "--columns", "item", "--tables", "small.toml"],
        ["'item'", "9 rows", "hash", "mod"],
    ),
    "misspelt table key": (
        2,
        [*PROFILE, "log.csv", "--tables", "typo.toml"],
        ["typo.toml", "tables[1].rwos", "'rows'"],
    ),
    "samples": (2, [*PROFILE, "log.csv", "--samples", "a:b"], ["a:b", "START:STOP:STEP"]),
    "no profile": (2, ["plan", "nothing", "-t", "topology.toml", "-o", "x"], ["nothing", "no such profile"]),
    "not a profile": (2, ["plan", ".", "-t", "topology.toml", "-o", "x"], ["not a profile", "profile.json"]),
    "no topology": (2, [*PLAN, "a100"], ["a100", "a100-40gb-x16"]),
    "misspelt topology key": (2, [*PLAN, "typo-topology.toml"], ["bandwith", "'bandwidth'"]),
    "zero bandwidth": (2, [*PLAN, "zero.toml"], ["zero.toml", "tiers[1].bandwidth", "above zero"]),
    "does not fit": (1, [*PLAN, "tiny.toml"], ["short by", "'item'"]),
    "strategy": (2, [*PLAN, "topology.toml", "--strategy", "best"], ["best", "search"]),
    "time limit": (2, [*PLAN, "topology.toml", "--time-limit", "-1"], ["-1", "above zero"]),
    "seed": (2, [*PLAN, "topology.toml", "--seed", "-1"], ["seed", "-1", "from 0"]),
    "blank header": (2, [*PROFILE, "blank.csv"], ["blank.csv", "line 1", "--names"]),
    "delimiter": (2, [*PROFILE, "log.csv", "--delimiter", "é"], ["'é'", "ASCII"]),
    "too many devices": (2, [*PLAN, "many.toml"], ["many.toml", "65536"]),
    "solver": (2, [*PLAN, "topology.toml", "--strategy", "milp", "--solver", "xpres"], ["xpres", "highs"]),
    "nothing to write": (2, ["synth", "demo"], ["--output", "--profile"]),
    "not a plan": (2, ["replay", "profile", "log.csv"], ["not a plan", "plan.json"]),
    "cost model": (2, ["check", "plan", "--cost-model", "nothing"], ["nothing", "cost-host"]),
    "treat": (2, ["check", "plan", "--treat", "hbm"], ["hbm", "TIER=KIND"]),
    "export target": (2, ["export", "plan", "--to", "tensorflow", "-o", "x"], ["tensorflow", "fbgemm"]),
    "export location": (
        2,
        ["export", "plan", "--to", "fbgemm", "-o", "x", "--location", "uvm=MANGED"],
        ["tier 'uvm'", "'MANGED'", "did you mean 'MANAGED'", "HOST"],
    ),
    "export location of no tier": (
        2,
        ["export", "plan", "--to", "fbgemm", "-o", "x", "--location", "uvm"],
        ["--location: found 'uvm'", "TIER=PLACE"],
    ),
    "occupied output": (
        2,
        ["plan", "profile", "-t", "topology.toml", "-o", "occupied"],
        ["occupied", "left as it is"],
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_message_and_leaves_nothing_behind(home: Path, case: str) -> None:
    status, arguments, words = BAD[case]
    (home / "minus.csv").write_text("user,item\n1,2\n3,-5\n")
    (home / "empty.csv").write_text("user,item\n")
    (home / "small.toml").write_text('[[tables]]\nname = "item"\nrows = 9\n')
    (home / "typo.toml").write_text('[[tables]]\nname = "item"\nrwos = 9\n')
    (home / "typo-topology.toml").write_text(TOPOLOGY.replace("bandwidth", "bandwith"))
    (home / "zero.toml").write_text(TOPOLOGY.replace("1555 GB/s", "0 GB/s"))
    (home / "tiny.toml").write_text(TOPOLOGY.replace("200%", "1 KB"))
    (home / "blank.csv").write_text("\n\n\n")
    (home / "many.toml").write_text("nodes = 1000000\n" + TOPOLOGY)
    (home / "occupied").mkdir(exist_ok=True)
    (home / "occupied" / "thesis.tex").write_text("years of work")
    before = sorted(path.name for path in home.iterdir())
    done = run(*arguments, cwd=home)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("recshard: ")
    # A model that does not fit is no bad input: below the message stand the tables that explain it.
    assert status == 1 or done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr
    assert sorted(path.name for path in home.iterdir()) == before


def test_an_expected_profile_can_be_compared_on_but_not_made_a_plan_of(home: Path, tmp_path: Path) -> None:
    assert run("synth", "demo", "--profile", "p", "--expected", cwd=tmp_path).returncode == 0
    compared = run_json("compare", "p", "-t", "demo-x8", "--strategies", "search,size", cwd=tmp_path)
    assert all(entry["bottleneck_ms"] > 0 for entry in compared["strategies"])
    planned = run("plan", "p", "-t", "demo-x8", "-o", "plan", "--time-limit", "1", cwd=tmp_path)
    assert planned.returncode == 2
    assert "not which" in planned.stderr
    assert not (tmp_path / "plan").exists()
    refused = run("synth", "demo", "--profile", "q", "--expected", "--samples", ":100", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--expected" in refused.stderr
