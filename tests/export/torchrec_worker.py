"""One of two processes that train a model under TorchRec's `DistributedModelParallel`, over gloo.

Run as `python -m tests.export.torchrec_worker RANK FOLDER CASE…`; what it has at the end of each case goes
to `FOLDER/CASE.RANK.safetensors`.
"""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from safetensors.torch import save_file
from torch import nn
from torch.distributed.optim import _apply_optimizer_in_backward as apply_optimizer_in_backward
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor, PoolingType
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.optim import RowWiseAdagrad

from recshard.errors import InputError
from recshard.export.torchrec import PartsEmbeddingBagCollection, RecShardPlanner, sharding_plan
from recshard.plan import Plan
from recshard.shards import SplitRules
from recshard.strategy.run import StrategyOptions
from recshard.tables import TableSet
from recshard.topology import Group, Tier, Topology
from tests.plans import Cut, Kind, cut_case

WORLD = 2
STEPS = 5
SAMPLES = 8  # of a process, a step
RATE = 0.5
EPS = 1e-8
TOPOLOGY = Topology((Group(1, WORLD, (Tier("hbm", None, 1e9, 0.2), Tier("uvm", 1e6, 1e7))),), name="two")


@dataclass(frozen=True)
class Case:
    """A model to train: how its tables are cut, by what it is trained, who plans, and what pools."""

    kind: Kind
    optimizer: str
    by: str  # plan: the plan's own sharding; planner: RecShardPlanner, of parts; whole: the same, of whole tables
    pooling: str = "sum"


CASES = {
    "tiers_sgd": Case("none", "sgd", "plan", "mean"),
    "tiers_adagrad": Case("none", "adagrad", "plan"),
    "cut_sgd": Case("both", "sgd", "plan"),
    "rows_adagrad": Case("row", "adagrad", "plan"),
    "planner_of_parts": Case("both", "sgd", "planner"),
    "planner_of_whole_tables": Case("none", "adagrad", "whole"),
    "planner_of_tables_cut_by_columns": Case("none", "sgd", "whole"),
}
SPLIT_BY_COLUMNS = StrategyOptions(rules=SplitRules("column", min_dim=4))


class Model(nn.Module):
    """A model's sparse part, and something dense after it."""

    def __init__(self, pooled: nn.Module, columns: int) -> None:
        super().__init__()
        self.pooled = pooled
        self.over = nn.Linear(columns, 1)

    def forward(self, batch: KeyedJaggedTensor) -> torch.Tensor:
        # By key: a sharded collection returns features in the order of the processes that have them.
        keys, pooled = batch.keys(), self.pooled(batch).to_dict()
        return torch.sigmoid(self.over(torch.cat([pooled[key] for key in keys], dim=1))).mean()


def cut_of(name: str) -> Cut:
    return cut_case(np.random.default_rng(sorted(CASES).index(name)), CASES[name].kind, devices=WORLD)


def planner_of(name: str) -> RecShardPlanner:
    options = SPLIT_BY_COLUMNS if name == "planner_of_tables_cut_by_columns" else None
    return RecShardPlanner(cut_of(name).profile, TOPOLOGY, options=options, device_type="cpu")


def whole_ebc(tables: TableSet, pooling: str = "sum") -> EmbeddingBagCollection:
    configs = [
        EmbeddingBagConfig(
            name=table.name,
            num_embeddings=table.rows,
            embedding_dim=table.dim,
            feature_names=list(table.features),
            pooling=PoolingType[pooling.upper()],
        )
        for table in tables.tables
    ]
    return EmbeddingBagCollection(tables=configs)


def initial(plan: Plan) -> dict[str, torch.Tensor]:
    """Return weights of all whole tables, and those of the dense part."""
    generator = torch.Generator().manual_seed(1)
    tables = plan.tables.tables
    weights = {t.name: torch.randn(t.rows, t.dim, generator=generator) for t in tables}
    return weights | {"over": torch.randn(1, sum(t.dim for t in tables), generator=generator)}


def batch_of(plan: Plan, step: int, rank: int) -> KeyedJaggedTensor:
    """Return a process's batch, some rows of it several times."""
    rng = np.random.default_rng([step, rank])
    tables = plan.tables.tables
    lengths = rng.integers(0, 5, (len(tables), SAMPLES))
    rows = [rng.zipf(1.2, lengths[j].sum()) % table.rows for j, table in enumerate(tables)]
    return KeyedJaggedTensor(
        keys=[table.features[0] for table in tables],
        values=torch.from_numpy(np.concatenate(rows)),
        lengths=torch.from_numpy(lengths.ravel()),
    )


def train(name: str, rank: int) -> dict[str, torch.Tensor]:
    """Return what a process has at the end: whole tables by name, or shards as `table|row|column`."""
    case, plan = CASES[name], cut_of(name).plan
    start = initial(plan)
    whole = case.by == "whole"
    pooled = (
        whole_ebc(plan.tables)
        if whole
        else PartsEmbeddingBagCollection(plan, pooling=case.pooling, device=torch.device("meta"))
    )
    model = Model(pooled, start["over"].shape[1])
    fused: dict[str, object] = {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": RATE}
    if case.optimizer == "adagrad":
        tables = pooled.parameters()
        apply_optimizer_in_backward(RowWiseAdagrad, tables, {"lr": RATE, "eps": EPS})
        fused = {}
    sharders = [EmbeddingBagCollectionSharder(fused_params=fused)]
    if case.by == "plan":
        sharding = sharding_plan(plan, module_path="pooled.parts")
    else:
        sharding = planner_of(name).collective_plan(model, sharders, dist.GroupMember.WORLD)
    parallel = DistributedModelParallel(model, plan=sharding, sharders=sharders)
    with torch.no_grad():
        model.over.weight.copy_(start["over"])
        model.over.bias.zero_()
        if whole:
            for table, shard in _local(model):
                rows, columns = shard.metadata.shard_offsets
                height, width = shard.metadata.shard_sizes
                shard.tensor.copy_(start[table][rows : rows + height, columns : columns + width])
        else:
            model.pooled.load_whole({key: value for key, value in start.items() if key != "over"})
    dense = torch.optim.SGD(model.over.parameters(), lr=RATE)
    for step in range(STEPS):
        dense.zero_grad()
        parallel(batch_of(plan, step, rank)).backward()
        dense.step()
    if whole:
        found = {
            "|".join([table, *map(str, shard.metadata.shard_offsets)]): shard.tensor.detach().clone()
            for table, shard in _local(model)
        }
    else:
        found = model.pooled.to_whole()
        check_state_dict(parallel, found)
    return found | {"over": model.over.weight.detach().clone()}


def check_state_dict(parallel: DistributedModelParallel, whole: dict[str, torch.Tensor]) -> None:
    """Check that a state dict brings back weights, and that one of a plan with other hot rows is refused."""
    state = parallel.state_dict()
    (key,) = [key for key in state if key.endswith("_extra_state")]
    pooled = parallel.module.pooled
    kept = copy.deepcopy(state)
    pooled.load_whole({name: torch.zeros_like(weight) for name, weight in whole.items()})
    with pytest.raises(InputError, match="of another plan, whose parts hold other rows"):
        parallel.load_state_dict(kept | {key: kept[key] + 1})
    assert not any(weight.any() for weight in pooled.to_whole().values())
    parallel.load_state_dict(kept)
    assert all(torch.equal(weight, whole[name]) for name, weight in pooled.to_whole().items())


def _local(model: Model) -> list[tuple[str, object]]:
    """Return the shards that this process has, with their tables."""
    return [
        (key.split(".")[1], shard)
        for key, weight in model.pooled.state_dict().items()
        for shard in weight.local_shards()
    ]


def refusal(rank: int) -> str:
    """Return what a planner says of a model that lacks a table; every process is told."""
    tables = cut_of("tiers_sgd").plan.tables
    model = Model(whole_ebc(TableSet(tables.tables[1:], tables.batch_size)), 8)
    try:
        planner_of("tiers_sgd").collective_plan(model)
    except InputError as error:
        return str(error)
    return "no error"


def main(rank: int, folder: Path, names: list[str]) -> None:
    """Train every case, and keep what comes out."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=WORLD)
    (folder / f"refusal.{rank}").write_text(refusal(rank))
    for name in names:
        save_file(train(name, rank), folder / f"{name}.{rank}.safetensors")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
