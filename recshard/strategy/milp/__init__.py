"""The MILP strategies: formulations, what a solver makes of them, and what of that is proven."""

from recshard.strategy.milp.strategy import DEFAULT_SECONDS, Formulation, milp

__all__ = ["DEFAULT_SECONDS", "Formulation", "milp"]
