"""A mistake in a recipe gets one message: file, field, what was found, what is accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from recshard.errors import InputError
from recshard.trace import open_trace

TABLE = '[[tables]]\nname = "a"\nrows = 50\n'
FAMILY = '[[families]]\nname = "a"\nrows = [5, 50]\n'


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("sample = 5\n" + TABLE, ("'sample' (did you mean 'samples'?)", "accepted:")),
        (
            "samples = 5\n" + TABLE.replace("rows", "rwos"),
            ("'tables[1].rwos' (did you mean 'rows'?)", "accepted:"),
        ),
        (TABLE, ("'samples' is missing",)),
        ("samples = 0\n" + TABLE, ("samples: found 0",)),
        ("samples = 5\nseed = -1\n" + TABLE, ("seed: found -1", "0 or more")),
        ("samples = 5\n", ("no tables", "[[families]]")),
        ("samples = 5\n" + TABLE + TABLE, ("'a' is declared twice",)),
        ("samples = 5\n" + TABLE.replace("50", "0"), ("tables[1].rows: found 0",)),
        ("samples = 5\n" + TABLE.replace("50", "[50, 5]"), ("tables[1].rows: found [50, 5]", "range")),
        ("samples = 5\n" + TABLE + "dim = 0\n", ("tables[1].dim: found 0",)),
        ("samples = 5\n" + TABLE + "dim = []\n", ("tables[1].dim: found []",)),
        ("samples = 5\n" + TABLE + "exponent = [2, 1]\n", ("tables[1].exponent", "range")),
        ("samples = 5\n" + TABLE + "coverage = 1.5\n", ("tables[1].coverage: found 1.5", "0 … 1")),
        ("samples = 5\n" + TABLE + "pooling_factor = 0.5\n", ("tables[1].pooling_factor: found 0.5",)),
        ("samples = 5\n" + TABLE + 'raw_ids = 9\nids = "rows"\n', ("tables[1]", 'ids = "rows"', "hash")),
        ("samples = 5\n" + TABLE + 'dtype = "flaot32"\n', ("tables[1].dtype", "flaot32", "float32")),
        ("samples = 5\n" + FAMILY + "count = 0\n", ("families[1].count: found 0",)),
        ("samples = 5\n" + FAMILY, ("'families[1].count' is missing",)),
        ('format = "libfm"\nfiles = ["a"]\n', ("'source' is missing",)),
        ('format = "libfmm"\nfiles = ["a"]\nsource = ""\n', ("format", "libfmm", "libfm")),
        ("samples = \n", ("not valid TOML",)),
    ],
)
def test_a_mistake_is_named_with_its_field(tmp_path: Path, text: str, parts: tuple[str, ...]) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        open_trace(path)
    for part in ("mine.toml", *parts):
        assert part in str(caught.value)


def test_a_misspelt_name_gets_a_suggestion() -> None:
    with pytest.raises(InputError, match=r"dmeo.*did you mean 'demo'.*bundled: .*ml-100k"):
        open_trace("dmeo")
