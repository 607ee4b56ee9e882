"""The parts of one table that a process holds, and their lookups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from recshard.errors import InputError
from recshard.remap import Part, TableRemap
from recshard.runtime.batch import Bags
from recshard.runtime.file_rows import FileRoom
from recshard.runtime.lookup import DirectRows, Lookups, pooled, read_direct
from recshard.runtime.memory import Block, Kind, Wanted, allocate, same_bytes
from recshard.runtime.modes import check_mode


class TableParts(nn.Module):
    """Some or all parts of one table, each a parameter in the memory of its tier.

    The parts stay where the plan puts them: `to`, `cuda` and `half` leave them alone.

    Attributes:
        remap: of the table, with all its parts.
        dim: of the table.
        dtype: of the weights.
        mode: how a bag is pooled.
        held: the parts that are here, in the order of `weights`.
        weights: one a part, shape (part.rows, part.columns).
        blocks: the memory of each.
        room: where files of the file tier are made.
    """

    def __init__(
        self,
        remap: TableRemap,
        dim: int,
        held: Sequence[Part],
        blocks: Sequence[Block],
        room: FileRoom,
        *,
        mode: str = "sum",
        direct: bool = False,
    ) -> None:
        """Take parts that were allocated.

        Args:
            direct: lookups in files go past the page cache.

        Raises:
            InputError: an unknown mode.
        """
        super().__init__()
        check_mode(remap.table, mode)
        self.remap, self.dim, self.mode, self.room = remap, dim, mode, room
        self.held, self.blocks = tuple(held), tuple(blocks)
        self.dtype = blocks[0].tensor.dtype
        self.weights = nn.ParameterList([nn.Parameter(block.tensor) for block in blocks])
        self._position = {part: at for at, part in enumerate(self.held)}
        self._rows_held: Tensor | None = None
        self._direct = [DirectRows(block) if direct and block.file else None for block in blocks]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a table of the same rows in memory, and files, of its own.

        Raises:
            InputError: a file does not fit on its disk.
        """
        room = memo.setdefault(id(self.room), self.room.another())
        kept = list(self.parts())
        blocks = allocate([Wanted(block.kind, tuple(w.shape), self.dtype) for _, w, block in kept], room)
        direct = any(reader is not None for reader in self._direct)
        made = type(self)(self.remap, self.dim, self.held, blocks, room, mode=self.mode, direct=direct)
        for (_, weight, _), copied in zip(kept, made.weights, strict=True):
            with torch.no_grad():
                same_bytes(copied).copy_(same_bytes(weight))
            copied.requires_grad_(weight.requires_grad)
            memo[id(weight)] = copied
        return made.train(self.training)

    @property
    def is_whole(self) -> bool:
        """Whether every part of the table is here."""
        return len(self.held) == len(self.remap.parts)

    def parts(self) -> Iterator[tuple[Part, nn.Parameter, Block]]:
        """Yield every part that is here, with its rows as lookups see them and where they live.

        Raises:
            InputError: a parameter was given other memory than that of its tier.
        """
        for part, weight, block in zip(self.held, self.weights, self.blocks, strict=True):
            if weight.data_ptr() != block.tensor.data_ptr():
                raise InputError(
                    f"table '{self.remap.table}': the rows of part '{part.name}' are no longer in the memory of "
                    "their tier (load_state_dict with assign=True does that); accepted: values copied into the "
                    "parameters; use load_whole, load_checkpoint or load_state_dict without assign"
                )
            yield part, weight, block

    def forward(self, bags: Bags) -> dict[int, Tensor]:
        """Return the pooled rows of each shard that is here, by its index in the plan, shape (bags, columns).

        A row shard gives what its rows contribute. Where shards' outputs come together is `self.device`.

        Raises:
            InputError: as `look_up`, or rows in a file that cannot be read.
        """
        found = self.look_up(bags)
        read_direct(found.values())
        return self.pool(bags, found)

    def look_up(self, bags: Bags) -> dict[int, Lookups]:
        """Return the lookups of each part that is here, by its place among them.

        Raises:
            InputError: a row beyond the table, or weights where bags are averaged.
        """
        if bags.weights is not None and self.mode == "mean":
            raise InputError(
                f"table '{self.remap.table}': weights of lookups are accepted where bags are summed (mode='sum'); "
                "found mode='mean'"
            )
        found: dict[int, Lookups] = {}
        for routed in self.remap.route(bags.values, bags.offsets):
            at = self._position.get(routed.part)
            if at is None:
                continue
            weights = bags.weights
            if weights is not None and routed.lookups is not None:
                weights = weights.index_select(0, torch.from_numpy(routed.lookups).to(weights.device))
            slots = torch.from_numpy(routed.slots)
            if routed.slots is bags.values and (torch.is_grad_enabled() or self.weights[at].is_cuda):
                slots = slots.clone()  # the caller's memory may hold the next batch before these are read again
            offsets = torch.from_numpy(routed.offsets)
            found[at] = Lookups(self.weights[at], slots, offsets, weights, self._direct[at])
        return found

    def pool(self, bags: Bags, lookups: Mapping[int, Lookups]) -> dict[int, Tensor]:
        """Return what `forward` does, from lookups whose rows in files were read."""
        sums: dict[int, Tensor] = {}
        for at, own in lookups.items():
            found, shard = pooled(own).to(self.device), self.held[at].shard
            if shard in sums:
                # in place: pooled sums are as large as the output, and no gradient needs them
                sums[shard] += found
            else:
                sums[shard] = found
        if self.mode == "mean":
            size = torch.from_numpy(bags.lengths).clamp(min=1).to(self.device, self.dtype)[:, None]
            sums = {shard: total / size for shard, total in sums.items()}
        return sums

    def flush(self) -> None:
        """Write to their disk the rows that lookups read past the page cache, as the first of them would do."""
        for weight, direct in zip(self.weights, self._direct, strict=True):
            if direct is not None:
                direct.flush(weight)

    @property
    def device(self) -> torch.device:
        """Where pooled rows come out: on the GPU where it holds or reads one of the parts."""
        return next((w.device for w in self.weights if w.is_cuda), torch.device("cpu"))

    def get_extra_state(self) -> Tensor:
        """Return for `state_dict` which rows the parts hold, in eight bytes: their shapes do not tell."""
        if self._rows_held is None:
            self._rows_held = torch.tensor(self.remap.digest(self.held))
        return self._rows_held

    def set_extra_state(self, state: Tensor) -> None:
        """Refuse in `load_state_dict` the parts of another plan.

        Raises:
            InputError: they hold other rows than these.
        """
        if not torch.equal(state.cpu(), self.get_extra_state()):
            raise InputError(
                f"table '{self.remap.table}': the state dict is of another plan, whose parts hold other rows; "
                "accepted: one of this plan; load whole tables with load_whole or load_checkpoint"
            )

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        return self


def wanted_parts(held: Sequence[Part], kinds: Sequence[Kind], dtype: torch.dtype) -> list[Wanted]:
    """Return what to allocate for the weights of some parts, `kinds` being the memory of each tier."""
    return [Wanted(kinds[part.tier], (part.rows, part.columns), dtype) for part in held]


def new_states(tables: Sequence[TableParts]) -> list[Block]:
    """Return a float32 number for every row of every part, 0 at first, in the same memory as the part's rows.

    Raises:
        InputError: a file does not fit on its disk.
    """
    found: list[Block] = []
    for room in dict.fromkeys(table.room for table in tables):
        wanted = [
            Wanted(block.kind, (part.rows,), torch.float32)
            for table in tables
            if table.room is room
            for part, _, block in table.parts()
        ]
        found += allocate(wanted, room)
    return found
