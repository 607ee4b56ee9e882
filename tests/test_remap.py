"""Every row has one home, the hottest first, and rows that no trace showed have one too."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.remap import remap_parts, remap_table


@st.composite
def splits(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    rows = draw(st.integers(1, 60))
    hot = draw(st.lists(st.integers(0, rows - 1), unique=True, max_size=rows))
    cuts = sorted(draw(st.lists(st.integers(0, rows), min_size=1, max_size=2)))
    return np.diff([0, *cuts, rows]), np.array(hot, dtype=np.int64)


@settings(max_examples=200, deadline=None)
@given(splits())
def test_tiers_are_filled_in_the_order_of_heat(case: tuple[np.ndarray, np.ndarray]) -> None:
    per_tier, hot = case
    remap = remap_table(per_tier, hot)
    order = list(hot) + [r for r in range(int(per_tier.sum())) if r not in set(hot.tolist())]
    expected = [(k, s) for k, n in enumerate(per_tier) for s in range(n)]
    assert [(int(remap.tier[r]), int(remap.slot[r])) for r in order] == expected


@st.composite
def deals(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    rows, parts, tiers = draw(st.integers(1, 60)), draw(st.integers(1, 9)), draw(st.integers(1, 3))
    hot = draw(st.lists(st.integers(0, rows - 1), unique=True, max_size=rows))
    per_tier = []
    for part in range(parts):
        own = len(range(part, rows, parts))
        cuts = sorted(draw(st.lists(st.integers(0, own), min_size=tiers - 1, max_size=tiers - 1)))
        per_tier.append(np.diff([0, *cuts, own]))
    return np.array(per_tier), np.array(hot, dtype=np.int64)


@settings(max_examples=200, deadline=None)
@given(deals())
def test_row_parts_are_dealt_the_rows_in_the_order_of_heat_and_fill_their_tiers(
    case: tuple[np.ndarray, np.ndarray],
) -> None:
    per_tier, hot = case
    found = remap_parts(per_tier, hot)
    order = list(hot) + [r for r in range(int(per_tier.sum())) if r not in set(hot.tolist())]
    for part, rows in enumerate(per_tier):
        own = order[part :: len(per_tier)]
        expected = [(part, k, slot) for k, n in enumerate(rows) for slot in range(n)]
        at = [(int(found.part[r]), int(found.home.tier[r]), int(found.home.slot[r])) for r in own]
        assert at == expected


def test_many_parts_have_numbers_that_are_wide_enough() -> None:
    found = remap_parts(np.ones((40_000, 1), dtype=np.int64), np.arange(40_000)[::-1])
    assert (found.part == np.arange(40_000)[::-1]).all()
