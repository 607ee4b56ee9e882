"""Numbers that make no sense are refused before anything is searched."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recshard.errors import InputError
from recshard.strategy.run import STRATEGIES, run_strategy
from tests.problems import random_problem


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("accesses", np.nan, "accesses of table 0"),
        ("accesses", -1.0, "accesses of table 0"),
        ("accesses", np.inf, "accesses of table 0"),
        ("accesses", 1e308, "accesses × access_bytes of table 0"),
        ("access_bytes", 1e308, "accesses × access_bytes of table 0"),
        ("network_bytes", np.nan, "network_bytes of table 0"),
        ("class_share", np.nan, "class_share of table 0"),
        ("class_share", -0.5, "class_share of table 0"),
        ("rows", 2**60, "accepted: up to"),
        ("bandwidth", np.nan, "bandwidth"),
        ("pool_capacity", np.nan, "pool_capacity"),
    ],
)
def test_numbers_that_make_no_sense_are_named(strategy: str, field: str, value: float, said: str) -> None:
    problem = random_problem(np.random.default_rng(5))
    array = getattr(problem, field).copy()
    array.flat[0] = value
    with pytest.raises(InputError, match=said):
        run_strategy(strategy, replace(problem, **{field: array}))
