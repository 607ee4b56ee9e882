"""How fast profiling is, as ratios to what others do in the same run: `python analysis/bench_profile.py`.

Counting against `numpy.bincount`, a Parquet file against pandas and Polars, a Profiler in a training loop in
nanoseconds a lookup, and with `--large` the peak memory of profiling half a billion lookups within 2 GiB.
Every time is the least of several; ratios are the median over pairs of runs, one after the other.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recshard.profile import Profiler
from recshard.profile.build import profile_trace
from recshard.profile.counter import Allowance, Counter
from recshard.tables import EmbeddingTable, TableSet
from recshard.trace import open_trace

Work = Callable[[], object]


def power_law(rng: np.random.Generator, rows: int, lookups: int, exponent: float = 1.05) -> np.ndarray:
    """Draw IDs whose ranks follow a bounded power law and are scattered over the rows, shape (lookups,)."""
    power = 1.0 - exponent
    rank = (1.0 + rng.random(lookups) * ((rows + 1.0) ** power - 1.0)) ** (1.0 / power)
    return rng.permutation(rows)[np.clip(rank.astype(np.int64) - 1, 0, rows - 1)]


def seconds(work: Work) -> float:
    """Return how long `work` takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def ratio(slower: Work, faster: Work, pairs: int) -> tuple[float, float]:
    """Return the median of `slower` ÷ `faster` over pairs of runs, and the least time of `faster`."""
    slower(), faster()
    times = [(seconds(slower), seconds(faster)) for _ in range(pairs)]
    return statistics.median(a / b for a, b in times), min(b for _, b in times)


def counter_of(rows: int, lanes: int) -> Counter:
    """Return a dense counter with room for so many threads."""
    counter = Counter(rows, Allowance(1 << 40))
    counter.add(np.arange(rows))
    assert counter.is_dense
    while counter.lanes < lanes:
        counter.add_lane()
    return counter


def bench_counting(pairs: int, lookups: int) -> None:
    """Dense counting of power-law IDs against `numpy.bincount`, on one thread and on two."""
    rng = np.random.default_rng(0)
    for rows in (1_000_000, 40_000_000):
        ids = power_law(rng, rows, lookups)
        halves = np.array_split(ids, 2)
        one, two = counter_of(rows, 1), counter_of(rows, 2)
        with ThreadPoolExecutor(2) as pool:

            def count_once(one: Counter = one, ids: np.ndarray = ids) -> None:
                one.add(ids)

            def count_twice(two: Counter = two, halves: list[np.ndarray] = halves) -> None:
                jobs = [pool.submit(two.add, half, 0, lane) for lane, half in enumerate(halves)]
                assert sum(job.result() for job in jobs) == lookups

            def bincount(ids: np.ndarray = ids, rows: int = rows) -> np.ndarray:
                return np.bincount(ids, minlength=rows)

            assert one.add(ids) == lookups
            over_numpy, fastest = ratio(bincount, count_once, pairs)
            over_one, _ = ratio(count_once, count_twice, pairs)
        print(
            f"dense counting, {rows:,} rows: {lookups / fastest / 1e6:,.0f} million lookups/s on one thread, "
            f"{over_numpy:.2f} × numpy.bincount; two threads {over_one:.2f} × one",
            flush=True,
        )


def write_log(path: Path, samples: int) -> list[str]:
    """Write a Parquet file of 26 columns of IDs, like a day of Criteo; return their names."""
    rng = np.random.default_rng(1)
    rows = [10, 100, 1_000, 10_000, 100_000, 300_000, 1_000_000, 3_000_000]
    columns = {f"cat_{k}": power_law(rng, rows[k % len(rows)], samples) for k in range(26)}
    pq.write_table(pa.table(columns), path, row_group_size=1 << 18)
    return list(columns)


def bench_parquet(pairs: int, samples: int) -> None:
    """A Parquet file to counts of counts, against pandas and Polars."""
    import pandas as pd
    import polars as pl

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        names = write_log(path, samples)

        def by_pandas() -> object:
            frame = pd.read_parquet(path)
            return {name: frame[name].value_counts().value_counts() for name in names}

        def by_polars() -> object:
            frame = pl.read_parquet(path)
            counts = {name: frame[name].value_counts() for name in names}
            return {name: counts[name]["count"].value_counts(name="rows") for name in names}

        def by_polars_lazily() -> object:
            log = pl.scan_parquet(path)
            return pl.collect_all(
                [log.group_by(name).len("count").group_by("count").len("rows") for name in names]
            )

        def here() -> object:
            return profile_trace(open_trace(path)).stats

        rate = 26 * samples
        for what, other in (("pandas", by_pandas), ("Polars", by_polars), ("Polars, lazily", by_polars_lazily)):
            over, fastest = ratio(other, here, pairs)
            print(
                f"Parquet, {samples:,} rows × 26 columns: {rate / fastest / 1e6:,.0f} million lookups/s, "
                f"{over:.2f} × {what}",
                flush=True,
            )


def bench_loop(steps: int) -> None:
    """A Profiler fed by a training loop: nanoseconds a lookup, which is milliseconds a million lookups."""
    rng = np.random.default_rng(2)
    for batch_size in (512, 8_192, 65_536):
        tables = TableSet(tuple(EmbeddingTable(f"t{k}", 1_000_000, features=(f"t{k}",)) for k in range(26)))
        lengths = np.full(batch_size, 4)
        batches = [
            {f"t{k}": (power_law(rng, 1_000_000, 4 * batch_size), lengths) for k in range(26)} for _ in range(3)
        ]
        profiler = Profiler(tables)
        for batch in batches:
            profiler.update(batch)
        count = max(3, steps * 512 // batch_size)
        took = seconds(lambda b=batches, p=profiler, n=count: [p.update(b[k % 3]) for k in range(n)])
        per_lookup = took / (count * 26 * 4 * batch_size)
        print(
            f"Profiler.update, batches of {batch_size:,} samples × 26 features × 4 IDs: "
            f"{1e9 * per_lookup:.1f} ms a million lookups",
            flush=True,
        )


def bench_memory() -> None:
    """The recipe `large` within 2 GiB: peak resident memory of a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        took = seconds(
            lambda: subprocess.run(
                [sys.executable, "-m", "recshard", "synth", "large", "--profile", f"{folder}/p", "--memory", "2"],
                check=True,
            )
        )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"recipe 'large' within 2 GiB: {took:.0f} s, peak resident memory {peak / 2**20:.2f} GiB", flush=True)


def main() -> None:
    """Run the benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=7, help="pairs of runs for every ratio")
    parser.add_argument("--lookups", type=int, default=30_000_000, help="of the counting benchmark")
    parser.add_argument("--samples", type=int, default=2_000_000, help="of the Parquet benchmark")
    parser.add_argument("--large", action="store_true", help="also half a billion lookups within 2 GiB")
    options = parser.parse_args()
    bench_counting(options.pairs, options.lookups)
    bench_parquet(options.pairs, options.samples)
    bench_loop(200)
    if options.large:
        bench_memory()


if __name__ == "__main__":
    main()
