"""Solving inside the test's own process, where hundreds of small models are to be solved."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Iterator

import numpy as np
import pytest

from recshard.strategy.solvers import child
from recshard.strategy.solvers.linear import FloatArray, LinearModel
from recshard.strategy.solvers.run import Outcome, believed


def solve_here(
    model: LinearModel, full_name: str, seconds: float, gap: float, start: FloatArray | None = None
) -> Outcome:
    """Return what `solvers.run.solve` does, but what is printed, from a solver that is a Python package."""
    options = {"solver": full_name, "end": time.time() + seconds, "gap": gap}
    with contextlib.redirect_stdout(io.StringIO()):
        answer = child.answer(model, options, None if start is None else np.asarray(start).tolist())
    return believed(answer, model, full_name, gap, "")


@contextlib.contextmanager
def solving_here() -> Iterator[None]:
    """Let the strategies solve in this process: a new one for each of hundreds of small models takes minutes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("recshard.strategy.milp.strategy.solve", solve_here)
        patch.setattr("recshard.strategy.neighbourhood.solve", solve_here)
        yield
