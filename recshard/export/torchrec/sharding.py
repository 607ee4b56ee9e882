"""TorchRec's `ShardingPlan` from a plan's layout."""

from __future__ import annotations

from collections.abc import Mapping

from torchrec.distributed.sharding_plan import placement
from torchrec.distributed.types import (
    CacheParams,
    EmbeddingModuleShardingPlan,
    EnumerableShardingSpec,
    ParameterSharding,
    ShardingPlan,
    ShardMetadata,
)

from recshard.errors import InputError
from recshard.export.torchrec.layout import FUSED, Layout, Sharding, layout_of
from recshard.export.torchrec.module import PARTS
from recshard.plan.plan import Plan


def sharding_plan(
    plan: Plan | Layout, *, module_path: str = PARTS, device_type: str = "cpu", devices_per_node: int | None = None
) -> ShardingPlan:
    """Return the sharding of a plan's parts: each whole on its device, `fused` in HBM, `fused_uvm` in host memory.

    On CPUs there is one memory, the host's, and all parts are `fused` there.

    Args:
        module_path: where the model has the collection of parts: that of a `PartsEmbeddingBagCollection`, and
            `.parts`.
        device_type: `cpu` or `cuda`.
        devices_per_node: devices of a node; None: all are of one.

    Raises:
        InputError: another device type, or a node of no devices.
    """
    layout = layout_of(plan)
    per_node = layout.devices if devices_per_node is None else devices_per_node
    if per_node < 1:
        raise InputError(f"devices_per_node: found {per_node}; accepted: 1 or more, or None")
    return to_sharding_plan({module_path: layout.sharding}, device_type, per_node)


def to_sharding_plan(data: Mapping[str, Sharding], device_type: str, devices_per_node: int) -> ShardingPlan:
    """Return TorchRec's object for what `Layout.sharding` says as data, by module path."""
    if device_type not in ("cpu", "cuda"):
        raise InputError(f"device type: found '{device_type}'; accepted: cpu, cuda")
    modules = {}
    for path, tables in data.items():
        module = EmbeddingModuleShardingPlan()
        for name, entry in tables.items():
            shards, factor = entry["shards"], entry["load_factor"]
            on_cpu = device_type == "cpu"
            module[name] = ParameterSharding(
                sharding_type=entry["sharding_type"],
                compute_kernel=FUSED if on_cpu else entry["compute_kernel"],
                ranks=[shard["rank"] for shard in shards],
                sharding_spec=EnumerableShardingSpec(
                    [
                        ShardMetadata(
                            shard_sizes=shard["sizes"],
                            shard_offsets=shard["offsets"],
                            placement=placement(device_type, shard["rank"], devices_per_node),
                        )
                        for shard in shards
                    ]
                ),
                cache_params=None if factor is None or on_cpu else CacheParams(load_factor=factor),
            )
        modules[path] = module
    return ShardingPlan(modules)
