"""The slow, sure way: every assignment, each split by plain Python."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from recshard.problem import PlacementProblem
from recshard.shards import Shards, SplitRules, cut, most_shards


def device_cost(problem: PlacementProblem, tables: list[int], capacity: list[float], d: int) -> float:
    """Return the least cost of tables on device `d` if rows could be cut; infinite where they do not fit.

    Rows are put one class at a time into the fastest memory left, densest first.
    """
    entries = []
    for j in tables:
        for c in range(problem.class_start[j], problem.class_start[j + 1]):
            size = float(problem.class_rows[c] * problem.row_bytes[j])
            traffic = float(
                problem.accesses[j] * problem.access_bytes[j] * problem.class_rows[c] * problem.class_share[c]
            )
            entries.append((traffic / size, size))
    entries.sort(reverse=True)
    left = list(capacity)
    cost = sum(float(problem.network_bytes[j] / problem.network_bandwidth[d]) for j in tables)
    for density, size in entries:
        for k in range(len(left)):
            part = min(left[k], size)
            left[k] -= part
            size -= part
            cost += density * part / problem.bandwidth[d, k]
        if size > 1e-6:
            return np.inf
    return 1e3 * cost


def best_bottleneck(problem: PlacementProblem) -> float:
    """Return the least bottleneck over all assignments, for memories that devices do not share."""
    best = np.inf
    for device in itertools.product(range(problem.devices), repeat=problem.tables):
        worst = 0.0
        for d in range(problem.devices):
            capacity = list(problem.pool_capacity[problem.pool[d]])
            mine = [j for j in range(problem.tables) if device[j] == d]
            worst = max(worst, device_cost(problem, mine, capacity, d))
            if worst >= best:
                break
        best = min(best, worst)
    return best


def best_bottleneck_shared(problem: PlacementProblem) -> float:
    """Return the least bottleneck over all assignments by one linear programme each, pools shared or not."""
    from scipy.optimize import linprog

    best = np.inf
    for device in itertools.product(range(problem.devices), repeat=problem.tables):
        classes, tiers = len(problem.class_rows), problem.tiers
        width = 1 + classes * tiers
        objective = np.zeros(width)
        objective[0] = 1
        upper = np.zeros((problem.devices + len(problem.pool_capacity), width))
        limit = np.concatenate([np.zeros(problem.devices), problem.pool_capacity])
        equal = np.zeros((classes, width))
        upper[: problem.devices, 0] = -1
        for c in range(classes):
            j = int(np.searchsorted(problem.class_start, c, side="right")) - 1
            d = device[j]
            size = float(problem.class_rows[c] * problem.row_bytes[j])
            traffic = (
                problem.accesses[j] * problem.access_bytes[j] * problem.class_rows[c] * problem.class_share[c]
            )
            for k in range(tiers):
                variable = 1 + c * tiers + k
                equal[c, variable] = 1
                upper[d, variable] = 1e3 * traffic / problem.bandwidth[d, k]
                upper[problem.devices + problem.pool[d, k], variable] += size
        for j, d in enumerate(device):
            limit[d] -= 1e3 * problem.network_bytes[j] / problem.network_bandwidth[d]
        result = linprog(objective, upper, limit, equal, np.ones(classes), bounds=(0, None), method="highs")
        if result.status == 0:
            best = min(best, float(result.fun))
    return best


def cuts(problem: PlacementProblem, rules: SplitRules) -> Iterator[Shards]:
    """Yield every way to cut the tables: column shards of any widths in whole vectors, row shards dealt out."""
    choices = []
    for j, most in enumerate(most_shards(problem, rules)):
        dim, mine = int(problem.dim[j]), [[(0, int(problem.dim[j]), 0, 1)]]
        for n in range(2, min(int(most), problem.devices) + 1):
            if rules.kind == "row":
                mine.append([(0, dim, i, n) for i in range(n)])
            else:
                for inner in itertools.combinations(range(4, dim, 4), n - 1):
                    edge = [0, *inner, dim]
                    mine.append([(a, b - a, 0, 1) for a, b in itertools.pairwise(edge)])
        choices.append(mine)
    for chosen in itertools.product(*choices):
        pieces = [(j, *piece) for j, mine in enumerate(chosen) for piece in mine]
        yield Shards(*(np.array(column, dtype=np.int64) for column in zip(*pieces, strict=True)))


def best_bottleneck_cut(problem: PlacementProblem, rules: SplitRules) -> float:
    """Return the least bottleneck over all ways to cut the tables and to assign the shards."""
    return min(best_bottleneck(cut(problem, shards)) for shards in cuts(problem, rules))
