"""Which format a file has: by its name, else by its first bytes or its first line."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from recshard import content
from recshard.errors import InputError
from recshard.trace.arrays import NPY_MAGIC, ZIP_MAGIC
from recshard.trace.criteo import is_criteo
from recshard.trace.lines import TextFile
from recshard.trace.listing import check_regular, matches

FORMATS = ("text", "criteo", "recbole", "libfm", "bags", "parquet", "arrays", "dlrm", "recipe")
SUFFIXES = {
    ".csv": "text",
    ".tsv": "text",
    ".inter": "recbole",
    ".user": "recbole",
    ".item": "recbole",
    ".libfm": "libfm",
    ".parquet": "parquet",
    ".npy": "arrays",
    ".npz": "arrays",
    ".pt": "dlrm",
    ".toml": "recipe",
}
_PACKED = (".gz", ".zst")
# The second is how torch.save began before it wrote zip files: a pickled number of its own.
_MAGICS = {
    b"PAR1": "parquet",
    b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19": "dlrm",
    NPY_MAGIC: "arrays",
}


def format_of(path: str | Path, *, has_names: bool = False) -> str:
    """Return the format of a file, of the first file of a pattern, of a folder or of a recipe's name.

    Args:
        has_names: whether the columns are named by the user, so that Criteo's in a `.csv` or `.tsv` are too.

    Raises:
        InputError: no such file, or one whose format neither name nor content tells.
    """
    found = matches(Path(path))
    file = Path(path) if found is None else found[0]
    known = next((known for suffix, known in SUFFIXES.items() if unpacked_name(file).endswith(suffix)), None)
    if known == "text" and file.is_file() and not has_names:
        return "criteo" if is_criteo(TextFile(file).first_line("latin-1")) else known
    if known is not None:
        return known
    if file.is_dir():
        return "parquet"
    if not file.exists():
        if str(path) in content.names("traces") or not file.suffix:
            return "recipe"
        raise InputError(f"{path}: no such file")
    check_regular(file)
    known = _by_content(file)
    if known is None:
        raise InputError(
            f"{file}: neither its name nor its content tells its format; say which: --format {'|'.join(FORMATS)} "
            f"(known suffixes: {', '.join(SUFFIXES)}, text also with {' or '.join(_PACKED)})"
        )
    return known


def unpacked_name(path: Path) -> str:
    """Return a file's name without `.gz` or `.zst`."""
    name = path.name
    for suffix in _PACKED:
        name = name.removesuffix(suffix)
    return name


def _by_content(file: Path) -> str | None:
    try:
        with file.open("rb") as stream:
            first = stream.read(16)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}") from None
    for magic, known in _MAGICS.items():
        if first.startswith(magic):
            return known
    if first.startswith(ZIP_MAGIC):
        return _by_members(file)
    line = TextFile(file).first_line("latin-1")
    if is_criteo(line):
        return "criteo"
    if unpacked_name(file).endswith(".txt"):
        if re.fullmatch(r"\S+(\s+[0-9]+:\S+)+\s*", line):
            return "libfm"
        if "," in line:
            return "text"
    return None


def _by_members(file: Path) -> str | None:
    """Return the format of a zip file: torch.save and numpy.savez both write such."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{file}: cannot be read as a zip file: {error}; is the file whole?") from None
    if any(name.endswith("/data.pkl") for name in names):
        return "dlrm"
    return "arrays" if names and all(name.endswith(".npy") for name in names) else None
