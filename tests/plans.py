"""Plans whose tables are cut into shards, made by hand from random traces."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from recshard.placement import Placement, bottleneck_ms, check_placement
from recshard.plan import Plan, make_plan
from recshard.problem import Workload
from recshard.profile import Profile
from recshard.profile.build import profile_trace
from recshard.shards import Shards, SplitRules, cut, cut_evenly, most_shards
from recshard.strategy.result import split_exactly
from recshard.strategy.stop import relative_gap
from recshard.tables import EmbeddingTable, TableSet
from recshard.topology import Group, Tier, Topology
from tests.traces import MemoryTrace

Kind = Literal["none", "column", "row", "both"]
SIZES = {"a": 40, "b": 25, "c": 60, "d": 7}
_TIERS = (Tier("hbm", None, 1e9, 0.2), Tier("dram", None, 1e8, 0.3), Tier("uvm", 1e6, 1e7))


@dataclass(frozen=True)
class Cut:
    """A plan with what it was made from."""

    plan: Plan
    profile: Profile
    trace: MemoryTrace


def cut_case(
    rng: np.random.Generator, kind: Kind, *, network: bool = False, unseen: bool = False, devices: int = 3
) -> Cut:
    """Return a valid plan of a random trace, its tables cut at random and dealt out at random; `both`: some by
    columns, some by rows.
    """
    dims = {"a": 8, "b": 16, "c": 24, "d": 8}
    tables = tuple(
        EmbeddingTable(
            name, size, dims[name], features=(name,), ids="hash" if name == "c" else "rows",
            optimizer="adam" if name == "b" else "rowwise_adagrad",
        )
        for name, size in SIZES.items()
    )  # fmt: skip
    trace = random_trace(rng)
    profile = profile_trace(trace, TableSet(tables, 32))
    topology = Topology((Group(1, devices, _TIERS),), network_bandwidth=1e8 if network else None)
    plan = make_plan(profile, topology, "size", workload=Workload(unseen=unseen))
    shards = random_shards(rng, plan, kind)
    placed = split_exactly(cut(plan.problem, shards), rng.integers(0, devices, len(shards)))
    assert placed is not None
    placement = Placement(placed.device, placed.rows, shards)
    check_placement(plan.problem, placement)
    gap = relative_gap(bottleneck_ms(plan.problem, placement), plan.lower_bound_ms)
    return Cut(replace(plan, placement=placement, gap=gap), profile, trace)


def random_trace(rng: np.random.Generator) -> MemoryTrace:
    """Return sixty samples of the tables' features; those of `c` are raw IDs, to be hashed."""
    draw = {
        name: [(rng.zipf(1.3, rng.integers(0, 5)) % (10**9 if name == "c" else size)).tolist() for _ in range(60)]
        for name, size in SIZES.items()
    }
    return MemoryTrace(draw)


def random_shards(rng: np.random.Generator, plan: Plan, kind: Kind) -> Shards:
    """Return up to five shards of every table."""
    rules = {k: SplitRules(k, min_dim=4, max_shards=5) for k in ("none", "column", "row")}
    first, second = {"both": ("column", "row")}.get(kind, (kind, kind))
    pieces = []
    for j in range(plan.problem.tables):
        chosen = rules[first if j % 2 else second]
        count = np.ones(plan.problem.tables, dtype=np.int64)
        count[j] = rng.integers(1, most_shards(plan.problem, chosen)[j] + 1)
        shards = cut_evenly(plan.problem, count, chosen.kind)
        mine = shards.table == j
        pieces.append([getattr(shards, f)[mine] for f in ("table", "first_column", "columns", "part", "parts")])
    return Shards(*(np.concatenate(field) for field in zip(*pieces, strict=True)))


def homes(plan: Plan, table: int) -> list[dict[int, tuple[int, int]]]:
    """Return for every shard of a table where each of its rows stands, as row → (tier, slot), in plain Python."""
    hot = plan.hot_rows(table).tolist()
    order = hot + [row for row in range(plan.tables.tables[table].rows) if row not in set(hot)]
    found = []
    for s in range(len(plan.shards)):
        if plan.shards.table[s] == table:
            own = [row for rank, row in enumerate(order) if rank % plan.shards.parts[s] == plan.shards.part[s]]
            places = [(k, slot) for k, n in enumerate(plan.placement.rows[s].tolist()) for slot in range(n)]
            found.append(dict(zip(own, places, strict=True)))
    return found
