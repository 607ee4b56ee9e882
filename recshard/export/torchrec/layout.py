"""Layout: what TorchRec is told of a plan, in words that are not TorchRec's: tables, parts, devices, caches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from recshard.errors import InputError
from recshard.export.tiers import Places
from recshard.export.torchrec.curve import CacheCurve, cache_curves
from recshard.plan.plan import Plan
from recshard.remap import Part, TableRemap, remap_of
from recshard.tables import EmbeddingTable

FUSED, UVM, UVM_CACHING = "fused", "fused_uvm", "fused_uvm_caching"
KERNELS = Places("TorchRec", "kernel", {"hbm": FUSED, "uvm": UVM, "host": UVM, "dram": UVM}, (FUSED, UVM))
VECTOR = 4  # columns: FBGEMM's kernels read rows in vectors of as many, and refuse other numbers

Sharding = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Layout:
    """The parts of a model's tables, and where they stand.

    Attributes:
        tables: the model's.
        tier_names: fast to slow.
        kernels: TorchRec's compute kernel for each tier: `fused` (HBM) or `fused_uvm` (host memory).
        devices: number of them; TorchRec's ranks are their indices.
        remaps: the way from each table's rows to its parts.
        curves: what a cache of each table would serve.
        lookups_per_sample: IDs that a sample has of each table's features together.
    """

    tables: tuple[EmbeddingTable, ...]
    tier_names: tuple[str, ...]
    kernels: tuple[str, ...]
    devices: int
    remaps: tuple[TableRemap, ...]
    curves: tuple[CacheCurve, ...]
    lookups_per_sample: tuple[float, ...]

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """All parts, in the order of the tables."""
        return tuple(part for remap in self.remaps for part in remap.parts)

    def keys(self, part: Part) -> list[str]:
        """Return the keys of a part's inputs, one a feature of its table: `feature@part`."""
        return [f"{feature}@{part.name}" for feature in self.tables[part.table].features]

    @cached_property
    def all_keys(self) -> list[str]:
        """The keys of all parts' inputs, in their order."""
        return [key for part in self.parts for key in self.keys(part)]

    @cached_property
    def feature_names(self) -> list[str]:
        """The model's features, in the order of the tables."""
        return [feature for table in self.tables for feature in table.features]

    @cached_property
    def sharding(self) -> Sharding:
        """TorchRec's sharding of every part, by name: each whole on its device."""
        return {
            part.name: {
                "sharding_type": "table_wise",
                "compute_kernel": self.kernels[part.tier],
                "load_factor": None,
                "shards": [{"sizes": [part.rows, part.columns], "offsets": [0, 0], "rank": part.device}],
            }
            for part in self.parts
        }


def layout_of(plan: Plan | Layout, kernels: Mapping[str, str] | None = None) -> Layout:
    """Return the layout of a plan, its remap in memory.

    Args:
        kernels: TorchRec's compute kernel for tier names other than hbm, uvm, host and dram.

    Raises:
        InputError: a tier, a name or a number of columns that TorchRec cannot have.
    """
    if isinstance(plan, Layout):
        return plan
    remaps = tuple(remap_of(plan, j) for j in range(len(plan.tables)))
    return layout_with(plan, remaps, kernels)


def layout_with(plan: Plan, remaps: tuple[TableRemap, ...], kernels: Mapping[str, str] | None = None) -> Layout:
    """Return the layout of a plan whose remap is at hand."""
    layout = Layout(
        tables=plan.tables.tables,
        tier_names=plan.tier_names,
        kernels=kernels_of(plan.tier_names, kernels),
        devices=plan.problem.devices,
        remaps=remaps,
        curves=cache_curves(plan.problem),
        lookups_per_sample=tuple((plan.problem.accesses / plan.problem.batch_size).tolist()),
    )
    check_names(layout)
    return layout


def kernels_of(tier_names: tuple[str, ...], kernels: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return TorchRec's compute kernel for each tier.

    Raises:
        InputError: a tier whose kernel is not known or that is not there, or a kernel that is neither `fused` nor
            `fused_uvm`.
    """
    return tuple(KERNELS.of(tier_names, kernels).values())


def check_names(layout: Layout) -> None:
    """Check what TorchRec asks of tables.

    Raises:
        InputError: a name with a dot, which separates the names of modules; two inputs of one name; a table
            without features; or columns that are not a multiple of four.
    """
    for part in layout.parts:
        table = layout.tables[part.table]
        if "." in part.name:
            raise InputError(
                f"table '{table.name}': part '{part.name}' has a dot in its name, which TorchRec's module names "
                "cannot have; accepted: names without dots; rename the table (or the tier)"
            )
        if not table.features:
            raise InputError(
                f"table '{table.name}': it serves no feature, so that TorchRec would take it for one of its own "
                "name; accepted: tables with a feature or more; leave the table out or name its features"
            )
        if part.columns % VECTOR:
            raise InputError(
                f"table '{table.name}': part '{part.name}' has {part.columns} columns; accepted by FBGEMM: "
                f"multiples of {VECTOR}; change the table's dim, or how it is cut (--min-dim)"
            )
    taken = set()
    for key in (part.name for part in layout.parts):
        if key in taken:
            raise InputError(f"part '{key}': found twice; accepted: names of tables that keep parts apart")
        taken.add(key)
    seen = set()
    for key in layout.all_keys:
        if key in seen:
            raise InputError(f"input '{key}': found for two parts; rename a table or a feature that has an '@'")
        seen.add(key)
