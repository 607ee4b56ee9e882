"""How long it takes to judge an exchange of tables: the section `evaluations` of bench_solver.py.

Beside it the synthetic problems of any size on which that is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numba
import numpy as np

from recshard.problem import PlacementProblem
from recshard.strategy import assignment, climb, moves
from recshard.strategy.bound import lower_bound_ms
from recshard.strategy.grid import threshold_grid
from recshard.strategy.start import start

CLASSES = 120  # most frequency classes of a synthetic table
MODEL_BYTES = 681e9  # of a synthetic problem of 397 tables; larger ones grow with their tables
FAST_SHARE = 0.3  # of the model that all devices' fast memory holds


def synthetic_problem(tables: int, devices: int, state_bytes: int = 0, room: float = 16.0) -> PlacementProblem:
    """Return an RM-like problem: lognormal rows and pooling factors, Zipf-like access frequencies, dim 64.

    Args:
        state_bytes: optimizer state of every row.
        room: of all slow memory, in models: whole tables need more than a device's share of them.
    """
    rng = np.random.default_rng(0)
    dim, width = 64, 256
    rows = rng.lognormal(0.0, 1.8, tables)
    rows = np.maximum(rows / rows.sum() * MODEL_BYTES * tables / 397 / width, 64).astype(np.int64)
    pooling = rng.lognormal(1.0, 1.2, tables)
    class_rows, class_share = [], []
    for count, exponent in zip(rows, rng.uniform(0.7, 1.3, tables), strict=True):
        edges = np.unique(np.concatenate([[0], np.geomspace(1, count, CLASSES).astype(np.int64)]))
        many = np.diff(edges)
        share = np.sqrt((edges[:-1] + 1.0) * edges[1:]) ** -exponent
        class_rows.append(many)
        class_share.append(share / (share * many).sum())
    model = float((rows * (width + state_bytes)).sum())
    return PlacementProblem(
        batch_size=65_536,
        rows=rows,
        dim=np.full(tables, dim),
        row_bytes=np.full(tables, width + state_bytes),
        row_state_bytes=np.full(tables, state_bytes),
        access_bytes=np.full(tables, float(width)),
        accesses=65_536 * pooling,
        class_start=np.concatenate([[0], np.cumsum([len(many) for many in class_rows])]),
        class_rows=np.concatenate(class_rows),
        class_share=np.concatenate(class_share),
        network_bytes=np.zeros(tables),
        bandwidth=np.tile([1555e9, 16e9], (devices, 1)),
        pool=np.arange(2 * devices).reshape(devices, 2),
        pool_capacity=np.tile(np.array([FAST_SHARE, room]) * model / devices, devices),
        network_bandwidth=np.full(devices, np.inf),
    )


@numba.njit
def visit(
    a: assignment.Assignment, d: np.ndarray, e: np.ndarray, steepness: float, scale: float, pairs: bool
) -> int:
    """Decide about all exchanges between pairs of devices, as `search` does; return how many there are."""
    held = np.zeros(len(a.cost), dtype=np.int64)
    decided = 0
    for p in range(len(d)):
        sets = 1
        for own in (d[p], e[p]):
            n = 0
            j = a.first[own]
            while j >= 0:
                n += 1
                j = a.following[j]
            held[own] = n
            sets *= 1 + n + (n * (n - 1) // 2 if pairs else 0)
        decided += sets - 1
        moves.improve_pair(a, d[p], e[p], steepness, scale, pairs)
    return decided


@numba.njit
def evaluate(
    a: assignment.Assignment, d: np.ndarray, e: np.ndarray, steepness: float, scale: float
) -> tuple[int, float]:
    """Compute both devices' costs after every exchange of one table for one, by bisection; return how many."""
    evaluated = 0
    least = np.inf
    hint = np.empty(a.hint.shape[1], dtype=np.int64)
    for p in range(len(d)):
        i = a.first[d[p]]
        while i >= 0:
            j = a.first[e[p]]
            while j >= 0:
                hint[:] = a.hint[e[p]]
                there = assignment.cost_with(a, e[p], i, -1, j, -1, hint)
                hint[:] = a.hint[d[p]]
                here = assignment.cost_with(a, d[p], j, -1, i, -1, hint)
                value = moves.pressure(here, steepness, scale) + moves.pressure(there, steepness, scale)
                least = min(least, value)
                evaluated += 1
                j = a.following[j]
            i = a.following[i]
    return evaluated, least


def evaluations(seconds: float) -> Iterator[dict[str, object]]:
    """Time per exchange, on random pairs of devices in the midst of a search, on one core.

    *Decided*: all exchanges of up to one table (or two) for up to one (two) between two devices, as `search`
    decides about them: most are ruled out together, without a look at each. *Looked at*: those of them that are
    taken up one by one, which is what a solution's note `exchanges_judged` counts. *Bisected*: both devices' costs
    after an exchange computed on the grid, with nothing ruled out before: the plain move evaluation.
    """
    paper = ((397, 16), (1_000, 64), (4_000, 256), (10_000, 1_024))
    per_device = tuple((16 * devices, devices) for devices in (16, 64, 256, 1_024))
    crowd = tuple((64 * per, 64) for per in (4, 16, 64, 128))
    for series, sizes in (("as published", paper), ("16 a device", per_device), ("64 devices", crowd)):
        for tables, devices in sizes:
            yield {"series": series} | _evaluations(tables, devices, seconds)


def _evaluations(tables: int, devices: int, seconds: float) -> dict[str, object]:
    problem = synthetic_problem(tables, devices, room=64.0)
    rng = np.random.default_rng(0)
    state = start(problem, threshold_grid(problem), rng)
    scale = max(lower_bound_ms(problem), float(state.cost.mean()))
    memory = climb.new_memory(state, rng)
    steepness = 4.0 / max(float(state.cost.max()) / scale - 1.0, 1e-6)
    climb.match(state, memory, steepness, scale, False, 6)
    steepness = 4.0 / max(float(state.cost.max()) / scale - 1.0, 1e-6)
    kept = state.device.copy()
    row: dict[str, object] = {"tables": tables, "devices": devices, "tables a device": tables / devices}

    def repeat(work: Callable[[np.ndarray, np.ndarray], int]) -> tuple[int, int, float]:
        """Return what was counted, what was looked at, and the seconds, from the same state again and again."""
        counted = looked = 0
        spent = 0.0
        some = rng.integers(0, devices, 2)
        work(some[:1], (some[:1] + 1) % devices)  # compiled
        while spent < seconds:
            assignment.set_devices(state, kept)
            shuffled = rng.permutation(devices)
            half = min(devices // 2, 64)
            before = int(state.counts[0])
            begin = time.perf_counter()
            counted += work(shuffled[:half], shuffled[half : 2 * half])
            spent += time.perf_counter() - begin
            looked += int(state.counts[0]) - before
        return counted, looked, spent

    for name, pairs in (("1:1", False), ("2:2", True)):
        decided, looked, spent = repeat(lambda d, e, p=pairs: int(visit(state, d, e, steepness, scale, p)))
        row[f"{name} decided, ns each"] = 1e9 * spent / decided
        row[f"{name} decided, M/s"] = decided / spent / 1e6
        row[f"{name} looked at, M/s"] = looked / spent / 1e6
    evaluated, _, spent = repeat(lambda d, e: int(evaluate(state, d, e, steepness, scale)[0]))
    row["bisected, ns each"] = 1e9 * spent / evaluated
    row["bisected, M/s"] = evaluated / spent / 1e6
    return row
