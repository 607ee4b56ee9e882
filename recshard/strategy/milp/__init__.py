"""The MILP strategies: formulations, what a solver makes of them, and what of that is proven."""

from recshard.strategy.milp.export import write_model
from recshard.strategy.milp.formulation import Formulation
from recshard.strategy.milp.strategy import DEFAULT_SECONDS, milp

__all__ = ["DEFAULT_SECONDS", "Formulation", "milp", "write_model"]
