"""The proven bound of an instance, and by what it is proven."""

from __future__ import annotations

from recshard.problem import PlacementProblem
from recshard.shards import SplitRules
from recshard.strategy.bound import device_kinds, lower_bound_ms, single_table_bound_ms, weighted_bound_ms

_ROUNDING = 1e-9  # a bound is lowered by this share, for sums of floating-point numbers are not exact


def proven_bound(problem: PlacementProblem, rules: SplitRules) -> tuple[float, str]:
    """Return the lower bound in ms that this package proves, and the argument that proves it.

    Cutting a table makes it cost more in all, never less, so rows placed freely into all memories are a bound on
    shards too; what a table costs alone is not.
    """
    if rules.kind != "none":
        return weighted_bound_ms(problem, device_kinds(problem)) * (1 - _ROUNDING), "all memories"
    bound = lower_bound_ms(problem)
    by = "one table" if single_table_bound_ms(problem) >= bound else "all memories"
    return bound * (1 - _ROUNDING), by
