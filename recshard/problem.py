"""The door to every strategy: Profile + Topology + Workload as plain arrays.

Nothing behind this door knows of files, names or traces. Tables are indexed 0 … t-1, devices 0 … d-1, tiers
0 … k-1 from fast to slow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class PlacementProblem:
    """What is to be placed, and on what.

    Rows of a table that are accessed equally often form a *frequency class*. The classes of table j are
    `class_start[j]:class_start[j + 1]`, hottest first; together they hold all its rows.

    Attributes:
        batch_size: samples per step over all devices.
        rows: rows of each table, shape (t,).
        dim: elements of a row, shape (t,).
        row_bytes: memory of one row, weights and optimizer state, shape (t,).
        access_bytes: traffic of one access, shape (t,).
        accesses: accesses per step over all samples of the batch, shape (t,).
        class_start: where each table's classes begin, shape (t + 1,).
        class_rows: rows in each class, shape (c,).
        class_share: share of the table's accesses that one row of the class receives, shape (c,);
            `sum(class_rows * class_share)` over a table is 1, or 0 where it is never accessed.
        network_bytes: bytes per step that holding a table sends through a device's network link, shape (t,).
        bandwidth: bytes per second of each tier as each device sees it, shape (d, k).
        pool: which memory pool backs a tier of a device, shape (d, k); devices of one node may share one.
        pool_capacity: bytes of each pool, shape (p,).
        network_bandwidth: bytes per second per device, shape (d,); infinite where the network is free.
    """

    batch_size: int
    rows: IntArray
    dim: IntArray
    row_bytes: IntArray
    access_bytes: FloatArray
    accesses: FloatArray
    class_start: IntArray
    class_rows: IntArray
    class_share: FloatArray
    network_bytes: FloatArray
    bandwidth: FloatArray
    pool: IntArray
    pool_capacity: FloatArray
    network_bandwidth: FloatArray

    @property
    def tables(self) -> int:
        """Number of tables, t."""
        return len(self.rows)

    @property
    def devices(self) -> int:
        """Number of devices, d."""
        return int(self.bandwidth.shape[0])

    @property
    def tiers(self) -> int:
        """Number of tiers, k."""
        return int(self.bandwidth.shape[1])

    @cached_property
    def table_bytes(self) -> IntArray:
        """Bytes of each table, shape (t,)."""
        return self.rows * self.row_bytes

    @cached_property
    def traffic(self) -> FloatArray:
        """Bytes that each table reads per step, shape (t,)."""
        return self.accesses * self.access_bytes

    @cached_property
    def network_ms(self) -> FloatArray:
        """Time that each table costs the network link of each device, shape (t, d)."""
        return 1e3 * self.network_bytes[:, None] / self.network_bandwidth[None, :]

    @cached_property
    def pool_users(self) -> IntArray:
        """How many (device, tier) pairs draw on each pool, shape (p,)."""
        return np.bincount(self.pool.ravel(), minlength=len(self.pool_capacity)).astype(np.int64)

    @cached_property
    def has_shared_pools(self) -> bool:
        """Whether any memory is shared between devices."""
        return bool((self.pool_users > 1).any())

    @cached_property
    def class_table(self) -> IntArray:
        """Table of each class, shape (c,)."""
        return np.repeat(np.arange(self.tables), np.diff(self.class_start))

    @cached_property
    def class_density(self) -> FloatArray:
        """Traffic per byte of memory of each class, shape (c,): the order in which rows deserve fast memory."""
        table = self.class_table
        return self.traffic[table] * self.class_share / self.row_bytes[table]

    @cached_property
    def class_order(self) -> IntArray:
        """All classes by falling density, ties in table order, shape (c,)."""
        return np.argsort(-self.class_density, kind="stable").astype(np.int64)
