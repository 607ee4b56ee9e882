"""Symmetry between devices: which could change places without anyone noticing, and one numbering of them all.

Devices joined by shared pools make a group (a node, mostly; a device with memory of its own is a group by itself).
Equal groups may change places whole, and equal devices may change places within their group. Of all numberings
that differ by such exchanges the canonical one puts first the device, and first the group, that holds the table
with the most traffic. Hence the n-th of equal groups is reached only after n tables of more traffic, one in each
group before it, and the i-th of equal devices in a group only after i more: that many binaries need not be asked.
"""

from __future__ import annotations

import numpy as np

from recshard.problem import IntArray, PlacementProblem


def traffic_rank(problem: PlacementProblem) -> IntArray:
    """Return the place of each table in the order of falling traffic, from 0, shape (t,)."""
    rank = np.empty(problem.tables, dtype=np.int64)
    rank[np.argsort(-problem.traffic, kind="stable")] = np.arange(problem.tables)
    return rank


def equal_groups(problem: PlacementProblem) -> list[list[list[list[int]]]]:
    """Return kinds of equal groups; each group is a list of its kinds of devices, each kind a list of devices.

    Groups of one kind have the same kinds of devices in the same order.
    """
    kinds: dict[object, list[list[list[int]]]] = {}
    for members in _joined(problem):
        devices = sorted(members, key=lambda d: (_signature(problem, d), d))
        alike: list[list[int]] = []
        for d in devices:
            if alike and _interchangeable(problem, alike[-1][0], d):
                alike[-1].append(d)
            else:
                alike.append([d])
        number: dict[int, int] = {}
        pattern = [
            tuple(number.setdefault(int(p), len(number)) for p in problem.pool[d])
            for d in (d for kind in alike for d in kind)
        ]
        signature = tuple(_signature(problem, d) for kind in alike for d in kind)
        shape = tuple(len(kind) for kind in alike)
        kinds.setdefault((signature, tuple(pattern), shape), []).append(alike)
    return list(kinds.values())


def earlier_tables(problem: PlacementProblem) -> IntArray:
    """Return how many tables of more traffic each device needs elsewhere before it gets one, shape (d,)."""
    needed = np.zeros(problem.devices, dtype=np.int64)
    for groups in equal_groups(problem):
        for n, group in enumerate(groups):
            for kind in group:
                for i, d in enumerate(kind):
                    needed[d] = n + i
    return needed


def canonical(problem: PlacementProblem, device: IntArray) -> IntArray:
    """Return the same assignment in the canonical numbering of devices, shape (t,)."""
    first = np.full(problem.devices, problem.tables)
    np.minimum.at(first, device, traffic_rank(problem))
    moved = np.arange(problem.devices)
    for groups in equal_groups(problem):
        ordered = sorted(groups, key=lambda group: min(first[d] for kind in group for d in kind))
        for old_group, new_group in zip(ordered, groups, strict=True):
            for old_kind, new_kind in zip(old_group, new_group, strict=True):
                moved[sorted(old_kind, key=lambda d: first[d])] = new_kind
    return np.asarray(moved[device])


def _joined(problem: PlacementProblem) -> list[list[int]]:
    """Return the groups of devices that shared pools join, directly or through others."""
    group = np.arange(problem.devices)
    for pool in np.flatnonzero(problem.pool_users > 1):
        meeting = np.unique(group[(problem.pool == pool).any(axis=1)])
        group[np.isin(group, meeting)] = meeting[0]
    return [np.flatnonzero(group == g).tolist() for g in np.unique(group)]


def _signature(problem: PlacementProblem, d: int) -> tuple[float, ...]:
    pools = problem.pool[d]
    described = [problem.bandwidth[d], problem.pool_capacity[pools], problem.pool_users[pools]]
    return (*np.concatenate(described).tolist(), float(problem.network_bandwidth[d]))


def _interchangeable(problem: PlacementProblem, a: int, b: int) -> bool:
    """Return whether two devices may change places: they are alike, and share pools or have their own."""
    same = problem.pool[a] == problem.pool[b]
    own = (problem.pool_users[problem.pool[a]] == 1) & (problem.pool_users[problem.pool[b]] == 1)
    return _signature(problem, a) == _signature(problem, b) and bool((same | own).all())
