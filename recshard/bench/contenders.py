"""Contenders: the plan, and what it is to beat on the same model and the same machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from recshard.errors import DoesNotFit, InputError
from recshard.plan.plan import Plan
from recshard.problem import FloatArray, IntArray
from recshard.strategy.run import BASELINES, run_strategy

_ROWS_AN_ACCESS = 8  # rows of slow memory for each access of a step, at least, in steps of the default size
_LEAST_READS = 64


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


def default_batch_size(plan: Plan, slow: Sequence[int], reads: int) -> int:
    """Return the samples of a step in which the busiest device makes about so many accesses to slow memories.

    Where it has few rows there it makes fewer: a step that asks for every row several times reads each only once,
    and says little about the accesses that plans are made by.

    Args:
        slow: the tiers that count as slow; where no rows of the plan are read from them, all do.
        reads: accesses.
    """
    device, tiers = plan.placement.device, list(slow)
    per_sample = plan.sharded.accesses[:, None] * plan.access_share / plan.problem.batch_size
    busy = np.bincount(device, per_sample[:, tiers].sum(axis=1))
    if busy.max() <= 0:
        tiers = list(range(plan.problem.tiers))
        busy = np.bincount(device, per_sample.sum(axis=1))
    busiest = int(np.argmax(busy))
    rows = int(plan.placement.rows[device == busiest][:, tiers].sum())
    wanted = min(reads, max(rows // _ROWS_AN_ACCESS, _LEAST_READS))
    return int(np.clip(round(wanted / max(busy[busiest], 1e-9)), 1, plan.problem.batch_size))
