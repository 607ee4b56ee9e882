"""How long it takes to apply a remap, beside torch.index_select on an int32 table of the same size.

    python analysis/bench_remap.py

Ratios of medians within one run; `route` also divides the lookups among a hot and a cold part, bag by bag.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from recshard.remap import Part, TableRemap, rank_rows

ROWS = (100_000, 5_000_000, 100_000_000)
LOOKUPS = (100_000, 2_000_000)
TIMES = 15
LOOKUPS_PER_BAG = 10
HOT = 0.1  # share of rows in the hot part


def medians(*calls: Callable[[], object]) -> list[float]:
    """Return the median seconds of each call; they take turns, so that all meet the same machine."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(TIMES):
        for call, seconds in zip(calls, taken, strict=True):
            begin = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - begin)
    return [statistics.median(seconds) for seconds in taken]


def remap(rows: int, rng: np.random.Generator) -> TableRemap:
    """Return the remap of a table whose rows have random ranks, split into a hot and a cold part."""
    hot = int(HOT * rows)
    parts = tuple(
        Part(tier, 0, 0, 0, number, many, 0, 64, 0, 1, start)
        for number, (tier, many, start) in enumerate([("hbm", hot, 0), ("uvm", rows - hot, hot)])
    )
    return TableRemap("table", rows, parts, rank_rows(rows, rng.permutation(rows)))


def main() -> None:
    """Print a line for every size of table and number of lookups."""
    rng = np.random.default_rng(0)
    print(f"torch threads: {torch.get_num_threads()}; the remap's kernels use one")
    print(f"{'rows':>12} {'lookups':>10} {'index_select ms':>16} {'remap ÷':>8} {'remap and route ÷':>18}")
    for rows in ROWS:
        found = remap(rows, rng)
        assert found.ranks is not None
        ranks = torch.from_numpy(found.ranks)
        for lookups in LOOKUPS:
            ids = rng.integers(0, rows, lookups)
            offsets = np.arange(0, lookups + 1, LOOKUPS_PER_BAG)
            index = torch.from_numpy(ids)
            select, look_up, route = medians(
                lambda r=ranks, i=index: torch.index_select(r, 0, i),
                lambda f=found, i=ids: f.look_up(i),
                lambda f=found, i=ids, o=offsets: f.route(i, o),
            )
            ratios = f"{look_up / select:>8.2f} {route / select:>18.2f}"
            print(f"{rows:>12,} {lookups:>10,} {1e3 * select:>16.3f} {ratios}")


if __name__ == "__main__":
    main()
