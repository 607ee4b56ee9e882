"""Random placement problems for tests."""

from __future__ import annotations

import numpy as np

from recshard.problem import PlacementProblem


def random_problem(
    rng: np.random.Generator,
    tables: int = 5,
    devices: int = 2,
    tiers: int = 2,
    *,
    rows: int = 40,
    classes: int = 6,
    slack: float = 1.2,
    node_size: int = 1,
    equal_devices: bool = True,
    equal_rows: bool = False,
    network: bool = False,
    state: bool = False,
) -> PlacementProblem:
    """Return a problem that fits.

    Args:
        rows: most rows of a table.
        classes: most frequency classes of a table.
        slack: capacity of all memories ÷ bytes of the model.
        node_size: devices that share the pools of all tiers but the first.
        equal_devices: whether all devices have the same bandwidth and capacity.
        state: whether rows have four bytes of optimizer state besides their weights.
        equal_rows: whether all rows of all tables take the same bytes, and capacities are multiples of that.
    """
    row_count = rng.integers(2, rows + 1, tables)
    dim = np.full(tables, 16) if equal_rows else 4 * rng.integers(1, 9, tables)
    row_bytes = dim * 4 + (4 if state else 0)
    starts, class_rows, class_share = [0], [], []
    for count in row_count:
        cuts = np.unique(rng.integers(1, count, rng.integers(1, classes + 1)))
        sizes = np.diff(np.concatenate([[0], cuts, [count]]))
        weight = np.sort(rng.pareto(1.0, len(sizes)) + (rng.random(len(sizes)) < 0.9) * 0.01)[::-1]
        class_rows.append(sizes)
        class_share.append(weight / np.dot(weight, sizes))
        starts.append(starts[-1] + len(sizes))
    model = float((row_count * row_bytes).sum())
    share = rng.dirichlet(np.ones(tiers)) * slack * model / devices
    share[-1] += (row_count * row_bytes).max()  # so that an uneven division fits as well
    scale = np.ones(devices) if equal_devices else rng.uniform(0.5, 2.0, devices)
    bandwidth = np.sort(10.0 ** rng.uniform(6, 9, tiers))[::-1] * scale[:, None]
    pool = np.arange(devices * tiers).reshape(devices, tiers)
    if node_size > 1:
        first = (np.arange(devices) // node_size) * node_size
        pool[:, 1:] = pool[first, 1:]
    used, pool = np.unique(pool, return_inverse=True)
    pool = pool.reshape(devices, tiers)
    capacity = np.zeros(len(used))
    np.add.at(capacity, pool, share * scale[:, None] / scale.mean())
    if equal_rows:
        capacity = np.ceil(capacity / 64) * 64
    return PlacementProblem(
        batch_size=64,
        rows=row_count.astype(np.int64),
        dim=dim.astype(np.int64),
        row_bytes=row_bytes.astype(np.int64),
        row_state_bytes=np.full(tables, 4 if state else 0),
        access_bytes=dim * 4.0,
        accesses=64 * rng.uniform(0.1, 10.0, tables),
        class_start=np.array(starts, dtype=np.int64),
        class_rows=np.concatenate(class_rows).astype(np.int64),
        class_share=np.concatenate(class_share),
        network_bytes=rng.uniform(0, 1e4, tables) if network else np.zeros(tables),
        bandwidth=bandwidth,
        pool=pool.astype(np.int64),
        pool_capacity=capacity,
        network_bandwidth=np.full(devices, 1e8 if network else np.inf),
    )
