"""The parts of a plan that one device (or several) holds, and their lookups."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from recshard.errors import InputError
from recshard.plan.plan import Plan
from recshard.remap import Part, TableRemap, parts_of, rank_rows
from recshard.runtime.batch import Bags, Batch, joined, read_batch
from recshard.runtime.file_rows import FileRoom
from recshard.runtime.lookup import Lookups, read_direct
from recshard.runtime.memory import allocate, dtype_of, memories
from recshard.runtime.modes import modes_of
from recshard.runtime.table_parts import TableParts, wanted_parts
from recshard.tables import TableSet


class DeviceShards(nn.Module):
    """The parts of a plan that one device (or several) holds, and their lookups.

    Attributes:
        model: all tables of the plan.
        tables: the parts of every table that has any here, in the plan's order.
    """

    def __init__(self, model: TableSet, tables: Sequence[TableParts]) -> None:
        """Take tables that were made."""
        super().__init__()
        self.model = model
        self.tables = nn.ModuleList(tables)
        declared = {table.name: table for table in model.tables}
        self._features = {table.remap.table: declared[table.remap.table].features for table in tables}
        self._needed = [feature for features in self._features.values() for feature in features]

    @classmethod
    def from_plan(
        cls,
        plan: Plan,
        devices: Collection[int] | None = None,
        *,
        places: Mapping[str, str] | None = None,
        folder: str | Path | None = None,
        direct: bool = False,
        remaps: Sequence[TableRemap] | None = None,
        mode: str | Mapping[str, str] = "sum",
        random: bool = True,
    ) -> Self:
        """Return the parts that stand on some devices of a plan, their rows random (see `reset_parameters`).

        Args:
            devices: by number; None: all.
            places: the memory of a tier, by name, where it is not the usual one (see `memories`).
            folder: where the file tier has its files, in a folder of their own that is removed with the module;
                None: the system's folder for temporary files.
            direct: lookups in the file tier go past the page cache.
            remaps: of the tables, where they are there already.
            mode: `sum` or `mean`, of all tables or by name; tables not named have `sum`.
            random: False: rows are 0, and those in files need not be written.

        Raises:
            InputError: a device, tier or table that is not there, a dtype that is not executed, or a full disk.
        """
        known = plan.problem.devices
        for device in devices or ():
            if not 0 <= device < known:
                raise InputError(f"devices: found {device}; accepted: 0 to {known - 1}, the plan's devices")
        kinds, modes = memories(plan.tier_names, places), modes_of(plan.tables, mode)
        found = _remaps(plan, devices, {remap.table: remap for remap in remaps or ()})
        room = FileRoom(folder)
        held, wanted = [], []
        for j, remap in found.items():
            mine = [part for part in remap.parts if devices is None or part.device in devices]
            held.append(mine)
            wanted += wanted_parts(mine, kinds, dtype_of(remap.table, plan.tables.tables[j].dtype))
        blocks = iter(allocate(wanted, room))
        tables = [
            TableParts(
                remap, plan.tables.tables[j].dim, mine, [next(blocks) for _ in mine], room,
                mode=modes[remap.table], direct=direct,
            )
            for (j, remap), mine in zip(found.items(), held, strict=True)
        ]  # fmt: skip
        module = cls(plan.tables, tables)
        if random:
            module.reset_parameters()
        return module

    def reset_parameters(self) -> None:
        """Draw every row anew, uniform within ± 1 ÷ √(rows of its table), as DLRM does."""
        for table in self.tables:
            assert isinstance(table, TableParts)
            for _, weight, block in table.parts():
                nn.init.uniform_(block.host, -(table.remap.rows**-0.5), table.remap.rows**-0.5)
                torch.autograd.graph.increment_version(weight)

    def forward(self, batch: Batch) -> dict[tuple[str, int], Tensor]:
        """Return what every shard adds to every feature of its table, shape (bags, columns).

        Args:
            batch: (rows, lengths) or (rows, lengths, weights) by feature, or a KeyedJaggedTensor; features of
                tables that have no part here may be left out.

        Returns:
            by feature and index of the shard in the plan, the pooled rows, those of all tiers added up; all on the
            GPU where any rows are in its reach.

        Raises:
            InputError: a batch that does not fit the model; see `read_batch` and `TableParts.forward`.
        """
        bags = read_batch(batch, self.model.table_index, self._needed)
        tables = [table for table in self.tables if isinstance(table, TableParts)]
        asked = [[bags[feature] for feature in self._features[table.remap.table]] for table in tables]
        whole = [joined(own) for own in asked]
        lookups = [self._look_up(table, own, each) for table, own, each in zip(tables, whole, asked, strict=True)]
        read_direct(chain.from_iterable(own.values() for own in lookups))
        out: dict[tuple[str, int], Tensor] = {}
        device = self._device()
        for table, all_bags, own, found in zip(tables, whole, asked, lookups, strict=True):
            for shard, total in table.pool(all_bags, found).items():
                there, size = total.to(device), len(own[0])
                for number, feature in enumerate(self._features[table.remap.table]):
                    out[feature, shard] = there[number * size : (number + 1) * size]
        return out

    def _look_up(self, table: TableParts, bags: Bags, by_feature: Sequence[Bags]) -> dict[int, Lookups]:
        try:
            return table.look_up(bags)
        except InputError:
            for feature, own in zip(self._features[table.remap.table], by_feature, strict=True):
                try:
                    table.remap.check(own.values)
                except InputError as error:
                    raise InputError(f"feature '{feature}': {error}") from None
            raise

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *others: Any) -> None:
        # Before the first table is written, each has refused what is of another plan.
        for number, table in enumerate(self.tables):
            key = f"{prefix}tables.{number}._extra_state"
            if isinstance(table, TableParts) and key in state_dict:
                table.set_extra_state(state_dict[key])
        super()._load_from_state_dict(state_dict, prefix, *others)

    def _device(self) -> torch.device:
        devices = {table.device for table in self.tables if isinstance(table, TableParts)}
        return next((device for device in devices if device.type == "cuda"), torch.device("cpu"))


def _remaps(plan: Plan, devices: Collection[int] | None, given: Mapping[str, TableRemap]) -> dict[int, TableRemap]:
    """Return the remap of every table that has a part on one of the devices, by its index."""
    parts: dict[int, list[Part]] = {}
    for part in parts_of(plan):
        parts.setdefault(part.table, []).append(part)
    found = {}
    for j, mine in parts.items():
        if devices is not None and not any(part.device in devices for part in mine):
            continue
        table = plan.tables.tables[j]
        remap = given.get(table.name)
        if remap is None:
            ranks = rank_rows(table.rows, plan.hot_rows(j)) if plan.needs_hot_rows(j) else None
            remap = TableRemap(table.name, table.rows, tuple(mine), ranks)
        elif remap.rows != table.rows or remap.parts != tuple(mine):
            raise InputError(
                f"table '{table.name}': the remap given is of another plan; make it from this one with remap_of"
            )
        found[j] = remap
    return found
