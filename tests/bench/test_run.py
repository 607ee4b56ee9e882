"""A bench executes every plan, counts exactly what it reads, and leaves nothing behind."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from recshard.bench import places, run
from recshard.bench.calibrate import NotSlower
from recshard.bench.places import places_of
from recshard.bench.result import Bench
from recshard.bench.run import bench_plan
from recshard.bench.steps import rows_of
from recshard.errors import InputError
from recshard.plan import Plan, make_plan
from recshard.profile.build import profile_trace
from recshard.report.benching import bench_report
from recshard.runtime.file_rows import FileRows
from recshard.tables import EmbeddingTable, TableSet
from recshard.topology import Group, Tier, Topology
from tests.plans import Kind, cut_case, homes
from tests.traces import MemoryTrace

WITHOUT_GPU = {"hbm": "host", "dram": "file", "uvm": "file"}


@pytest.fixture(autouse=True)
def on_a_disk(tmp_path: Path) -> None:
    if places.memory_behind(tmp_path):
        pytest.skip("temporary files are in memory here")


def test_a_folder_in_memory_is_no_slow_tier() -> None:
    memory = Path("/dev/shm")
    if places.memory_behind(memory) != "tmpfs":
        pytest.skip("no memory is mounted at /dev/shm here")
    plan, trace = skewed_case()
    with pytest.raises(InputError, match=r"is in memory \(tmpfs\).*accepted: a folder on a disk"):
        bench_plan(plan, trace, places={"hbm": "host", "uvm": "file"}, folder=memory)
    assert not list(memory.glob("recshard-bench-*"))


@pytest.fixture
def any_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of some dozen rows say little about a memory, and nothing here is about time."""
    monkeypatch.setattr(run, "check_slower", lambda *_: None)


def skewed_case() -> tuple[Plan, MemoryTrace]:
    """Two tables whose accesses are nearly all to few rows, on a device that holds a fifth of their bytes."""
    rng = np.random.default_rng(0)
    hot = {name: (rng.zipf(1.5, (400, 4)) - 1) % 5000 for name in ("a", "b")}
    trace = MemoryTrace({name: rows.tolist() for name, rows in hot.items()})
    tables = TableSet(tuple(EmbeddingTable(name, 5000, 16, features=(name,)) for name in hot), 100)
    tiers = (Tier("hbm", None, 1e9, 0.2), Tier("uvm", 1e9, 1e6))
    return make_plan(profile_trace(trace, tables), Topology((Group(1, 1, tiers),)), "search"), trace


def run_few(plan: Plan, trace: MemoryTrace, folder: Path) -> Bench:
    places = {tier: WITHOUT_GPU[tier] for tier in plan.tier_names}
    return bench_plan(plan, trace, steps=3, warm_up=1, batch_size=20, places=places, folder=folder)


@pytest.mark.parametrize("kind", ["none", "column", "row", "both"])
@pytest.mark.usefixtures("any_rates")
def test_every_plan_is_executed_and_its_accesses_are_counted_exactly(tmp_path: Path, kind: Kind) -> None:
    case = cut_case(np.random.default_rng(7), kind)
    bench = run_few(case.plan, case.trace, tmp_path)
    assert [o.name for o in bench.outcomes][-1] == "lru"
    assert {"size", "lookup", "size-lookup"} <= set(bench.by_name) | set(bench.left_out)
    own = bench.outcomes[0]
    accesses, reads, slow_share = brute_force(case.plan, case.trace, bench)
    assert np.array_equal(own.accesses, accesses)
    assert np.array_equal(own.reads, reads)
    assert own.slow_share == pytest.approx(slow_share)
    for outcome in bench.outcomes:
        assert outcome.times_ms.shape == (3, 3)
        assert (outcome.step_ms > 0).all()
        assert outcome.measured_ms > 0
    lru = bench.by_name["lru"]
    assert lru.accesses.sum() == own.accesses.sum()
    assert list(tmp_path.iterdir()) == []


def brute_force(plan: Plan, trace: MemoryTrace, bench: Bench) -> tuple[np.ndarray, np.ndarray, float]:
    """Return accesses and reads of each device and tier, shape (d, k), of the three steps that count.

    And the share of lookups whose rows, or columns of rows, are outside the fastest tier.
    """
    accesses = np.zeros((plan.problem.devices, len(plan.tier_names)), dtype=np.int64)
    reads = np.zeros_like(accesses)
    slow = lookups = 0.0
    begin = bench.cache_samples + 20  # one step to warm up
    samples = list(trace.batches(1))
    for step in range(3):
        asked = Counter()
        for n in range(begin + 20 * step, begin + 20 * step + 20):
            for feature, (rows, _) in rows_of(samples[n % len(samples)], plan.tables, "memory").items():
                asked.update((feature, row) for row in rows.tolist())
        shard = 0
        for j, table in enumerate(plan.tables.tables):
            for home in homes(plan, j):
                d = plan.placement.device[shard]
                for row, (k, _) in home.items():
                    times = asked[table.name, row]
                    accesses[d, k] += times
                    reads[d, k] += times if k == 0 else min(times, 1)
                    lookups += times * plan.shards.columns[shard] / table.dim
                    slow += times * plan.shards.columns[shard] / table.dim if k else 0.0
                shard += 1
    return accesses, reads, slow / lookups


@pytest.mark.usefixtures("any_rates")
def test_a_plan_by_rows_reads_less_from_the_slow_tier_than_whole_tables_and_than_a_page_cache(
    tmp_path: Path,
) -> None:
    plan, trace = skewed_case()
    bench = bench_plan(plan, trace, steps=10, warm_up=0, batch_size=40, places={"uvm": "file"}, folder=tmp_path)
    slow = {o.name: int(o.reads[:, 1].sum()) for o in bench.outcomes}
    assert slow.pop("search") * 2 < min(slow.values())
    order = bench.order
    assert order.predicted[0] == "search"
    console = Console(width=250, record=True, file=io.StringIO())
    console.print(bench_report(bench))
    shown = console.export_text()
    for word in ("a file read past the page cache (O_DIRECT)", "size-lookup", "lru", "By measured time: search, "):
        assert word in shown
    document = bench.summary()
    assert document["contenders"][0]["ratio"] == 1.0
    assert document["contenders"][-1]["hit_rate"] == 1 - bench.by_name["lru"].slow_share
    assert document["contenders"][-1]["pages_read"] == slow["lru"]


@pytest.mark.usefixtures("any_rates")
def test_files_are_on_the_disk_before_the_first_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, trace = skewed_case()
    running, flushed, real_run, real_flush = [], [], run._run, FileRows.flush

    def flush(rows: FileRows) -> None:
        flushed.append(bool(running))
        real_flush(rows)

    def timed(*arguments: Any) -> Any:
        running.append(True)
        return real_run(*arguments)

    monkeypatch.setattr(FileRows, "flush", flush)
    monkeypatch.setattr(run, "_run", timed)
    bench_plan(plan, trace, steps=2, warm_up=0, batch_size=40, places={"uvm": "file"}, folder=tmp_path)
    assert running
    assert flushed
    assert not any(flushed)


@pytest.mark.usefixtures("any_rates")
def test_the_cache_is_filled_before_steps_count_or_the_trace_was_read_once(tmp_path: Path) -> None:
    plan, trace = skewed_case()
    bench = bench_plan(plan, trace, steps=1, warm_up=0, batch_size=40, places={"uvm": "file"}, folder=tmp_path)
    if bench.cache_full:
        assert bench.cache_samples < 400
    else:
        assert bench.passes == 2
    assert bench.cache_full is not None


@pytest.mark.usefixtures("any_rates")
def test_files_go_where_they_were_told_and_are_gone_when_a_run_is_interrupted(tmp_path: Path) -> None:
    plan, trace = skewed_case()
    seen = []

    def interrupt(message: str) -> None:
        if "makes the file" in message:
            seen.extend(path for path in tmp_path.rglob("*") if path.is_file())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench_plan(plan, trace, places={"uvm": "file"}, folder=tmp_path, say=interrupt)
    assert seen, "tables of the slow tier are files in this folder"
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, trace = skewed_case()
    usage = places.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(places.shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(InputError, match=r"need .* side by side; free: 1\.0 KB; choose another --folder"):
        bench_plan(plan, trace, places={"hbm": "host", "uvm": "file"}, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_memory_without_room_is_said_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, trace = skewed_case()
    monkeypatch.setattr(places, "_free_memory", lambda: 1000)
    with pytest.raises(InputError, match="host memory: the plan and its rivals need"):
        bench_plan(plan, trace, places={"hbm": "host", "uvm": "file"}, folder=tmp_path)


def test_a_trace_of_another_model_is_refused_before_the_work(tmp_path: Path) -> None:
    plan, _ = skewed_case()
    with pytest.raises(InputError, match="has no feature 'b', which the plan's table 'b' serves"):
        bench_plan(plan, MemoryTrace({"a": [[1]]}), folder=tmp_path)
    with pytest.raises(InputError, match="ID 5000 is outside its 5000 rows"):
        bench_plan(plan, MemoryTrace({"a": [[1]], "b": [[5000]]}), folder=tmp_path)
    (tmp_path / "a.txt").touch()
    with pytest.raises(InputError, match=r"a\.txt: found a file; accepted: a folder"):
        bench_plan(plan, MemoryTrace({"a": [[1]], "b": [[5]]}), folder=tmp_path / "a.txt")
    with pytest.raises(InputError, match="steps: found 0; accepted: a whole number from 1"):
        bench_plan(plan, MemoryTrace({"a": [[1]], "b": [[5]]}), steps=0)


def test_without_a_gpu_the_fastest_tier_is_memory_and_every_other_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert places_of(("hbm", "dram", "uvm"), {}) == {"hbm": "host", "dram": "file", "uvm": "file"}
    assert places_of(("hbm", "dram", "uvm"), {"dram": "host"}) == {"hbm": "host", "dram": "host", "uvm": "file"}
    with pytest.raises(InputError, match="no tier 'hbn'"):
        places_of(("hbm", "uvm"), {"hbn": "host"})


@pytest.mark.usefixtures("any_rates")
def test_a_new_folder_goes_with_its_files_and_a_baseline_is_said_to_have_no_recshard_beside_it(
    tmp_path: Path,
) -> None:
    plan, trace = skewed_case()
    bench = run_few(replace(plan, strategy="size"), trace, tmp_path / "new" / "below")
    assert "does not know which rows are hot" in bench.left_out["recshard"]
    assert "size" in bench.by_name
    assert list(tmp_path.iterdir()) == []


def test_a_table_of_int8_is_refused_by_its_name(tmp_path: Path) -> None:
    plan, trace = skewed_case()
    tables = TableSet((plan.tables.tables[0], replace(plan.tables.tables[1], dtype="int8")), 100)
    with pytest.raises(InputError, match="table 'b': dtype: found 'int8'"):
        run_few(replace(plan, tables=tables), trace, tmp_path)


def test_rates_that_came_together_while_steps_ran_are_told_beside_the_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[object] = []

    def check(_: object, rates: object) -> None:
        checked.append(rates)
        if len(checked) == 2:
            raise NotSlower("tier 'uvm' is no slower")

    monkeypatch.setattr(run, "check_slower", check)
    plan, trace = skewed_case()
    bench = run_few(plan, trace, tmp_path)
    assert checked[1] == bench.rates
    assert bench.summary()["doubt"] == "tier 'uvm' is no slower"
    console = Console(width=250, record=True, file=io.StringIO())
    console.print(bench_report(bench))
    assert "came together while steps ran: tier 'uvm' is no slower" in console.export_text()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.usefixtures("any_rates")
def test_with_a_gpu_tiers_are_its_memory_and_pinned_host_memory(tmp_path: Path) -> None:
    plan, trace = skewed_case()
    bench = bench_plan(plan, trace, steps=3, warm_up=1, batch_size=40, folder=tmp_path)
    assert dict(bench.places) == {"hbm": "cuda", "uvm": "uvm"}
    assert "lru" in bench.left_out
    assert all(outcome.measured_ms > 0 for outcome in bench.outcomes)
