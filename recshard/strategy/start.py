"""Where search starts: every table on some device, cost and fast memory spread evenly as far as a greedy goes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recshard.errors import DoesNotFit
from recshard.problem import FloatArray, IntArray, PlacementProblem
from recshard.strategy.assignment import Assignment, empty_assignment, loads_on, set_devices
from recshard.strategy.bound import device_kinds
from recshard.strategy.climb import assign
from recshard.strategy.grid import Grid
from recshard.strategy.packing import find_packing
from recshard.strategy.waterfill import Slices, equal_slices
from recshard.units import format_bytes

_ATTEMPTS = 10
_PACKING_SECONDS = 5.0


@dataclass(frozen=True)
class Pooled:
    """What tables weigh where all memory is one pool: the scale on which a greedy compares them.

    Attributes:
        column: column of the grid at which each tier but the slowest is full, shape (k − 1,).
        load: cost of each table at these thresholds with the price of the fast bytes that it takes, in ms on
            the device that serves it best, shape (t,).
        share: what a device bears if all bear the same: load in column 0, then bytes up to each tier, shape
            (d, k).
        size: bytes of each table above each threshold, shape (t, k − 1).
    """

    column: IntArray
    load: FloatArray
    share: FloatArray
    size: FloatArray

    @property
    def weight(self) -> FloatArray:
        """The largest share of any device's budget that each table takes, of cost or of bytes, shape (t,)."""
        most = self.share.max(axis=0)
        parts = np.column_stack([self.load, self.size]) / np.where(most > 0, most, np.inf)
        return np.asarray(parts.max(axis=1))


def pooled(problem: PlacementProblem, grid: Grid, slices: Slices) -> Pooled:
    """Return the tables' weights at the thresholds of the pooled memory."""
    boundary = np.cumsum(slices.capacity[slices.slot[:, :-1]], axis=1)
    last = grid.size.shape[1] - 1
    filled = grid.size.sum(axis=0)
    column = np.clip(np.searchsorted(filled, boundary.sum(axis=0), side="right") - 1, 0, last).astype(np.int64)
    empty = empty_assignment(problem, grid, slices)
    kinds = device_kinds(problem)
    load = np.full(problem.tables, np.inf)
    for kind in range(int(kinds.max()) + 1):
        d = int(np.flatnonzero(kinds == kind)[0])
        load = np.minimum(load, loads_on(empty, column, d))
    share = np.column_stack([np.full(problem.devices, load.sum() / problem.devices), boundary])
    return Pooled(column, load, np.where(share > 0, share, np.inf), grid.size[:, column])


def start(problem: PlacementProblem, grid: Grid, rng: np.random.Generator, random: bool = False) -> Assignment:
    """Return an assignment that fits.

    Tables go by falling weight, each where it leaves cost and bytes most even; if they do not fit that way, by
    falling size to where most room is left, then with some noise, then, not at `random`, as a packing is found.

    Args:
        random: whether tables go in a random order from the outset.

    Raises:
        DoesNotFit: none of the attempts fitted.
    """
    slices = equal_slices(problem)
    weights = pooled(problem, grid, slices)
    kinds = device_kinds(problem)
    for attempt in range(_ATTEMPTS):
        if attempt:
            noise = rng.uniform(0.5, 1.0, problem.tables) if attempt > 1 else 1.0
            order = np.argsort(-problem.table_bytes * noise, kind="stable")
        elif random:
            order = rng.permutation(problem.tables)
        else:
            order = np.argsort(-weights.weight, kind="stable")
        assignment = empty_assignment(problem, grid, slices)
        if assign(assignment, order, weights.column, weights.share, kinds, attempt > 0):
            return assignment
    # A packing is nothing random: a search that starts anew has had it, and seconds matter.
    device = None if random else find_packing(problem, _PACKING_SECONDS)
    if device is None:
        raise DoesNotFit(
            "no way was found to divide the tables, or such shards as are allowed, among the devices so that "
            f"each fits, although all memories together hold {format_bytes(problem.pool_capacity.sum())} and the "
            f"model needs {format_bytes(problem.table_bytes.sum())}; no proof that there is none: give the "
            "slowest tier more capacity, or allow cuts (--split row), or more and narrower ones (--max-shards, "
            "--min-dim)"
        )
    assignment = empty_assignment(problem, grid, slices)
    set_devices(assignment, device)
    return assignment
