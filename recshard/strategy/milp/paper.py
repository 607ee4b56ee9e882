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

import pulp

from recshard.problem import PlacementProblem
from recshard.strategy.milp.model import MilpModel, add_constraint, add_pools, assignment_variables
from recshard.strategy.milp.segments import icdf_steps

STEPS = 100


def paper_model(problem: PlacementProblem, unit_ms: float, steps: int = STEPS) -> MilpModel:
    """Return the paper's formulation, carried to any number of tiers and to unequal devices.

    Args:
        unit_ms: the unit of C.
        steps: ICDF steps.
    """
    model = pulp.LpProblem("paper", pulp.LpMinimize)
    bottleneck = model.add_variable("C", lowBound=0)
    model.setObjective(pulp.LpAffineExpression({bottleneck: 1.0}))
    on = assignment_variables(problem, model)
    slowness = 1e3 / problem.bandwidth / unit_ms
    load: list[dict[pulp.LpVariable, float]] = [{bottleneck: -1.0} for _ in range(problem.devices)]
    held: list[dict[pulp.LpVariable, float]] = [{} for _ in problem.pool_capacity]
    for j in range(problem.tables):
        size, share = _cumulative(problem, model, j, steps)
        for d in range(problem.devices):
            p = on[d][j]
            traffic = float(problem.traffic[j])
            # cost = traffic · Σ_k (pct_k − pct_{k−1}) · slowness_k, pct of the slowest being 1.
            worst = traffic * float(slowness[d, -1])
            cost = {p: worst + float(problem.network_ms[j, d] / unit_ms)}
            for k, terms in enumerate(share):
                step = traffic * float(slowness[d, k] - slowness[d, k + 1])
                for variable, value in terms.items():
                    cost[variable] = cost.get(variable, 0.0) + step * value
            c = model.add_variable(f"c_{d}_{j}", lowBound=0)
            load[d][c] = 1.0
            # The steps take from the worst what faster tiers save: with p = 0 the constraint asks for nothing.
            cost[c] = -1.0
            add_constraint(model, cost, pulp.LpConstraintLE, 0.0)
            _hold(problem, model, held, j, d, p, size)
    for terms in load:
        add_constraint(model, terms, pulp.LpConstraintLE, 0.0)
    add_pools(problem, model, held)
    return MilpModel(model, bottleneck, on, proves_bound=False)


Terms = dict[pulp.LpVariable, float]


def _cumulative(
    problem: PlacementProblem, model: pulp.LpProblem, j: int, steps: int
) -> tuple[list[Terms], list[Terms]]:
    """Add the choice of a step for every tier boundary; return shares of rows and accesses up to each."""
    rows, covered = icdf_steps(problem, j, steps)
    size = rows / float(problem.rows[j])
    sizes: list[Terms] = []
    shares: list[Terms] = []
    for k in range(problem.tiers - 1):
        x = [model.add_variable(f"x_{j}_{k}_{s}", cat=pulp.LpBinary) for s in range(steps + 1)]
        add_constraint(model, dict.fromkeys(x, 1.0), pulp.LpConstraintEQ, 1.0)
        sizes.append({x[s]: float(size[s]) for s in range(steps + 1)})
        shares.append({x[s]: float(covered[s]) for s in range(steps + 1)})
        if k:
            add_constraint(model, _minus(sizes[k - 1], sizes[k]), pulp.LpConstraintLE, 0.0)
            add_constraint(model, _minus(shares[k - 1], shares[k]), pulp.LpConstraintLE, 0.0)
    return sizes, shares


def _hold(
    problem: PlacementProblem,
    model: pulp.LpProblem,
    held: list[Terms],
    j: int,
    d: int,
    p: pulp.LpVariable,
    size: list[Terms],
) -> None:
    """Add the bytes of table j in each tier of device d to the pools, where it stands there."""
    for k in range(problem.tiers):
        m = model.add_variable(f"m_{d}_{j}_{k}", lowBound=0)
        pool = held[problem.pool[d, k]]
        pool[m] = float(problem.table_bytes[j])
        # In shares of the table: m ≥ (size_k − size_{k−1}) − (1 − p); the slowest tier holds 1 − size_{k−1}.
        upper: Terms = dict(size[k]) if k < problem.tiers - 1 else {}
        terms = _minus(upper, size[k - 1]) if k else upper
        terms[m] = -1.0
        terms[p] = 1.0
        limit = 1.0 if k < problem.tiers - 1 else 0.0
        add_constraint(model, terms, pulp.LpConstraintLE, limit)


def _minus(left: Terms, right: Terms) -> Terms:
    result = dict(left)
    for variable, value in right.items():
        result[variable] = result.get(variable, 0.0) - value
    return result
