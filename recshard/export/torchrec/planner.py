"""A planner for TorchRec: what `recshard` plans from a profile and a topology, as TorchRec's `ShardingPlan`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torchrec.distributed.sharding_plan import get_default_sharders
from torchrec.distributed.types import ModuleSharder, ShardingPlan, ShardingPlanner

from recshard.errors import InputError, RecshardError
from recshard.export.torchrec.layout import FUSED, UVM, UVM_CACHING, VECTOR, Sharding, kernels_of
from recshard.export.torchrec.module import PARTS, PartsEmbeddingBagCollection
from recshard.export.torchrec.sharding import to_sharding_plan
from recshard.export.torchrec.weights import differences, planned_shapes
from recshard.plan.make import make_plan
from recshard.plan.plan import Plan
from recshard.problem import Workload
from recshard.profile.profile import Profile
from recshard.strategy.run import DEFAULT_STRATEGY, StrategyOptions
from recshard.topology import Topology


class RecShardPlanner(ShardingPlanner):
    """Stands in for TorchRec's `EmbeddingShardingPlanner`.

    A `PartsEmbeddingBagCollection` is sharded as its own plan says, row by row. Tables of other collections stay
    whole, or are cut by columns, on the planned devices: `fused` where all rows are in HBM, `fused_uvm` where none
    is, and in between `fused_uvm_caching`, with a cache of as many rows as the plan has in HBM.
    """

    def __init__(
        self,
        profile: Profile,
        topology: Topology,
        *,
        strategy: str = DEFAULT_STRATEGY,
        options: StrategyOptions | None = None,
        workload: Workload | None = None,
        device_type: str | None = None,
    ) -> None:
        """Remember what to plan from; nothing is planned yet.

        Args:
            device_type: `cpu` or `cuda`; None: CUDA where there is any.
        """
        self.profile = profile
        self.topology = topology
        self.strategy = strategy
        self.options = options
        self.workload = workload
        self.device_type = device_type or ("cuda" if torch.cuda.is_available() else "cpu")

    @cached_property
    def recshard_plan(self) -> Plan:
        """The plan for the profile's tables, made when it is first asked for."""
        return make_plan(self.profile, self.topology, self.strategy, workload=self.workload, options=self.options)

    def plan(self, module: nn.Module, sharders: Sequence[ModuleSharder[nn.Module]] | None = None) -> ShardingPlan:
        """Return the sharding of a model's tables.

        Where several processes plan and search ends by the clock, they may find different plans: there,
        `collective_plan` has one of them plan for all, as `DistributedModelParallel` does.

        Args:
            sharders: for the modules to shard; None: TorchRec's defaults.

        Raises:
            InputError: the model's tables are not the profile's, the processes not as many as the topology's
                devices, or a table is cut by rows that stands whole in the model.
            DoesNotFit: the model does not fit; says which memory is short and by how much.
        """
        if dist.is_available() and dist.is_initialized():
            self._check_processes(dist.get_world_size())
        return self._built(self._sharding(module, sharders))

    def collective_plan(
        self,
        module: nn.Module,
        sharders: Sequence[ModuleSharder[nn.Module]] | None = None,
        pg: dist.ProcessGroup | None = None,
    ) -> ShardingPlan:
        """Return the sharding of a model's tables, planned by the first process and sent to the others as JSON.

        Raises:
            InputError, DoesNotFit: as `plan` does; in every process.
        """
        if not (dist.is_available() and dist.is_initialized()):
            raise InputError(
                "collective_plan: found no processes to plan for; call torch.distributed.init_process_group, "
                "or use plan, which asks for none"
            )
        self._check_processes(dist.get_world_size(pg))
        message: dict[str, Any] = {}
        if dist.get_rank(pg) == 0:
            failed = "an error that is not recshard's; see its own output"
            try:
                message = {"plan": self._sharding(module, sharders)}
            except RecshardError as error:
                failed = str(error)
                raise
            finally:
                if not message:
                    _broadcast({"error": failed}, pg)  # else the others would wait for a plan
        message = _broadcast(message, pg)
        if "error" in message:
            raise InputError(f"the first process could not plan: {message['error']}")
        return self._built(message["plan"])

    def _built(self, data: dict[str, Sharding]) -> ShardingPlan:
        per_node = {group.devices_per_node for group in self.topology.groups}
        if len(per_node) > 1 and self.device_type == "cuda":
            raise InputError(
                f"topology '{self.topology.name}': nodes have {sorted(per_node)} devices; accepted by "
                "TorchRec: as many in each"
            )
        return to_sharding_plan(data, self.device_type, per_node.pop())

    def _check_processes(self, processes: int) -> None:
        devices = len(self.topology.devices)
        if processes != devices:
            raise InputError(
                f"topology '{self.topology.name}' has {devices} devices, but {processes} processes train; "
                "accepted: one process a device; plan for as many devices, or start as many processes"
            )

    def _sharding(
        self, module: nn.Module, sharders: Iterable[ModuleSharder[nn.Module]] | None
    ) -> dict[str, Sharding]:
        """Return the sharding as data, by path of the sharded module."""
        by_parts, whole = _collections(module, get_default_sharders() if sharders is None else sharders)
        if not by_parts and not whole:
            raise InputError(
                "model: found no module that its sharders shard; accepted: a model with a "
                "PartsEmbeddingBagCollection, or a collection of TorchRec's that one of the sharders is for"
            )
        found: dict[str, tuple[int, ...]] = {}
        shapes_of = {path: planned_shapes(each.layout.tables) for path, each in by_parts.items()} | whole
        for path, shapes in shapes_of.items():
            for name, shape in shapes.items():
                if name in found:
                    raise InputError(
                        f"module '{path}': table '{name}' is another module's too; rename one of them"
                    )
                found[name] = shape
        wrong = differences(planned_shapes(self.profile.tables.tables), found)
        if wrong:
            raise InputError(f"model: its tables are not the profile's: {wrong}; profile this model's tables")
        sharding: dict[str, Sharding] = {}
        for path, each in by_parts.items():
            self._check_devices(path, each.layout.devices)
            sharding[f"{path}.{PARTS}" if path else PARTS] = each.layout.sharding
        if whole:
            tables = whole_sharding(self.recshard_plan)
            sharding |= {path: {name: tables[name] for name in shapes} for path, shapes in whole.items()}
        return sharding

    def _check_devices(self, path: str, devices: int) -> None:
        if devices != len(self.topology.devices):
            raise InputError(
                f"module '{path}': its plan is for {devices} devices; accepted: the {len(self.topology.devices)} "
                f"of topology '{self.topology.name}'"
            )


def whole_sharding(plan: Plan) -> Sharding:
    """Return the sharding of a plan's whole tables, as data, by table.

    Raises:
        InputError: a table that is cut by rows, which TorchRec cuts otherwise than by heat.
    """
    kernels = kernels_of(plan.tier_names)
    fast = np.array([kernel == FUSED for kernel in kernels])
    shards = plan.shards
    sharding: Sharding = {}
    for j, table in enumerate(plan.tables.tables):
        mine = list(plan.shards_of(j))
        if any(shards.parts[s] > 1 for s in mine):
            raise InputError(
                f"table '{table.name}': cut by rows of equal heat, which TorchRec cannot do with a whole table; "
                "accepted: plans without cuts or with --split column; or build the model with "
                "PartsEmbeddingBagCollection"
            )
        pieces: list[dict[str, Any]] = [
            {
                "sizes": [table.rows, int(shards.columns[s])],
                "offsets": [0, int(shards.first_column[s])],
                "rank": int(plan.placement.device[s]),
            }
            for s in mine
        ]
        if any(piece["sizes"][1] % VECTOR for piece in pieces):
            raise InputError(
                f"table '{table.name}': its dim, or that of a shard of it, is no multiple of {VECTOR}, as FBGEMM "
                "needs it; change the table's dim or --min-dim"
            )
        held = int((plan.placement.rows[mine][:, fast].sum(axis=1) * shards.columns[mine]).sum())
        share = held / (table.rows * table.dim)
        sharding[table.name] = {
            "sharding_type": "table_wise" if len(mine) == 1 else "column_wise",
            "compute_kernel": FUSED if share == 1 else UVM_CACHING if share else UVM,
            "load_factor": share if 0 < share < 1 else None,
            "shards": pieces,
        }
    return sharding


def _collections(
    module: nn.Module, sharders: Iterable[ModuleSharder[nn.Module]]
) -> tuple[dict[str, PartsEmbeddingBagCollection], dict[str, dict[str, tuple[int, ...]]]]:
    """Return the collections of parts by path, and the tables' shapes of other shardable modules by path.

    A module that has a sharder is sharded as one; others are searched, as TorchRec's planner does.
    """
    by_type = {sharder.module_type: sharder for sharder in sharders}
    by_parts: dict[str, PartsEmbeddingBagCollection] = {}
    whole: dict[str, dict[str, tuple[int, ...]]] = {}
    queue = [("", module)]
    while queue:
        path, each = queue.pop(0)
        sharder = by_type.get(type(each))
        if isinstance(each, PartsEmbeddingBagCollection):
            if type(each.parts) not in by_type:
                raise InputError(
                    f"module '{path}': no sharder for its {type(each.parts).__name__}; pass one to the planner"
                )
            by_parts[path] = each
        elif sharder is not None:
            tables = sharder.shardable_parameters(each)
            whole[path] = {name: tuple(weight.shape) for name, weight in tables.items()}
        else:
            queue += [(f"{path}.{name}" if path else name, child) for name, child in each.named_children()]
    return by_parts, whole


def _broadcast(message: dict[str, Any], group: dist.ProcessGroup | None) -> dict[str, Any]:
    """Return in every process the message of the first one, sent as the bytes of its JSON."""
    nccl = dist.get_backend(group) == "nccl"
    device = torch.device("cuda", torch.cuda.current_device()) if nccl else torch.device("cpu")
    source = 0 if group is None else dist.get_global_rank(group, 0)
    text = bytearray(json.dumps(message).encode())
    length = torch.tensor([len(text)], device=device)
    dist.broadcast(length, src=source, group=group)
    if dist.get_rank(group) == 0:
        data = torch.frombuffer(text, dtype=torch.uint8).to(device)
    else:
        data = torch.empty(int(length), dtype=torch.uint8, device=device)
    dist.broadcast(data, src=source, group=group)
    return cast(dict[str, Any], json.loads(data.cpu().numpy().tobytes()))
