"""Contenders: the plan, and what it is to beat on the same model and the same machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from recshard.errors import DoesNotFit, InputError
from recshard.plan.plan import Plan
from recshard.problem import FloatArray, IntArray
from recshard.strategy.run import BASELINES, run_strategy


def contenders(plan: Plan) -> Iterator[tuple[str, Plan | DoesNotFit]]:
    """Yield the plan and each baseline that its own strategy is not, or the reason why a baseline found none."""
    yield plan.strategy, plan
    names = [table.name for table in plan.tables.tables]
    for name in BASELINES:
        if name == plan.strategy:
            continue
        try:
            found = run_strategy(name, plan.problem)
        except DoesNotFit as error:
            yield name, error.named(names)
            continue
        yield (
            name,
            replace(
                plan,
                placement=found.placement,
                hot_rows=_no_hot_rows,
                strategy=name,
                status=found.status,
                lower_bound_ms=found.lower_bound_ms,
                gap=found.gap,
                notes=found.notes,
                history=(),
            ),
        )


def _no_hot_rows(table: int) -> IntArray:
    raise InputError(f"table {table}: a baseline keeps tables whole, and no rows of it are known by heat")


def at_rates(plan: Plan, rates: FloatArray, batch_size: int) -> Plan:
    """Return the plan as it would run here: its costs are those at measured rates, for steps of another size.

    Args:
        rates: bytes per second of each tier, shape (k,).
        batch_size: samples per step over all devices.
    """
    problem = plan.problem
    scaled = replace(
        problem,
        batch_size=batch_size,
        accesses=problem.accesses * (batch_size / problem.batch_size),
        network_bytes=np.zeros_like(problem.network_bytes),  # nothing is sent: devices take turns in one process
        bandwidth=np.tile(rates, (problem.devices, 1)),
    )
    return replace(plan, problem=scaled)


def default_batch_size(plan: Plan, slow: list[int], reads: int) -> int:
    """Return the samples of a step in which the busiest device reads about so many rows from slow memories.

    Args:
        slow: the tiers that count as slow; where no rows of the plan are read from them, all do.
        reads: rows.
    """
    per_sample = plan.sharded.accesses[:, None] * plan.access_share / plan.problem.batch_size
    device = plan.placement.device
    busiest = float(np.bincount(device, per_sample[:, slow].sum(axis=1)).max()) if slow else 0.0
    busiest = busiest or float(np.bincount(device, per_sample.sum(axis=1)).max())
    if busiest <= 0:
        return min(plan.problem.batch_size, reads)
    return int(np.clip(round(reads / busiest), 1, plan.problem.batch_size))
