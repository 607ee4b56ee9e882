"""The MILP restricted to a few devices: never worse, valid for the whole, and often all that is needed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.errors import InputError
from recshard.placement import Placement, bottleneck_ms, check_placement, device_costs
from recshard.problem import PlacementProblem
from recshard.strategy.neighbourhood import improve_devices, restricted
from recshard.strategy.result import split_exactly
from tests.problems import random_problem
from tests.strategy.brute_force import best_bottleneck, best_bottleneck_shared
from tests.strategy.solving import solving_here


@pytest.fixture(autouse=True, scope="module")
def _solve_here() -> Iterator[None]:
    with solving_here():
        yield


def poor_placement(problem: PlacementProblem, rng: np.random.Generator) -> Placement | None:
    """Return the first random assignment that fits."""
    for _ in range(50):
        placed = split_exactly(problem, rng.integers(0, problem.devices, problem.tables))
        if placed is not None:
            return placed
    return None


def improved(problem: PlacementProblem, placed: Placement, count: int = 2) -> Placement:
    """Return where exchanges of the bottleneck with others end, which never make anything worse."""
    improving = True
    while improving:
        improving = False
        now = bottleneck_ms(problem, placed)
        worst = int(device_costs(problem, placed).argmax())
        others = [d for d in range(problem.devices) if d != worst]
        for chosen in itertools.combinations(others, min(count, problem.devices) - 1):
            devices = np.array([worst, *chosen])
            step = improve_devices(problem, placed, devices, 20)
            if step.placement is None:
                continue
            check_placement(problem, step.placement)
            after = device_costs(problem, step.placement)
            assert after[devices].max() < now
            untouched = np.setdiff1d(np.arange(problem.devices), devices)
            assert (after[untouched] == device_costs(problem, placed)[untouched]).all()
            placed, improving = step.placement, True
            break
    return placed


def test_exchanges_never_worsen_and_often_reach_the_optimum() -> None:
    reached = tried = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        alike = bool(seed % 2)
        problem = random_problem(
            rng,
            tables=6,
            devices=3,
            slack=1.6,
            equal_devices=alike,
            equal_rows=True,
            network=seed % 3 == 0,
        )
        placed = poor_placement(problem, rng)
        if placed is None:
            continue
        found = improved(problem, placed)
        assert bottleneck_ms(problem, found) <= bottleneck_ms(problem, placed)
        optimum = best_bottleneck(problem)
        assert bottleneck_ms(problem, found) >= optimum * (1 - 1e-9)
        tried += 1
        reached += bottleneck_ms(problem, found) <= optimum * (1 + 1e-5)
    assert tried >= 5
    assert reached > tried / 2


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([1, 2]))
def test_what_is_exhausted_is_so_by_brute_force(seed: int, equal_devices: bool, node_size: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(
        rng, tables=6, devices=4, equal_devices=equal_devices, equal_rows=True, node_size=node_size, slack=1.5
    )
    placed = poor_placement(problem, rng)
    if placed is None:
        return
    devices = np.sort(rng.choice(4, 2, replace=False))
    part = restricted(problem, placed, devices)
    inside = np.isin(placed.device, devices)
    assert part.tables == inside.sum()
    step = improve_devices(problem, placed, devices, 20)
    if not inside.any():
        assert step.exhausted
        return
    optimum = best_bottleneck_shared(part) if problem.has_shared_pools else best_bottleneck(part)
    assert step.bound_ms <= optimum * (1 + 1e-9)
    found = step.placement or placed
    check_placement(problem, found)
    cost = device_costs(problem, found)[devices].max()
    assert cost <= device_costs(problem, placed)[devices].max()
    if step.exhausted:
        assert cost <= optimum * (1 + 3e-5)


def test_no_time_is_an_error() -> None:
    rng = np.random.default_rng(0)
    problem = random_problem(rng, slack=2.0)
    placed = poor_placement(problem, rng)
    assert placed is not None
    with pytest.raises(InputError, match="accepted: seconds above zero"):
        improve_devices(problem, placed, np.array([0, 1]), 0.0)
