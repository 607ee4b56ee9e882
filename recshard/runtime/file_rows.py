"""The file tier: one memory-mapped file a part, its space on the disk reserved before anything is written."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path

from recshard.errors import InputError


class MappedFile:
    """A file mapped into memory.

    Attributes:
        path: of the file.
        bytes: the mapping; writes reach the disk when the system sees fit, or at `flush`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("r+b") as file:
            self.bytes = mmap.mmap(file.fileno(), 0)
        self.bytes.madvise(mmap.MADV_RANDOM)  # rows are read one by one, not in order

    def flush(self) -> None:
        """Write to the disk what was written to the mapping."""
        self.bytes.flush()


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

    def make(self, sizes: Sequence[int]) -> list[MappedFile]:
        """Return a mapped file of zeros of each size in bytes, which the disk has set aside.

        Raises:
            InputError: the disk has no room for all of them, the system has too many files open, or the folder is
                gone or cannot be written; no file is left.
        """
        if not sizes:
            return []
        folder = self._make_folder()
        paths = [folder / f"{self._files + number:05d}.rows" for number in range(len(sizes))]
        try:
            for path, size in zip(paths, sizes, strict=True):
                # Space that is only promised by a hole in a file would end as a crash in the middle of a step.
                handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
                try:
                    os.posix_fallocate(handle, 0, size)
                finally:
                    os.close(handle)
            made = [MappedFile(path) for path in paths]
        except OSError as error:
            for path in paths:
                path.unlink(missing_ok=True)
            raise self._refused(folder, sizes, error) from None
        self._files += len(made)
        return made

    def _refused(self, folder: Path, sizes: Sequence[int], error: OSError) -> InputError:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return InputError(
                f"{folder.parent}: {self._files} files of the file tier are open, and {len(sizes)} more are too "
                f"many: {error.strerror}; raise the limit (ulimit -n) by twice as many"
            )
        if not folder.is_dir():
            return InputError(
                f"{folder}: the folder of the file tier was removed while in use; keep it until the module is "
                "gone: save a checkpoint, and make the module anew"
            )
        return InputError(
            f"{folder.parent}: no room for the rows of the file tier: {error.strerror}; needed: {sum(sizes)} "
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
