"""Local search over assignments of tables to devices, each judged by water-filling on a common grid.

Start from tables in falling order of cost, each to the device that it burdens least. Then, again and again: take
the slowest device and look for a move or swap with another (least loaded first) that leaves both below it. Where
there is none, kick (a few random swaps with the slowest device), descend again, and go back if that was worse.
The result is split again exactly on the frequency classes.
"""

from __future__ import annotations

import numpy as np

from recshard.errors import DoesNotFit
from recshard.problem import FloatArray, PlacementProblem
from recshard.strategy.bound import lower_bound_ms
from recshard.strategy.grid import Grid, threshold_grid
from recshard.strategy.moves import (
    Assignment,
    assign,
    descend,
    empty_assignment,
    kick_and_descend,
    restore,
)
from recshard.strategy.result import Solution, solution, split_exactly
from recshard.strategy.stop import Progress, Stop
from recshard.units import format_bytes

_ROUNDS_PER_CALL = 20
_STARTS = 50
_GAIN = 1e-9  # relative: smaller gains are rounding


def search(problem: PlacementProblem, stop: Stop, seed: int = 0) -> Solution:
    """Return the best placement that local search finds.

    Args:
        stop: when to end; asked every few rounds.
        seed: of the random moves; the same seed and rounds give the same placement.

    Raises:
        DoesNotFit: no start was found that fits; not a proof that there is none.
    """
    rng = np.random.default_rng(seed)
    bound = lower_bound_ms(problem)
    current = start(problem, rng)
    descend(current)
    best, best_device = float(current.cost.max()), current.device.copy()
    rounds = stagnant = 0
    # With one device or one table there is nothing to exchange.
    while min(problem.devices, problem.tables) > 1 and not stop(Progress(rounds, stagnant, best, bound)):
        kick_and_descend(current, rng, _ROUNDS_PER_CALL)
        restore(current, current.device.copy())
        rounds += _ROUNDS_PER_CALL
        stagnant += _ROUNDS_PER_CALL
        if current.cost.max() < best * (1 - _GAIN):
            best, best_device, stagnant = float(current.cost.max()), current.device.copy(), 0
    placement = split_exactly(problem, best_device)
    if placement is None:
        raise DoesNotFit(
            "memory is so full that the rows left over between tiers find no room; a little more capacity in "
            "the slowest tier is needed"
        )
    return solution(problem, placement, bound, {"rounds": rounds})


def start(problem: PlacementProblem, rng: np.random.Generator) -> Assignment:
    """Return an assignment that fits: by falling cost if that works, else by falling size, else at random.

    Raises:
        DoesNotFit: none of the attempts fitted.
    """
    grid = threshold_grid(problem)
    costliest_first = np.argsort(-single_costs(problem, grid), kind="stable")
    for attempt in range(_STARTS):
        order = costliest_first
        if attempt:
            noise = rng.uniform(0.5, 1.0, problem.tables) if attempt > 1 else 1.0
            order = np.argsort(-problem.table_bytes * noise, kind="stable")
        assignment = empty_assignment(problem, grid)
        if assign(assignment, order, attempt > 0):
            return assignment
    raise DoesNotFit(
        f"no way was found in {_STARTS} attempts to divide the tables among the devices so that each fits, "
        f"although all memories together hold {format_bytes(problem.pool_capacity.sum())} and the model needs "
        f"{format_bytes(problem.table_bytes.sum())}; no proof that there is none: try --strategy milp, or give "
        "the slowest tier more capacity"
    )


def single_costs(problem: PlacementProblem, grid: Grid) -> FloatArray:
    """Return each table's traffic in ms if all came from the slowest tier, a rough order of cost, shape (t,)."""
    return np.asarray(grid.traffic[:, -1] * 1e3 / problem.bandwidth[:, -1].max())
