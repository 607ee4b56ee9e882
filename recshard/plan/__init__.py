"""Plan: a placement with the names it is about and where it came from; made, saved and loaded here."""

from recshard.plan.make import compare_strategies, make_plan
from recshard.plan.plan import Plan
from recshard.plan.storage import load_plan, save_plan

__all__ = ["Plan", "compare_strategies", "load_plan", "make_plan", "save_plan"]
