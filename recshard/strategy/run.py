"""Strategies by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from recshard.errors import InputError, nearest
from recshard.problem import PlacementProblem, check_problem
from recshard.shards import WHOLE, SplitRules, cut
from recshard.strategy.history import Event, History
from recshard.strategy.result import OPTIMAL_GAP, Solution, solution
from recshard.strategy.stop import Stop, after_seconds, all_of, any_of, at_gap, when_stagnant

STRATEGIES = ("recshard", "search", "milp", "milp-paper", "size", "lookup", "size-lookup")
WITH_SOLVER = ("recshard", "milp", "milp-paper")
BASELINES = ("size", "lookup", "size-lookup")
DEFAULT_STRATEGY = "recshard"
_SEARCH_SECONDS = 10.0
_SEARCH_GAP = 1e-5
_SEARCH_STAGNANT = 2000
_PROVEN_STAGNANT = 300  # rounds without improvement that are enough where the gap is small already


@dataclass(frozen=True)
class StrategyOptions:
    """What strategies may be told.

    Attributes:
        time_limit: seconds; None: 10 for `recshard` and `search`, 60 for `milp`. The baselines need none.
        seed: of all random choices.
        solver: of the MILP, by PuLP's name.
        rules: whether and how tables may be cut into shards; the baselines keep them whole.
        solver_log: where strategies with a MILP write what its solver printed.
        watch: is told of every better incumbent or bound of `recshard` and `search` as it comes.
    """

    time_limit: float | None = None
    seed: int = 0
    solver: str = "highs"
    rules: SplitRules = WHOLE
    solver_log: Path | None = None
    watch: Callable[[Event], None] | None = None

    def __post_init__(self) -> None:
        """Raise InputError for a time limit that is not above zero, or a negative seed."""
        if self.time_limit is not None:
            after_seconds(self.time_limit)
        if self.seed < 0:
            raise InputError(f"seed: found {self.seed}; accepted: a whole number from 0")


def check_strategy(name: str) -> None:
    """Raise InputError unless `name` is a strategy."""
    if name not in STRATEGIES:
        raise InputError(f"strategy: found '{name}'{nearest(name, STRATEGIES)}; accepted: {', '.join(STRATEGIES)}")


def run_strategy(name: str, problem: PlacementProblem, options: StrategyOptions | None = None) -> Solution:
    """Return what the named strategy finds.

    Raises:
        InputError: no such strategy or solver, a time limit that is not above zero, or numbers that make no sense.
        DoesNotFit: it found no placement that fits.
    """
    check_strategy(name)
    check_problem(problem)
    options = options or StrategyOptions()
    limit = options.time_limit
    if options.solver_log is not None and name not in WITH_SOLVER:
        raise InputError(f"solver log: strategy '{name}' uses no solver; accepted with: {', '.join(WITH_SOLVER)}")
    if name in ("milp", "milp-paper"):
        return _milp(name, problem, options)
    if name in ("recshard", "search"):
        seconds = _SEARCH_SECONDS if limit is None else limit
        history = History(watch=options.watch)
        if name == "search":
            from recshard.strategy.search import search

            stop = any_of(_searched(), after_seconds(seconds))
            return search(problem, stop, options.seed, options.rules, history)
        from recshard.strategy.combined import recshard

        how = (options.seed, options.solver, options.rules, options.solver_log, history)
        return recshard(problem, seconds, _searched(), *how)
    from recshard.strategy.greedy import GREEDY_COSTS, greedy

    return greedy(problem, GREEDY_COSTS[name], options.rules)


def _searched() -> Stop:
    """Stop where there is little to gain: at a tiny gap, or after a while without improvement."""
    proven = all_of(at_gap(OPTIMAL_GAP), when_stagnant(_PROVEN_STAGNANT))
    return any_of(at_gap(_SEARCH_GAP), proven, when_stagnant(_SEARCH_STAGNANT))


def _milp(name: str, problem: PlacementProblem, options: StrategyOptions) -> Solution:
    """Return what a MILP finds; where tables may be cut, on the shards that search chooses in half the time."""
    from recshard.strategy.bound import lower_bound_ms
    from recshard.strategy.milp import DEFAULT_SECONDS, Formulation, milp
    from recshard.strategy.search import search

    seconds = DEFAULT_SECONDS if options.time_limit is None else options.time_limit
    formulation: Formulation = "paper" if name == "milp-paper" else "tight"
    shards = None
    if options.rules.kind != "none":
        brief = any_of(_searched(), after_seconds(seconds / 4))
        shards = search(problem, brief, options.seed, options.rules).placement.shards
    found = milp(cut(problem, shards), formulation, options.solver, seconds, options.seed, log=options.solver_log)
    if options.rules.kind == "none":
        return found
    # What the MILP proves holds for these shards; other cuts may be better.
    bound = lower_bound_ms(problem, options.rules)
    return solution(problem, replace(found.placement, shards=shards), bound, found.notes)
