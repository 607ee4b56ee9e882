"""Solvers run apart: what they do to their process is nobody else's trouble, and what they say is checked."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from recshard.errors import InputError
from recshard.placement import bottleneck_ms
from recshard.problem import PlacementProblem
from recshard.strategy.milp import milp
from recshard.strategy.solvers import child, run
from recshard.strategy.solvers.linear import LinearModel, ModelBuilder, load_model, save_model, to_pulp
from recshard.strategy.solvers.names import present_solvers, solver_name
from recshard.strategy.solvers.run import SolverFailed, believed, solve
from tests.problems import random_problem

SOLVERS = [
    pytest.param(name, marks=pytest.mark.skipif(name not in present_solvers(), reason="solver is not here"))
    for name in ("highs", "cbc", "scip", "glpk")
]


def knapsack(seed: int, items: int = 12) -> LinearModel:
    """Return: the most value of items that fit, each at most once, as a minimum."""
    rng = np.random.default_rng(seed)
    builder = ModelBuilder()
    chosen = builder.columns("item", (items,), 1.0, integer=True)
    weight = rng.uniform(1, 2, items)
    builder.add(builder.rows((1,), upper=float(weight.sum()) / 3), chosen, weight)
    worth = rng.uniform(1, 2, items)
    return builder.build({i: -float(worth[i]) for i in range(items)})


def best_knapsack(model: LinearModel) -> float:
    """Return the optimum by trying every choice."""
    items = len(model.lower)
    choice = (np.arange(2**items)[:, None] >> np.arange(items)) & 1
    fits = choice @ model.value <= model.row_upper[0]
    return float((choice @ model.objective)[fits].min())


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_finds_the_optimum_and_its_bound_is_none(name: str) -> None:
    for seed in range(4):
        model = knapsack(seed)
        optimum = best_knapsack(model)
        found = solve(model, solver_name(name), 20, 1e-6)
        assert found.has_values
        assert not found.killed
        assert found.values is not None
        assert model.objective @ found.values == pytest.approx(optimum, rel=1e-5)
        assert found.dual_bound is not None
        assert optimum - 1e-4 <= found.dual_bound <= optimum + 1e-6
        assert found.log


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_says_so_when_there_is_no_solution(name: str) -> None:
    builder = ModelBuilder()
    x = builder.columns("x", (3,), 1.0, integer=True)
    builder.add(builder.rows((1,), lower=4.0), x, 1.0)
    found = solve(builder.build({0: 1.0}), solver_name(name), 20, 1e-6)
    assert found.infeasible
    assert not found.has_values


def test_a_model_crosses_to_the_solver_exactly(tmp_path: Path) -> None:
    model = knapsack(1)
    save_model(model, tmp_path / "model.npz")
    again = load_model(tmp_path / "model.npz")
    assert (again.value == model.value).all()
    assert (again.upper == model.upper).all()
    problem, variables = to_pulp(again)
    row = problem.constraints()[0]
    assert [row[variable] for variable in variables] == model.value.tolist()


CRASHES = "import os, signal; print('here', flush=True); os.kill(os.getpid(), signal.SIGSEGV)"
HANGS = "import subprocess, time; subprocess.Popen(['sleep', '60']); time.sleep(60)"
GARBAGE = {
    "not JSON": "{",
    "no fields": "{}",
    "too few values": '{"status": "Optimal", "infeasible": false, "dual_bound": null, "values": [1.0]}',
    "no numbers": '{"status": "Optimal", "infeasible": false, "dual_bound": "x", "values": null}',
    "not finite": '{"status": "", "infeasible": false, "dual_bound": null, "values": [' + "NaN," * 11 + "NaN]}",
    "a list": "[]",
}


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let temporary directories be made in a place of the test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_crash_is_an_error_that_names_the_signal_and_keeps_the_log(places: Path) -> None:
    with pytest.raises(SolverFailed, match="SIGSEGV") as failure:
        solve(knapsack(0), "HiGHS", 10, 0, command=python(CRASHES))
    assert "here" in failure.value.log
    assert not list(places.iterdir())


def test_a_solver_that_hangs_is_killed_with_all_it_started_and_leaves_no_files(places: Path) -> None:
    begin = time.perf_counter()
    writes = "from pathlib import Path; Path('left').write_text(str(1)); " + HANGS.replace(
        "subprocess.Popen(['sleep', '60'])", "print(subprocess.Popen(['sleep', '60']).pid, flush=True)"
    )
    found = solve(knapsack(0), "HiGHS", 0.5, 0, command=python(writes))
    assert found.killed
    assert not found.has_values
    assert time.perf_counter() - begin < 30
    assert not list(places.iterdir())
    grandchild = int(found.log)
    for _ in range(100):
        if not _runs(grandchild):
            break
        time.sleep(0.05)
    assert not _runs(grandchild)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.parametrize("text", GARBAGE.values(), ids=GARBAGE.keys())
def test_an_answer_that_makes_no_sense_is_an_error(text: str, places: Path) -> None:
    code = f"open('answer.json', 'w').write({text!r})"
    with pytest.raises(SolverFailed, match="cannot be read"):
        solve(knapsack(0), "HiGHS", 10, 0, command=python(code))
    assert not list(places.iterdir())


def test_a_solver_that_ends_without_an_answer_or_cannot_be_started_is_an_error(places: Path) -> None:
    with pytest.raises(SolverFailed, match="cannot be read"):
        solve(knapsack(0), "HiGHS", 10, 0, command=python("pass"))
    with pytest.raises(SolverFailed, match="cannot be started"):
        solve(knapsack(0), "HiGHS", 10, 0, command=[str(places / "nothing")])
    with pytest.raises(SolverFailed, match="exit status 3: out of memory"):
        solve(knapsack(0), "HiGHS", 10, 0, command=python("print('out of memory'); raise SystemExit(3)"))


def test_an_interrupt_ends_the_solver_and_leaves_no_files(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    wait = subprocess.Popen.wait

    def interrupted(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        started.append(process.pid)
        if timeout is not None:
            raise KeyboardInterrupt
        return wait(process)

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        solve(knapsack(0), "HiGHS", 60, 0, command=python(HANGS))
    assert started
    assert not _runs(started[0])
    assert not list(places.iterdir())


@pytest.mark.parametrize(("end", "said"), [(HANGS, "killed"), (CRASHES, "SIGSEGV")])
def test_the_best_so_far_of_a_solver_that_ends_badly_counts(end: str, said: str, places: Path) -> None:
    so_far = '{"status": "not ended", "infeasible": false, "dual_bound": null, "values": [' + "0," * 11 + "0]}"
    found = solve(knapsack(0), "HiGHS", 1, 0, command=python(f"open('answer.json', 'w').write({so_far!r});" + end))
    assert found.has_values
    assert said in found.status
    assert found.dual_bound is None


def test_highs_writes_down_its_best_so_far() -> None:
    model, kept = knapsack(2, items=30), []
    with contextlib.redirect_stdout(io.StringIO()):
        last = child.answer(model, {"solver": "HiGHS", "end": time.time() + 10, "gap": 0.0}, None, kept.append)
    assert kept
    for answer in kept:
        found = believed(answer, model, "HiGHS", 0.0, "")
        assert found.has_values
        assert found.values is not None
        assert model.objective @ found.values >= np.dot(model.objective, last["values"]) - 1e-9


def test_values_that_break_the_model_are_not_taken_for_a_solution_whatever_the_status() -> None:
    model = knapsack(0)
    for values in (np.ones(12), np.full(12, 0.3)):
        answer = {"status": "Optimal", "infeasible": False, "dual_bound": None, "values": values.tolist()}
        found = believed(answer, model, "PULP_CBC_CMD", 0, "Result - Optimal solution found\n")
        assert not found.has_values
        assert found.dual_bound is None


def test_a_stop_at_a_limit_proves_nothing_though_pulp_calls_it_optimal() -> None:
    model = knapsack(0)
    answer = {"status": "Optimal", "infeasible": False, "dual_bound": None, "values": [0.0] * 12}
    stopped = "Result - Stopped on time limit\n\nObjective value: 0\nLower bound: 0.000\n"
    found = believed(answer, model, "PULP_CBC_CMD", 0, stopped)
    assert found.has_values
    assert found.dual_bound is None
    assert found.status == "Stopped on time limit"


@pytest.fixture
def hard() -> PlacementProblem:
    """Return a problem whose search does not reach the bound, so that the MILP is needed."""
    return random_problem(np.random.default_rng(0), tables=9, devices=4)


@pytest.mark.parametrize(
    ("code", "said"), [(CRASHES, "SIGSEGV"), (HANGS, "killed"), ("print(1)", "cannot be read")]
)
def test_a_broken_solver_costs_the_plan_nothing_but_the_proof(
    hard: PlacementProblem, code: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "_CHILD", ("-c", code))
    monkeypatch.setattr(run, "GRACE_SECONDS", 0.1)
    log = tmp_path / "solver.log"
    found = milp(hard, time_limit=2, log=log)
    assert said in str(found.notes["solver_status"])
    assert found.notes["found_by"] == "search"
    assert found.status == "feasible"
    assert found.bottleneck_ms == bottleneck_ms(hard, found.placement)
    assert log.exists()
    if code == CRASHES:
        with pytest.raises(SolverFailed, match=said):
            milp(hard, time_limit=2, warm_start=False)


def test_an_absent_solver_is_an_error_that_lists_the_present_ones() -> None:
    with pytest.raises(InputError, match=r"found 'highz' \(did you mean 'highs'\?\).*present here:.*highs"):
        solver_name("highz")
    absent = next(name for name in ("xpress", "mosek", "copt", "gurobi") if name not in present_solvers())
    with pytest.raises(InputError, match=r"not installed here; present: .*highs"):
        solver_name(absent)
