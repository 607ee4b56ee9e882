"""An LRU page cache over a file: what an operating system or a paged memory does without a plan.

The cache is exact: of its pages the one that was touched longest ago makes room. Pages are read past the system's
own page cache, so that no second cache stands behind this one.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from recshard.problem import IntArray
from recshard.runtime.aio import BLOCK
from recshard.runtime.direct import DirectReader

Int32Array = NDArray[np.int32]
ByteArray = NDArray[np.uint8]
PAGE = BLOCK  # bytes


class Lru(NamedTuple):
    """Which page is in which frame, and the frames in a ring by last touch.

    Attributes:
        frame_of: frame of each page, −1 where it is in none, shape (pages,).
        page_of: page in each frame, −1 where it is free, shape (frames,).
        newer, older: neighbours of each frame in the ring; the last entry is its beginning, with the newest frame
            as its `older` neighbour, shape (frames + 1,).
        seen: the round in which each frame was last touched, shape (frames,).
    """

    frame_of: Int32Array
    page_of: Int32Array
    newer: Int32Array
    older: Int32Array
    seen: IntArray


def empty_lru(pages: int, frames: int) -> Lru:
    """Return a cache of `frames` free frames for a file of `pages` pages."""
    ring = np.arange(frames + 1, dtype=np.int32)
    free = np.full(frames, -1, dtype=np.int32)
    gone = np.full(pages, -1, dtype=np.int32)
    return Lru(gone, free, np.roll(ring, 1), np.roll(ring, -1), np.zeros(frames, dtype=np.int64))


def newest_first(lru: Lru) -> list[int]:
    """Return the pages in the cache, the one touched last first."""
    found, frame = [], int(lru.older[-1])
    while frame < len(lru.page_of):
        if lru.page_of[frame] >= 0:
            found.append(int(lru.page_of[frame]))
        frame = int(lru.older[frame])
    return found


class PageCache:
    """The pages of a file in as many frames of memory as there are; a context manager by its reader.

    Attributes:
        frames: how many.
        lookups, hits, pages_read: since the start or `forget_counts`; a hit is a lookup none of
            whose pages had to be read for it.
    """

    def __init__(self, path: Path, pages: int, frames: int, threads: int = 16) -> None:
        """Open a file of `pages` whole pages.

        Raises:
            InputError: as `DirectReader`.
        """
        self.frames = frames
        self.lookups = self.hits = self.pages_read = 0
        self._reader = DirectReader(path, pages, PAGE, threads)
        self._lru = empty_lru(pages, frames)
        self._content = np.zeros((frames, PAGE), dtype=np.uint8)
        self._round = 0

    @property
    def is_full(self) -> bool:
        """Whether no frame is free, or all pages have one."""
        taken = int(np.count_nonzero(self._lru.page_of >= 0))
        return taken == min(self.frames, len(self._lru.frame_of))

    def read(self, begin: IntArray, size: IntArray) -> ByteArray:
        """Return the bytes of some rows, one after the other, uint8, shape (sum of sizes,).

        All pages that a batch lacks are read at once, each once; where the cache holds fewer pages than the batch
        touches, in as many rounds as that takes.

        Args:
            begin: where each row begins in the file, shape (n,).
            size: bytes of each, none larger than the cache, shape (n,).
        """
        out = np.empty(int(size.sum()), dtype=np.uint8)
        done = written = 0
        while done < len(begin):
            self._round += 1
            end, hits, pages, frames = touch(self._lru, self._round, begin, size, done)
            if end == done:
                raise ValueError(f"a row of {size[done]} bytes does not fit in {self.frames} pages")
            if len(pages):
                self._content[frames] = self._reader.gather(pages)
            written = copy_rows(self._lru.frame_of, self._content, begin[done:end], size[done:end], out, written)
            self.lookups += end - done
            self.hits += hits
            self.pages_read += len(pages)
            done = end
        return out

    def forget_counts(self) -> None:
        """Count from here on; the pages stay."""
        self.lookups = self.hits = self.pages_read = 0

    def close(self) -> None:
        """Close the file."""
        self._reader.close()


@numba.njit(cache=True, nogil=True)
def touch(
    lru: Lru, number: int, begin: IntArray, size: IntArray, start: int
) -> tuple[int, int, IntArray, Int32Array]:
    """Give every page of some rows a frame, in their order.

    Args:
        lru: changed.
        number: of this round, from 1, rising: no page that it touched makes room for another.
        begin, size: bytes of each row in the file, shape (n,).
        start: the first row to take.

    Returns:
        end: the first row that was not taken: it needs more frames than this round has left.
        hits: rows taken all of whose pages were there already.
        pages, frames: those to be read, and where they belong.
    """
    # A page costs one random read of `frame_of` and, unless it was the newest, six random writes in the ring.
    frame_of, page_of, newer, older, seen = lru
    ring = np.int32(len(page_of))
    left = len(page_of)
    pages = np.empty(left, dtype=np.int64)
    frames = np.empty(left, dtype=np.int32)
    missing, hits = 0, 0
    for i in range(start, len(begin)):
        first, last = begin[i] // PAGE, (begin[i] + size[i] - 1) // PAGE
        if last - first + 1 > left:
            return i, hits, pages[:missing], frames[:missing]
        is_hit = True
        for page in range(first, last + 1):
            frame = frame_of[page]
            if frame < 0:
                is_hit = False
                frame = newer[ring]  # the oldest: the ring's other end
                if page_of[frame] >= 0:
                    frame_of[page_of[frame]] = -1
                page_of[frame], frame_of[page] = page, frame
                pages[missing], frames[missing] = page, frame
                missing += 1
            if seen[frame] != number:
                seen[frame] = number
                left -= 1
            if older[ring] != frame:
                older[newer[frame]], newer[older[frame]] = older[frame], newer[frame]
                newest = older[ring]
                older[ring], newer[frame] = frame, ring
                older[frame], newer[newest] = newest, frame
        hits += is_hit
    return len(begin), hits, pages[:missing], frames[:missing]


@numba.njit(cache=True, nogil=True)
def copy_rows(
    frame_of: Int32Array, content: ByteArray, begin: IntArray, size: IntArray, out: ByteArray, at: int
) -> int:
    """Write rows whose pages all have frames to `out`, from `at` on; return where they end."""
    # Reads rows at random, writes in order.
    for i in range(len(begin)):
        place, left = begin[i], size[i]
        while left > 0:
            within = place % PAGE
            n = min(left, PAGE - within)
            out[at : at + n] = content[frame_of[place // PAGE], within : within + n]
            at, place, left = at + n, place + n, left - n
    return at
