"""A plan run by TorchRec: its tables' parts as tables of their own, and the way to them and back.

`Layout`, `layout_of`, `load_torchrec` and `export_torchrec` do without TorchRec; the other names load it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from recshard.errors import InputError
from recshard.export.torchrec.document import export_torchrec, load_torchrec
from recshard.export.torchrec.layout import Layout, layout_of

if TYPE_CHECKING:
    from recshard.export.torchrec.module import PartsEmbeddingBagCollection
    from recshard.export.torchrec.planner import RecShardPlanner
    from recshard.export.torchrec.sharding import sharding_plan
    from recshard.export.torchrec.statistics import ProfileCacheStatistics, constraints
    from recshard.export.torchrec.transform import PartsTransform, embedding_bag_configs

__all__ = [
    "Layout",
    "PartsEmbeddingBagCollection",
    "PartsTransform",
    "ProfileCacheStatistics",
    "RecShardPlanner",
    "constraints",
    "embedding_bag_configs",
    "export_torchrec",
    "layout_of",
    "load_torchrec",
    "sharding_plan",
]

_HOMES = {
    "PartsEmbeddingBagCollection": "module",
    "PartsTransform": "transform",
    "ProfileCacheStatistics": "statistics",
    "RecShardPlanner": "planner",
    "constraints": "statistics",
    "embedding_bag_configs": "transform",
    "sharding_plan": "sharding",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'recshard.export.torchrec' has no attribute '{name}'")
    try:
        importlib.import_module("torchrec")
    except (ImportError, OSError) as error:
        raise InputError(
            f"{name} needs TorchRec, which cannot be loaded: {error}; install it: pip install "
            "'recshard[torchrec]', or where there is no CUDA: pip install --no-deps torchrec==1.8.0 "
            "fbgemm-gpu-cpu==1.8.0, then pip install tensordict torchmetrics==1.0.3 tqdm pyre-extensions"
        ) from None
    return getattr(importlib.import_module(f"recshard.export.torchrec.{_HOMES[name]}"), name)
