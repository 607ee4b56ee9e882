"""Opening a trace: files of any format, or a recipe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recshard.errors import InputError, nearest
from recshard.trace.arrays import open_arrays
from recshard.trace.bags import open_bags
from recshard.trace.base import Trace
from recshard.trace.concatenated import Concatenated
from recshard.trace.criteo import open_criteo
from recshard.trace.dlrm import DlrmTrace
from recshard.trace.joins import JoinedTrace, SideTable, read_side_table
from recshard.trace.libfm import open_libfm
from recshard.trace.listing import listed
from recshard.trace.parquet import open_parquet
from recshard.trace.recbole import open_recbole
from recshard.trace.recipe import DatasetSpec, FileSpec, load_recipe
from recshard.trace.recognise import FORMATS, format_of
from recshard.trace.selection import select
from recshard.trace.text import TextOptions, TextTrace, open_text


def open_trace(
    paths: str | Path | Sequence[str | Path],
    format: str | None = None,
    options: TextOptions | None = None,
    *,
    data: str | Path | None = None,
) -> Trace:
    """Return the trace in one or several files, or that a recipe describes.

    Args:
        paths: files of one format and the same features, read one after the other; a pattern such as
            `logs/*.csv` stands for its matches and a folder for the Parquet files in it and its subfolders, sorted
            by path; or a recipe: the name of a bundled one, or a TOML file.
        format: text, criteo, recbole, libfm, bags, parquet, arrays, dlrm or recipe; None: by the name of the first
            file, or by its content.
        options: of text files. `names` also names the features of libfm and bags, `columns` selects features
            and `encoding` holds in every format.
        data: folder with the files of a data set that a recipe describes.

    Raises:
        InputError: missing or empty file, unknown format or column, malformed content; what is read later may
            raise too.
    """
    named = [paths] if isinstance(paths, str | Path) else list(paths)
    if not named:
        raise InputError("trace: found no path; accepted: one file or more, or a recipe")
    options = options or TextOptions()
    known = format or format_of(named[0], has_names=bool(options.names))
    if known not in FORMATS:
        raise InputError(f"format: found '{known}'{nearest(known, FORMATS)}; accepted: {', '.join(FORMATS)}")
    if known == "recipe":
        if len(named) > 1:
            raise InputError(f"trace: found {len(named)} recipes; accepted: one")
        return _recipe(named[0], data, options)
    if data is not None:
        raise InputError("data: a folder goes with a data set's recipe; here files are given")
    return _files([Path(path) for path in named], known, options)


def _files(paths: list[Path], format: str, options: TextOptions) -> Trace:
    traces = _opened([file for path in paths for file in listed(path, format)], format, options)
    for other in traces[1:]:
        if other.features != traces[0].features:
            raise InputError(
                f"{other.name}: has features {', '.join(other.features)}; accepted: those of {traces[0].name}: "
                f"{', '.join(traces[0].features)}"
            )
    return traces[0] if len(traces) == 1 else Concatenated(tuple(traces))


def _opened(files: list[Path], format: str, options: TextOptions) -> Sequence[Trace]:
    columns = options.columns
    if format == "text":
        return [open_text(file, options) for file in files]
    if format == "parquet":
        return open_parquet(files, columns)
    if format == "recbole":
        return open_recbole(files, columns, options.strings, options.encoding)
    if format == "criteo":
        return [open_criteo(file, columns) for file in files]
    if format == "arrays":
        return [open_arrays(file, columns) for file in files]
    traces: list[Trace] = []
    for file in files:
        if format == "libfm":
            traces.append(open_libfm(file, options.names, options.encoding))
        elif format == "bags":
            traces.append(open_bags(file, options.names, options.encoding))
        else:
            traces.append(DlrmTrace(file))
    return [select(trace, columns) for trace in traces] if columns else traces


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
