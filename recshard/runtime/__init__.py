"""Execution: torch modules that look up rows where a plan puts them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recshard.runtime.checkpoint import load_checkpoint, save_checkpoint
    from recshard.runtime.collection import TieredEmbeddingBagCollection
    from recshard.runtime.device import DeviceShards
    from recshard.runtime.distributed import DistributedTieredEmbeddingBagCollection
    from recshard.runtime.optim import SGD, RowwiseAdagrad, optimizer_for
    from recshard.runtime.tiered import TieredEmbeddingBag
    from recshard.runtime.weights import load_whole, whole

# Where each name lives: torch loads when one of them is asked for.
_HOMES = {
    "recshard.runtime.checkpoint": ("load_checkpoint", "save_checkpoint"),
    "recshard.runtime.collection": ("TieredEmbeddingBagCollection",),
    "recshard.runtime.device": ("DeviceShards",),
    "recshard.runtime.distributed": ("DistributedTieredEmbeddingBagCollection",),
    "recshard.runtime.optim": ("SGD", "RowwiseAdagrad", "optimizer_for"),
    "recshard.runtime.tiered": ("TieredEmbeddingBag",),
    "recshard.runtime.weights": ("load_whole", "whole"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
__all__ = [
    "SGD",
    "DeviceShards",
    "DistributedTieredEmbeddingBagCollection",
    "RowwiseAdagrad",
    "TieredEmbeddingBag",
    "TieredEmbeddingBagCollection",
    "load_checkpoint",
    "load_whole",
    "optimizer_for",
    "save_checkpoint",
    "whole",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'recshard.runtime' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)
