"""The learned cost model: measure, features, net, train.

Names load their module when they are first used, so that importing this package does not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recshard.cost.features import FEATURES, part_features, reuse_histogram, whole_table_features
    from recshard.cost.figures import Figures, rank_correlation
    from recshard.cost.measure import measure_shards
    from recshard.cost.measurements import Measurements, load_measurements, save_measurements
    from recshard.cost.model import Card, CostModel, load_cost_model, save_cost_model
    from recshard.cost.train import train_cost_model

_HOME = {
    "FEATURES": "features",
    "part_features": "features",
    "reuse_histogram": "features",
    "whole_table_features": "features",
    "Figures": "figures",
    "rank_correlation": "figures",
    "measure_shards": "measure",
    "Measurements": "measurements",
    "load_measurements": "measurements",
    "save_measurements": "measurements",
    "Card": "model",
    "CostModel": "model",
    "load_cost_model": "model",
    "save_cost_model": "model",
    "train_cost_model": "train",
}

__all__ = [
    "FEATURES",
    "Card",
    "CostModel",
    "Figures",
    "Measurements",
    "load_cost_model",
    "load_measurements",
    "measure_shards",
    "part_features",
    "rank_correlation",
    "reuse_histogram",
    "save_cost_model",
    "save_measurements",
    "train_cost_model",
    "whole_table_features",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'recshard.cost' has no attribute '{name}'")
    return getattr(import_module(f"recshard.cost.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
