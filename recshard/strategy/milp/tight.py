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

import pulp

from recshard.problem import PlacementProblem
from recshard.strategy.milp.model import MilpModel, add_constraint, add_pools, assignment_variables
from recshard.strategy.milp.segments import segments


def tight_model(problem: PlacementProblem, unit_ms: float, variables: int) -> MilpModel:
    """Return the tight formulation.

    Args:
        unit_ms: the unit of C; a bound makes a good one, for C is then close to 1.
        variables: continuous variables to aim for; tables with more frequency classes than this allows are
            approximated from above (`segments`), which keeps the model's bound valid.
    """
    tables, devices, tiers = problem.tables, problem.devices, problem.tiers
    model = pulp.LpProblem("tight", pulp.LpMinimize)
    bottleneck = model.add_variable("C", lowBound=0)
    model.setObjective(pulp.LpAffineExpression({bottleneck: 1.0}))
    on = assignment_variables(problem, model)
    most = max(4, variables // (tables * devices * max(1, tiers - 1)))
    slowness = 1e3 / problem.bandwidth / unit_ms
    load: list[dict[pulp.LpVariable, float]] = [{bottleneck: -1.0} for _ in range(devices)]
    held: list[dict[pulp.LpVariable, float]] = [{} for _ in problem.pool_capacity]
    for j in range(tables):
        rows, share = segments(problem, j, most)
        size = rows * problem.row_bytes[j]
        traffic = rows * share * problem.traffic[j]
        for d in range(devices):
            p = on[d][j]
            load[d][p] = float(problem.traffic[j] * slowness[d, -1] + problem.network_ms[j, d] / unit_ms)
            slowest = held[problem.pool[d, -1]]
            slowest[p] = slowest.get(p, 0.0) + float(size.sum())
            if tiers == 1:
                continue
            for s in range(len(rows)):
                parts = {}
                for k in range(tiers - 1):
                    y = model.add_variable(f"y_{d}_{j}_{k}_{s}", lowBound=0)
                    parts[y] = 1.0
                    load[d][y] = float(traffic[s] * (slowness[d, k] - slowness[d, -1]))
                    held[problem.pool[d, k]][y] = float(size[s])
                    slowest[y] = -float(size[s])
                parts[p] = -1.0
                add_constraint(model, parts, pulp.LpConstraintLE, 0.0)
    for d in range(devices):
        add_constraint(model, load[d], pulp.LpConstraintLE, 0.0)
    add_pools(problem, model, held)
    return MilpModel(model, bottleneck, on, proves_bound=True)
