"""A folder is replaced whole: at every moment it is the old one or the new one, whatever comes in between."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recshard.errors import InputError
from recshard.files import new_folder


def written(path: Path, text: str) -> None:
    with new_folder(path, "marker") as folder:
        (folder / "marker").write_text(text)


def test_a_new_folder_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    for text in ("old", "new"):
        written(tmp_path / "out", text)
        assert (tmp_path / "out" / "marker").read_text() == text
        assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("fails", [KeyboardInterrupt, PermissionError(13, "Permission denied")])
@pytest.mark.parametrize("at", [0, 1])
def test_the_old_folder_comes_back_where_replacing_it_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: BaseException, at: int
) -> None:
    written(tmp_path / "out", "old")
    real, calls = os.replace, []

    def replace(source: Path, to: Path) -> None:
        calls.append(source)
        if len(calls) == at + 1:
            raise fails
        real(source, to)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises((KeyboardInterrupt, InputError)):
        written(tmp_path / "out", "new")
    assert (tmp_path / "out" / "marker").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
