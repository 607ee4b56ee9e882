"""Counts of finished input files, kept beside a profile in the making, so that an interrupted run can go on."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from pathlib import Path
from typing import IO

import numpy as np

from recshard import files
from recshard.errors import InputError
from recshard.profile.lengths import Lengths
from recshard.profile.partial import Partial
from recshard.profile.profiler import Profiler
from recshard.profile.spill import Run, run_file
from recshard.tables import TableSet
from recshard.trace.base import Trace
from recshard.trace.selection import source_of

_VERSION = 1
_MARKER = "partial-counts.json"


class Checkpoint:
    """A folder with the counts of every input file that was read to its end.

    A file counts as finished if nothing has changed that could change its counts: name, size and time of change,
    the options it is read with, and the declared tables.

    Args:
        folder: where counts are kept.
        resume: whether what is there already is taken up; otherwise it is removed.

    Raises:
        InputError: the folder is something else, or cannot be written.
    """

    def __init__(self, folder: Path, *, resume: bool = False) -> None:
        self.folder = folder
        self.resumed = 0
        self.kept = 0
        self.removed = 0
        self._lock: IO[str] | None = None
        self._earlier: frozenset[str] = frozenset()
        files.check_writable(folder, _MARKER)
        if not (folder / _MARKER).exists():
            return
        self._own()
        earlier = [path.stem for path in folder.glob("*.json") if path.name != _MARKER]
        if resume:
            files.read_json(folder, _MARKER, "folder of partial counts", _VERSION)
            self._earlier = frozenset(earlier)
        else:
            self.removed = len(earlier)
            self._empty()

    def _own(self) -> None:
        """Make the folder where it is not there yet, and keep other runs out of it for as long as this one lives.

        Raises:
            InputError: another run is at it, or it cannot be written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / _MARKER).open("a+")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{self.folder}: another run is making this profile; wait for it, or choose another output"
            ) from None
        except OSError as error:
            raise InputError(f"{self.folder}: cannot be written: {error.strerror or error}") from None
        if not self._lock.seek(0, os.SEEK_END):
            self._lock.write(json.dumps({"format_version": _VERSION}) + "\n")
            self._lock.flush()

    def _empty(self) -> None:
        """Remove what is kept, the marker last: a folder that was half removed is still known as one."""
        for path in [path for path in self.folder.iterdir() if path.name != _MARKER]:
            path.unlink(missing_ok=True)

    def finished(self, part: Trace, tables: TableSet) -> Partial | None:
        """Return the counts of an input file that was finished before, or None."""
        name = fingerprint(part, tables)
        if name not in self._earlier:
            return None
        path = self.folder / f"{name}.json"
        try:
            document = json.loads(path.read_text())
            if (self.folder / f"{name}.arrow").stat().st_size != document["bytes"]:
                return None  # cut short: to be counted again
            counts = tuple((Run(self.folder / f"{name}.arrow", *run),) for run in document["runs"])
            features = {key: _lengths(value) for key, value in document["features"].items()}
            own = tuple(_lengths(value) for value in document["tables"])
            result = Partial(document["samples"], features, own, counts)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: is damaged ({error!r}); profile again without --resume") from None
        self.resumed += 1
        return result

    def keep(self, profiler: Profiler, part: Trace, tables: TableSet, before: str) -> Partial:
        """Move the counts of an input file that was just read to its end out of a profiler and keep them.

        Args:
            profiler: that counted the file and nothing else.
            part: the file.
            tables: the declared tables.
            before: the file's fingerprint before it was read; if it has changed since, it does not count as
                finished.
        """
        if self._lock is None:
            self._own()
        path = self.folder / f"{before}.arrow"
        with run_file(path) as writer:
            partial = profiler.drain(writer)
        with path.open("rb") as file:
            os.fsync(file.fileno())
        runs = [run for (run,) in partial.counts if isinstance(run, Run)]
        document = {
            "source": part.name,
            "samples": partial.samples,
            "features": {key: _listed(lengths) for key, lengths in partial.features.items()},
            "tables": [_listed(lengths) for lengths in partial.tables],
            "runs": [[run.first, run.last, run.pairs] for run in runs],
            "bytes": path.stat().st_size,
        }
        if fingerprint(part, tables) == before:
            # Last, and renamed into place: where it stands, the counts are whole.
            files.write_text(self.folder / f"{before}.json", json.dumps(document))
            self.kept += 1
        return partial

    def close(self) -> None:
        """Let other runs at the folder; what is kept stays."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def remove(self) -> None:
        """Remove all that was kept: the profile is written."""
        if self._lock is None:
            return
        self._empty()
        (self.folder / _MARKER).unlink(missing_ok=True)
        self.folder.rmdir()
        self.close()


def partial_beside(profile: Path) -> Path:
    """Return where counts of finished files are kept while a profile is made: `<profile>.partial`."""
    return profile.with_name(profile.name + ".partial")


def fingerprint(part: Trace, tables: TableSet) -> str:
    """Return a name that changes with whatever could change the counts of an input file."""
    path = Path(source_of(part).name)
    state = path.stat() if path.exists() else None
    changed = (state.st_size, state.st_mtime_ns) if state is not None else None
    return hashlib.sha256(repr((part, changed, tables)).encode()).hexdigest()[:32]


def _listed(lengths: Lengths) -> list[list[int]]:
    return [lengths.length.tolist(), lengths.samples.tolist()]


def _lengths(value: list[list[int]]) -> Lengths:
    length, samples = value
    return Lengths(np.array(length, dtype=np.int64), np.array(samples, dtype=np.int64))
