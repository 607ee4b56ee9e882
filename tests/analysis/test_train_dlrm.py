"""A DLRM learns the same from tables in tiers as from whole ones."""

from __future__ import annotations

import runpy
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from recshard.errors import InputError
from recshard.runtime.dlrm import DLRM
from recshard.strategy.run import StrategyOptions

SCRIPT = Path(__file__).parents[2] / "analysis" / "train_dlrm.py"


def test_the_loss_curve_on_the_demo_trace_does_not_depend_on_the_plan() -> None:
    script = runpy.run_path(str(SCRIPT))
    trace, profile = script["demo"]()
    plan = script["make_plan"](profile, script["TOPOLOGY"], options=StrategyOptions(time_limit=0.5))
    assert len(plan.tables) == 26
    assert any(plan.is_split(s) for s in range(len(plan.shards)))
    curve = partial(script["loss_curve"], plan, trace, steps=16, batch_size=512)
    still = np.mean(curve(tiered=True, lr=0.0, optimizer="sgd")[-4:])
    for optimizer, lr in (("rowwise_adagrad", 0.05), ("sgd", 300.0)):
        whole, tiered = (curve(tiered=tiered, optimizer=optimizer, lr=lr) for tiered in (False, True))
        # float32 sums in another order; losses are near 0.7
        np.testing.assert_allclose(tiered, whole, atol=1e-5)
        # the curve falls because rows are trained, and not only the towers around them
        assert np.mean(tiered[-4:]) < still - 0.005


class Fixed(nn.Module):
    """Gives back what it was made with."""

    def __init__(self, pooled: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.pooled = pooled

    def forward(self, batch: object) -> dict[str, torch.Tensor]:
        return self.pooled


def test_the_logit_is_made_of_the_dot_products_of_all_pairs() -> None:
    torch.manual_seed(0)
    pooled = {"a": torch.randn(5, 8), "b": torch.randn(5, 8)}
    model, dense = DLRM(Fixed(pooled), ["a", "b"], dim=8, dense=3), torch.randn(5, 3)
    below = model.bottom(dense)
    products = [(below * pooled["a"]).sum(1), (below * pooled["b"]).sum(1), (pooled["a"] * pooled["b"]).sum(1)]
    expected = model.top(torch.cat([below, torch.stack(products, 1)], 1))[:, 0]
    torch.testing.assert_close(model(dense, {}), expected)


def test_rows_of_another_width_than_the_dense_vector_are_named() -> None:
    model = DLRM(Fixed({"a": torch.randn(5, 4)}), ["a"], dim=8, dense=3)
    with pytest.raises(InputError, match=r"feature 'a' is pooled to shape \(5, 4\); accepted: \(5, 8\)"):
        model(torch.randn(5, 3), {})
