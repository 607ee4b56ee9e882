"""How fast profiling is, as ratios to what others do in the same run: `python analysis/bench_profile.py`.

Counting against `numpy.bincount`, a Parquet file against pandas and Polars, a Profiler in a training loop in
nanoseconds a lookup, and with `--large` the peak memory of profiling half a billion lookups within 2 GiB.
Every time is the least of several; ratios are the median over pairs of runs, one after the other.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
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
    return rng.permutation(rows)[power_law_ranks(rng, rows, lookups, exponent)]


def power_law_ranks(rng: np.random.Generator, rows: int, lookups: int, exponent: float = 1.05) -> np.ndarray:
    """Draw ranks from 0 on, shape (lookups,)."""
    power = 1.0 - exponent
    rank = (1.0 + rng.random(lookups) * ((rows + 1.0) ** power - 1.0)) ** (1.0 / power)
    return np.clip(rank.astype(np.int64) - 1, 0, rows - 1)


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


@numba.njit(nogil=True)
def arithmetic(steps: int) -> float:
    """Compute without touching memory: what two threads gain on it is what the machine has to give."""
    value = 0.0
    for step in range(steps):
        value += step * 1e-9 / (1.0 + value)
    return value


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
            gain, _ = ratio(
                lambda: arithmetic(20_000_000), lambda: list(pool.map(arithmetic, [10_000_000] * 2)), pairs
            )
        print(
            f"dense counting, {rows:,} rows: {lookups / fastest / 1e6:,.0f} million lookups/s on one thread, "
            f"{over_numpy:.2f} × numpy.bincount; two threads {over_one:.2f} × one "
            f"(arithmetic alone: {gain:.2f})",
            flush=True,
        )


# MLPerf DLRM-DCNv2: rows of the 26 tables, and lookups a sample of its multi-hot form.
ROWS = (
    *(40_000_000, 39_060, 17_295, 7_424, 20_265, 3, 7_122, 1_543, 63, 40_000_000, 3_067_956, 405_282, 10),
    *(2_209, 11_938, 155, 4, 976, 14, 40_000_000, 40_000_000, 40_000_000, 590_152, 12_973, 108, 36),
)
LOOKUPS = (3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1)


def write_log(path: Path, samples: int, multi_hot: bool) -> int:
    """Write a Parquet file of 26 columns of power-law IDs, scalars or lists; return its lookups."""
    rng = np.random.default_rng(1)
    schema = pa.schema([(f"cat_{k}", pa.list_(pa.int64()) if multi_hot else pa.int64()) for k in range(26)])
    scatter = [rng.permutation(rows) for rows in ROWS]
    lookups = 0
    with pq.ParquetWriter(path, schema) as writer:
        for begin in range(0, samples, 1 << 16):
            size = min(1 << 16, samples - begin)
            columns = []
            for k, rows in enumerate(ROWS):
                lengths = rng.poisson(LOOKUPS[k], size) if multi_hot else np.ones(size, dtype=np.int64)
                rank = power_law_ranks(rng, rows, int(lengths.sum()))
                values = pa.array(scatter[k][rank])
                offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
                columns.append(pa.ListArray.from_arrays(offsets, values) if multi_hot else values)
                lookups += len(values)
            writer.write_table(pa.table(columns, schema=schema))
    return lookups


def bench_parquet(pairs: int, samples: int, multi_hot: bool) -> None:
    """A Parquet file to counts of counts and lengths, of declared tables, against pandas and Polars."""
    import pandas as pd
    import polars as pl

    names = [f"cat_{k}" for k in range(26)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        lookups = write_log(path, samples, multi_hot)

        def by_pandas() -> object:
            frame = pd.read_parquet(path)
            columns = {name: frame[name].explode().dropna() if multi_hot else frame[name] for name in names}
            lengths = {name: frame[name].map(len).value_counts() for name in names} if multi_hot else {}
            return lengths, {name: columns[name].value_counts().value_counts() for name in names}

        def by_polars() -> object:
            log = pl.scan_parquet(path)
            wanted = []
            for name in names:
                column = log.select(name)
                if multi_hot:
                    wanted.append(column.group_by(pl.col(name).list.len()).len("samples"))
                    column = column.explode(name).drop_nulls()
                wanted.append(column.group_by(name).len("count").group_by("count").len("rows"))
            return pl.collect_all(wanted)

        tables = TableSet(
            tuple(EmbeddingTable(name, rows, features=(name,)) for name, rows in zip(names, ROWS, strict=True))
        )

        def here() -> object:
            return profile_trace(open_trace(path), tables).stats

        what = f"Parquet, {samples:,} rows × 26 columns{' of lists' if multi_hot else ''}, {lookups:,} lookups"
        for name, other in (("pandas", by_pandas), ("Polars", by_polars)):
            over, fastest = ratio(other, here, pairs)
            print(f"{what}: {lookups / fastest / 1e6:,.0f} million lookups/s, {over:.2f} × {name}", flush=True)


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
    """The recipe `large` within 2 GiB: peak resident memory of a process of its own, as that tells it."""
    code = (
        "import sys; from recshard.cli.app import app; "
        "app(['synth', 'large', '--profile', sys.argv[1], '--memory', '2'], standalone_mode=False); "
        "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        command = [sys.executable, "-c", code, f"{folder}/p"]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        took = time.perf_counter() - begin
    peak = int(done.stdout.split("VmHWM:")[1].split()[0])
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
    bench_parquet(options.pairs, options.samples, multi_hot=False)
    bench_parquet(options.pairs, options.samples // 16, multi_hot=True)
    bench_loop(200)
    if options.large:
        bench_memory()


if __name__ == "__main__":
    main()
