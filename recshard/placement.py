"""Placement: what every strategy returns, its exact cost, and a validity checker that shares no code with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recshard.errors import RecshardError
from recshard.problem import FloatArray, IntArray, PlacementProblem


@dataclass(frozen=True)
class Placement:
    """Where the rows stand.

    Attributes:
        device: the device that holds each table, shape (t,).
        rows: how many rows of each table stand in each tier of that device, shape (t, k): its hottest
            `rows[:, 0]` rows in tier 0, the next `rows[:, 1]` in tier 1, and so on.
    """

    device: IntArray
    rows: IntArray


class InvalidPlacement(RecshardError):
    """A placement that breaks a rule; the message says which, where, and by how much."""


def table_traffic(problem: PlacementProblem, placement: Placement) -> FloatArray:
    """Return the bytes that each table reads per step from each tier, shape (t, k)."""
    return table_access_share(problem, placement) * problem.traffic[:, None]


def table_access_share(problem: PlacementProblem, placement: Placement) -> FloatArray:
    """Return the share of each table's accesses that each tier serves, shape (t, k)."""
    boundary = np.cumsum(placement.rows, axis=1)
    covered = np.zeros((problem.tables, problem.tiers + 1))
    for j in range(problem.tables):
        part = slice(problem.class_start[j], problem.class_start[j + 1])
        rows = np.concatenate([[0], np.cumsum(problem.class_rows[part])])
        share = np.concatenate([[0.0], np.cumsum(problem.class_rows[part] * problem.class_share[part])])
        covered[j, 1:] = np.interp(boundary[j], rows, share)
    return np.diff(covered, axis=1)


def device_costs(problem: PlacementProblem, placement: Placement) -> FloatArray:
    """Return each device's time per step in ms by the bandwidth model (design.md), shape (d,).

    A row that takes share p of its table's accesses costs `accesses · p · access_bytes ÷ bandwidth` in its
    tier; to that comes the device's share of the all-to-all where the network has a bandwidth.
    """
    table_ms = 1e3 * (table_traffic(problem, placement) / problem.bandwidth[placement.device]).sum(axis=1)
    table_ms += problem.network_ms[np.arange(problem.tables), placement.device]
    costs = np.zeros(problem.devices)
    np.add.at(costs, placement.device, table_ms)
    return costs


def bottleneck_ms(problem: PlacementProblem, placement: Placement) -> float:
    """Return the largest device cost in ms."""
    return float(device_costs(problem, placement).max())


def imbalance(costs: NDArray[np.float64]) -> float:
    """Return the largest cost ÷ the mean cost; 1 where nothing costs anything."""
    mean = float(costs.mean())
    return float(costs.max()) / mean if mean > 0 else 1.0


def pool_bytes(problem: PlacementProblem, placement: Placement) -> IntArray:
    """Return the bytes that the placement puts into each memory pool, shape (p,)."""
    used = np.zeros(len(problem.pool_capacity), dtype=np.int64)
    for j in range(problem.tables):
        for k in range(problem.tiers):
            used[problem.pool[placement.device[j], k]] += placement.rows[j, k] * problem.row_bytes[j]
    return used


def check_placement(problem: PlacementProblem, placement: Placement) -> None:
    """Check every rule by plain arithmetic, independently of how the placement was found.

    Raises:
        InvalidPlacement: the first rule broken: shapes, an unknown device, negative rows, rows lost or
            invented, or a memory pool that holds more than its capacity.
    """
    tables, tiers = problem.tables, problem.tiers
    if placement.device.shape != (tables,) or placement.rows.shape != (tables, tiers):
        raise InvalidPlacement(
            f"placement has shapes {placement.device.shape} and {placement.rows.shape}; "
            f"expected ({tables},) and ({tables}, {tiers})"
        )
    for array, name in ((placement.device, "device"), (placement.rows, "rows")):
        if array.dtype.kind not in "iu":
            raise InvalidPlacement(f"placement's {name} are {array.dtype}; expected whole numbers")
    for j in range(tables):
        if not 0 <= placement.device[j] < problem.devices:
            raise InvalidPlacement(
                f"table {j} stands on device {placement.device[j]}; there are devices 0 … {problem.devices - 1}"
            )
        if (placement.rows[j] < 0).any():
            raise InvalidPlacement(f"table {j} has a negative number of rows in a tier: {placement.rows[j]}")
        if int(placement.rows[j].sum()) != int(problem.rows[j]):
            raise InvalidPlacement(
                f"table {j} has {problem.rows[j]} rows, but the placement holds {int(placement.rows[j].sum())}"
            )
    for p, used in enumerate(pool_bytes(problem, placement)):
        if used > problem.pool_capacity[p]:
            users = [f"device {d} tier {k}" for d, k in np.argwhere(problem.pool == p)]
            raise InvalidPlacement(
                f"memory of {', '.join(users)} holds {problem.pool_capacity[p]:.0f} bytes; "
                f"the placement puts {used} there"
            )
