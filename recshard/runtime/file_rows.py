"""The file tier: memory-mapped files, their space on the disk reserved before anything is written.

What a module asks for at once is one file, however many parts it has: systems limit how many are open.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from recshard.errors import InputError


@dataclass(frozen=True, eq=False)
class FileRows:
    """Bytes of a file, mapped into memory.

    Attributes:
        path: of the file.
        start: where in it the bytes begin, a multiple of the system's page.
        bytes: as memory; writes reach the disk when the system sees fit, or at `flush`.
    """

    path: Path
    start: int
    bytes: memoryview
    _mapping: mmap.mmap

    def flush(self) -> None:
        """Write to the disk what was written to the bytes."""
        self._mapping.flush(self.start, len(self.bytes))


class FileRoom:
    """A folder of a module's own for its files, removed with the module.

    Rows outlive the module in checkpoints: the files are memory, and mean nothing without the plan.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        """Name the folder in which to make one, None: the system's for temporary files; made once needed."""
        self._parent = None if folder is None else Path(folder)
        self._path: Path | None = None
        self._files = 0

    def another(self) -> FileRoom:
        """Return a room for another module's files, beside this one."""
        return FileRoom(self._parent)

    def make(self, sizes: Sequence[int]) -> list[FileRows]:
        """Return zeros of each size in bytes, in a file that the disk has set aside.

        Raises:
            InputError: the disk has no room for all of them, the system has too many files open, or the folder is
                gone or cannot be written; no file is left.
        """
        if not sizes:
            return []
        path = self._make_folder() / f"{self._files:05d}.rows"
        begins = list(accumulate((-(-size // mmap.PAGESIZE) * mmap.PAGESIZE for size in sizes), initial=0))
        try:
            # Space that is only promised by a hole in a file would end as a crash in the middle of a step.
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
            try:
                os.posix_fallocate(handle, 0, begins[-1])
                mapping = mmap.mmap(handle, begins[-1])
            finally:
                os.close(handle)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise self._refused(path.parent, begins[-1], error) from None
        mapping.madvise(mmap.MADV_RANDOM)  # rows are read one by one, not in order
        self._files += 1
        view = memoryview(mapping)
        return [
            FileRows(path, begin, view[begin : begin + size], mapping)
            for begin, size in zip(begins[:-1], sizes, strict=True)
        ]

    def _refused(self, folder: Path, needed: int, error: OSError) -> InputError:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return InputError(
                f"{folder.parent}: a file of the file tier cannot be opened: {error.strerror}; close others, or "
                "raise the limit (ulimit -n)"
            )
        if not folder.is_dir():
            return InputError(
                f"{folder}: the folder of the file tier was removed while in use; keep it until the module is "
                "gone: save a checkpoint, and make the module anew"
            )
        return InputError(
            f"{folder.parent}: no room for the rows of the file tier: {error.strerror}; needed: {needed} "
            f"bytes, free: {shutil.disk_usage(folder).free}; give a folder on a larger disk, or plan for a "
            "smaller tier"
        )

    def _make_folder(self) -> Path:
        if self._path is None:
            try:
                if self._parent is not None:
                    self._parent.mkdir(parents=True, exist_ok=True)
                self._path = Path(tempfile.mkdtemp(prefix="recshard-", dir=self._parent))
            except OSError as error:
                raise InputError(f"{self._parent}: cannot be written: {error.strerror or error}") from None
            weakref.finalize(self, _remove, self._path, os.getpid())
        return self._path


def _remove(folder: Path, owner: int) -> None:
    """Remove a folder, unless this is a fork of the process that made it, which ends before that one."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
