"""TorchRec's planner takes the caches from a profile, and RecShardPlanner plans in its place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torchrec", reason="TorchRec is not installed")

import torch
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.proposers import EmbeddingOffloadScaleupProposer
from torchrec.distributed.planner.storage_reservations import FixedPercentageStorageReservation

from recshard import topology as recshard_topology
from recshard.errors import InputError
from recshard.export.torchrec import (
    PartsEmbeddingBagCollection,
    RecShardPlanner,
    constraints,
    layout_of,
    sharding_plan,
)
from recshard.problem import build_problem
from recshard.profile import Profile
from recshard.profile.build import profile_trace
from recshard.shards import SplitRules
from recshard.strategy.run import StrategyOptions
from recshard.tables import EmbeddingTable, TableSet
from tests.plans import cut_case
from tests.traces import MemoryTrace

ROWS, DIM, BATCH = 2_000, 32, 64
MODEL_BYTES = 3 * ROWS * (DIM * 4 + 4)
SHARDERS = [EmbeddingBagCollectionSharder()]


@pytest.fixture(scope="module")
def profile() -> Profile:
    """Three tables of one size: lookups of one row above all, skewed ones, and even ones."""
    rng = np.random.default_rng(0)
    draw = {"narrow": rng.zipf(3.0, 4_000), "skewed": rng.zipf(1.3, 4_000), "even": rng.integers(0, ROWS, 4_000)}
    tables = tuple(
        EmbeddingTable(name, ROWS, DIM, features=(name,), optimizer="rowwise_adagrad", ids="rows") for name in draw
    )
    trace = MemoryTrace({name: [[int(row) % ROWS] for row in rows] for name, rows in draw.items()})
    return profile_trace(trace, TableSet(tables, BATCH))


def collection(tables: TableSet) -> EmbeddingBagCollection:
    configs = [
        EmbeddingBagConfig(name=t.name, num_embeddings=t.rows, embedding_dim=t.dim, feature_names=list(t.features))
        for t in tables.tables
    ]
    return EmbeddingBagCollection(tables=configs, device=torch.device("meta"))


def topology(devices: int, share: float) -> recshard_topology.Topology:
    tier = recshard_topology.Tier
    tiers = (tier("hbm", None, 1e12, share), tier("uvm", 1e9, 1e10))
    return recshard_topology.Topology((recshard_topology.Group(1, devices, tiers),), name="small")


def test_torchrecs_planner_sizes_its_caches_by_the_profile(profile: Profile) -> None:
    # HBM for 84% of the weights: not all three tables go in whole.
    machine = Topology(world_size=1, compute_device="cuda", hbm_cap=MODEL_BYTES // 3 + 400_000, ddr_cap=10**9)
    planner = EmbeddingShardingPlanner(
        topology=machine,
        batch_size=BATCH,
        constraints=constraints(profile, load_factor=0.05),
        proposer=EmbeddingOffloadScaleupProposer(),
        storage_reservation=FixedPercentageStorageReservation(percentage=0),
    )
    sharding = planner.plan(collection(profile.tables), SHARDERS).plan[""]
    assert set(sharding) == {"narrow", "skewed", "even"}
    held = {
        name: 1.0 if each.compute_kernel == "fused" else each.cache_params.load_factor
        for name, each in sharding.items()
    }
    # What it scales up for is what misses: least where one row has nearly all lookups.
    assert 0.05 <= held["narrow"] < min(held["skewed"], held["even"])


@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 0.7, 1.0])
def test_a_miss_rate_is_that_of_a_steps_distinct_rows(profile: Profile, share: float) -> None:
    for j, table in enumerate(profile.tables.tables):
        statistics = constraints(profile)[table.name].cache_params.stats
        problem = build_problem(profile, topology(1, 1.0))
        mine = slice(problem.class_start[j], problem.class_start[j + 1])
        p = np.repeat(problem.class_share[mine], problem.class_rows[mine])
        met = 1 - (1 - p) ** problem.accesses[j]
        held = round(share * ROWS)
        assert statistics.expected_lookups == pytest.approx(met.sum())
        assert statistics.expected_miss_rate(held / ROWS) == pytest.approx(met[held:].sum() / met.sum(), abs=1e-9)


def test_the_drop_in_plans_whole_tables_where_the_plan_has_them(profile: Profile) -> None:
    planner = RecShardPlanner(profile, topology(2, 0.3), device_type="cuda")
    sharding = planner.plan(torch.nn.ModuleDict({"sparse": collection(profile.tables)}), SHARDERS).plan["sparse"]
    plan = planner.recshard_plan
    kernels = set()
    for j, table in enumerate(profile.tables.tables):
        (s,) = plan.shards_of(j)
        found, share = sharding[table.name], plan.placement.rows[s, 0] / table.rows
        assert found.ranks == [plan.placement.device[s]]
        kernels.add(found.compute_kernel)
        if 0 < share < 1:
            assert found.compute_kernel == "fused_uvm_caching"
            assert found.cache_params.load_factor == pytest.approx(share)
        else:
            assert found.compute_kernel == ("fused" if share else "fused_uvm")
    assert "fused_uvm_caching" in kernels


def test_the_drop_in_shards_parts_as_their_own_plan_says() -> None:
    case = cut_case(np.random.default_rng(1), "row", devices=2)
    plan = replace(case.plan, tier_names=("hbm", "dram", "uvm"))
    model = torch.nn.Sequential(PartsEmbeddingBagCollection(plan, device=torch.device("meta")))
    sharding = RecShardPlanner(case.profile, topology(2, 0.5), device_type="cpu").plan(model, SHARDERS)
    found = sharding.plan["0.parts"]
    assert {name: each.ranks for name, each in found.items()} == {
        part.name: [part.device] for part in model[0].layout.parts
    }
    assert {each.compute_kernel for each in found.values()} == {"fused"}


def test_a_model_of_other_tables_is_named_by_what_differs(profile: Profile) -> None:
    tables = profile.tables.tables
    other = TableSet((tables[0], replace(tables[1], rows=ROWS + 1), replace(tables[2], name="odd")), BATCH)
    with pytest.raises(
        InputError,
        match=r"no table 'even'; table 'odd' is unknown to the plan; table 'skewed' has shape \(2001, 32\)",
    ):
        RecShardPlanner(profile, topology(2, 0.3)).plan(collection(other), SHARDERS)


def test_tables_of_several_modules_are_planned_together_and_without_sharders_given(profile: Profile) -> None:
    first, *others = profile.tables.tables
    parts = {"first": collection(TableSet((first,), BATCH)), "others": collection(TableSet(tuple(others), BATCH))}
    model = torch.nn.ModuleDict({"dense": torch.nn.Linear(2, 2), "sparse": torch.nn.ModuleDict(parts)})
    planner = RecShardPlanner(profile, topology(2, 0.3), device_type="cuda")
    found = planner.plan(model).plan
    together = planner.plan(collection(profile.tables), SHARDERS).plan[""]
    assert found.keys() == {"sparse.first", "sparse.others"}
    assert {name: each for module in found.values() for name, each in module.items()} == dict(together)


def test_parts_of_a_sharding_plan_stand_on_the_devices_of_their_nodes() -> None:
    plan = cut_case(np.random.default_rng(1), "row", devices=4).plan
    (found,) = sharding_plan(plan, device_type="cuda", devices_per_node=2).plan.values()
    for part in layout_of(plan).parts:
        (shard,) = found[part.name].sharding_spec.shards
        assert str(shard.placement) == f"rank:{part.device}/cuda:{part.device % 2}"
    with pytest.raises(InputError, match="devices_per_node: found 0; accepted: 1 or more"):
        sharding_plan(plan, devices_per_node=0)


def test_a_model_with_nothing_to_shard_is_named_as_such(profile: Profile) -> None:
    planner = RecShardPlanner(profile, topology(2, 0.3))
    with pytest.raises(InputError, match="found no module that its sharders shard"):
        planner.plan(torch.nn.Linear(2, 2), SHARDERS)
    with pytest.raises(InputError, match="found no module that its sharders shard"):
        planner.plan(collection(profile.tables), [])


def test_a_collective_plan_without_processes_is_refused(profile: Profile) -> None:
    with pytest.raises(InputError, match="found no processes to plan for; call torch"):
        RecShardPlanner(profile, topology(2, 0.3)).collective_plan(collection(profile.tables), SHARDERS)


def test_whole_tables_cannot_be_cut_by_the_heat_of_their_rows(profile: Profile) -> None:
    options = StrategyOptions(time_limit=1.0, rules=SplitRules("row"))
    planner = RecShardPlanner(profile, topology(4, 0.3), options=options)
    assert planner.recshard_plan.tables_cut
    with pytest.raises(InputError, match=r"cut by rows of equal heat.*--split column"):
        planner.plan(collection(profile.tables), SHARDERS)
