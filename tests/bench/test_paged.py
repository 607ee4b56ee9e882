"""Tables behind a page cache answer as unsplit ones."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import numpy as np
import pytest
import torch

from recshard.bench.lru import PAGE
from recshard.bench.paged import PagedShards, layout
from recshard.bench.steps import rows_of
from recshard.errors import InputError
from recshard.plan import Plan
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


def paged(plan: Plan, folder: Path) -> PagedShards:
    def weights(shard: int, first: int, end: int) -> torch.Tensor:
        return torch.zeros(end - first, int(plan.shards.columns[shard]))

    return PagedShards(plan, 0, [remap_of(plan, j) for j in range(len(plan.tables))], folder, 3, weights)


def test_a_disk_that_is_full_is_one_message_and_leaves_no_file(tmp_path: Path) -> None:
    plan = cut_case(np.random.default_rng(0), "none", devices=1).plan
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(InputError, match=r"no room for the file of the page cache: .*; needed: .* --folder"):
            paged(plan, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_pages_are_on_the_disk_before_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_size))
    made = paged(cut_case(np.random.default_rng(0), "none", devices=1).plan, tmp_path)
    assert synced == [made.bytes]
    made.close()
