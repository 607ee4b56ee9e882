"""The MILP of the RecShard paper (ASPLOS '22): binaries choose both the device and one of 100 ICDF steps.

For every table j and every tier boundary k (the paper has one: HBM | UVM) one step s is chosen, x_jks; it gives
the rows mem_jk and the share of accesses pct_jk of the tiers up to k. Bytes and cost count on device d only if
p_dj = 1; these products are linearised with a big constant:

    minimise C
    Σ_d p_dj = 1,  Σ_s x_jks = 1
    mem_jk = Σ_s x_jks · ICDF_j(s),  pct_jk = Σ_s x_jks · s/100,  both rising with k
    m_djk ≥ mem_jk − mem_j,k−1 − M · (1 − p_dj)
    Σ_j bytes_j · m_djk ≤ capacity                                 each pool
    c_dj ≥ cost_dj(pct_j) − M · (1 − p_dj)
    C ≥ Σ_j c_dj                                         each device

It is the reference. Steps are chords of the CDF, so what it proves is about its own coarsening only.
"""

from __future__ import annotations

import numpy as np

from recshard.placement import Placement
from recshard.problem import FloatArray, PlacementProblem
from recshard.strategy.milp.model import MilpModel, Pools, assignment_columns
from recshard.strategy.milp.segments import icdf_steps
from recshard.strategy.solvers.linear import ModelBuilder

STEPS = 100


def paper_model(problem: PlacementProblem, unit_ms: float, steps: int = STEPS) -> MilpModel:
    """Return the paper's formulation, carried to any number of tiers and to unequal devices.

    Args:
        unit_ms: the unit of C.
        steps: ICDF steps.
    """
    devices, tiers, tables = problem.devices, problem.tiers, problem.tables
    builder = ModelBuilder()
    bottleneck = int(builder.columns("C", ())[()])
    on = assignment_columns(problem, builder)
    pools = Pools(problem, builder)
    size, covered = _steps(problem, steps)
    shape = (tables, tiers - 1)
    x = builder.columns("x", (*shape, steps + 1), 1.0, integer=True)
    mem, pct = builder.columns("mem", shape, 1.0), builder.columns("pct", shape, 1.0)  # in shares of the table
    builder.add(builder.rows(shape, 1.0, 1.0)[:, :, None], x, 1.0)
    for given, curve in ((mem, size), (pct, covered)):
        chosen = builder.rows(shape, 0.0, 0.0)
        builder.add(chosen[:, :, None], x, curve[:, None, :])
        builder.add(chosen, given, -1.0)
        if tiers > 2:
            rising = builder.rows((tables, tiers - 2), upper=0.0)
            builder.add(rising, given[:, :-1], 1.0)
            builder.add(rising, given[:, 1:], -1.0)
    m, c = builder.columns("m", (devices, tables, tiers)), builder.columns("c", (devices, tables))
    # m ≥ (mem_k − mem_{k−1}) − (1 − p); the slowest tier holds 1 − mem_{k−1}.
    for k in range(tiers):
        held = builder.rows((devices, tables), upper=1.0 if k < tiers - 1 else 0.0)
        if k < tiers - 1:
            builder.add(held, mem[None, :, k], 1.0)
        if k:
            builder.add(held, mem[None, :, k - 1], -1.0)
        builder.add(held, on, 1.0)
        builder.add(held, m[:, :, k], -1.0)
    pools.hold(problem.pool[:, None, :], m, problem.table_bytes[None, :, None].astype(np.float64))
    # cost = traffic · Σ_k (pct_k − pct_{k−1}) · slowness_k, pct of the slowest being 1: from the worst is taken
    # what faster tiers save, so that with p = 0 the constraint asks for nothing.
    slowness = 1e3 / problem.bandwidth / unit_ms
    paid = builder.rows((devices, tables), upper=0.0)
    worst = problem.traffic[None, :] * slowness[:, -1:] + problem.network_ms.T / unit_ms
    builder.add(paid, on, worst)
    saved = problem.traffic[None, :, None] * np.diff(slowness, axis=1)[:, None, :]
    builder.add(paid[:, :, None], pct[None, :, :], -saved)
    builder.add(paid, c, -1.0)
    load = builder.rows((devices,), upper=0.0)
    builder.add(load[:, None], c, 1.0)
    builder.add(load, bottleneck, -1.0)
    return MilpModel(builder.build({bottleneck: 1.0}), unit_ms, bottleneck, on, proves_bound=False)


def paper_values(
    problem: PlacementProblem, placement: Placement, unit_ms: float, steps: int = STEPS
) -> FloatArray:
    """Return the values that a placement gives to all columns of `paper_model` but C, which is left at 0.

    Its faster tiers are rounded down to whole steps; what they lose goes to the slower ones, whose capacity it
    may exceed.
    """
    devices, tiers, tables = problem.devices, problem.tiers, np.arange(problem.tables)
    on = np.zeros((devices, problem.tables))
    on[placement.device, tables] = 1.0
    size, covered = _steps(problem, steps)
    reach = np.cumsum(placement.rows, axis=1)[:, :-1] / problem.rows[:, None]
    step = (size[:, None, :] <= reach[:, :, None] * (1 + 1e-12)).sum(axis=2) - 1
    x = np.zeros((problem.tables, tiers - 1, steps + 1))
    x[tables[:, None], np.arange(tiers - 1)[None, :], step] = 1.0
    mem, pct = np.take_along_axis(size, step, axis=1), np.take_along_axis(covered, step, axis=1)
    edge = np.ones((problem.tables, 1))
    m = on[:, :, None] * np.diff(np.concatenate([0 * edge, mem, edge], axis=1), axis=1)
    slowness = 1e3 / problem.bandwidth[placement.device] / unit_ms
    cost = problem.traffic * (slowness[:, -1] - (pct * np.diff(slowness, axis=1)).sum(axis=1))
    cost = cost + problem.network_ms[tables, placement.device] / unit_ms
    parts = [np.zeros(1), on, x, mem, pct, m, on * cost]
    return np.concatenate([part.ravel() for part in parts])


def _steps(problem: PlacementProblem, steps: int) -> tuple[FloatArray, FloatArray]:
    """Return shares of rows and of accesses up to each ICDF step of each table, both of shape (t, steps + 1)."""
    curves = [icdf_steps(problem, j, steps) for j in range(problem.tables)]
    size = np.array([rows for rows, _ in curves]) / problem.rows[:, None]
    return size, np.array([covered for _, covered in curves])
