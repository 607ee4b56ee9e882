"""Counts of finished input files, kept beside a profile in the making, so that an interrupted run can go on."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np

from recshard import files
from recshard.errors import InputError
from recshard.profile.lengths import Lengths
from recshard.profile.partial import Partial
from recshard.profile.profiler import Profiler
from recshard.profile.spill import Run, run_file
from recshard.tables import TableSet
from recshard.trace.base import Trace

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
        files.check_writable(folder, _MARKER)
        if folder.exists() and not resume:
            try:
                shutil.rmtree(folder)
            except OSError as error:
                raise InputError(f"{folder}: cannot be removed: {error.strerror or error}") from None
        elif folder.exists():
            files.read_json(folder, _MARKER, "folder of partial counts", _VERSION)

    def finished(self, part: Trace, tables: TableSet) -> Partial | None:
        """Return the counts of an input file that was finished before, or None."""
        name = _fingerprint(part, tables)
        path = self.folder / f"{name}.json"
        try:
            document = json.loads(path.read_text())
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

    def keep(self, profiler: Profiler, part: Trace, tables: TableSet) -> Partial:
        """Move the counts of an input file that was just read to its end out of a profiler and keep them."""
        if not self.kept and not self.folder.exists():
            files.write_text(self.folder / _MARKER, json.dumps({"format_version": _VERSION}) + "\n")
        self.kept += 1
        name = _fingerprint(part, tables)
        path = self.folder / f"{name}.arrow"
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
        }
        # Last, and renamed into place: where it stands, the counts are whole.
        files.write_text(self.folder / f"{name}.json", json.dumps(document))
        return partial

    def remove(self) -> None:
        """Remove all that was kept: the profile is written."""
        shutil.rmtree(self.folder, ignore_errors=True)


def partial_beside(profile: Path) -> Path:
    """Return where counts of finished files are kept while a profile is made: `<profile>.partial`."""
    return profile.with_name(profile.name + ".partial")


def _fingerprint(part: Trace, tables: TableSet) -> str:
    """Return a name that changes with whatever could change the counts of an input file."""
    path = Path(part.name)
    state = path.stat() if path.exists() else None
    changed = (state.st_size, state.st_mtime_ns) if state is not None else None
    return hashlib.sha256(repr((part, changed, tables)).encode()).hexdigest()[:32]


def _listed(lengths: Lengths) -> list[list[int]]:
    return [lengths.length.tolist(), lengths.samples.tolist()]


def _lengths(value: list[list[int]]) -> Lengths:
    length, samples = value
    return Lengths(np.array(length, dtype=np.int64), np.array(samples, dtype=np.int64))
