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
from pathlib import Path
from typing import Any

import numpy as np
import pulp

from recshard.strategy.solvers.linear import LinearModel, load_model, to_pulp

_LEAST_SECONDS = 0.1
_WHOLE_SECONDS = ("GLPK_CMD",)
# CBC passes over solutions less than 1e-5 better than what it has, unless told otherwise.
_OPTIONS = {"PULP_CBC_CMD": ["increment 1e-9"], "COIN_CMD": ["increment 1e-9"]}


def answer(model: LinearModel, options: dict[str, Any], start: list[float] | None) -> dict[str, Any]:
    """Return what the solver says: status, whether infeasible, dual bound and the values of all columns."""
    began = time.time()
    name = options["solver"]
    problem, variables = to_pulp(model)
    built = time.time() - began
    # Solvers that read a file are given it by PuLP before their clock starts; writing takes about as long again.
    seconds = options["end"] - time.time() - (0.0 if name == "HiGHS" else 2 * built)
    solver = pulp.getSolver(
        name, **_accepted(name, max(seconds, _LEAST_SECONDS), options["gap"], start is not None)
    )
    if name == "HiGHS":
        return _highs(problem, variables, solver, start)
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


def _highs(problem: Any, variables: list[Any], solver: Any, start: list[float] | None) -> dict[str, Any]:
    """Solve with HiGHS step by step: PuLP cannot hand it a start, and reads values where there are none."""
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
    solver.callSolver(problem)
    info, status = native.getInfo(), native.modelStatusToString(native.getModelStatus())
    solver.findSolutionValues(problem)
    return {
        "status": status,
        "infeasible": status == "Infeasible",
        "dual_bound": _finite(info.mip_dual_bound),
        "values": _values(variables) if info.primal_solution_status == 2 else None,  # 2: feasible
    }


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
    result = answer(load_model(Path("model.npz")), options, start)
    Path("answer.part").write_text(json.dumps(result))
    os.replace("answer.part", "answer.json")


if __name__ == "__main__":
    main()
