"""Data set recipes: files, options and side tables together give the features that the recipe names."""

from __future__ import annotations

from pathlib import Path

import pytest

from recshard.errors import InputError
from recshard.trace import Trace, open_trace
from recshard.trace.hashing import hash_strings
from tests.trace.samples import samples_of

RECIPE = """
source = "ask the author"
format = "text"
files = ["ratings.csv"]
columns = ["user", "film"]

[[joins]]
file = "films.txt"
on = "film"
key = "id"
delimiter = "|"
encoding = "latin-1"
names = ["id", "title", "comedy", "drama", "war", "studios"]
columns = ["title", "studios"]
strings = ["title"]
separator = ";"

[joins.flags]
genre = ["comedy", "drama", "war"]
"""
RATINGS = "user,film,stars\n1,30,5\n2,10,3\n3,30,\n4,,1\n5,20,4\n"
FILMS = "30|Amélie|1|0|1|7;8\n10|Up|0|0|0|\n20||0|1|0|9\n"


def opened(folder: Path, recipe: str = RECIPE, ratings: str = RATINGS, films: str = FILMS) -> Trace:
    (folder / "mine.toml").write_text(recipe)
    (folder / "ratings.csv").write_text(ratings)
    (folder / "films.txt").write_text(films, encoding="latin-1")
    return open_trace(folder / "mine.toml", data=folder)


def refusal(folder: Path, **texts: str) -> str:
    with pytest.raises(InputError) as caught:
        samples_of(opened(folder, **texts))
    return str(caught.value)


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_side_tables_become_features_of_their_samples(tmp_path: Path, batch_size: int) -> None:
    import pyarrow as pa

    amelie, up = ([id] for id in hash_strings(pa.array(["Amélie", "Up"])).tolist())
    trace = opened(tmp_path)
    assert trace.features == ("user", "film", "title", "studios", "genre")
    assert samples_of(trace, batch_size) == {
        "user": [[1], [2], [3], [4], [5]],
        "film": [[30], [10], [30], [], [20]],
        "title": [amelie, up, amelie, [], []],
        "studios": [[7, 8], [], [7, 8], [], [9]],
        "genre": [[0, 2], [], [0, 2], [], [1]],
    }


def test_an_id_without_a_line_in_the_side_table_is_named(tmp_path: Path) -> None:
    message = refusal(tmp_path, ratings="user,film\n1,99\n")
    assert "'film' 99" in message
    assert "films.txt" in message


def test_a_key_that_is_there_twice_is_named(tmp_path: Path) -> None:
    assert "key 10 of column 'id' is there twice" in refusal(tmp_path, films=FILMS + "10|Up|0|0|0|\n")


@pytest.mark.parametrize("flag", ["2", "x", ""])
def test_flags_are_zero_or_one(tmp_path: Path, flag: str) -> None:
    message = refusal(tmp_path, films=FILMS + f"40|Heat|0|{flag}|0|\n")
    assert "films.txt: line 4" in message


def test_a_line_without_a_key_is_named(tmp_path: Path) -> None:
    assert "films.txt: line 4" in refusal(tmp_path, films=FILMS + "|Heat|0|0|0|\n")


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (('key = "id"', 'key = "ids"'), ("'ids' (did you mean 'id'?)", "present: id, title")),
        (('on = "film"', 'on = "flim"'), ("'flim' (did you mean 'film'?)", "user, film")),
        (('"drama", "war"]', '"drama", "wra"]'), ("'wra' (did you mean 'war'?)",)),
        (("genre = [", "user = ["), ("'user'", "twice")),
    ],
)
def test_a_recipe_that_names_what_is_not_there_is_refused(
    tmp_path: Path, change: tuple[str, str], parts: tuple[str, ...]
) -> None:
    # The names in the file stand before the flags: change the last occurrence.
    head, found, tail = RECIPE.rpartition(change[0])
    assert found
    message = refusal(tmp_path, recipe=head + change[1] + tail)
    for part in parts:
        assert part in message


def test_a_missing_file_tells_where_the_data_come_from(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(RECIPE)
    with pytest.raises(InputError, match=r"ratings\.csv: no such file.*--data.*ask the author"):
        open_trace(tmp_path / "mine.toml", data=tmp_path)
