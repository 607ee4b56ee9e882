"""A cluster gives the same profile as one machine, bit for bit, also where a worker dies in the middle."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recshard.errors import InputError
from recshard.profile import save_profile
from recshard.profile.build import profile_trace
from recshard.profile.cluster import profile_on_cluster
from recshard.trace import TextOptions, open_trace, sample, take
from recshard.trace.partition import partitions
from tests.trace.samples import samples_of

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parquet files of several row groups: rows, raw IDs and bags."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    for number in range(4):
        size = 30_000
        bags = pa.ListArray.from_arrays(
            np.concatenate([[0], np.cumsum(rng.integers(0, 4, size))]).astype(np.int32),
            pa.array((5_000 * rng.random(4 * size) ** 3).astype(np.int64)),
        )
        table = pa.table(
            {"raw": rng.integers(0, 2**50, size) // 2**36, "row": rng.integers(0, 900, size), "bag": bags}
        )
        pq.write_table(table, folder / f"part-{number}.parquet", row_group_size=7_000)
    return folder


@pytest.fixture(scope="module")
def cluster() -> Iterator[object]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
    ) as made:
        yield made


def bytes_of(profile: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in profile.iterdir()}


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_a_cluster_gives_the_same_bytes(tmp_path: Path, files: Path, cluster: object, share: float) -> None:
    trace = sample(open_trace(files), share, seed=3)
    save_profile(profile_trace(trace), tmp_path / "here")
    save_profile(profile_on_cluster(trace, cluster.scheduler_address), tmp_path / "there")
    assert bytes_of(tmp_path / "here") == bytes_of(tmp_path / "there")


def test_a_worker_killed_in_the_middle_changes_nothing(tmp_path: Path, cluster: object) -> None:
    lines = tmp_path / "lines"
    lines.mkdir()
    rng = np.random.default_rng(1)
    for number in range(8):
        text = "\n".join(map(str, rng.integers(0, 10**9, 200_000)))
        (lines / f"{number}.csv").write_text(f"id\n{text}\n")
    trace = open_trace(str(lines / "*.csv"))
    save_profile(profile_trace(trace), tmp_path / "here")
    with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
        victim = next(iter(client.run(os.getpid).values()))
        killed = threading.Event()

        def kill_when_busy() -> None:
            while not any(client.processing().values()):
                time.sleep(0.01)
            os.kill(victim, signal.SIGKILL)
            killed.set()

        killer = threading.Thread(target=kill_when_busy)
        killer.start()
        profile = profile_on_cluster(trace, cluster.scheduler_address)
        killer.join()
        assert killed.is_set()
    save_profile(profile, tmp_path / "there")
    assert bytes_of(tmp_path / "here") == bytes_of(tmp_path / "there")


def test_a_message_of_a_worker_reaches_the_user(tmp_path: Path, cluster: object) -> None:
    for number, rows in enumerate(["1\n2\n", "3\nfour\n"]):
        (tmp_path / f"{number}.csv").write_text("id\n" + rows)
    with pytest.raises(InputError, match=r"1.csv: line 3, column 'id': found 'four'"):
        profile_on_cluster(open_trace(str(tmp_path / "*.csv")), cluster.scheduler_address)


def test_no_scheduler_is_one_clear_message(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recshard.profile.cluster._CONNECT_SECONDS", 1)
    with pytest.raises(InputError, match=r"scheduler: tcp://127.0.0.1:9: no dask scheduler answers"):
        profile_on_cluster(open_trace(files), "tcp://127.0.0.1:9")


def test_parts_have_every_sample_once(files: Path, tmp_path: Path) -> None:
    trace = sample(open_trace(files), 0.2, seed=1)
    apart = [samples_of(part) for part in partitions(trace)]
    assert len(apart) == 20
    whole = samples_of(trace)
    assert {name: [bag for part in apart for bag in part[name]] for name in whole} == whole
    (tmp_path / "a.csv").write_text("1\n2\n")
    text = open_trace(tmp_path / "a.csv", options=TextOptions(names=("a",)))
    assert partitions(text) == [text]
    with pytest.raises(InputError, match="cannot be read in parts"):
        partitions(take(text, slice(0, None, 2)))
