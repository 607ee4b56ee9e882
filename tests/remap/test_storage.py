"""Remaps come back from disk as they were written, or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recshard.errors import InputError
from recshard.plan import Plan
from recshard.remap import remap_of
from recshard.remap.storage import read_ranks, write_ranks
from tests.plans import cut_case


@pytest.fixture
def plan() -> Plan:
    return cut_case(np.random.default_rng(3), "row").plan


def test_ranks_read_back_are_those_of_the_plan_and_tables_that_are_whole_have_none(
    plan: Plan, tmp_path: Path
) -> None:
    names = write_ranks(plan, tmp_path)
    assert any(name is not None for name in names)
    for j, name in enumerate(names):
        ranks = remap_of(plan, j).ranks
        assert (name is None) == (ranks is None) == (not plan.needs_hot_rows(j))
        if name is not None:
            found = read_ranks(tmp_path / name, plan.tables.tables[j].rows)
            assert isinstance(found, np.memmap)
            assert np.array_equal(found, ranks)
    assert sorted(path.name for path in tmp_path.iterdir()) == [name for name in names if name is not None]


def test_a_remap_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "0000.npy"
    np.save(path, np.arange(1000, dtype=np.int32))
    whole = path.read_bytes()
    for length in (0, 5, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"0000\.npy: cannot be read as a remap: .*; export the plan again"):
            read_ranks(path, 1000)


def test_a_remap_of_another_table_or_with_a_row_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "0000.npy"
    np.save(path, np.arange(10, dtype=np.int32))
    with pytest.raises(InputError, match=r"found int32 of shape \(10,\); accepted: int32 of shape \(11,\)"):
        read_ranks(path, 11)
    np.save(path, np.arange(10))
    with pytest.raises(InputError, match="found int64"):
        read_ranks(path, 10)
    for wrong in (3, -1, 10):
        ranks = np.arange(10, dtype=np.int32)
        ranks[7] = wrong
        np.save(path, ranks)
        with pytest.raises(InputError, match=f"row 7 has rank {wrong}, which is out of range or another row's"):
            read_ranks(path, 10)
