"""Tables behind a page cache answer as unsplit ones."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from recshard.bench.lru import PAGE
from recshard.bench.paged import PagedShards, layout
from recshard.bench.steps import rows_of
from recshard.errors import InputError
from recshard.remap import remap_of
from tests.plans import Kind, cut_case, homes


@pytest.mark.parametrize("kind", ["none", "column", "row", "both"])
@pytest.mark.parametrize("frames", [0, 3, 100])
def test_a_page_cache_gives_what_unsplit_tables_give_however_small_it_is(
    tmp_path: Path, kind: Kind, frames: int
) -> None:
    case = cut_case(np.random.default_rng(frames), kind)
    plan = case.plan
    whole = [torch.randn(t.rows, t.dim) for t in plan.tables.tables]
    own_rows = [sorted(home) for j in range(len(plan.tables)) for home in homes(plan, j)]

    def weights(shard: int, first: int, end: int) -> torch.Tensor:
        columns = slice(
            plan.shards.first_column[shard], plan.shards.first_column[shard] + plan.shards.columns[shard]
        )
        return whole[plan.shards.table[shard]][own_rows[shard][first:end], columns]

    remaps = [remap_of(plan, j) for j in range(len(plan.tables))]
    rows = rows_of(next(case.trace.batches(60)), plan.tables, "memory")
    sums = {t.name: torch.zeros(60, t.dim) for t in plan.tables.tables}
    for d in set(plan.placement.device.tolist()):
        device = PagedShards(plan, d, remaps, tmp_path, frames, weights)
        for (feature, s), pooled in device.forward(rows).items():
            first = int(plan.shards.first_column[s])
            sums[feature][:, first : first + int(plan.shards.columns[s])] += pooled
        assert device.bytes == layout(plan, d)[1] == (tmp_path / f"device-{d}.pages").stat().st_size
        assert device.bytes % PAGE == 0
        device.close()
    for j, table in enumerate(plan.tables.tables):
        values, lengths = rows[table.name]
        bags = torch.nn.EmbeddingBag.from_pretrained(whole[j], mode="sum", include_last_offset=True)
        expected = bags(torch.tensor(values), torch.tensor(np.concatenate([[0], np.cumsum(lengths)])))
        torch.testing.assert_close(sums[table.name], expected)


def test_a_disk_that_fills_up_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = cut_case(np.random.default_rng(0), "none").plan
    remaps = [remap_of(plan, j) for j in range(len(plan.tables))]

    def fail(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", fail)
    message = r"the file behind the page cache, \d+ bytes, cannot be written: No space left.*another --folder"
    with pytest.raises(InputError, match=message):
        PagedShards(plan, int(plan.placement.device[0]), remaps, tmp_path, 3, lambda *_: torch.zeros(1, 1))
