"""From the paths and patterns that a user names to files, in order."""

from __future__ import annotations

import glob
from pathlib import Path

from recshard.errors import InputError


def listed(path: Path, format: str) -> list[Path]:
    """Return the files that a path stands for, sorted: itself, a pattern's matches, a folder's Parquet files.

    A folder's subfolders count too, as in `date=2024-05-01/part-0.parquet`; names that begin with `_` or `.` are
    not of the data, by the convention of Spark and Hive.

    Raises:
        InputError: no such file, a pattern that matches none, or a folder without Parquet files.
    """
    found = matches(path)
    if found is not None:
        return [file for match in found for file in listed(match, format)]
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if not path.is_dir():
        check_regular(path)
        return [path]
    files = [file for file in sorted(path.rglob("*.parquet")) if file.is_file() and not _is_hidden(file, path)]
    if format != "parquet" or not files:
        raise InputError(
            f"{path}: is a folder; accepted: files, or a folder with .parquet files in it or its subfolders; name "
            f"files of other formats with a pattern, such as '{path / '*.csv'}'"
        )
    return files


def matches(path: Path) -> list[Path] | None:
    """Return what a pattern such as `logs/**/*.parquet` matches, sorted; None for a path that is no pattern.

    Raises:
        InputError: nothing matches.
    """
    # A file may be called `log[1].csv`.
    if not glob.has_magic(str(path)) or path.exists():
        return None
    found = sorted(Path(match) for match in glob.glob(str(path), recursive=True))
    if not found:
        raise InputError(
            f"{path}: no file matches this pattern; accepted: *, ?, [abc] and ** for folders at any depth"
        )
    return found


def check_regular(path: Path) -> None:
    """Refuse a pipe or a device: a trace is read more than once, from its start.

    Raises:
        InputError: `path` is no regular file.
    """
    if not path.is_file():
        raise InputError(f"{path}: is a pipe or a device; accepted: files; save its content to a file first")


def _is_hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in file.relative_to(folder).parts)
