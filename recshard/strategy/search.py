"""Local search over assignments of tables to devices, each judged by water-filling on a common grid.

Start from a greedy that spreads cost and fast bytes evenly. Then exchange tables between two devices, one against
one and later two against two, while that lowers the potential (`moves.pressure`): first between the slowest and
the fastest, between those where fast memory is dear and where it is cheap, and at random; then between all pairs.
Where nothing helps any more, kick, descend again, and go back if that was worse; where kicks do not help either,
look at the slowest device alone (a steeper potential), and then start anew from a random assignment.
The result is split again exactly on the frequency classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from recshard.errors import DoesNotFit
from recshard.placement import Placement, bottleneck_ms
from recshard.problem import IntArray, PlacementProblem
from recshard.shards import WHOLE, Shards, SplitRules, cut, cut_evenly, most_shards
from recshard.strategy import climb
from recshard.strategy.assignment import set_devices
from recshard.strategy.bound import lower_bound_ms
from recshard.strategy.grid import threshold_grid
from recshard.strategy.history import History
from recshard.strategy.result import Solution, solution, split_exactly
from recshard.strategy.shared import best_slices
from recshard.strategy.start import pooled, start
from recshard.strategy.stop import Progress, Stop, relative_gap
from recshard.strategy.waterfill import equal_slices, fill
from recshard.units import format_bytes

_AT_ONCE = {False: 2_000, True: 50}  # pairs of devices between two looks at the clock, by tables exchanged
_ROUNDS_AT_ONCE = 3
_RELIEVED = {False: 4, True: 1}  # times that the slowest device may go through all others
_QUIET = 3  # times that the gap stands still before the next stage comes
_PROGRESS = 0.98  # a gap that shrinks less stands still
_CROWD = 150  # tables a device, beyond which single exchanges are fine enough
_FEW = 16  # tables a device, up to which kicks are followed by exchanges of two against two
_DIVISIONS = 3  # times that shared memory is divided anew
_KICKED_DEVICES = 320  # kicks between two looks at the clock, times devices
_PATIENCE = 200  # kicks without improvement before the potential gets steeper
_STEEPNESS = (4.0, 16.0, 64.0)  # of the potential, in gaps
_LEAST_GAP = 1e-6
_KEPT = 5  # incumbents kept beside the best, for the case that it cannot be split in whole rows
_GAIN = 1e-9  # relative: smaller gains are rounding
_CLOSE = 1e-4  # gap at which tables are not cut further
_PIECES = (1.0, 0.5, 0.25, 0.125)  # most of a device's budget that one shard may take, one after the other


class Climb:
    """A search on one problem, done in short steps.

    Attributes:
        best_ms: least bottleneck so far, on the grid: not below what its exact split costs but for whole rows.
        incumbents: device of each table then, shape (t,), and before: the best assignments, best last.
        rounds: kicks, and rounds of exchanges, so far.
        stagnant: how many of them since the last improvement.
        settled: whether the first descent is over.
    """

    def __init__(self, problem: PlacementProblem, bound_ms: float, rng: np.random.Generator) -> None:
        """Start from the greedy.

        Raises:
            DoesNotFit: nothing was found that fits.
        """
        self.problem, self.rng = problem, rng
        self.grid = threshold_grid(problem)
        self.state = start(problem, self.grid, rng)
        self.memory = climb.new_memory(self.state, self.rng)
        self.best_ms, self.incumbents = float(self.state.cost.max()), [self.state.device.copy()]
        self.scale = bound_ms if bound_ms > 0 else max(self.best_ms, np.finfo(float).tiny)
        self.rounds = self.stagnant = 0
        self.settled = False
        self._work = self._all_work()

    @property
    def judged(self) -> int:
        """Exchanges judged so far."""
        return int(self.state.counts[0])

    def step(self) -> None:
        """Do a little of what comes next."""
        done = next(self._work)
        self.rounds += done
        self.stagnant += done
        reached = float(self.state.cost.max())
        fits = bool((self.state.used <= self.state.capacity * (1 + _GAIN)).all())
        if fits and reached < self.best_ms * (1 - _GAIN):
            self.best_ms, self.stagnant = reached, 0
            self.incumbents = [*self.incumbents[-_KEPT:], self.state.device.copy()]

    def placement(self) -> Placement | None:
        """Return the exact split of the best assignment that has one in whole rows; None: of none of the last."""
        for device in reversed(self.incumbents):
            placement = split_exactly(self.problem, device)
            if placement is not None:
                return placement
        return None

    def _all_work(self) -> Iterator[int]:
        """Work for ever; yield rounds done whenever there is time to look at the clock."""
        yield from self._descend()
        if self.problem.has_shared_pools:
            for _ in range(_DIVISIONS):
                self._divide()
                yield from self._descend()
        self.settled = True
        while True:
            for level in range(len(_STEEPNESS)):
                yield from self._kick(level)
            kept, kept_ms = self.state.device.copy(), float(self.state.cost.max())
            if self._start_anew():
                yield from self._descend()
                yield from self._kick(0)
                if self.state.cost.max() > kept_ms:
                    self._set(kept)

    def _descend(self) -> Iterator[int]:
        """Exchange one table against one, then two against two, until nothing helps."""
        crowded = self.problem.tables > _CROWD * self.problem.devices
        for pairs in (False,) if crowded else (False, True):
            quiet, gap = 0, np.inf
            while quiet < _QUIET:
                climb.forget(self.memory)
                steepness = self._steepness(0)
                helped = climb.match(self.state, self.memory, steepness, self.scale, pairs, _ROUNDS_AT_ONCE)
                helped += climb.relieve(
                    self.state, self.memory, steepness, self.scale, pairs, _RELIEVED[pairs] * self.problem.devices
                )
                gap, before = float(self.state.cost.max()) / self.scale - 1.0, gap
                quiet = 0 if helped and gap < before * _PROGRESS else quiet + 1
                yield _ROUNDS_AT_ONCE
            finished = self.problem.devices > climb.ALL_PAIRS
            climb.forget(self.memory)
            while not finished:
                finished = climb.descend(
                    self.state, self.memory, self._steepness(0), self.scale, pairs, _AT_ONCE[pairs]
                )
                yield 1

    def _kick(self, level: int) -> Iterator[int]:
        """Kick until that has not helped for a while."""
        idle = 0
        pairs = self.problem.tables <= _FEW * self.problem.devices
        at_once = max(1, _KICKED_DEVICES // self.problem.devices // (4 if pairs else 1))
        if self.problem.devices <= climb.ALL_PAIRS:
            climb.forget(self.memory)
        climb.keep(self.state, self.memory, 0)
        while idle < _PATIENCE:
            helped = climb.kick_and_descend(
                self.state, self.memory, self._steepness(level), self.scale, pairs, at_once
            )
            idle = 0 if helped else idle + at_once
            yield at_once

    def _divide(self) -> None:
        """Divide shared memory as is best for the assignment at hand."""
        slices = best_slices(self.problem, self.state.device)
        self.state.boundary[:] = np.cumsum(slices.capacity[slices.slot[:, :-1]], axis=1)
        self._set(self.state.device.copy())

    def _start_anew(self) -> bool:
        """Go to a random assignment; return whether one was found."""
        try:
            self._set(start(self.problem, self.grid, self.rng, random=True).device)
        except DoesNotFit:
            return False
        return True

    def _set(self, device: IntArray) -> None:
        set_devices(self.state, device)
        self.memory = climb.new_memory(self.state, self.rng)

    def _steepness(self, level: int) -> float:
        gap = float(self.state.cost.max()) / self.scale - 1.0
        return _STEEPNESS[level] / max(gap, _LEAST_GAP)


def search(
    problem: PlacementProblem,
    stop: Stop,
    seed: int = 0,
    rules: SplitRules = WHOLE,
    history: History | None = None,
) -> Solution:
    """Return the best placement that local search finds.

    Where `rules` allow it, tables that are too much for one device are cut, into more shards only while that
    brings the bottleneck nearer to the bound.

    Args:
        stop: when to end; asked every few rounds.
        seed: of the random moves; the same seed and rounds give the same placement.
        rules: which cuts are allowed.
        history: gets every new incumbent.

    Raises:
        DoesNotFit: no start was found that fits; not a proof that there is none.
    """
    rng = np.random.default_rng(seed)
    history = History() if history is None else history
    bound = lower_bound_ms(problem, rules)
    history.prove(bound, "search")
    best, shards = _first(problem, rules, bound, stop, rng, history)
    while best.problem.devices > 1 and best.problem.tables > 1 and not stop(_progress(best, bound)):
        best.step()
        history.find(best.best_ms, "search")
    placement = best.placement()
    if placement is None:
        _, homeless = fill(best.problem, best.incumbents[-1], equal_slices(best.problem))
        raise DoesNotFit(
            "memory is so full that rows which straddle two tiers find no room: "
            f"{format_bytes(homeless)} in all; give the slowest tier that much more"
        )
    placement = _joined(problem, replace(placement, shards=shards), rules)
    history.find(bottleneck_ms(problem, placement), "search")
    return solution(problem, placement, bound, {"rounds": best.rounds, "exchanges_judged": best.judged}, history)


def _first(
    problem: PlacementProblem,
    rules: SplitRules,
    bound: float,
    stop: Stop,
    rng: np.random.Generator,
    history: History,
) -> tuple[Climb, Shards | None]:
    """Return the search on the best cutting found, after its first descent."""
    best: Climb | None = None
    chosen: Shards | None = None
    failure: DoesNotFit | None = None
    cuttings = list(_cuttings(problem, rules))
    for number, count in enumerate(cuttings, start=1):
        shards = cut_evenly(problem, count, rules.kind) if (count > 1).any() else None
        sharded = cut(problem, shards)
        scale = bound if rules.kind == "none" else max(bound, lower_bound_ms(sharded))
        if number < len(cuttings) and relative_gap(scale, bound) > _CLOSE:
            continue  # one of these shards alone is too much for a device
        try:
            climb_on = Climb(sharded, scale, rng)
        except DoesNotFit as error:
            failure = error
            continue
        while not climb_on.settled and not stop(_progress(climb_on, bound)):
            if min(climb_on.problem.devices, climb_on.problem.tables) < 2:
                break
            climb_on.step()
            history.find(climb_on.best_ms, "search")
        if best is None or climb_on.best_ms < best.best_ms * (1 - _CLOSE):
            best, chosen = climb_on, shards
        if relative_gap(best.best_ms, bound) <= _CLOSE or stop(_progress(best, bound)):
            break
    if best is None:
        raise failure or DoesNotFit("there is no table to place")
    return best, chosen


def _cuttings(problem: PlacementProblem, rules: SplitRules) -> Iterator[IntArray]:
    """Yield numbers of shards, shape (t,), from few to many: no shard beyond ever smaller shares of a device."""
    count = np.ones(problem.tables, dtype=np.int64)
    if rules.kind == "none":
        yield count
        return
    slices = equal_slices(problem)
    weights = pooled(problem, threshold_grid(problem), slices).weight
    reach = problem.pool_capacity[problem.pool] / problem.pool_users[problem.pool]
    weights = np.maximum(weights, problem.table_bytes / max(reach.sum(axis=1).max(), 1.0))
    most = np.minimum(most_shards(problem, rules), problem.devices)
    yield count
    before = count
    for piece in _PIECES:
        count = np.minimum(np.maximum(np.ceil(weights / piece), 1), most).astype(np.int64)
        if (count != before).any():
            yield count
        before = count


def _joined(problem: PlacementProblem, placement: Placement, rules: SplitRules) -> Placement:
    """Return the placement with those tables whole again whose shards all came to stand on one device."""
    shards = placement.shards
    if shards is None:
        return placement
    start = np.searchsorted(shards.table, np.arange(problem.tables))
    apart = np.zeros(problem.tables, dtype=np.int64)
    np.add.at(apart, shards.table, placement.device != placement.device[start][shards.table])
    count = np.where(apart > 0, np.bincount(shards.table, minlength=problem.tables), 1)
    if count.sum() == len(shards):
        return placement
    fewer = cut_evenly(problem, count, rules.kind) if (count > 1).any() else None
    kept = (apart[shards.table] > 0) | (np.arange(len(shards)) == start[shards.table])
    split = split_exactly(cut(problem, fewer), placement.device[kept])
    if split is None or bottleneck_ms(problem, replace(split, shards=fewer)) > bottleneck_ms(problem, placement):
        return placement
    return replace(split, shards=fewer)


def _progress(climb_on: Climb, bound: float) -> Progress:
    return Progress(climb_on.rounds, climb_on.stagnant, climb_on.best_ms, bound)
