"""The tight MILP: only the device of a table is binary.

The access CDF is concave, so segments fill in the right order by themselves and no binary chooses a step
(design.md). With p_dj the device of table j and y_djks the part of segment s of table j that stands in tier k of
device d, all tiers but the slowest, which takes the rest:

    minimise C
    Σ_d p_dj = 1                                         every table on one device
    Σ_k y_djks ≤ p_dj,  y ≥ 0                            rows only where the table is
    Σ bytes_js · y_djks ≤ capacity                       each faster pool
    Σ bytes_j · p_dj − Σ bytes_js · y_djks ≤ capacity    each pool of the slowest tier
    C ≥ Σ_j p_dj · cost_dj(slowest) − Σ saving_djks · y_djks    each device
"""

from __future__ import annotations

import numpy as np

from recshard.placement import Placement
from recshard.problem import FloatArray, PlacementProblem
from recshard.strategy.milp.model import MilpModel, Pools, assignment_columns
from recshard.strategy.milp.segments import all_segments
from recshard.strategy.solvers.linear import ModelBuilder


def tight_model(
    problem: PlacementProblem, unit_ms: float, variables: int, near: FloatArray | None = None
) -> MilpModel:
    """Return the tight formulation.

    Args:
        unit_ms: the unit of C; a bound makes a good one, for C is then close to 1.
        variables: continuous variables to aim for; tables with more frequency classes than this allows are
            approximated from above (`segments`), which keeps the model's bound valid.
        near: densities near which they are exact (`segments`).
    """
    devices, tiers = problem.devices, problem.tiers
    builder = ModelBuilder()
    bottleneck = int(builder.columns("C", ())[()])
    on = assignment_columns(problem, builder)
    pools = Pools(problem, builder)
    slowness = 1e3 / problem.bandwidth / unit_ms  # units of C per byte of traffic
    load = builder.rows((devices,), upper=0.0)
    builder.add(load, bottleneck, -1.0)
    worst = problem.traffic[None, :] * slowness[:, -1:] + problem.network_ms.T / unit_ms
    builder.add(load[:, None], on, worst)
    table, rows, share = all_segments(problem, _most(problem, variables), near)
    size = rows * problem.row_bytes[table]
    pools.hold(problem.pool[:, -1:], on, problem.table_bytes[None, :].astype(np.float64))
    if tiers > 1:
        y = builder.columns("y", (devices, tiers - 1, len(table)))
        inside = builder.rows((devices, 1, len(table)), upper=0.0)
        builder.add(inside, y, 1.0)
        builder.add(inside[:, 0], on[:, table], -1.0)
        saving = (slowness[:, -1:] - slowness[:, :-1])[:, :, None] * (rows * share * problem.traffic[table])
        builder.add(load[:, None, None], y, -saving)
        pools.hold(problem.pool[:, :-1, None], y, size[None, None, :])
        pools.hold(problem.pool[:, -1:, None], y, -size[None, None, :])
    return MilpModel(builder.build({bottleneck: 1.0}), unit_ms, bottleneck, on, proves_bound=True)


def tight_values(
    problem: PlacementProblem, placement: Placement, variables: int, near: FloatArray | None = None
) -> FloatArray:
    """Return the values that a placement gives to all columns of `tight_model` but C, which is left at 0."""
    devices, tiers, tables = problem.devices, problem.tiers, np.arange(problem.tables)
    on = np.zeros((devices, problem.tables))
    on[placement.device, tables] = 1.0
    if tiers == 1:
        return np.concatenate([[0.0], on.ravel()])
    table, rows, _ = all_segments(problem, _most(problem, variables), near)
    # A segment and a tier are both stretches of the table's rows, hottest first: where they overlap.
    end = np.cumsum(rows)
    begin = end - rows
    first = begin[np.searchsorted(table, tables)][table]
    begin, end = begin - first, end - first
    bound = np.concatenate([np.zeros((problem.tables, 1)), np.cumsum(placement.rows, axis=1)], axis=1)[table].T
    overlap = np.minimum(end, bound[1:-1]) - np.maximum(begin, bound[:-2])
    y = np.zeros((devices, tiers - 1, len(table)))
    part = np.clip(overlap, 0.0, rows) / np.where(rows > 0, rows, 1.0)
    y[placement.device[table], :, np.arange(len(table))] = part.T
    return np.concatenate([[0.0], on.ravel(), y.ravel()])


def _most(problem: PlacementProblem, variables: int) -> int:
    """Return how many segments a table may have for the model to have about `variables` of them."""
    return max(4, variables // (problem.tables * problem.devices * max(1, problem.tiers - 1)))
