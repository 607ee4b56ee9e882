"""Every row has one home in each of its table's column ranges, hottest first, also rows that no trace showed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.errors import InputError
from recshard.plan import Plan
from recshard.remap import TableRemap, parts_of, rank_rows, remap_of
from recshard.remap.ranks import first_that_is_no_rank, rank_dtype
from tests import plans
from tests.plans import Kind, cut_case

KINDS = st.sampled_from(["none", "column", "row", "both"])
SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 60), SEEDS)
def test_ranks_give_the_rows_seen_in_their_order_and_then_the_others(rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    hot = rng.permutation(rows)[: rng.integers(0, rows + 1)]
    order = hot.tolist() + [row for row in range(rows) if row not in set(hot.tolist())]
    ranks = rank_rows(rows, hot)
    assert ranks.dtype == np.int32
    assert [order.index(row) for row in range(rows)] == ranks.tolist()
    assert first_that_is_no_rank(ranks) == -1


def test_ranks_are_wide_enough_for_every_row() -> None:
    assert rank_dtype(2**31) is np.int32
    assert rank_dtype(2**31 + 1) is np.int64


def homes(plan: Plan, table: int) -> list[dict[int, tuple[int, int]]]:
    """Return for every shard where its rows stand; those of a table that needs no remap keep their number."""
    at = plans.homes(plan, table)
    if plan.needs_hot_rows(table):
        return at
    return [{row: (tier, row) for row, (tier, _) in shard.items()} for shard in at]


@settings(max_examples=60, deadline=None)
@given(SEEDS, KINDS)
def test_lookups_go_to_the_part_and_slot_that_hold_their_row(seed: int, kind: Kind) -> None:
    rng = np.random.default_rng(seed)
    plan = cut_case(rng, kind).plan
    for j, table in enumerate(plan.tables.tables):
        remap, at = remap_of(plan, j), homes(plan, j)
        rows = rng.integers(0, table.rows, 50)
        offsets = np.concatenate([[0], np.sort(rng.integers(0, 51, 9)), [50]])
        routed = remap.route(rows, offsets)
        assert [r.part for r in routed] == [part for part in parts_of(plan) if part.table == j]
        found: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for r in routed:
            lookups = np.arange(50) if r.lookups is None else r.lookups
            assert len(r.slots) == len(lookups) == r.offsets[-1]
            for bag in range(10):
                for i in range(r.offsets[bag], r.offsets[bag + 1]):
                    found.setdefault((r.part.shard, bag), []).append(
                        (int(lookups[i]), r.part.tier, int(r.slots[i]))
                    )
        first = plan.shards_of(j).start
        for number, shard_homes in enumerate(at):
            for bag in range(10):
                expected = [
                    (i, *shard_homes[rows[i]])
                    for i in range(offsets[bag], offsets[bag + 1])
                    if rows[i] in shard_homes
                ]
                assert sorted(found.get((first + number, bag), [])) == expected


@settings(max_examples=40, deadline=None)
@given(SEEDS, KINDS)
def test_a_part_lists_its_rows_in_the_order_of_its_slots(seed: int, kind: Kind) -> None:
    plan = cut_case(np.random.default_rng(seed), kind).plan
    for j in range(len(plan.tables)):
        remap, at, first = remap_of(plan, j), homes(plan, j), plan.shards_of(j).start
        for part in remap.parts:
            home = at[part.shard - first]
            mine = {slot: row for row, (tier, slot) in home.items() if tier == part.tier}
            assert remap.rows_of(part).tolist() == [mine[slot] for slot in range(part.rows)]


@pytest.mark.parametrize("wrong", [-1, 40, 2**40])
@pytest.mark.parametrize("ranks", [None, np.arange(40)[::-1]])
def test_an_id_beyond_the_table_is_named(wrong: int, ranks: np.ndarray | None) -> None:
    part = parts_of(cut_case(np.random.default_rng(0), "none").plan)[0]
    remap = TableRemap("a", 40, (part,), ranks)
    with pytest.raises(InputError, match=rf"table 'a': found ID {wrong} at lookup 2; accepted: rows 0 to 39"):
        remap.route(np.array([0, 39, wrong, 1]), np.array([0, 4]))
