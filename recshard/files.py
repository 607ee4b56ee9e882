"""Outputs written whole or not at all: to a temporary sibling first, then renamed."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from recshard.errors import InputError


@contextmanager
def new_folder(path: str | Path, marker: str) -> Iterator[Path]:
    """Yield an empty folder to fill, which takes the place of `path` once the block ends without an error.

    Args:
        path: the folder to write; an older one of the same kind is replaced.
        marker: the file that tells the kind, such as `plan.json`.

    Raises:
        InputError: `path` is there already and is something else, or its parent cannot be written.
    """
    target = Path(path)
    check_writable(target, marker)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except FileExistsError:
        raise InputError(f"{target}: cannot be written: {target.parent} is no folder") from None
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror or error}") from None
    try:
        temporary.chmod(0o755)
        yield temporary
        if target.exists():
            _replace(target, temporary)
        else:
            os.replace(temporary, target)
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace(target: Path, new: Path) -> None:
    """Put a folder in the place of another one, which comes back where that fails or is interrupted."""
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        os.replace(target, aside / target.name)
        os.replace(new, target)
    except BaseException:
        if not target.exists():
            os.replace(aside / target.name, target)
        raise
    finally:
        if target.exists():
            shutil.rmtree(aside, ignore_errors=True)


def check_writable(path: str | Path, marker: str) -> None:
    """Raise InputError where `new_folder` would refuse to replace what stands at `path`."""
    target = Path(path)
    if target.exists() and not (target / marker).is_file() and not (target.is_dir() and _is_empty(target)):
        raise InputError(
            f"{target}: exists and is not a folder with a {marker}; it is left as it is: choose another output"
        )


def check_ours(path: str | Path, first_line: str) -> None:
    """Raise InputError where a file stands at `path` that does not begin with the line which recshard's own do."""
    target = Path(path)
    if not target.exists():
        return
    try:
        with target.open(encoding="utf-8", errors="replace") as file:
            ours = file.readline().rstrip("\n") == first_line
    except OSError:
        ours = False
    if not ours:
        raise InputError(
            f"{target}: exists and was not written by recshard; it is left as it is: choose another output, or "
            "move it away"
        )


def _is_empty(folder: Path) -> bool:
    return next(folder.iterdir(), None) is None


@contextmanager
def new_file(path: str | Path) -> Iterator[Path]:
    """Give a temporary file to write, which becomes `path` at the end: a reader sees the old one or the new one.

    Raises:
        InputError: the file cannot be written.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            temporary.chmod(0o644)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror or error}") from None


def write_text(path: str | Path, text: str) -> None:
    """Write a text file whole.

    Raises:
        InputError: the file cannot be written.
    """
    with new_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_json(folder: str | Path, name: str, kind: str, version: int) -> dict[str, Any]:
    """Return the JSON document that names what a folder holds.

    Raises:
        InputError: no such folder, not one of this kind, cut short, or of another format version.
    """
    path = Path(folder) / name
    if not Path(folder).exists():
        raise InputError(f"{folder}: no such {kind}")
    if not path.is_file():
        raise InputError(f"{folder}: not a {kind}: it has no {name}")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        found = document["format_version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: cannot be read as a {kind}'s JSON: {error!r}; make the {kind} again") from None
    if found != version:
        raise InputError(f"{path}: found format_version {found!r}; accepted: {version}; make the {kind} again")
    return dict(document)
