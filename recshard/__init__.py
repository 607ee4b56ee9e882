"""Plans where the rows of a recommendation model's embedding tables live, and proves how good the plan is."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recshard.bench.run import bench_plan
    from recshard.check import check_plan
    from recshard.errors import DoesNotFit, InputError, RecshardError
    from recshard.export import export_plan
    from recshard.instances import load_instance, verify_instance
    from recshard.plan import Plan, compare_strategies, load_plan, make_plan, save_plan
    from recshard.plan.solving import SolverReport, solver_report
    from recshard.problem import Workload
    from recshard.profile import Profile, Profiler, load_profile, save_profile
    from recshard.profile.build import profile_trace
    from recshard.profile.drift import drift
    from recshard.profile.expected import expected_profile
    from recshard.profile.hash_size import hash_sizes
    from recshard.replay import Replay, replay_plan
    from recshard.report.console import report_plan
    from recshard.strategy.run import StrategyOptions
    from recshard.tables import EmbeddingTable, TableSet, load_tables
    from recshard.topology import Topology, load_topology
    from recshard.trace import from_batches, open_trace, sample, take

# Where each name lives. Rooms load when they are asked for: torch, pandas and numba take seconds.
_HOMES = {
    "recshard.bench.run": ("bench_plan",),
    "recshard.check": ("check_plan",),
    "recshard.errors": ("DoesNotFit", "InputError", "RecshardError"),
    "recshard.export": ("export_plan",),
    "recshard.instances": ("load_instance", "verify_instance"),
    "recshard.plan": ("Plan", "compare_strategies", "load_plan", "make_plan", "save_plan"),
    "recshard.plan.solving": ("SolverReport", "solver_report"),
    "recshard.problem": ("Workload",),
    "recshard.profile": ("Profile", "Profiler", "load_profile", "save_profile"),
    "recshard.profile.build": ("profile_trace",),
    "recshard.profile.drift": ("drift",),
    "recshard.profile.expected": ("expected_profile",),
    "recshard.profile.hash_size": ("hash_sizes",),
    "recshard.replay": ("Replay", "replay_plan"),
    "recshard.report.console": ("report_plan",),
    "recshard.strategy.run": ("StrategyOptions",),
    "recshard.tables": ("EmbeddingTable", "TableSet", "load_tables"),
    "recshard.topology": ("Topology", "load_topology"),
    "recshard.trace": ("from_batches", "open_trace", "sample", "take"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'recshard' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOME]
