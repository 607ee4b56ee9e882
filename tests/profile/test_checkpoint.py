"""An interrupted run loses nothing: the old profile stays, and finished files are not read again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from recshard.errors import InputError
from recshard.profile import load_profile, save_profile
from recshard.profile.build import profile_trace
from recshard.profile.checkpoint import Checkpoint, partial_beside
from recshard.tables import EmbeddingTable, TableSet
from recshard.trace import open_trace, sample

FILES = 6


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Files with a declared range of rows and with raw IDs."""
    folder = tmp_path / "logs"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(FILES):
        rows = zip(rng.integers(0, 500, 2_000), rng.integers(0, 2**40, 2_000) // 2**30, strict=True)
        text = "".join(f"{row},{raw}\n" for row, raw in rows)
        (folder / f"{number}.csv").write_text("row,raw\n" + text)
    return folder


def bytes_of(profile: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in profile.iterdir()}


def spoil(path: Path) -> None:
    """Make a file unreadable as a log without a trace of the change: same size, same time."""
    state = path.stat()
    path.write_bytes(b"x" * state.st_size)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def test_finished_files_are_not_read_again(logs: Path, tmp_path: Path) -> None:
    trace = open_trace(str(logs / "*.csv"))
    save_profile(profile_trace(trace), tmp_path / "whole")
    last = logs / f"{FILES - 1}.csv"
    sound = last.read_bytes()
    last.write_text("row,raw\n1,2\n3,four\n")
    interrupted = Checkpoint(tmp_path / "p.partial")
    with pytest.raises(InputError, match="found 'four'"):
        profile_trace(trace, checkpoint=interrupted)
    with pytest.raises(InputError, match="another run is making this profile"):
        Checkpoint(tmp_path / "p.partial", resume=True)
    interrupted.close()
    last.write_bytes(sound)
    for number in range(FILES - 1):
        spoil(logs / f"{number}.csv")
    checkpoint = Checkpoint(tmp_path / "p.partial", resume=True)
    profile = profile_trace(trace, checkpoint=checkpoint)
    assert checkpoint.resumed == FILES - 1
    save_profile(profile, tmp_path / "resumed")
    assert bytes_of(tmp_path / "resumed") == bytes_of(tmp_path / "whole")
    checkpoint.remove()
    assert not (tmp_path / "p.partial").exists()
    # What was resumed is in memory or in a folder of its own.
    assert load_profile(tmp_path / "resumed").lookups == sum(profile.hot_rows(0)[1]) + sum(profile.hot_rows(1)[1])


def test_whatever_could_change_counts_makes_a_file_unfinished(logs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "p.partial"
    trace = open_trace(str(logs / "*.csv"))
    first = Checkpoint(folder)
    profile_trace(trace, checkpoint=first)
    first.close()

    def resumed(trace: object, tables: TableSet | None = None) -> int:
        checkpoint = Checkpoint(folder, resume=True)
        profile_trace(trace, tables, checkpoint=checkpoint)
        checkpoint.close()
        return checkpoint.resumed

    assert resumed(trace) == FILES
    assert resumed(trace, TableSet((EmbeddingTable("row", 600, features=("row",)),))) == 0
    assert resumed(sample(trace, 0.5)) == 0
    assert resumed(sample(trace, 0.5, seed=1)) == 0
    (logs / "0.csv").write_text("row,raw\n1,2\n")
    assert resumed(trace) == FILES - 1


def test_a_run_that_is_not_resumed_begins_anew(logs: Path, tmp_path: Path) -> None:
    trace = open_trace(str(logs / "*.csv"))
    first = Checkpoint(tmp_path / "p.partial")
    profile_trace(trace, checkpoint=first)
    first.close()
    checkpoint = Checkpoint(tmp_path / "p.partial")
    assert checkpoint.removed == FILES
    assert len(list((tmp_path / "p.partial").iterdir())) == 1
    profile_trace(trace, checkpoint=checkpoint)
    assert checkpoint.resumed == 0


def test_a_folder_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "p.partial").mkdir()
    (tmp_path / "p.partial" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="left as it is"):
        Checkpoint(tmp_path / "p.partial")
    assert (tmp_path / "p.partial" / "thesis.tex").exists()


def test_killed_at_any_moment_the_old_profile_stays_and_the_rest_is_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(12):
        (folder / f"{number:02}.csv").write_text("id\n" + "\n".join(map(str, rng.integers(0, 10**9, 60_000))))
    command = [sys.executable, "-m", "recshard", "profile", "logs/*.csv", "-o", "p"]
    subprocess.run([*command[:4], "logs/00.csv", "-o", "p"], cwd=tmp_path, check=True, capture_output=True)
    old = bytes_of(tmp_path / "p")
    running = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    partial = partial_beside(tmp_path / "p")
    while len(list(partial.glob("*.json"))) < 3:  # its marker and two finished files
        assert running.poll() is None
        time.sleep(0.001)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert bytes_of(tmp_path / "p") == old
    assert load_profile(tmp_path / "p").samples == 60_000
    done = subprocess.run([*command, "--resume"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "input files were finished before and not read again" in done.stderr
    assert not partial.exists()
    resumed = bytes_of(tmp_path / "p")
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert bytes_of(tmp_path / "p") == resumed
    assert load_profile(tmp_path / "p").samples == 12 * 60_000


def test_a_file_that_changes_while_it_is_read_is_not_finished(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = open_trace(str(logs / "*.csv"))
    checkpoint = Checkpoint(tmp_path / "p.partial")
    keep = checkpoint.keep

    def grown(*arguments: object) -> object:
        with (logs / "0.csv").open("a") as file:
            file.write("1,2\n")
        return keep(*arguments)

    monkeypatch.setattr(checkpoint, "keep", grown)
    profile_trace(trace, checkpoint=checkpoint)
    assert checkpoint.kept == FILES - 1


def test_counts_cut_short_are_counted_again(logs: Path, tmp_path: Path) -> None:
    trace = open_trace(str(logs / "*.csv"))
    first = Checkpoint(tmp_path / "p.partial")
    save_profile(profile_trace(trace, checkpoint=first), tmp_path / "whole")
    first.close()
    victims = sorted((tmp_path / "p.partial").glob("*.arrow"))
    victims[0].write_bytes(victims[0].read_bytes()[:500])
    victims[1].unlink()
    again = Checkpoint(tmp_path / "p.partial", resume=True)
    save_profile(profile_trace(trace, checkpoint=again), tmp_path / "resumed")
    assert again.resumed == FILES - 2
    assert bytes_of(tmp_path / "resumed") == bytes_of(tmp_path / "whole")
