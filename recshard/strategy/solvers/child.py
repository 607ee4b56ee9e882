"""The solver's process: reads a model from its working directory, solves it through PuLP, writes the answer there.

Started by `run.solve`. It imports little, for it starts anew with every model. Whatever a solver does to its
process, it does it here; what it prints goes to the log.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pulp

from recshard.strategy.solvers.linear import LinearModel, load_model, to_pulp

_LEAST_SECONDS = 0.1
# CBC looks at its clock between steps only, and on models of 400 tables some take half a minute.
_SHARE_OF_TIME = {"PULP_CBC_CMD": 0.6, "COIN_CMD": 0.6}
_WHOLE_SECONDS = ("GLPK_CMD",)
# CBC passes over solutions less than 1e-5 better than what it has, unless told otherwise.
_OPTIONS = {"PULP_CBC_CMD": ["increment 1e-9"], "COIN_CMD": ["increment 1e-9"]}


Answer = dict[str, Any]


def answer(
    model: LinearModel,
    options: dict[str, Any],
    start: list[float] | None,
    keep: Callable[[Answer], None] | None = None,
) -> Answer:
    """Return what the solver says: status, whether infeasible, dual bound and the values of all columns.

    Args:
        options: PuLP's name of the `solver`, the `end` by the clock, and the relative `gap` to stop at.
        start: values of all columns to start from.
        keep: what to do with the answer so far, whenever a solver that can say so finds a better solution.
    """
    began = time.time()
    name = options["solver"]
    problem, variables = to_pulp(model)
    built = time.time() - began
    # Solvers that read a file are given it by PuLP before their clock starts; writing takes about as long again.
    seconds = (options["end"] - time.time() - 2 * built) * _SHARE_OF_TIME.get(name, 1.0)
    solver = pulp.getSolver(
        name, **_accepted(name, max(seconds, _LEAST_SECONDS), options["gap"], start is not None)
    )
    if name == "HiGHS":
        return _highs(problem, variables, solver, start, options["end"] - built, keep)
    if start is not None:
        for variable, value in zip(variables, start, strict=True):
            variable.varValue = value
    status = pulp.LpStatus[problem.solve(solver)]
    dual_bound = None
    if name == "SCIP_PY":
        status = problem.solverModel.getStatus()
        dual_bound = _finite(problem.solverModel.getDualbound())
    infeasible = problem.status == pulp.LpStatusInfeasible
    return {
        "status": status,
        "infeasible": infeasible,
        "dual_bound": dual_bound,
        "values": None if infeasible else _values(variables),
    }


def _highs(
    problem: Any,
    variables: list[Any],
    solver: Any,
    start: list[float] | None,
    end: float,
    keep: Callable[[Answer], None] | None,
) -> Answer:
    """Solve with HiGHS step by step: PuLP cannot hand it a start, and reads values where there are none.

    Args:
        end: when it must have stopped, by the clock.
    """
    solver.createAndConfigureSolver(problem)
    solver.buildSolverModel(problem)
    native = problem.solverModel
    if start is not None:
        import highspy

        solution = highspy.HighsSolution()
        values = np.zeros(len(start))
        values[[variable.index for variable in variables]] = start
        solution.col_value = values.tolist()
        native.setSolution(solution)
    if keep is not None:
        native.cbMipImprovingSolution.subscribe(_keeper([variable.index for variable in variables], keep))
    native.setOptionValue("time_limit", max(end - time.time(), _LEAST_SECONDS))
    solver.callSolver(problem)
    info, status = native.getInfo(), native.modelStatusToString(native.getModelStatus())
    solver.findSolutionValues(problem)
    return {
        "status": status,
        "infeasible": status == "Infeasible",
        "dual_bound": _finite(info.mip_dual_bound),
        "values": _values(variables) if info.primal_solution_status == 2 else None,  # 2: feasible
    }


def _keeper(order: list[int], keep: Callable[[Answer], None]) -> Callable[[Any], None]:
    """Return what keeps the improvements that HiGHS reports, in case it never comes to an end."""
    next_time = 0.0

    def improved(event: Any) -> None:
        nonlocal next_time
        begin = time.monotonic()
        if begin < next_time:
            return
        found = event.data_out
        values = np.asarray(found.mip_solution)[order].tolist()
        bound = _finite(found.mip_dual_bound)
        keep({"status": "not ended", "infeasible": False, "dual_bound": bound, "values": values})
        next_time = time.monotonic() + 20 * (time.monotonic() - begin)  # at most a twentieth of the time

    return improved


def write(result: Answer) -> None:
    """Write an answer to the working directory, whole."""
    Path("answer.part").write_text(json.dumps(result))
    os.replace("answer.part", "answer.json")


def _accepted(name: str, seconds: float, gap: float, start: bool) -> dict[str, Any]:
    """Return those options that PuLP's class of a solver takes."""
    known = inspect.signature(type(pulp.getSolver(name)).__init__).parameters
    limit = max(1, int(seconds)) if name in _WHOLE_SECONDS else seconds
    wanted: dict[str, Any] = {"msg": True, "timeLimit": limit, "gapRel": gap, "options": _OPTIONS.get(name)}
    if start:
        wanted["warmStart"] = True
    return {key: value for key, value in wanted.items() if key in known}


def _values(variables: list[Any]) -> list[float] | None:
    values = [variable.varValue for variable in variables]
    return None if any(v is None or not math.isfinite(v) for v in values) else [float(v) for v in values]


def _finite(value: float) -> float | None:
    return float(value) if abs(value) < 1e20 else None  # what solvers take for infinite


def _end_with(parent: int) -> None:
    """Kill the whole group once the process that asked is gone: nobody would stop an overrun then."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Solve the model in the working directory."""
    options = json.loads(Path("options.json").read_text())
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    start = np.load("start.npy", allow_pickle=False).tolist() if Path("start.npy").exists() else None
    write(answer(load_model(Path("model.npz")), options, start, keep=write))


if __name__ == "__main__":
    main()
