"""Strategies by name."""

from __future__ import annotations

from dataclasses import dataclass

from recshard.errors import InputError, nearest
from recshard.problem import PlacementProblem
from recshard.strategy.result import Solution
from recshard.strategy.stop import after_seconds, any_of, at_gap, when_stagnant

STRATEGIES = ("search", "milp", "milp-paper", "size", "lookup", "size-lookup")
BASELINES = ("size", "lookup", "size-lookup")
DEFAULT_STRATEGY = "search"
_SEARCH_SECONDS = 10.0
_SEARCH_GAP = 1e-5
_SEARCH_STAGNANT = 2000


@dataclass(frozen=True)
class StrategyOptions:
    """What strategies may be told.

    Attributes:
        time_limit: seconds; None: 10 for `search`, 60 for `milp`. The baselines need none.
        seed: of all random choices.
        solver: of the MILP, by PuLP's name.
    """

    time_limit: float | None = None
    seed: int = 0
    solver: str = "highs"

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
        InputError: no such strategy or solver, or a time limit that is not above zero.
        DoesNotFit: it found no placement that fits.
    """
    check_strategy(name)
    options = options or StrategyOptions()
    limit = options.time_limit
    if name in ("milp", "milp-paper"):
        from recshard.strategy.milp import DEFAULT_SECONDS, milp

        seconds = DEFAULT_SECONDS if limit is None else limit
        return milp(problem, "paper" if name == "milp-paper" else "tight", options.solver, seconds, options.seed)
    if name == "search":
        from recshard.strategy.search import search

        stop = any_of(
            at_gap(_SEARCH_GAP),
            when_stagnant(_SEARCH_STAGNANT),
            after_seconds(_SEARCH_SECONDS if limit is None else limit),
        )
        return search(problem, stop, options.seed)
    from recshard.strategy.greedy import GREEDY_COSTS, greedy

    return greedy(problem, GREEDY_COSTS[name])
