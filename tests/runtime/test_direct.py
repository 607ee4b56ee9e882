"""Rows read past the page cache are those of the file, and errors are one clear message."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recshard.errors import InputError
from recshard.runtime import aio, direct
from recshard.runtime.aio import queue
from recshard.runtime.direct import DirectReader


@pytest.fixture(params=["queue", "threads"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every statement holds of both ways to have reads in flight."""
    if request.param == "threads":
        monkeypatch.setattr(direct, "queue", lambda _: None)
    elif queue(16) is None:
        pytest.skip("the system has no queue of reads to give")


def written(folder: Path, rows: int, row_bytes: int, seed: int = 0) -> tuple[Path, np.ndarray]:
    content = np.random.default_rng(seed).integers(0, 256, (rows, row_bytes), dtype=np.uint8)
    path = folder / "rows.bin"
    content.tofile(path)
    return path, content


def resident_pages(path: Path) -> int:
    """Return how many pages of a file the system keeps in memory, after mincore(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        pages = -(-len(mapped) // mmap.PAGESIZE)
        flags = (ctypes.c_ubyte * pages)()
        window = (ctypes.c_ubyte * len(mapped)).from_buffer(mapped)
        found = libc.mincore(ctypes.c_void_p(ctypes.addressof(window)), ctypes.c_size_t(len(mapped)), flags)
        del window
        assert found == 0, os.strerror(ctypes.get_errno())
        return sum(flag & 1 for flag in flags)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    row_bytes=st.one_of(st.integers(1, 300), st.integers(4000, 9000), st.sampled_from([4096, 8192])),
    rows=st.integers(1, 60),
    lookups=st.integers(0, 50),
    threads=st.sampled_from([1, 3, 16]),
    start=st.one_of(st.just(0), st.integers(1, 9000), st.sampled_from([4096, 8192])),
    seed=st.integers(0, 99),
)
def test_rows_are_those_of_the_file_wherever_they_straddle_blocks(
    tmp_path: Path, row_bytes: int, rows: int, lookups: int, threads: int, start: int, seed: int
) -> None:
    path, content = written(tmp_path, rows, row_bytes, seed)
    path.write_bytes(bytes(start) + content.tobytes())
    slots = np.random.default_rng(seed).integers(0, rows, lookups)
    with DirectReader(path, rows, row_bytes, threads, start=start) as reader:
        assert np.array_equal(reader.gather(slots), content[slots])
        assert np.array_equal(reader.gather(np.arange(rows)), content)


def test_rows_of_several_readers_are_each_ones_own_and_one_files_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    path, narrow = written(tmp_path, 300, 40)
    other, wide = written(tmp_path / "other", 90, 5000, seed=1)
    rng = np.random.default_rng(0)
    last = narrow.reshape(-1)[1000:].reshape(100, 110)
    reads, real = [], DirectReader._read

    def counted(reader: DirectReader, begin: np.ndarray, *others: np.ndarray) -> None:
        reads.append((reader.path, len(begin)))
        real(reader, begin, *others)

    monkeypatch.setattr(DirectReader, "_read", counted)
    with (
        DirectReader(path, 300, 40) as a,
        DirectReader(other, 90, 5000) as b,
        DirectReader(path, 100, 110, start=1000) as c,
    ):
        asked = [(a, rng.integers(0, 300, 70)), (b, rng.integers(0, 90, 30)), (c, rng.integers(0, 100, 50))]
        asked += [(a, np.empty(0, dtype=np.int64))]
        found = direct.gather(asked)
        with pytest.raises(InputError, match=r"rows\.bin: found slot 100; accepted: 0 to 99"):
            direct.gather([(a, np.array([299])), (c, np.array([100]))])
    for rows, content, (_, slots) in zip(found, (narrow, wide, last, narrow), asked, strict=True):
        assert np.array_equal(rows, content[slots])
    assert reads == [(path, 120), (other, 30)]
    assert direct.gather([]) == []


def test_what_was_read_is_not_kept_in_memory(tmp_path: Path) -> None:
    path, _ = written(tmp_path, 4000, 256)
    with path.open("r+b") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    before = resident_pages(path)
    with DirectReader(path, 4000, 256) as reader:
        reader.gather(np.arange(4000))
    assert resident_pages(path) <= before
    path.read_bytes()
    assert resident_pages(path) == 250, "the probe itself sees pages that are kept"


def test_rows_written_through_a_memory_map_are_read_once_it_is_flushed(tmp_path: Path) -> None:
    path, _ = written(tmp_path, 100, 64)
    rows = np.memmap(path, dtype=np.uint8, mode="r+", shape=(100, 64))
    with DirectReader(path, 100, 64) as reader:
        reader.gather(np.arange(100))
        rows[42] = 7
        rows.flush()
        assert (reader.gather(np.array([42])) == 7).all()


def test_a_file_that_was_cut_short_is_refused_with_its_size(tmp_path: Path) -> None:
    path, _ = written(tmp_path, 10, 100)
    with pytest.raises(InputError, match=r"found 1000 bytes; accepted: at least the 1100 bytes of 11 rows of 100"):
        DirectReader(path, 11, 100)
    with DirectReader(path, 10, 100) as reader:
        os.truncate(path, 500)
        with pytest.raises(InputError, match=r"rows\.bin: cannot be read at byte 500: .*cut short"):
            reader.gather(np.arange(10))


def test_slots_beyond_the_rows_are_refused(tmp_path: Path) -> None:
    path, _ = written(tmp_path, 10, 100)
    with DirectReader(path, 5, 100) as reader, pytest.raises(InputError, match="found slot 5; accepted: 0 to 4"):
        reader.gather(np.array([1, 5]))


def test_a_reader_serves_again_after_a_read_that_failed(tmp_path: Path) -> None:
    path, content = written(tmp_path, 500, 100)
    with DirectReader(path, 500, 100) as reader:
        os.truncate(path, 20_000)
        with pytest.raises(InputError, match="cut short"):
            reader.gather(np.arange(500))
        assert np.array_equal(reader.gather(np.arange(200)), content[:200])


def test_readers_in_several_threads_do_not_mix_up_their_rows(tmp_path: Path) -> None:
    path, content = written(tmp_path, 3000, 100)
    with ThreadPoolExecutor(4) as pool:

        def read(seed: int) -> bool:
            slots = np.random.default_rng(seed).integers(0, 3000, 500)
            with DirectReader(path, 3000, 100) as reader:
                return np.array_equal(reader.gather(slots), content[slots])

        assert all(pool.map(read, range(12)))


def test_a_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.bin: cannot be read: No such file"):
        DirectReader(tmp_path / "none.bin", 1, 1)


@pytest.mark.parametrize("refusing", ["open", "preadv"])
def test_a_file_system_that_has_only_cached_reads_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusing: str
) -> None:
    path, _ = written(tmp_path, 10, 100)

    def refuse(*_: object) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, refusing, refuse)
    with pytest.raises(InputError, match=r"cannot be read past the page cache .*choose another folder"):
        DirectReader(path, 10, 100)


def test_a_file_is_open_once_for_all_its_readers_and_closed_with_the_last(tmp_path: Path) -> None:
    path, content = written(tmp_path, 10, 100)
    before = len(os.listdir("/proc/self/fd"))
    with DirectReader(path, 10, 100) as reader:
        other = DirectReader(path, 5, 100, start=500)
        assert len(os.listdir("/proc/self/fd")) == before + 1
    reader.close()
    with pytest.raises(InputError, match=r"rows\.bin: cannot be read at byte 0: Bad file descriptor"):
        reader.gather(np.array([0]))
    assert np.array_equal(other.gather(np.arange(5)), content[5:])
    path.rename(tmp_path / "before.bin")
    path, replaced = written(tmp_path, 10, 100, seed=1)
    with DirectReader(path, 10, 100) as another:
        assert np.array_equal(another.gather(np.arange(10)), replaced)
        assert np.array_equal(other.gather(np.arange(5)), content[5:])
    del other
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_queue_whose_reads_were_given_up_serves_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, content = written(tmp_path, 100, 64)
    own = queue(7)
    if own is None:
        pytest.skip("the system has no queue of reads to give")
    monkeypatch.setattr(direct, "queue", queue)
    with DirectReader(path, 100, 64, threads=7) as reader:
        monkeypatch.setattr(aio, "_read", lambda *_: (5, -1))
        with pytest.raises(InputError, match="a read was interrupted"):
            reader.gather(np.arange(100))
        monkeypatch.undo()
        assert queue(7) is None
        assert np.array_equal(reader.gather(np.arange(100)), content)
