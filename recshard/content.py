"""Finds recipes, presets and weights, in a checkout and in an installed wheel alike."""

from __future__ import annotations

from pathlib import Path

from recshard.errors import InputError, nearest

_PACKAGE = Path(__file__).resolve().parent


def content_dir(name: str) -> Path:
    """Return the folder of bundled content `name`: `traces`, `solver_models` or `presets`."""
    if name == "presets":
        return _PACKAGE / "presets"
    installed = _PACKAGE / "_content" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


def names(folder: str, suffix: str = ".toml") -> list[str]:
    """Return the bundled names in a content folder, sorted: `names("presets")`."""
    return sorted(path.name.removesuffix(suffix) for path in content_dir(folder).glob(f"*{suffix}"))


def find(name_or_path: str | Path, folder: str, what: str) -> Path:
    """Return the file that a user named: a path to a TOML file, or a bundled name.

    Raises:
        InputError: neither; lists the bundled names and suggests the nearest.
    """
    path = Path(name_or_path)
    if path.is_file():
        return path
    bundled = content_dir(folder) / f"{name_or_path}.toml"
    if path.suffix != ".toml" and bundled.is_file():
        return bundled
    known = names(folder)
    raise InputError(
        f"{name_or_path}: no such {what} file, and no bundled {what} of that name"
        f"{nearest(str(name_or_path), known)}; bundled: {', '.join(known)}"
    )
