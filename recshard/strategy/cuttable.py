"""Whether tables fit once they may be cut, by which rules, and if not, why."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from recshard.problem import PlacementProblem
from recshard.shards import Shards, SplitRules, cut, cut_evenly, most_shards, wider
from recshard.strategy.feasible import explain
from recshard.strategy.infeasible import Infeasible, Remedy
from recshard.strategy.packing import find_packing

_SMALL = 8  # shards of this share of the least device's reach pack as well as any
_SECONDS = 1.0


def finely_cut(problem: PlacementProblem, rules: SplitRules) -> Shards:
    """Return shards as fine as memory could ask for, as far as `rules` allow them."""
    reach = np.array([problem.pool_capacity[np.unique(pools)].sum() for pools in problem.pool])
    least = max(float(reach[reach > 0].min(initial=np.inf)) / _SMALL, 1.0)
    wanted = np.minimum(np.ceil(problem.table_bytes / least), problem.devices)
    count = np.clip(wanted, 1, most_shards(problem, rules)).astype(np.int64)
    return cut_evenly(problem, count, rules.kind)


def explain_cut(problem: PlacementProblem, rules: SplitRules) -> Infeasible | None:
    """Return why nothing fits although tables may be cut, or None where something does.

    Proven is that all memories together are too small, and that a shard is too large for every device even where
    its table is cut as finely as the rules allow. That some shards cannot stand together proves nothing, since
    other cuts might: `unknown`. Tables of the explanation are shards (`finely_cut`).
    """
    shards = finely_cut(problem, rules)
    found = explain(cut(problem, shards))
    if found is None or explain(problem) is None:
        return None
    proven = found.kind == "one table" or problem.table_bytes.sum() > problem.pool_capacity.sum()
    remedies = [replace(remedy, at_least=0) for remedy in found.remedies if remedy.change == "capacity"]
    if not proven:
        return replace(found, kind="unknown", tables=(), table_bytes=(), minimal=False, remedies=tuple(remedies))
    return replace(found, remedies=(*remedies, *cutting(problem, rules)))


def cutting(problem: PlacementProblem, rules: SplitRules) -> tuple[Remedy, ...]:
    """Return the first rules beyond `rules` under which a division was found, as a remedy; none: no remedy."""
    if problem.devices == 1 or problem.table_bytes.sum() > problem.pool_capacity.sum():
        return ()
    for allowed in wider(rules):
        if find_packing(cut(problem, finely_cut(problem, allowed)), _SECONDS) is not None:
            return (Remedy("split", 0, rules=allowed.options),)
    return ()
