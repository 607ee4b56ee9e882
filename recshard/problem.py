"""The door to every strategy: Profile + Topology + Workload as plain arrays.

Nothing behind this door knows of files, names or traces. Tables are indexed 0 … t-1, devices 0 … d-1, tiers
0 … k-1 from fast to slow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from recshard.errors import InputError
from recshard.profile.profile import Profile
from recshard.profile.unseen import expected_shares
from recshard.tables import check_size
from recshard.topology import Topology, check_topology

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
        row_state_bytes: how much of that is kept once a row, however many columns it has, shape (t,).
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
    row_state_bytes: IntArray
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


@dataclass(frozen=True)
class Workload:
    """How the model runs.

    Attributes:
        batch_size: samples per step over all devices; None: what tables.toml says.
        training: whether gradients travel back through the network as well.
        traffic_multiplier: bytes moved per byte of weights accessed, such as 3 for a read, a read of the
            gradient's row and a write of the update.
        unseen: whether the Good–Turing estimate corrects the counts for rows that the trace does not show.
    """

    batch_size: int | None = None
    training: bool = True
    traffic_multiplier: float = 1.0
    unseen: bool = True


_MOST_BYTES = 2.0**62
_MOST_TRAFFIC = 1e100  # bytes a step: leaves room for products and quotients of costs
_ROUNDING = 1e-6
OUTPUT_BYTES = 4  # pooled outputs travel as float32


def build_problem(profile: Profile, topology: Topology, workload: Workload | None = None) -> PlacementProblem:
    """Return the arrays that strategies work on.

    Capacities given as a share of the model are resolved here; a tier that a device lacks has no bytes. All
    that a table's features pool for other devices' samples crosses its device's network link.

    Raises:
        InputError: a batch size or traffic multiplier that is not above zero or beyond all measure, or a
            topology without devices.
    """
    check_topology(topology)
    workload = workload or Workload()
    batch_size = profile.tables.batch_size if workload.batch_size is None else workload.batch_size
    try:
        check_size(batch_size, "batch size")
    except ValueError as error:
        raise InputError(str(error)) from None
    if not 0 < workload.traffic_multiplier <= _MOST_TRAFFIC:
        raise InputError(
            f"traffic multiplier: found {workload.traffic_multiplier}; accepted: a number above zero, up to "
            f"{_MOST_TRAFFIC:g}"
        )
    tables = profile.tables.tables
    classes = [_classes(profile, j, workload.unseen) for j in range(len(tables))]
    dim = np.array([t.dim for t in tables], dtype=np.int64)
    devices = len(topology.devices)
    crossing = batch_size * OUTPUT_BYTES * (devices - 1) / devices * (2 if workload.training else 1)
    bandwidth, pool, capacity = _memory(topology, float(profile.tables.model_bytes))
    network = np.inf if topology.network_bandwidth is None else topology.network_bandwidth
    return PlacementProblem(
        batch_size=batch_size,
        rows=np.array([t.rows for t in tables], dtype=np.int64),
        dim=dim,
        row_bytes=np.array([t.row_bytes for t in tables], dtype=np.int64),
        row_state_bytes=np.array([t.row_state_bytes for t in tables], dtype=np.int64),
        access_bytes=np.array([t.weight_bytes * workload.traffic_multiplier for t in tables]),
        accesses=np.array([batch_size * profile.accesses_per_sample(j) for j in range(len(tables))]),
        class_start=np.concatenate([[0], np.cumsum([len(rows) for rows, _ in classes])]).astype(np.int64),
        class_rows=np.concatenate([rows for rows, _ in classes]),
        class_share=np.concatenate([share for _, share in classes]),
        network_bytes=crossing * dim * np.array([len(t.features) for t in tables]),
        bandwidth=bandwidth,
        pool=pool,
        pool_capacity=capacity,
        network_bandwidth=np.full(devices, network),
    )


def check_problem(problem: PlacementProblem) -> None:
    """Check the numbers that strategies trust.

    Raises:
        InputError: a number that is not finite or is negative, shares that do not add up to 1, or a table of more
            bytes than 64 bits count; names the array and the table.
    """
    for name in ("rows", "row_bytes", "access_bytes", "accesses", "network_bytes"):
        values = getattr(problem, name)
        wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
        if len(wrong):
            raise InputError(
                f"problem: {name} of table {wrong[0]}: found {values[wrong[0]]}; accepted: a finite number from 0"
            )
    with np.errstate(over="ignore"):
        traffic = problem.traffic
    if not traffic.sum() <= _MOST_TRAFFIC:
        worst = int(np.argmax(traffic))
        raise InputError(
            f"problem: accesses × access_bytes of table {worst}: found {traffic[worst]:.3g} bytes a step; "
            f"accepted: up to {_MOST_TRAFFIC:.3g} in all; lower the traffic multiplier or the batch size"
        )
    held = problem.rows.astype(np.float64) * problem.row_bytes
    if held.sum() > _MOST_BYTES:
        largest = int(np.argmax(held))
        raise InputError(
            f"problem: table {largest} has {problem.rows[largest]} rows of {problem.row_bytes[largest]} bytes, "
            f"all tables {held.sum():.3g} bytes; accepted: up to {_MOST_BYTES:.3g} in all; give it fewer rows "
            "or a smaller dim"
        )
    used = np.bincount(problem.class_table, problem.class_rows * problem.class_share, minlength=problem.tables)
    sound = np.bincount(problem.class_table, ~(problem.class_share >= 0), minlength=problem.tables) == 0
    wrong = np.flatnonzero(~(sound & ((np.abs(used - 1) < _ROUNDING) | (used == 0))))
    if len(wrong):
        raise InputError(
            f"problem: class_share of table {wrong[0]}: found shares that add up to {used[wrong[0]]}; accepted: "
            "shares from 0 that add up to 1, or to 0 where the table is never accessed"
        )
    for name in ("bandwidth", "network_bandwidth", "pool_capacity"):
        values = np.asarray(getattr(problem, name)).ravel()
        if not (values >= 0).all() or (name != "pool_capacity" and not (values > 0).all()):
            raise InputError(f"problem: {name}: found {values.min()}; accepted: numbers above zero")


def _classes(profile: Profile, index: int, unseen: bool) -> tuple[IntArray, FloatArray]:
    """Return rows and share per row of a table's frequency classes; the rows never seen are the last class."""
    stats = profile.stats[index]
    missing = profile.tables.tables[index].rows - stats.seen_rows
    if not stats.lookups:
        return np.array([missing]), np.zeros(1)
    if unseen:
        share, rest = expected_shares(stats.class_count, stats.class_rows, missing)
    else:
        share, rest = stats.class_count / stats.lookups, 0.0
    if not missing:
        return stats.class_rows, share
    return np.append(stats.class_rows, missing), np.append(share, rest)


def _memory(topology: Topology, model_bytes: float) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return bandwidth (d, k), pool (d, k) and pool capacities (p,), tiers in the topology's order."""
    names = topology.tier_names
    devices = topology.devices
    nodes = 1 + max(device.node for device in devices)
    bandwidth = np.empty((len(devices), len(names)))
    pool = np.empty((len(devices), len(names)), dtype=np.int64)
    capacity: list[float] = []
    node_pool: dict[tuple[int, int], int] = {}
    for device in devices:
        own = {tier.name: tier for tier in device.tiers}
        for k, name in enumerate(names):
            tier = own.get(name)
            # A missing tier holds nothing, so its speed matters to nobody; it keeps the order of tiers.
            slower = [own[n].bandwidth for n in names[k:] if n in own]
            faster = [own[n].bandwidth for n in names[:k] if n in own]
            bandwidth[device.index, k] = slower[0] if slower else faster[-1]
            shared = tier is not None and tier.shared == "node"
            if shared and (device.node, k) in node_pool:
                pool[device.index, k] = node_pool[device.node, k]
                continue
            pool[device.index, k] = len(capacity)
            if shared:
                node_pool[device.node, k] = len(capacity)
            if tier is None:
                capacity.append(0.0)
            elif tier.share is not None:
                capacity.append(tier.share * model_bytes / (nodes if shared else len(devices)))
            else:
                capacity.append(float(tier.capacity or 0.0))
    return bandwidth, pool, np.array(capacity)
