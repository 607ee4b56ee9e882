"""The cost network: a shard is a set, its cost is above zero and grows with what it holds."""

from __future__ import annotations

import torch

from recshard.cost.net import new_net


def test_cost_does_not_depend_on_the_order_of_tables_or_the_names_of_shards() -> None:
    net = new_net(0)
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(30, 21, generator=generator)
    shard = torch.randint(0, 4, (30,), generator=generator)
    cost = net(features, shard, 4)
    order = torch.randperm(30, generator=generator)
    assert torch.allclose(net(features[order], shard[order], 4), cost, atol=1e-6)
    renamed = torch.tensor([2, 0, 3, 1])
    assert torch.allclose(net(features, renamed[shard], 4)[renamed], cost, atol=1e-6)


def test_a_shard_costs_the_same_whatever_stands_beside_it() -> None:
    net = new_net(0)
    features = torch.randn(10, 21, generator=torch.Generator().manual_seed(2))
    together = net(features, torch.tensor([0] * 4 + [1] * 6), 2)
    alone = net(features[4:], torch.zeros(6, dtype=torch.int64), 1)
    assert torch.allclose(together[1], alone[0], atol=1e-6)


def test_a_seed_gives_the_same_weights_and_leaves_torch_s_own_draws_alone() -> None:
    torch.manual_seed(5)
    before = torch.rand(1)
    torch.manual_seed(5)
    first = new_net(3).state_dict()
    assert torch.equal(torch.rand(1), before)
    second = new_net(3).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["table.0.weight"], new_net(4).state_dict()["table.0.weight"])
