"""The MILP: symmetry, starts, logs, exported models."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.errors import DoesNotFit, InputError
from recshard.placement import bottleneck_ms
from recshard.problem import PlacementProblem
from recshard.strategy.bound import lower_bound_ms
from recshard.strategy.feasible import explain
from recshard.strategy.milp import Formulation, milp, write_model
from recshard.strategy.milp.formulation import build, leaning, start_values
from recshard.strategy.milp.segments import boundaries
from recshard.strategy.milp.symmetry import canonical, earlier_tables, traffic_rank
from recshard.strategy.search import search
from recshard.strategy.solvers.names import present_solvers, solver_name
from recshard.strategy.solvers.run import solve
from recshard.strategy.stop import after_rounds
from tests.problems import random_problem
from tests.strategy.brute_force import best_bottleneck, best_bottleneck_shared
from tests.strategy.solving import solve_here, solving_here


@st.composite
def problems_of_classes(draw: st.DrawFn, tables: int = 5) -> PlacementProblem:
    """Draw devices of two speeds, each of which owns its memory or shares some with a neighbour."""
    devices, tiers = draw(st.integers(2, 4)), draw(st.integers(2, 3))
    problem = random_problem(
        np.random.default_rng(draw(st.integers(0, 2**32 - 1))),
        tables=draw(st.integers(1, tables)),
        devices=devices,
        tiers=tiers,
        slack=draw(st.sampled_from([1.2, 2.0])),
        node_size=draw(st.sampled_from([1, 2])),
        network=draw(st.booleans()),
    )
    speed = np.array(draw(st.lists(st.sampled_from([1.0, 2.0]), min_size=devices, max_size=devices)))
    return replace(problem, bandwidth=problem.bandwidth * speed[:, None])


@settings(max_examples=25, deadline=None)
@given(problems_of_classes(tables=3))
def test_breaking_the_symmetry_of_equal_devices_and_nodes_loses_no_optimum(problem: PlacementProblem) -> None:
    optimum = best_bottleneck_shared(problem)
    with solving_here():
        found = milp(problem, warm_start=False, time_limit=60)
    assert found.notes["model_bottleneck_ms"] == pytest.approx(optimum, rel=2e-6)
    assert found.lower_bound_ms <= optimum * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(problems_of_classes(), st.randoms(use_true_random=False))
def test_every_assignment_has_a_canonical_numbering_of_the_same_cost(
    problem: PlacementProblem, rng: object
) -> None:
    device = np.array([rng.randrange(problem.devices) for _ in range(problem.tables)])
    renamed = canonical(problem, device)
    # The numbering keeps tables together and devices as fast, and meets what the model holds at zero.
    assert len(np.unique(renamed)) == len(np.unique(device))
    for a, b in itertools.combinations(range(problem.tables), 2):
        assert (device[a] == device[b]) == (renamed[a] == renamed[b])
        same_pools = problem.pool[device[a]] == problem.pool[device[b]]
        assert (same_pools == (problem.pool[renamed[a]] == problem.pool[renamed[b]])).all()
    assert (problem.bandwidth[device] == problem.bandwidth[renamed]).all()
    assert (earlier_tables(problem)[renamed] <= traffic_rank(problem)).all()


def test_equal_devices_are_told_apart_inside_each_class_and_node() -> None:
    problem = random_problem(np.random.default_rng(0), tables=6, devices=6, tiers=2, node_size=2)
    # Three equal nodes of two: each further node, and the second device of each, needs one more table.
    assert earlier_tables(problem).tolist() == [0, 1, 1, 2, 2, 3]
    fast = problem.bandwidth.copy()
    fast[4:] *= 2
    assert earlier_tables(replace(problem, bandwidth=fast)).tolist() == [0, 1, 1, 2, 0, 1]


@settings(max_examples=60, deadline=None)
@given(problems_of_classes(), st.sampled_from([5, 40_000]))
def test_a_placement_is_a_solution_of_the_tight_model_and_costs_no_more_there(
    problem: PlacementProblem, variables: int
) -> None:
    try:
        placed = search(problem, after_rounds(20))
    except DoesNotFit:  # a start is not promised where memory is nearly full
        return
    built = build(problem, "tight", 1.0, variables)
    values = start_values(problem, placed.placement, built, variables)
    assert values is not None
    assert built.linear.violation(values) <= 1e-7
    assert values[built.bottleneck] <= placed.bottleneck_ms * (1 + 1e-9)
    if variables > 5:  # exact classes: the same split, the same cost
        assert values[built.bottleneck] == pytest.approx(placed.bottleneck_ms)


def test_few_segments_suffice_where_tiers_end() -> None:
    exact = roomy(classes=100)
    placed = search(exact, after_rounds(20))
    near = boundaries(exact, placed.placement)
    few = 4 * exact.tables * exact.devices
    cost = {}
    for name, densities in (("even", None), ("near", near)):
        built = build(exact, "tight", 1.0, few, densities)
        values = start_values(exact, placed.placement, built, few, densities)
        assert values is not None
        cost[name] = float(values[built.bottleneck])
    assert cost["near"] <= placed.bottleneck_ms * (1 + 1e-9)
    missed = {name: abs(found - placed.bottleneck_ms) / placed.bottleneck_ms for name, found in cost.items()}
    # Segments spread evenly miss the cost by so much that rounding cannot hide it.
    assert missed["even"] > 1e-4
    assert missed["near"] < 1e-3 * missed["even"]


def roomy(seed: int = 0, classes: int = 20) -> PlacementProblem:
    """Return a problem too large to be solved in a moment."""
    return random_problem(np.random.default_rng(seed), tables=60, devices=8, rows=400, classes=classes, slack=2.0)


@pytest.mark.parametrize("formulation", ["tight", "paper"])
def test_a_solver_without_time_answers_with_its_start(formulation: Formulation) -> None:
    problem = roomy()
    placed = search(problem, after_rounds(0))
    built = build(problem, formulation, lower_bound_ms(problem))
    start = start_values(problem, placed.placement, built)
    assert start is not None
    found = solve_here(built.linear, "HiGHS", 0.0, 0.0, start)
    assert found.has_values
    assert found.values is not None
    assert found.values[built.bottleneck] <= start[built.bottleneck] * (1 + 1e-9)
    bare = solve_here(built.linear, "HiGHS", 0.0, 0.0)
    assert bare.values is None or bare.values[built.bottleneck] > found.values[built.bottleneck]
    # What the values lean to is the placement that was handed over, but for the numbering of equal devices.
    if found.values[built.bottleneck] == pytest.approx(start[built.bottleneck], rel=1e-9):
        assert (leaning(built, found.values) == leaning(built, start)).all()


ACCEPTED = {
    "highs": "MIP start solution is feasible",
    "cbc": "MIPStart provided solution with cost",
    "scip": "feasible solution found by completesol|given by solution candidate storage",
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_start_is_taken_by_solvers_that_take_one(name: str) -> None:
    if name not in present_solvers():
        pytest.skip("solver is not here")
    problem = roomy()
    built = build(problem, "tight", lower_bound_ms(problem), 2000)
    start = start_values(problem, search(problem, after_rounds(0)).placement, built, 2000)
    found = solve(built.linear, solver_name(name), 1.0, 0.0, start)
    assert any(text in found.log for text in ACCEPTED[name].split("|"))


@pytest.mark.parametrize("name", ["cbc", "scip", "glpk"])
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), equal_devices=st.booleans())
def test_what_other_solvers_prove_is_never_above_the_optimum(name: str, seed: int, equal_devices: bool) -> None:
    if name not in present_solvers():
        pytest.skip("solver is not here")
    problem = random_problem(np.random.default_rng(seed), tables=5, devices=2, equal_devices=equal_devices)
    optimum = best_bottleneck(problem)
    found = milp(problem, solver=name, warm_start=False, time_limit=20)
    assert found.notes["model_bottleneck_ms"] == pytest.approx(optimum, rel=1e-5)
    assert optimum * (1 - 1e-4) <= found.lower_bound_ms <= optimum * (1 + 1e-9)


@pytest.mark.parametrize("suffix", [".mps", ".lp"])
@pytest.mark.parametrize("formulation", ["tight", "paper"])
def test_an_exported_model_has_the_same_optimum_in_ms(
    tmp_path: Path, suffix: str, formulation: Formulation
) -> None:
    import highspy

    problem = random_problem(np.random.default_rng(1), tables=5, devices=3, tiers=3)
    path = tmp_path / f"model{suffix}"
    write_model(problem, path, formulation)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.readModel(str(path))
    solver.run()
    with solving_here():
        found = milp(problem, formulation, warm_start=False, time_limit=60)
    assert solver.getObjectiveValue() == pytest.approx(found.notes["model_bottleneck_ms"], rel=1e-5)
    if formulation == "tight":
        assert solver.getObjectiveValue() == pytest.approx(best_bottleneck(problem), rel=1e-5)


def test_a_model_is_exported_as_mps_or_lp_only_and_to_a_place_that_is_there(tmp_path: Path) -> None:
    problem = random_problem(np.random.default_rng(1), tables=2)
    with pytest.raises(InputError, match=r"found suffix '\.txt'; accepted for a model: \.mps, \.lp"):
        write_model(problem, tmp_path / "model.txt")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_model(problem, tmp_path / "file" / "model.mps")


@pytest.fixture
def fast_solving() -> Iterator[None]:
    with solving_here():
        yield


def test_the_log_is_kept_whole(tmp_path: Path) -> None:
    problem = random_problem(np.random.default_rng(3), tables=7, devices=3)
    log = tmp_path / "logs" / "solver.log"
    found = milp(problem, warm_start=False, time_limit=20, log=log)
    assert found.notes["solver_status"] == "Optimal"
    assert "Running HiGHS" in log.read_text()
    assert "Solving report" in log.read_text()
    with pytest.raises(InputError, match="cannot be written"):
        milp(problem, time_limit=20, log=log / "below")


def test_what_does_not_fit_is_said_to_be_the_solvers_word_with_a_way_out(fast_solving: None) -> None:
    problem = random_problem(np.random.default_rng(0), tables=5, devices=2, tiers=2)
    short = replace(problem, pool_capacity=problem.pool_capacity * 0.4)
    assert explain(short) is not None
    with pytest.raises(DoesNotFit, match=r"highs calls .* infeasible: .* it says; accepted: more capacity"):
        milp(short, warm_start=False, time_limit=20)


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan")])
def test_a_time_limit_that_is_not_above_zero_is_an_error(limit: float) -> None:
    with pytest.raises(InputError, match="accepted: a finite number of seconds above zero"):
        milp(random_problem(np.random.default_rng(0), tables=2), time_limit=limit)


def test_the_milp_is_never_behind_its_start(fast_solving: None) -> None:
    for seed in range(5):
        problem = random_problem(np.random.default_rng(seed), tables=10, devices=3)
        started = search(problem, after_rounds(0))
        found = milp(problem, time_limit=3)
        assert found.bottleneck_ms <= started.bottleneck_ms * (1 + 1e-9)
        assert found.bottleneck_ms == bottleneck_ms(problem, found.placement)
