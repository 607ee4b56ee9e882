"""The MILP restricted to a few devices: the bottleneck and some others exchange tables as well as they can.

All other devices stay as they are; memory that is shared with them is what they leave of it. So whatever the
restricted MILP finds is a placement of the whole, and what it proves holds for these devices with these tables.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from recshard.errors import InputError
from recshard.placement import Placement, bottleneck_ms, pool_bytes
from recshard.problem import IntArray, PlacementProblem
from recshard.strategy.bound import lower_bound_ms
from recshard.strategy.milp.formulation import build, leaning, start_values
from recshard.strategy.milp.segments import boundaries
from recshard.strategy.milp.strategy import SOLVER_GAP, below, proven_ms
from recshard.strategy.result import split_exactly
from recshard.strategy.solvers.names import solver_name
from recshard.strategy.solvers.run import SolverFailed, solve

_SEGMENTS = 8
_GAIN = 1e-9  # relative: smaller gains are rounding


@dataclass(frozen=True)
class Neighbour:
    """What exchanging tables among a few devices came to.

    Attributes:
        placement: of the whole problem, where the largest cost of these devices fell; None where it did not.
        bound_ms: no placement of the same tables on the same devices has a bottleneck below this; proven.
        exhausted: whether the model was solved to the end, or the largest cost of these devices now is within the
            wanted gain of `bound_ms`: trying these devices again is of no use before one of them, or what it
            shares memory with, has changed.
        status: how it ended, in the solver's words.
        log: what the solver printed.
    """

    placement: Placement | None
    bound_ms: float
    exhausted: bool
    status: str
    log: str = ""


def improve_devices(
    problem: PlacementProblem,
    placement: Placement,
    devices: IntArray,
    seconds: float,
    *,
    solver: str = "highs",
    gain: float = 1e-5,
    segments: int = _SEGMENTS,
) -> Neighbour:
    """Exchange tables among `devices` so that the slowest of them is as fast as the tight MILP can make it.

    Args:
        placement: valid, and of whole tables: for shards, give `shards.cut(problem, …)` and a placement of it.
        devices: a few different devices, the bottleneck and one to three others, shape (n,).
        seconds: for all of it.
        segments: of every table's access curve in the model.
        gain: relative gain below which a further one is not worth having.

    Raises:
        InputError: the solver is unknown or absent, the time is not above zero, or the placement has shards.
    """
    if not seconds > 0:
        raise InputError(f"time limit: found {seconds} s; accepted: seconds above zero")
    if placement.shards is not None:
        raise InputError("placement: found shards; accepted: whole tables, in the problem that the cut makes")
    end = time.perf_counter() + seconds
    full_name = solver_name(solver)
    devices = np.unique(devices)
    inside = np.flatnonzero(np.isin(placement.device, devices))
    if not len(inside):
        return Neighbour(None, 0.0, True, "no tables stand there")
    part = restricted(problem, placement, devices)
    here = Placement(np.searchsorted(devices, placement.device[inside]), placement.rows[inside])
    now = bottleneck_ms(part, here)
    bound = lower_bound_ms(part)
    if now <= bound * (1 + gain):
        return Neighbour(None, bound, True, "not needed")
    # Few segments, exact where tiers end now: the device costs of placements like this one are exact in the model.
    near = boundaries(part, here)
    variables = segments * part.tables * part.devices * max(1, part.tiers - 1)
    built = build(part, "tight", bound if bound > 0 else 1.0, variables, near)
    start = start_values(part, here, built, variables, near)
    built = below(built, now)
    left = end - time.perf_counter()
    if left <= 0:
        return Neighbour(None, bound, False, "no time left after the model was built")
    try:
        outcome = solve(built.linear, full_name, left, min(SOLVER_GAP, gain / 2), start)
    except SolverFailed as error:
        return Neighbour(None, bound, False, str(error), error.log)
    bound = max(bound, proven_ms(built, outcome))
    found = None
    if outcome.values is not None:
        split = split_exactly(part, leaning(built, outcome.values))
        if split is not None and bottleneck_ms(part, split) < now * (1 - _GAIN):
            now = bottleneck_ms(part, split)
            found = _joined(placement, devices, inside, split)
    # Solved to the end, the model has nothing more to give, though whole rows may keep the placement above it.
    finished = (
        outcome.values is not None
        and outcome.dual_bound is not None
        and outcome.dual_bound >= outcome.values[built.bottleneck] * (1 - gain)
    )
    return Neighbour(found, bound, finished or now <= bound * (1 + gain), outcome.status, outcome.log)


def restricted(problem: PlacementProblem, placement: Placement, devices: IntArray) -> PlacementProblem:
    """Return the problem of the tables that stand on some devices, with these devices only.

    Args:
        placement: valid, and of whole tables.
        devices: ascending, shape (n,).
    """
    inside = np.isin(placement.device, devices)
    tables = np.flatnonzero(inside)
    # What the others hold of a pool is not to be had: count their rows alone.
    others = np.where(inside[:, None], 0, placement.rows)
    left = problem.pool_capacity - pool_bytes(problem, Placement(placement.device, others))
    used, pool = np.unique(problem.pool[devices], return_inverse=True)
    classes = inside[problem.class_table]
    return replace(
        problem,
        rows=problem.rows[tables],
        dim=problem.dim[tables],
        row_bytes=problem.row_bytes[tables],
        row_state_bytes=problem.row_state_bytes[tables],
        access_bytes=problem.access_bytes[tables],
        accesses=problem.accesses[tables],
        class_start=np.concatenate([[0], np.cumsum(np.diff(problem.class_start)[tables])]).astype(np.int64),
        class_rows=problem.class_rows[classes],
        class_share=problem.class_share[classes],
        network_bytes=problem.network_bytes[tables],
        bandwidth=problem.bandwidth[devices],
        pool=pool.reshape(len(devices), problem.tiers).astype(np.int64),
        pool_capacity=np.maximum(left[used], 0.0),
        network_bandwidth=problem.network_bandwidth[devices],
    )


def _joined(placement: Placement, devices: IntArray, inside: IntArray, split: Placement) -> Placement:
    """Return the placement with the split of some devices in the place of what stood there."""
    device, rows = placement.device.copy(), placement.rows.copy()
    device[inside], rows[inside] = devices[split.device], split.rows
    return Placement(device, rows)
