"""Text files, plain, gzip or zstd, as streams of bytes or of chunks of lines."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recshard.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

# Of text parsed at a time; no line may be longer.
BLOCK_BYTES = 1 << 22

_CODECS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


@dataclass(frozen=True)
class TextFile:
    """A text file; gzip and zstd are recognised by their first bytes, whatever the file is called."""

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
            "".encode(encoding)  # refuses codecs that are not of text, such as base64
        except LookupError:
            raise InputError(
                f"{self.path}: encoding: found '{encoding}'; accepted: a Python codec such as utf-8 or latin-1"
            ) from None
        try:
            stream = self._unpacked()
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror or error}") from None
        return stream if codec == "utf-8" else pa.transcoding_input_stream(stream, codec, "utf-8")

    def first_line(self, encoding: str) -> str:
        """Return the first line without its end or byte order mark.

        Raises:
            InputError: unreadable, empty, or no text in that encoding.
        """
        text = b""
        try:
            stream = self.open(encoding)
            while b"\n" not in text and len(text) < BLOCK_BYTES:
                read = bytes(stream.read(1 << 16))
                if not read:
                    break
                text += read
            line = text.partition(b"\n")[0].decode("utf-8")
        except (OSError, UnicodeError) as error:
            raise self.unreadable(encoding, error) from None
        if not text:
            raise InputError(f"{self.path}: is empty; accepted: a sample a line")
        return line.removeprefix("\ufeff").partition("\r")[0]

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
                csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, column_names=["line"]),
                csv.ParseOptions(delimiter="\x01", quote_char=False, ignore_empty_lines=False),
                csv.ConvertOptions(column_types={"line": pa.string()}, strings_can_be_null=False),
            )
            for chunk in reader:
                yield line, chunk.column("line")
                line += chunk.num_rows
        except (pa.ArrowInvalid, OSError, UnicodeError) as error:
            if "Empty CSV file" in str(error):
                return
            raise self.unreadable(encoding, error) from None

    def unreadable(self, encoding: str, error: Exception) -> InputError:
        """Return the error for text that could not be read: where possible it names the first line that cannot."""
        if "straddling" in str(error):
            return InputError(
                f"{self.path}: a line is longer than {BLOCK_BYTES >> 20} MiB; accepted: a sample a line; is the "
                "format right?"
            )
        number = 0
        try:
            with io.BufferedReader(self._unpacked()) as file:
                for line in file:
                    line.decode(encoding)
                    number += 1
        except UnicodeDecodeError as wrong:
            found = wrong.object[wrong.start : wrong.end]
            return InputError(
                f"{self.path}: line {number + 1}: found the byte {found.hex(' ')}, which is not {encoding}; give "
                "the encoding that the file is written in, such as latin-1 (--encoding)"
            )
        except OSError as wrong:
            return InputError(f"{self.path}: after line {number}: cannot be read: {wrong}; is the file whole?")
        return InputError(f"{self.path}: cannot be read as {encoding} text: {error}")

    def _unpacked(self) -> Any:
        """Return the file's bytes without gzip or zstd."""
        import pyarrow as pa

        return pa.input_stream(str(self.path), compression=self._codec())

    def _codec(self) -> str | None:
        with self.path.open("rb") as file:
            first = file.read(4)
        return next((codec for magic, codec in _CODECS.items() if first.startswith(magic)), None)
