"""Placement: what every strategy returns, its exact cost, and a validity checker that shares no code with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recshard.errors import RecshardError
from recshard.problem import FloatArray, IntArray, PlacementProblem
from recshard.shards import Shards, cut


@dataclass(frozen=True)
class Placement:
    """Where the rows stand. Every table is one shard, or is cut into several.

    Attributes:
        device: the device that holds each shard, shape (s,).
        rows: how many rows of each shard stand in each tier of that device, shape (s, k): its hottest
            `rows[:, 0]` rows in tier 0, the next `rows[:, 1]` in tier 1, and so on.
        shards: the shards; None: every table is whole, and s = t.
    """

    device: IntArray
    rows: IntArray
    shards: Shards | None = None


class InvalidPlacement(RecshardError):
    """A placement that breaks a rule; the message says which, where, and by how much."""


def shard_traffic(problem: PlacementProblem, placement: Placement) -> FloatArray:
    """Return the bytes that each shard reads per step from each tier, shape (s, k)."""
    sharded = cut(problem, placement.shards)
    return _access_share(sharded, placement.rows) * sharded.traffic[:, None]


def shard_access_share(problem: PlacementProblem, placement: Placement) -> FloatArray:
    """Return the share of each shard's accesses that each tier serves, shape (s, k)."""
    return _access_share(cut(problem, placement.shards), placement.rows)


def _access_share(problem: PlacementProblem, placed: IntArray) -> FloatArray:
    boundary = np.cumsum(placed, axis=1)
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
    sharded, device = cut(problem, placement.shards), placement.device
    traffic = _access_share(sharded, placement.rows) * sharded.traffic[:, None]
    shard_ms = 1e3 * (traffic / problem.bandwidth[device]).sum(axis=1)
    shard_ms += 1e3 * sharded.network_bytes / problem.network_bandwidth[device]
    costs = np.zeros(problem.devices)
    np.add.at(costs, device, shard_ms)
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
    row_bytes = problem.row_bytes
    if placement.shards is not None:
        table = placement.shards.table
        weights = problem.row_bytes[table] - problem.row_state_bytes[table]
        row_bytes = weights // problem.dim[table] * placement.shards.columns + problem.row_state_bytes[table]
    used = np.zeros(len(problem.pool_capacity), dtype=np.int64)
    for j in range(len(row_bytes)):
        for k in range(problem.tiers):
            used[problem.pool[placement.device[j], k]] += placement.rows[j, k] * row_bytes[j]
    return used


def check_placement(problem: PlacementProblem, placement: Placement) -> None:
    """Check every rule by plain arithmetic, independently of how the placement was found.

    Raises:
        InvalidPlacement: the first rule broken: shards that are not whole tables, shapes, an unknown device,
            negative rows, rows lost or invented, or a memory pool that holds more than its capacity.
    """
    if placement.shards is not None:
        _check_shards(problem, placement.shards)
    rows = _shard_rows(problem, placement.shards)
    shards, tiers = len(rows), problem.tiers
    if placement.device.shape != (shards,) or placement.rows.shape != (shards, tiers):
        raise InvalidPlacement(
            f"placement has shapes {placement.device.shape} and {placement.rows.shape}; "
            f"expected ({shards},) and ({shards}, {tiers})"
        )
    for array, name in ((placement.device, "device"), (placement.rows, "rows")):
        if array.dtype.kind not in "iu":
            raise InvalidPlacement(f"placement's {name} are {array.dtype}; expected whole numbers")
    for j in range(shards):
        what = f"table {j}" if placement.shards is None else f"shard {j} of table {placement.shards.table[j]}"
        if not 0 <= placement.device[j] < problem.devices:
            raise InvalidPlacement(
                f"{what} stands on device {placement.device[j]}; there are devices 0 … {problem.devices - 1}"
            )
        if (placement.rows[j] < 0).any():
            raise InvalidPlacement(f"{what} has a negative number of rows in a tier: {placement.rows[j]}")
        if int(placement.rows[j].sum()) != rows[j]:
            raise InvalidPlacement(
                f"{what} has {rows[j]} rows, but the placement holds {int(placement.rows[j].sum())}"
            )
    for p, used in enumerate(pool_bytes(problem, placement)):
        if used > problem.pool_capacity[p]:
            users = [f"device {d} tier {k}" for d, k in np.argwhere(problem.pool == p)]
            raise InvalidPlacement(
                f"memory of {', '.join(users)} holds {problem.pool_capacity[p]:.0f} bytes; "
                f"the placement puts {used} there"
            )


def _shard_rows(problem: PlacementProblem, shards: Shards | None) -> list[int]:
    """Return how many rows each shard has, by plain arithmetic."""
    if shards is None:
        return [int(n) for n in problem.rows]
    return [
        len(range(int(part), int(problem.rows[table]), int(parts)))
        for table, part, parts in zip(shards.table, shards.part, shards.parts, strict=True)
    ]


def _check_shards(problem: PlacementProblem, shards: Shards) -> None:
    """Check that the shards of every table are the whole table and nothing twice."""
    fields = (shards.table, shards.first_column, shards.columns, shards.part, shards.parts)
    if len({array.shape for array in fields}) != 1 or shards.table.ndim != 1:
        raise InvalidPlacement(f"shards have arrays of shapes {[array.shape for array in fields]}; expected one")
    if not (np.diff(shards.table) >= 0).all() or set(shards.table.tolist()) != set(range(problem.tables)):
        raise InvalidPlacement(f"shards are not those of tables 0 … {problem.tables - 1}, in this order")
    start = np.searchsorted(shards.table, np.arange(problem.tables + 1))
    for j in range(problem.tables):
        mine = slice(start[j], start[j + 1])
        dim, count = int(problem.dim[j]), int(start[j + 1] - start[j])
        by_columns = list(zip(shards.first_column[mine].tolist(), shards.columns[mine].tolist(), strict=True))
        by_rows = list(zip(shards.part[mine].tolist(), shards.parts[mine].tolist(), strict=True))
        if by_rows == [(0, 1)] * count:
            reached = 0
            for first, columns in by_columns:
                if first != reached or columns < 1:
                    raise InvalidPlacement(
                        f"table {j}: its column shards {by_columns} do not divide {dim} columns"
                    )
                reached += columns
            if reached != dim:
                raise InvalidPlacement(f"table {j}: its column shards {by_columns} do not divide {dim} columns")
        elif by_columns != [(0, dim)] * count or by_rows != [(i, count) for i in range(count)]:
            raise InvalidPlacement(f"table {j}: its row shards {by_rows} are not parts 0 … {count - 1} of {count}")
