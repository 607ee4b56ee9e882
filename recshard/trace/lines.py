"""Text files, plain or gzipped, as streams of bytes or of chunks of lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recshard.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class TextFile:
    """A text file; gzip is recognised by its first bytes, whatever the file is called."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    def open(self, encoding: str) -> Any:
        """Return an Arrow stream of the file's text as UTF-8.

        Raises:
            InputError: missing or unreadable file, or an encoding that does not exist.
        """
        import codecs

        import pyarrow as pa

        try:
            codec = codecs.lookup(encoding).name
        except LookupError:
            raise InputError(
                f"{self.path}: encoding: found '{encoding}'; accepted: a Python codec such as utf-8 or latin-1"
            ) from None
        try:
            with self.path.open("rb") as file:
                packed = file.read(2) == b"\x1f\x8b"
            stream = pa.input_stream(str(self.path), compression="gzip" if packed else None)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror or error}") from None
        return stream if codec == "utf-8" else pa.transcoding_input_stream(stream, codec, "utf-8")

    def first_line(self, encoding: str) -> str:
        """Return the first line without its end; empty where the file is.

        Raises:
            InputError: unreadable, or no text in that encoding.
        """
        try:
            text = bytes(self.open(encoding).read(1 << 16)).decode("utf-8", errors="ignore")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{self.path}: cannot be read as {encoding} text: {error}") from None
        return text.partition("\n")[0].rstrip("\r")

    def line_chunks(self, encoding: str) -> Iterator[tuple[int, pa.Array]]:
        """Yield the number of a chunk's first line, and its lines as an Arrow array of strings.

        Raises:
            InputError: unreadable, or no text in that encoding.
        """
        import pyarrow as pa
        from pyarrow import csv

        line = 1
        try:
            reader = csv.open_csv(
                self.open(encoding),
                csv.ReadOptions(use_threads=False, column_names=["line"]),
                csv.ParseOptions(delimiter="\x01", quote_char=False, ignore_empty_lines=False),
                csv.ConvertOptions(column_types={"line": pa.string()}, strings_can_be_null=False),
            )
            for chunk in reader:
                yield line, chunk.column("line")
                line += chunk.num_rows
        except pa.ArrowInvalid as error:
            if "Empty CSV file" in str(error):
                return
            raise InputError(f"{self.path}: cannot be read as {encoding} text: {error}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{self.path}: cannot be read as {encoding} text: {error}") from None
