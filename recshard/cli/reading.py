"""Options that commands share which read traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from recshard.trace import Trace

Traces = Annotated[
    list[str],
    typer.Argument(
        help="Files of one format, a pattern such as 'logs/*.csv', a folder of Parquet files, or a recipe: a "
        "bundled name or a TOML file.",
        metavar="TRACE...",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        help="text, criteo, recbole, libfm, bags, parquet, arrays, dlrm or recipe (default: by name and content).",
        show_default=False,
    ),
]
Data = Annotated[
    Path | None, typer.Option(help="Folder with the files of a data set's recipe.", show_default=False)
]
Samples = Annotated[
    str, typer.Option(help="START:STOP:STEP as in Python: '0::2' is one half of a trace, '1::2' the other.")
]
Columns = Annotated[
    str,
    typer.Option(help="Only these features or columns, separated by commas (default: all).", show_default=False),
]
Delimiter = Annotated[
    str | None, typer.Option(help="Text: between columns (default: tab in .tsv, else comma).", show_default=False)
]
Names = Annotated[
    str, typer.Option(help="Text, libfm, bags: names of the columns, separated by commas.", show_default=False)
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Text: whether the first line holds names (default: without --names).",
        show_default=False,
    ),
]
Encoding = Annotated[str, typer.Option(help="Of text files, such as latin-1.")]
Separator = Annotated[
    str | None, typer.Option(help="Text: between the IDs of one column, such as '|'.", show_default=False)
]
Strings = Annotated[
    str,
    typer.Option(help="Text, recbole: columns whose values are names, separated by commas.", show_default=False),
]


def open_for_command(
    traces: list[str],
    format: str | None,
    data: Path | None,
    samples: str,
    columns: str,
    delimiter: str | None,
    names: str,
    header: bool | None,
    encoding: str,
    separator: str | None,
    strings: str,
) -> Trace:
    """Return the trace that the options describe."""
    from recshard.trace import TextOptions, open_trace, parse_samples, take

    options = TextOptions(
        delimiter="\t" if delimiter == "\\t" else delimiter,
        names=_list(names),
        header=header,
        encoding=encoding,
        separator=separator,
        columns=_list(columns),
        strings=_list(strings),
    )
    return take(open_trace(traces, format, options, data=data), parse_samples(samples))


def _list(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",")) if text else ()
