"""What TorchRec's own planner is told of a model's tables: constraints with caches that answer from a profile."""

from __future__ import annotations

from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.distributed.types import CacheParams, CacheStatistics

from recshard.errors import InputError
from recshard.export.torchrec.curve import CacheCurve, cache_curves
from recshard.export.torchrec.layout import UVM_CACHING, Layout, layout_of
from recshard.plan.plan import Plan
from recshard.problem import Workload, build_problem
from recshard.profile.profile import Profile
from recshard.tables import EmbeddingTable
from recshard.topology import Group, Tier, Topology

_ANYWHERE = Topology((Group(1, 1, (Tier("hbm", 1e30, 1.0),)),))  # statistics do not depend on the hardware


class ProfileCacheStatistics(CacheStatistics):
    """Answers from a table's frequency classes; rows not seen have the shares that the problem gives them.

    TorchRec multiplies the miss rate with the lookups and takes the product for rows fetched a step; it counts
    every row once a step, as FBGEMM's cache does. So the miss rate is that of distinct rows, not of accesses.
    """

    def __init__(self, curve: CacheCurve) -> None:
        """Answer from a curve."""
        self.curve = curve

    @property
    def expected_lookups(self) -> float:
        """Distinct rows expected in a step's batch over all devices."""
        return self.curve.lookups

    def expected_miss_rate(self, clf: float) -> float:
        """Return the share of a step's distinct rows outside a cache of the hottest rows, `clf` of them all."""
        return self.curve.expected_miss_rate(clf)

    @property
    def cacheability(self) -> float:
        """0 where one row has all accesses, 1 where all rows have equally many."""
        return self.curve.cacheability


def constraints(
    source: Profile | Plan | Layout,
    *,
    workload: Workload | None = None,
    load_factor: float = 0.1,
    kernels: tuple[str, ...] = (UVM_CACHING,),
) -> dict[str, ParameterConstraints]:
    """Return constraints for the whole tables of an `EmbeddingBagCollection`, by table name.

    They go with TorchRec's `EmbeddingShardingPlanner` and its `EmbeddingOffloadScaleupProposer`, which starts from
    caches of `load_factor` and moves HBM to where it saves most, whole tables included.

    Args:
        source: a profile; or a plan or its layout, which have the statistics of theirs.
        workload: of a profile; a plan has its own.
        load_factor: the share of rows that a cache holds at first.
        kernels: TorchRec's compute kernels that the planner may choose from.

    Raises:
        InputError: a load factor that is not a share above zero.
    """
    if not 0 < load_factor <= 1:
        raise InputError(f"load factor: found {load_factor}; accepted: above 0, at most 1")
    found = {}
    for table, curve, pooling in _statistics(source, workload):
        cache = CacheParams(load_factor=load_factor, stats=ProfileCacheStatistics(curve))
        found[table.name] = ParameterConstraints(
            compute_kernels=list(kernels), pooling_factors=pooling, cache_params=cache
        )
    return found


def _statistics(
    source: Profile | Plan | Layout, workload: Workload | None
) -> list[tuple[EmbeddingTable, CacheCurve, list[float]]]:
    """Return every table with its curve, and how many IDs a sample has of each of its features."""
    if isinstance(source, Profile):
        curves = cache_curves(build_problem(source, _ANYWHERE, workload))
        per_feature = {f.name: f.lookups / f.samples if f.samples else 0.0 for f in source.features}
        tables = source.tables.tables
        pooling = [[per_feature[name] for name in table.features] for table in tables]
    else:
        layout = layout_of(source)
        curves, tables = layout.curves, layout.tables
        # Of a table's accesses a plan does not know which are of which feature.
        pooling = [
            [each / len(table.features)] * len(table.features)
            for table, each in zip(tables, layout.lookups_per_sample, strict=True)
        ]
    return list(zip(tables, curves, pooling, strict=True))
