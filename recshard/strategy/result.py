"""Solution: what a strategy found, what is proven about it, and how it was got."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from recshard.placement import Placement, bottleneck_ms, check_placement
from recshard.problem import IntArray, PlacementProblem
from recshard.strategy.history import Event, History
from recshard.strategy.shared import best_slices
from recshard.strategy.stop import relative_gap
from recshard.strategy.waterfill import equal_slices, fill

OPTIMAL_GAP = 1e-4  # a plan within 0.01% of a proven bound is called optimal
ROUNDING = 1e-9  # a bound is lowered by this share, for sums of floating-point numbers are not exact


@dataclass(frozen=True)
class Solution:
    """A valid placement and its proof.

    Attributes:
        placement: passed the validity checker.
        bottleneck_ms: its largest device cost, exact by the bandwidth model.
        lower_bound_ms: no placement of these tables costs less; proven.
        history: incumbent and bound over time.
        notes: what else there is to say, for the report and for JSON.
    """

    placement: Placement
    bottleneck_ms: float
    lower_bound_ms: float
    notes: Mapping[str, object] = field(default_factory=dict)
    history: tuple[Event, ...] = ()

    @property
    def gap(self) -> float:
        """(bottleneck − lower bound) ÷ lower bound."""
        return relative_gap(self.bottleneck_ms, self.lower_bound_ms)

    @property
    def status(self) -> Literal["optimal", "feasible"]:
        """`optimal` where the proven gap is at most 0.01%, else `feasible`."""
        return "optimal" if self.gap <= OPTIMAL_GAP else "feasible"


def solution(
    problem: PlacementProblem,
    placement: Placement,
    lower_bound: float,
    notes: Mapping[str, object],
    history: History | None = None,
) -> Solution:
    """Return the solution that stands for a placement.

    Raises:
        InvalidPlacement: the placement breaks a rule: whoever made it has a mistake.
    """
    check_placement(problem, placement)
    exact = bottleneck_ms(problem, placement)
    # Whole rows may make the placement a trifle dearer than the search believed on its way.
    events = [] if history is None else history.events
    above = tuple(
        replace(
            event,
            bottleneck_ms=max(event.bottleneck_ms, exact),
            lower_bound_ms=event.lower_bound_ms * (1 - ROUNDING),
        )
        for event in events
    )
    return Solution(placement, exact, lower_bound * (1 - ROUNDING), notes, above)


def split_exactly(problem: PlacementProblem, device: IntArray) -> Placement | None:
    """Return the best placement with the tables on the given devices, or None where they do not fit there."""
    best: Placement | None = None
    divisions = [best_slices(problem, device)]
    if problem.has_shared_pools:
        divisions.append(equal_slices(problem))
    for slices in divisions:
        rows, homeless = fill(problem, device, slices)
        if homeless:
            continue
        placement = Placement(np.asarray(device, dtype=np.int64).copy(), rows)
        if best is None or bottleneck_ms(problem, placement) < bottleneck_ms(problem, best):
            best = placement
    return best
