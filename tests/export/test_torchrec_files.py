"""An export for TorchRec is read as it was written, or refused by what is wrong with it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.errors import InputError
from recshard.export import export_plan
from recshard.export.torchrec import layout_of, load_torchrec
from recshard.plan import Plan
from recshard.tables import TableSet
from tests.plans import Kind, cut_case


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["none", "column", "row", "both"]))
def test_an_export_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, seed: int, kind: Kind
) -> None:
    plan = cut_case(np.random.default_rng(seed), kind).plan
    folder = tmp_path_factory.mktemp("export") / "torchrec"
    document = export_plan(plan, "torchrec", folder)
    assert document == json.loads((folder / "torchrec.json").read_text())
    made, read = layout_of(plan), load_torchrec(folder)
    for field in ("tables", "tier_names", "kernels", "devices", "parts", "sharding", "lookups_per_sample"):
        assert getattr(read, field) == getattr(made, field)
    for mine, theirs in zip(read.remaps, made.remaps, strict=True):
        assert (mine.ranks is None) == (theirs.ranks is None)
        assert mine.ranks is None or (mine.ranks == theirs.ranks).all()
    for mine_, theirs_ in zip(read.curves, made.curves, strict=True):
        assert mine_.lookups == theirs_.lookups
        for factor in np.linspace(0, 1, 40):
            exact = theirs_.expected_miss_rate(factor)
            assert exact - 1e-12 <= mine_.expected_miss_rate(factor) <= exact + 1e-3


def _part_too_few(document: dict[str, Any]) -> None:
    del document["parts"][-1]


def _part_elsewhere(document: dict[str, Any]) -> None:
    document["parts"][0]["device"] = 7


def _sharded_elsewhere(document: dict[str, Any]) -> None:
    entry = next(iter(document["sharding"].values()))
    entry["shards"][0]["rank"] = 1 - min(entry["shards"][0]["rank"], 1)


def _more_rows(document: dict[str, Any]) -> None:
    document["parts"][0]["rows"] += 1


def _other_file(document: dict[str, Any]) -> None:
    document["tables"][0]["remap"] = "../remap.npy"


def _rising_misses(document: dict[str, Any]) -> None:
    document["tables"][0]["cache"]["miss_rate"].reverse()


def _lookups_less_than_none(document: dict[str, Any]) -> None:
    document["tables"][0]["lookups_per_sample"] = -1


def _lookups_that_are_no_number(document: dict[str, Any]) -> None:
    document["tables"][0]["lookups_per_sample"] = float("nan")


def _no_tables(document: dict[str, Any]) -> None:
    del document["tables"]


@pytest.mark.parametrize(
    "damage",
    [
        _part_too_few,
        _part_elsewhere,
        _sharded_elsewhere,
        _more_rows,
        _other_file,
        _rising_misses,
        _lookups_less_than_none,
        _lookups_that_are_no_number,
        _no_tables,
    ],
)
def test_a_damaged_export_is_refused(tmp_path: Path, damage: Callable[[dict[str, Any]], None]) -> None:
    export_plan(cut_case(np.random.default_rng(1), "both").plan, "torchrec", tmp_path / "out")
    file = tmp_path / "out" / "torchrec.json"
    document = json.loads(file.read_text())
    damage(document)
    file.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"torchrec\.json: the export is damaged .* make it again"):
        load_torchrec(tmp_path / "out")


def test_an_export_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    export_plan(cut_case(np.random.default_rng(1), "row").plan, "torchrec", tmp_path / "out")
    for file in sorted((tmp_path / "out").rglob("*.*")):
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2])
        with pytest.raises(InputError, match=file.name):
            load_torchrec(tmp_path / "out")
        file.unlink()
        with pytest.raises(InputError, match=file.name):
            load_torchrec(tmp_path / "out")
        file.write_bytes(content)
    load_torchrec(tmp_path / "out")


def renamed(plan: Plan, **changes: Any) -> Plan:
    first, *others = plan.tables.tables
    tables = TableSet((dataclasses.replace(first, **changes), *others), plan.tables.batch_size)
    return dataclasses.replace(plan, tables=tables)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "user.id"}, "has a dot in its name"),
        ({"features": ()}, "serves no feature"),
        ({"name": "b"}, "found twice"),
    ],
)
def test_a_table_that_torchrec_cannot_have_is_refused_before_anything_is_written(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    plan = renamed(cut_case(np.random.default_rng(1), "none").plan, **changes)
    with pytest.raises(InputError, match=words):
        export_plan(plan, "torchrec", tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_tier_that_torchrec_does_not_know_needs_a_kernel(tmp_path: Path) -> None:
    plan = dataclasses.replace(cut_case(np.random.default_rng(1), "none").plan, tier_names=("hbm", "cxl", "uvm"))
    with pytest.raises(InputError, match="tier 'cxl': TorchRec has no such memory"):
        export_plan(plan, "torchrec", tmp_path / "out")
    document = export_plan(plan, "torchrec", tmp_path / "out", locations={"cxl": "fused_uvm"})
    assert document["tiers"] == {"hbm": "fused", "cxl": "fused_uvm", "uvm": "fused_uvm"}
