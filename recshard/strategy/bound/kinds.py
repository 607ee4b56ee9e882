"""Kinds: devices and memory pools that nothing tells apart, so that one of each stands for all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recshard.problem import FloatArray, IntArray, PlacementProblem


@dataclass(frozen=True)
class Kinds:
    """The devices and pools of a problem by kind: q kinds of device, r kinds of pool, k tiers.

    Attributes:
        device: kind of each device, shape (d,).
        devices: how many devices are of each kind, shape (q,).
        pool: kind of the pool behind each tier of a device of each kind, shape (q, k).
        pools: how many pools are of each kind, shape (r,).
        pool_capacity: bytes of one pool of each kind, shape (r,).
        slowness: milliseconds per byte of traffic in each tier, shape (q, k).
        network_slowness: milliseconds per byte through the network link, shape (q,).
    """

    device: IntArray
    devices: IntArray
    pool: IntArray
    pools: IntArray
    pool_capacity: FloatArray
    slowness: FloatArray
    network_slowness: FloatArray

    @property
    def capacity(self) -> FloatArray:
        """Bytes that a device of each kind can use of each tier if no other device does, shape (q, k)."""
        return self.pool_capacity[self.pool]

    @property
    def reach(self) -> FloatArray:
        """Bytes that a device of each kind can use of each tier and all faster ones, shape (q, k)."""
        return np.cumsum(self.capacity, axis=1)


def find_kinds(problem: PlacementProblem) -> Kinds:
    """Return the kinds of devices and pools.

    Devices are of one kind where bandwidths, network and the kinds of their pools are the same; pools, where
    capacity and the kinds of the devices that draw on them are.
    """
    device = _distinct(np.column_stack([problem.bandwidth, problem.network_bandwidth]))
    while True:
        pool = _pool_kinds(problem, device)
        refined = _distinct(np.column_stack([device, pool[problem.pool]]))
        if refined.max() == device.max():
            break
        device = refined
    first = np.unique(device, return_index=True)[1]
    pools = np.bincount(pool)
    capacity = np.zeros(len(pools))
    capacity[pool] = problem.pool_capacity
    return Kinds(
        device=device,
        devices=np.bincount(device),
        pool=pool[problem.pool[first]],
        pools=pools,
        pool_capacity=capacity,
        slowness=1e3 / problem.bandwidth[first],
        network_slowness=1e3 / problem.network_bandwidth[first],
    )


def device_kinds(problem: PlacementProblem) -> IntArray:
    """Return a number for each device, the same for devices that nothing tells apart, shape (d,), from 0."""
    return find_kinds(problem).device


def _pool_kinds(problem: PlacementProblem, device: IntArray) -> IntArray:
    """Return a number for each pool, the same where capacity and the kinds of its users are, shape (p,)."""
    user = (device[:, None] * problem.tiers + np.arange(problem.tiers)).ravel()
    pool = problem.pool.ravel()
    order = np.lexsort((user, pool))
    end = np.cumsum(problem.pool_users)
    users = [user[order[a:b]].tobytes() for a, b in zip(end - problem.pool_users, end, strict=True)]
    number: dict[tuple[float, bytes], int] = {}
    keys = zip(problem.pool_capacity.tolist(), users, strict=True)
    return np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.int64)


def _distinct(rows: FloatArray) -> IntArray:
    """Return a number for each row, the same for equal rows, shape (n,), from 0."""
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
