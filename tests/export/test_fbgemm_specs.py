"""An export that was cut short or changed is refused, and the error says where and what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recshard.errors import InputError
from recshard.export.fbgemm import export_fbgemm, load_fbgemm
from tests.plans import cut_case

SEED = 7
Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """An export with tables cut by columns and by rows, all of them split between tiers somewhere."""
    folder = tmp_path / "specs"
    export_fbgemm(cut_case(np.random.default_rng(SEED), "both").plan, folder)
    return folder


def parts(document: dict[str, Any], **having: object) -> list[dict[str, Any]]:
    found = [p for device in document["devices"] for p in device if all(p[k] == v for k, v in having.items())]
    assert found
    return found


def first_part(document: dict[str, Any]) -> dict[str, Any]:
    return parts(document)[0]


def row_cut(document: dict[str, Any]) -> dict[str, Any]:
    return next(p for p in parts(document) if p["shards"] > 1)


def column_cut(document: dict[str, Any]) -> list[dict[str, Any]]:
    table = next(p["table"] for p in parts(document) if p["columns"][0])
    return sorted(parts(document, table=table), key=lambda p: (p["columns"], p["start"]))


def drop(document: dict[str, Any], part: dict[str, Any]) -> None:
    for device in document["devices"]:
        device[:] = [p for p in device if p is not part]


CHANGES: dict[str, tuple[Change, str]] = {
    "another version": (lambda d: d.update(format_version=2), "found format_version 2; accepted: 4"),
    "an unknown key": (lambda d: first_part(d).update(colour=1), r"unknown key 'devices\[\d\]\[\d\]\.colour'"),
    "a missing key": (lambda d: first_part(d).pop("rows"), r"key 'devices\[\d\]\[\d\]\.rows' is missing"),
    "rows that do not add up": (
        lambda d: row_cut(d).update(rows=row_cut(d)["rows"] + 1),
        r"part '.*': (rows|start): found .*; accepted: ",
    ),
    "a part left out": (lambda d: drop(d, column_cut(d)[-1]), r"accepted: (a range (from|to) |every number|\d+)"),
    "a start beyond": (
        lambda d: first_part(d).update(start=999),
        r"start: found \d+; accepted: \d+, the rows of its shard",
    ),
    "columns of another width": (
        lambda d: first_part(d).update(columns=[0, 400]),
        r"columns: found \[0, 400\]; accepted: a range of \d+, its dim",
    ),
    "a part there twice": (
        lambda d: d["devices"][0].append(dict(first_part(d))),
        r"part '.*' is there twice; accepted: once",
    ),
    "a feature of two tables": (
        lambda d: [p.update(features=["a"]) for p in parts(d, table="b")],
        "feature 'a' is there twice",
    ),
    "parts that differ": (lambda d: row_cut(d).update(optimizer="sgd"), "optimizer: found "),
    "a tier too many": (lambda d: first_part(d).update(tier=3), "tier: found 3; accepted: 0 to 2"),
    "an unknown location": (lambda d: first_part(d).update(location="MOON"), "location: found 'MOON'"),
    "a remap elsewhere": (
        lambda d: [p.update(remap="../../other.npy") for p in parts(d, table=row_cut(d)["table"])],
        r"remap: found '\.\./\.\./other\.npy'",
    ),
    "no remap for a cut table": (
        lambda d: [p.update(remap=None) for p in parts(d, table=row_cut(d)["table"])],
        "remap: found none; accepted: a file",
    ),
    "a shard number too many": (
        lambda d: [p.update(shard_number=77) for p in parts(d, name=row_cut(d)["name"])],
        "shard_number: found ",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_document_that_was_changed_is_refused(export: Path, what: str) -> None:
    change, message = CHANGES[what]
    path = export / "fbgemm.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=message) as caught:
        load_fbgemm(export)
    assert "fbgemm.json" in str(caught.value)


def test_files_cut_short_or_missing_are_refused(export: Path) -> None:
    (remap, *_) = sorted((export / "remap").iterdir())
    whole = remap.read_bytes()
    remap.write_bytes(whole[:-4])
    with pytest.raises(InputError, match=rf"{remap.name}: cannot be read as a remap: .*; export the plan again"):
        load_fbgemm(export)
    remap.unlink()
    with pytest.raises(InputError, match=rf"{remap.name}: cannot be read as a remap: .*; export the plan again"):
        load_fbgemm(export)
    remap.write_bytes(whole)
    load_fbgemm(export)
    document = export / "fbgemm.json"
    document.write_text(document.read_text()[:-100])
    with pytest.raises(InputError, match=r"fbgemm\.json: cannot be read as a FBGEMM export's JSON"):
        load_fbgemm(export)
    document.unlink()
    with pytest.raises(InputError, match=r"not a FBGEMM export: it has no fbgemm\.json"):
        load_fbgemm(export)
    with pytest.raises(InputError, match="no such FBGEMM export"):
        load_fbgemm(export / "elsewhere")


def test_a_row_with_the_rank_of_another_is_refused(export: Path) -> None:
    (remap, *_) = sorted((export / "remap").iterdir())
    ranks = np.load(remap)
    ranks[1] = ranks[0]
    np.save(remap, ranks)
    with pytest.raises(InputError, match=rf"{remap.name}: row 1 has rank {ranks[0]}, which is .* another row's"):
        load_fbgemm(export)
