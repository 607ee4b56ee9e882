"""The page cache keeps what an exact LRU keeps."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recshard.bench.lru import PAGE, PageCache, newest_first


def cache_of(folder: Path, pages: int, frames: int, seed: int = 0) -> tuple[PageCache, np.ndarray]:
    content = np.random.default_rng(seed).integers(0, 256, pages * PAGE, dtype=np.uint8)
    content.tofile(folder / "pages.bin")
    return PageCache(folder / "pages.bin", pages, frames), content


def brute_force(rows: Sequence[tuple[int, int]], frames: int) -> tuple[int, int, list[int]]:
    """Return hits, pages read and the pages kept, newest first, of a cache that touches one page at a time."""
    held: OrderedDict[int, None] = OrderedDict()
    hits = read = 0
    for begin, size in rows:
        pages = range(begin // PAGE, (begin + size - 1) // PAGE + 1)
        hits += all(page in held for page in pages)
        for page in pages:
            read += page not in held
            held[page] = None
            held.move_to_end(page)
            if len(held) > frames:
                held.popitem(last=False)
    return hits, read, list(reversed(held))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), pages=st.integers(3, 30), frames=st.integers(3, 40), seed=st.integers(0, 99))
def test_the_cache_gives_the_files_rows_and_keeps_what_an_exact_lru_keeps(
    tmp_path: Path, data: st.DataObject, pages: int, frames: int, seed: int
) -> None:
    cache, content = cache_of(tmp_path, pages, frames, seed)
    rng = np.random.default_rng(seed)
    rows: list[tuple[int, int]] = []
    for lookups in data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=5)):
        size = rng.integers(1, 2 * PAGE, lookups) if data.draw(st.booleans()) else np.full(lookups, 192)
        begin = (rng.zipf(1.2, lookups) * 997) % (pages * PAGE - size + 1)
        expected = [content[b : b + n] for b, n in zip(begin, size, strict=True)]
        assert np.array_equal(cache.read(begin, size), np.concatenate([*expected, np.zeros(0, np.uint8)]))
        rows += zip(begin.tolist(), size.tolist(), strict=True)
    hits, read, kept = brute_force(rows, frames)
    assert (cache.hits, cache.pages_read, cache.lookups) == (hits, read, len(rows))
    assert newest_first(cache._lru) == kept
    assert cache.is_full == (len(kept) == min(pages, frames))
    cache.close()


def test_a_batch_reads_a_page_once_however_many_rows_it_wants_of_it(tmp_path: Path) -> None:
    cache, _ = cache_of(tmp_path, 4, 2)
    begin = np.array([0, 512, 1024, PAGE, 0])
    cache.read(begin, np.full(5, 256))
    assert (cache.pages_read, cache.hits) == (2, 3)
    cache.read(begin, np.full(5, 256))
    assert (cache.pages_read, cache.hits) == (2, 8)


def test_a_row_larger_than_the_cache_is_no_endless_loop(tmp_path: Path) -> None:
    cache, _ = cache_of(tmp_path, 4, 1)
    with pytest.raises(ValueError, match="does not fit in 1 pages"):
        cache.read(np.array([PAGE - 1]), np.array([2]))
