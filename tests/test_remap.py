"""Every row has one home, the hottest first, and rows that no trace showed have one too."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.remap import remap_table


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
