"""What does not fit is proven not to, by few tables and few bytes; compared with every assignment there is."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from recshard.placement import check_placement
from recshard.problem import FloatArray, IntArray, PlacementProblem
from recshard.strategy.feasible import explain
from recshard.strategy.infeasible import Infeasible
from recshard.strategy.packing import find_packing, first_too_many, pack_quickly
from recshard.strategy.packing_milp import least_extra, loads, pack_by_milp
from recshard.strategy.reach import reach_of
from recshard.strategy.result import split_exactly
from tests.problems import random_problem


def lacking(problem: PlacementProblem, tables: Sequence[int], device: Sequence[int], pools: FloatArray) -> int:
    """Bytes too many on an assignment: the worst of all groups of devices against all memories that it uses."""
    load = np.zeros(problem.devices)
    np.add.at(load, list(device), problem.table_bytes[list(tables)])
    worst = 0
    for size in range(1, problem.devices + 1):
        for group in itertools.combinations(range(problem.devices), size):
            reached = np.unique(problem.pool[list(group)])
            worst = max(worst, int(load[list(group)].sum() - np.floor(pools[reached]).sum()))
    return worst


def least_lacking(problem: PlacementProblem, tables: Iterable[int], pools: FloatArray | None = None) -> int:
    """Bytes too many on the best assignment of some tables; 0 where they fit."""
    chosen = list(tables)
    capacity = problem.pool_capacity if pools is None else pools
    assignments = itertools.product(range(problem.devices), repeat=len(chosen))
    return min(lacking(problem, chosen, device, capacity) for device in assignments)


def slowest_pools(problem: PlacementProblem) -> IntArray:
    """The pool of the slowest tier that each device has, once each."""
    pools = []
    for mine in problem.pool:
        present = [p for p in mine if problem.pool_capacity[p] >= 1]
        pools.append(present[-1] if present else mine[-1])
    return np.unique(pools)


def with_more(problem: PlacementProblem, extra: int) -> FloatArray:
    pools = problem.pool_capacity.copy()
    pools[slowest_pools(problem)] += extra
    return pools


def packing_problem(
    sizes: Sequence[int], pool: Sequence[Sequence[int]], capacity: Sequence[float]
) -> PlacementProblem:
    """A problem of tables with rows of one byte."""
    base = random_problem(np.random.default_rng(0), tables=len(sizes), devices=len(pool), tiers=len(pool[0]))
    rows = np.array(sizes, dtype=np.int64)
    return replace(
        base,
        rows=rows,
        row_bytes=np.ones_like(rows),
        class_start=np.arange(len(sizes) + 1),
        class_rows=rows,
        class_share=1.0 / rows,
        pool=np.array(pool, dtype=np.int64),
        pool_capacity=np.array(capacity, dtype=np.float64),
    )


POOLS = {
    "own": [[0, 1], [2, 3], [4, 5]],
    "node": [[0, 3], [1, 3], [2, 3]],
    "two nodes": [[0, 4], [1, 4], [2, 5], [3, 5]],
    "node and cluster": [[0, 3, 5], [1, 3, 5], [2, 4, 5]],
    "one tier for all": [[0], [0]],
    "some share": [[0, 3], [1, 3], [2, 4]],
}


@st.composite
def tight_problems(draw: st.DrawFn, most: int = 6) -> PlacementProblem:
    """Few tables, each a large part of a device; memories equal or not, shared or not, some missing."""
    pool = POOLS[draw(st.sampled_from(sorted(POOLS)))]
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=most))
    count = 1 + max(p for mine in pool for p in mine)
    equal = draw(st.booleans())
    capacity = [draw(st.integers(0, 45))] * count if equal else [draw(st.integers(0, 45)) for _ in range(count)]
    return packing_problem(sizes, pool, [c + draw(st.sampled_from([0.0, 0.5])) for c in capacity])


@settings(max_examples=60, deadline=None)
@given(tight_problems())
def test_tables_fit_exactly_where_some_assignment_fits(problem: PlacementProblem) -> None:
    fits = least_lacking(problem, range(problem.tables)) == 0
    assert (explain(problem) is None) == fits
    device = find_packing(problem)
    assert (device is not None) == fits
    if device is not None:
        assert lacking(problem, range(problem.tables), device.tolist(), problem.pool_capacity) == 0


@settings(max_examples=60, deadline=None)
@given(tight_problems())
def test_a_conflict_does_not_fit_without_any_of_its_tables_does_and_none_is_smaller(
    problem: PlacementProblem,
) -> None:
    found = explain(problem)
    assume(found is not None)
    assert found is not None
    assert found.minimal
    assert found.table_bytes == tuple(problem.table_bytes[list(found.tables)])
    assert least_lacking(problem, found.tables) > 0
    for smaller in itertools.combinations(range(problem.tables), len(found.tables) - 1):
        assert least_lacking(problem, smaller) == 0


@settings(max_examples=50, deadline=None)
@given(tight_problems(most=5))
def test_the_extra_capacity_is_enough_and_one_byte_less_is_not(problem: PlacementProblem) -> None:
    found = explain(problem)
    assume(found is not None)
    assert found is not None
    remedy = found.remedies[0]
    assert remedy.change == "capacity"
    everything = range(problem.tables)
    assert least_lacking(problem, everything, with_more(problem, remedy.bytes)) == 0
    assert least_lacking(problem, everything, with_more(problem, remedy.bytes - 1)) > 0
    assert remedy.is_least
    assert explain(replace(problem, pool_capacity=with_more(problem, remedy.bytes))) is None


@settings(max_examples=50, deadline=None)
@given(tight_problems(most=5))
def test_short_memories_lack_the_least_in_all_and_so_much_smaller_tables_fit(problem: PlacementProblem) -> None:
    found = explain(problem)
    assume(found is not None)
    assert found is not None
    total = sum(memory.short_by for memory in found.short)
    # What an assignment lacks in all is what its worst group of devices lacks.
    assert total == least_lacking(problem, range(problem.tables))
    pools = problem.pool_capacity.copy()
    for memory in found.short:
        pool = problem.pool[memory.devices[0], memory.tier]
        assert memory.capacity == int(pools[pool])
        assert memory.devices == tuple(np.flatnonzero((problem.pool == pool).any(axis=1)))
        pools[pool] = memory.needed
    assert explain(replace(problem, pool_capacity=pools)) is None
    remedy = found.remedies[-1]
    assert remedy.change == "smaller"
    assert remedy.bytes == sum(remedy.table_bytes) == total
    sizes = problem.table_bytes.copy()
    sizes[list(remedy.tables)] -= remedy.table_bytes
    assert (sizes >= 0).all()
    smaller = replace(problem, rows=sizes, class_rows=sizes)
    assert least_lacking(smaller, range(problem.tables)) == 0


@settings(max_examples=40, deadline=None)
@given(tight_problems(most=5))
def test_the_milp_and_the_simple_proofs_agree_with_brute_force(problem: PlacementProblem) -> None:
    reach = reach_of(problem)
    sizes = -np.sort(-problem.table_bytes)
    lacks = least_lacking(problem, range(problem.tables))
    device, impossible = pack_by_milp(sizes, reach, reach.capacity, 10.0)
    assert (device is not None, impossible) == (lacks == 0, lacks > 0)
    if pack_quickly(sizes, reach, reach.capacity)[0] is not None:
        assert lacks == 0
    if first_too_many(sizes, reach, reach.capacity) <= problem.tables:
        assert lacks > 0
    assigned, bound = least_extra(sizes, reach, "total", 10.0)
    assert assigned is not None
    assert reach.homeless(loads(sizes, assigned, problem.devices), reach.capacity).sum() == lacks
    assert bound <= lacks


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 2), st.booleans())
def test_a_packing_with_room_for_rows_splits_in_whole_rows(seed: int, node_size: int, equal: bool) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 8, 3, slack=1.5, node_size=node_size, equal_devices=equal)
    device = find_packing(problem)
    assert device is not None
    placement = split_exactly(problem, device)
    assert placement is not None
    check_placement(problem, placement)


def test_many_tables_of_over_half_a_device_are_too_many_by_counting() -> None:
    rng = np.random.default_rng(5)
    large = 501 + rng.integers(0, 200, 17)
    small = rng.integers(1, 20, 60)
    sizes = rng.permutation(np.concatenate([large, small]))
    own = packing_problem(sizes, [[d] for d in range(16)], [1000.0] * 16)
    found = explain(own)
    assert found is not None
    assert (found.kind, found.minimal) == ("packing", True)
    assert sorted(found.table_bytes) == sorted(large)
    # Sixteen devices take a table each; the two smallest share one.
    assert found.remedies[0].bytes == np.sort(large)[:2].sum() - 1000
    assert found.remedies[0].is_least


def test_three_tables_of_over_a_third_on_each_device_but_one_more_are_too_many() -> None:
    sizes = 340 + np.arange(25)
    found = explain(packing_problem(sizes, [[d] for d in range(12)], [1000.0] * 12), seconds=1.0)
    assert found is not None
    assert (found.kind, found.minimal) == ("packing", True)
    assert len(found.tables) == 25


def test_names_stand_in_the_message_the_document_and_the_frame() -> None:
    problem = packing_problem([60, 60, 60, 5], [[0, 1], [2, 3]], [20, 80, 20, 80])
    found = explain(problem)
    assert isinstance(found, Infeasible)
    assert "table 0, table 1 and table 2 (180 B) cannot stand whole on 2 devices" in found.message
    named = found.named(["a", "b", "c", "d"], ["hbm", "uvm"])
    assert "'a', 'b' and 'c' (180 B)" in named.message
    assert (
        "give 'uvm' 20 B more on every device (the least that would do, but for rows that straddle tiers)"
        in named.message
    )
    assert "take 20 B from 'a' by fewer rows" in named.message
    document = named.document()
    assert [row["table"] for row in document["tables"]] == ["a", "b", "c"]
    assert document["short"] == [
        {"tier": "uvm", "devices": [found.short[0].devices[0]], "capacity_bytes": 80}
        | {"needed_bytes": 100, "short_by_bytes": 20}
    ]
    assert document["remedies"][0] == {
        "change": "capacity",
        "bytes": 20,
        "at_least_bytes": 20,
        "tiers": ["uvm"],
        "per": "device",
    }
    frame = named.frame()
    assert frame.columns.tolist() == ["table", "bytes", "share_of_reach"]
    assert frame["share_of_reach"].tolist() == pytest.approx([0.6] * 3)


def test_capacity_shared_by_a_node_is_asked_for_once_a_node() -> None:
    found = explain(packing_problem([50, 50, 50], [[0, 2], [1, 2]], [40, 40, 40]))
    assert found is not None
    assert found.remedies[0].per == "node"
    assert found.remedies[0].bytes == 150 - 120
    assert found.short[0].devices == (0, 1)


def test_without_time_what_only_a_solver_can_settle_is_called_unknown() -> None:
    # Beside a 7, a device of 10 has room for one 2, and there are three.
    problem = packing_problem([7, 2, 7, 2, 2], [[0], [1]], [10, 10])
    proven = explain(problem)
    assert proven is not None
    assert (proven.kind, proven.minimal, len(proven.tables)) == ("packing", True, 5)
    hurried = explain(problem, seconds=0.0)
    assert hurried is not None
    assert (hurried.kind, hurried.minimal, hurried.tables) == ("unknown", False, ())
    assert "no proof that there is none" in hurried.message
    assert least_lacking(problem, range(5), with_more(problem, hurried.remedies[0].bytes)) == 0
    assert find_packing(problem, seconds=0.0) is None
