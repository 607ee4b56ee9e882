"""Opening a trace: by format, by file name, or by recipe."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from recshard import content
from recshard.errors import InputError, nearest
from recshard.trace.bags import open_bags
from recshard.trace.base import Trace
from recshard.trace.concatenated import Concatenated
from recshard.trace.dlrm import DlrmTrace
from recshard.trace.joins import JoinedTrace, SideTable, read_side_table
from recshard.trace.libfm import open_libfm
from recshard.trace.lines import TextFile
from recshard.trace.parquet import open_parquet
from recshard.trace.recipe import DatasetSpec, FileSpec, load_recipe
from recshard.trace.selection import select
from recshard.trace.text import TextOptions, TextTrace, open_text

FORMATS = ("text", "libfm", "bags", "parquet", "dlrm", "recipe")
_SUFFIXES = {
    ".csv": "text",
    ".tsv": "text",
    ".libfm": "libfm",
    ".parquet": "parquet",
    ".pt": "dlrm",
    ".toml": "recipe",
}


def open_trace(
    paths: str | Path | Sequence[str | Path],
    format: str | None = None,
    options: TextOptions | None = None,
    *,
    data: str | Path | None = None,
) -> Trace:
    """Return the trace in one or several files, or that a recipe describes.

    Args:
        paths: files of one format and the same features, read one after the other; a folder stands for the
            Parquet files in it, by name; or a recipe: the name of a bundled one, or a TOML file.
        format: text, libfm, bags, parquet, dlrm or recipe; None: by the name of the first file, of `.txt` files
            by the first line.
        options: of text files. `names` also names the features of libfm and bags, `columns` selects features
            and `encoding` holds in every format.
        data: folder with the files of a data set that a recipe describes.

    Raises:
        InputError: missing or empty file, unknown format or column, malformed content; what is read later may
            raise too.
    """
    listed = [paths] if isinstance(paths, str | Path) else list(paths)
    if not listed:
        raise InputError("trace: found no path; accepted: one file or more, or a recipe")
    options = options or TextOptions()
    known = format or _format_of(listed[0])
    if known not in FORMATS:
        raise InputError(f"format: found '{known}'{nearest(known, FORMATS)}; accepted: {', '.join(FORMATS)}")
    if known == "recipe":
        if len(listed) > 1:
            raise InputError(f"trace: found {len(listed)} recipes; accepted: one")
        return _recipe(listed[0], data, options)
    if data is not None:
        raise InputError("data: a folder goes with a data set's recipe; here files are given")
    return _files([Path(path) for path in listed], known, options)


def _format_of(path: str | Path) -> str:
    name = Path(path).name.removesuffix(".gz")
    for suffix, known in _SUFFIXES.items():
        if name.endswith(suffix):
            return known
    if Path(path).is_dir():
        return "parquet"
    if not Path(path).exists():
        if str(path) in content.names("traces") or not Path(path).suffix:
            return "recipe"
        raise InputError(f"{path}: no such file")
    if name.endswith(".txt"):
        line = TextFile(Path(path)).first_line("latin-1")
        if re.fullmatch(r"\S+(\s+[0-9]+:\S+)+\s*", line):
            return "libfm"
        if "," in line:
            return "text"
    raise InputError(
        f"{path}: its name does not tell its format; say which: --format {'|'.join(FORMATS)} (known suffixes: "
        f"{', '.join(_SUFFIXES)}, also with .gz)"
    )


def _files(paths: list[Path], format: str, options: TextOptions) -> Trace:
    traces = [_file(file, format, options) for path in paths for file in _listed(path, format)]
    for other in traces[1:]:
        if other.features != traces[0].features:
            raise InputError(
                f"{other.name}: has features {', '.join(other.features)}; accepted: those of {traces[0].name}: "
                f"{', '.join(traces[0].features)}"
            )
    return traces[0] if len(traces) == 1 else Concatenated(tuple(traces))


def _listed(path: Path, format: str) -> list[Path]:
    """Return the files that a path stands for: itself, or a folder's Parquet files in order of their names."""
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.parquet")) if format == "parquet" else []
    if not files:
        raise InputError(f"{path}: is a folder; accepted: files, or a folder with .parquet files in it")
    return files


def _file(path: Path, format: str, options: TextOptions) -> Trace:
    if format == "text":
        return open_text(path, options)
    if format == "parquet":
        return open_parquet(path, options.columns)
    if format == "libfm":
        trace: Trace = open_libfm(path, options.names, options.encoding)
    elif format == "bags":
        trace = open_bags(path, options.names, options.encoding)
    else:
        trace = DlrmTrace(path)
    return select(trace, options.columns) if options.columns else trace


def _recipe(name: str | Path, data: str | Path | None, options: TextOptions) -> Trace:
    recipe = load_recipe(name)
    if isinstance(recipe, DatasetSpec):
        trace = _dataset(str(name), recipe, data)
    elif data is not None:
        raise InputError(f"data: recipe '{name}' is synthetic and needs no files")
    else:
        trace = recipe
    return select(trace, options.columns) if options.columns else trace


def _dataset(name: str, spec: DatasetSpec, data: str | Path | None) -> Trace:
    folder = Path(data) if data is not None else Path()
    for file in (*spec.files, *(join.file for join in spec.joins)):
        if not (folder / file).is_file():
            raise InputError(
                f"{folder / file}: no such file; recipe '{name}' reads it from the data set's folder (--data); "
                f"{spec.source}"
            )
    trace = _files([folder / file for file in spec.files], spec.format, _text_options(spec))
    sides: list[SideTable] = []
    for join in spec.joins:
        if join.on not in trace.features:
            raise InputError(
                f"{name}: {join.file}: on: no feature '{join.on}'{nearest(join.on, trace.features)}; present: "
                f"{', '.join(trace.features)}"
            )
        text = open_text(folder / join.file, _text_options(join))
        if not join.columns:
            text = TextTrace(text.file, text.options, text.all_columns, ())
        sides.append(read_side_table(text, join.on, join.key, join.flags))
    features = [*trace.features, *(feature for join in spec.joins for feature in (*join.columns, *join.flags))]
    if len(set(features)) < len(features):
        twice = next(feature for feature in features if features.count(feature) > 1)
        raise InputError(
            f"{name}: feature '{twice}' is there twice; name the columns or flags of a join differently"
        )
    return JoinedTrace(trace, tuple(sides)) if sides else trace


def _text_options(spec: FileSpec) -> TextOptions:
    return TextOptions(
        spec.delimiter,
        spec.names,
        spec.header,
        spec.encoding,
        spec.separator,
        spec.columns,
        spec.strings,
    )
