"""Solving in a process apart: a solver that crashes, hangs or overruns its limit takes nobody along."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from recshard.errors import RecshardError
from recshard.strategy.solvers.linear import FloatArray, LinearModel, save_model

GRACE_SECONDS = 1.0
_FEASIBLE = 1e-5  # how far a solver's values may break a constraint, in the model's units
_CHILD = ("-P", "-m", "recshard.strategy.solvers.child")
# What solvers print only once they have searched everything; PuLP's own statuses are not to be trusted (field.md).
_FINISHED = {
    "PULP_CBC_CMD": r"^Result - Optimal solution found",
    "COIN_CMD": r"^Result - Optimal solution found",
    "GLPK_CMD": r"^INTEGER OPTIMAL SOLUTION FOUND",
}
_INFEASIBLE = {
    "PULP_CBC_CMD": r"^(Result - )?Problem (is|proven) infeasible",
    "COIN_CMD": r"^(Result - )?Problem (is|proven) infeasible",
    "GLPK_CMD": r"^PROBLEM HAS NO (PRIMAL|INTEGER) FEASIBLE SOLUTION",
}
_OWN_STATUS = {
    "PULP_CBC_CMD": r"^Result - (.*?)\s*$",
    "COIN_CMD": r"^Result - (.*?)\s*$",
    "GLPK_CMD": r"^([A-Z][A-Z -]*(?:SOLUTION|EXCEEDED)[A-Z -;]*?)\s*$",
}


class SolverFailed(RecshardError):
    """The solver crashed, was killed by others, or could not be started; `log` holds what it had printed."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


@dataclass(frozen=True)
class Outcome:
    """What a solver left behind.

    Attributes:
        values: of all columns, shape (n,), not necessarily a solution; None where there are none.
        has_values: whether the values satisfy the model.
        infeasible: whether the solver says that there is no solution.
        dual_bound: a bound on the objective that the solver vouches for: its own where it can be asked, else the
            objective of a search that it completed; None where neither is to be had.
        status: in the solver's own words.
        seconds: wall time.
        log: all that it printed.
        killed: whether it had to be stopped, having overrun its limit; its best so far may be there all the same.
    """

    values: FloatArray | None
    has_values: bool
    infeasible: bool
    dual_bound: float | None
    status: str
    seconds: float
    log: str
    killed: bool = False


def solve(
    model: LinearModel,
    full_name: str,
    seconds: float,
    gap: float,
    start: FloatArray | None = None,
    *,
    command: Sequence[str] | None = None,
) -> Outcome:
    """Return what a solver makes of a model within a time limit.

    Args:
        full_name: PuLP's name of the solver.
        seconds: for all of it; a second later the solver is killed.
        gap: relative gap at which it may stop.
        start: values of all columns to start from, where the solver takes them, shape (n,).
        command: what to start in place of this interpreter and the solver's process.

    Raises:
        SolverFailed: the solver broke off without a word about the model.
    """
    begin, end = time.perf_counter(), time.time() + seconds
    folder = Path(tempfile.mkdtemp(prefix="recshard-solver-"))
    try:
        save_model(model, folder / "model.npz")
        if start is not None:
            np.save(folder / "start.npy", start, allow_pickle=False)
        (folder / "options.json").write_text(json.dumps({"solver": full_name, "end": end, "gap": gap}))
        code = _run(command or (sys.executable, *_CHILD), folder, begin + seconds + GRACE_SECONDS)
        log = (folder / "log.txt").read_text(encoding="utf-8", errors="replace")
        elapsed = time.perf_counter() - begin
        answered = (folder / "answer.json").exists()
        broken = "killed: it overran its time limit" if code is None else _ended(code)
        if code is None and not answered:
            return Outcome(None, False, False, None, broken, elapsed, log, killed=True)
        if code and not answered:
            raise SolverFailed(f"solver {full_name} {broken}{_last_line(log)}", log)
        try:
            answer = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
            outcome = believed(answer, model, full_name, gap, log)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SolverFailed(f"solver {full_name} left an answer that cannot be read: {error!r}", log) from error
        if code != 0:
            outcome = replace(outcome, status=f"{broken}; its best so far counts", killed=code is None)
        return replace(outcome, seconds=elapsed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: Sequence[str], folder: Path, end: float) -> int | None:
    """Run a command in `folder` till it exits, at `end` at the latest; return its exit status, None if killed."""
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path if path)
    places = dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(folder))
    with (folder / "log.txt").open("wb") as log:
        try:
            process = subprocess.Popen(
                list(command),
                cwd=folder,
                env=os.environ | places | {"PYTHONPATH": paths},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise SolverFailed(f"solver process: cannot be started: {error.strerror or error}") from error
        try:
            return process.wait(timeout=max(0.0, end - time.perf_counter()))
        except subprocess.TimeoutExpired:
            return None
        finally:
            # The group, for solvers start processes of their own, which outlive an interrupt or a crash.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                process.kill()
            process.wait()


def believed(answer: Mapping[str, Any], model: LinearModel, full_name: str, gap: float, log: str) -> Outcome:
    """Return what can be believed of a solver's answer.

    Args:
        answer: what `child.answer` returns.
        log: what the solver printed.

    Raises:
        KeyError, TypeError, ValueError: it is no such answer, or not to this model.
    """
    values = None if answer["values"] is None else np.array(answer["values"], dtype=np.float64)
    if values is not None and (values.shape != model.lower.shape or not np.isfinite(values).all()):
        raise ValueError(f"values of shape {values.shape}, expected {model.lower.shape}, all finite")
    infeasible, status = bool(answer["infeasible"]), str(answer["status"])
    dual_bound = None if answer["dual_bound"] is None else float(answer["dual_bound"])
    if dual_bound is not None and not math.isfinite(dual_bound):
        dual_bound = None
    feasible = values is not None and model.violation(values) <= _FEASIBLE
    if full_name in _OWN_STATUS:
        own = re.findall(_OWN_STATUS[full_name], log, re.MULTILINE)
        status = own[-1] if own else status
        infeasible = infeasible and re.search(_INFEASIBLE[full_name], log, re.MULTILINE) is not None
        if values is not None and feasible and re.search(_FINISHED[full_name], log, re.MULTILINE):
            objective = float(np.dot(model.objective, values))
            dual_bound = objective - gap * max(1.0, abs(objective))
    return Outcome(values, feasible, infeasible, dual_bound, status, 0.0, log)


def _ended(code: int) -> str:
    if code < 0:
        return f"was ended by signal {-code} ({signal.Signals(-code).name})"
    return f"failed with exit status {code}"


def _last_line(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return f": {lines[-1][:300]}" if lines else ""
