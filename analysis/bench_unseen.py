"""How well a sample predicts the slow accesses of the samples it does not hold.

    python analysis/bench_unseen.py --data FOLDER [--fraction 0.1] [--seeds 10]

FOLDER holds the public data sets `amazon-book`, `ml-100k` and `frappe`, each in a folder of that name. Every
feature is a table with the rows that the whole trace implies. Whole samples are drawn at random; the hottest 5%,
20% and 50% of the rows by the sample's counts (rounded up, equal counts by rising row) are kept fast; the other
samples are replayed. A cell is one feature with one of these shares, and its error is

    |predicted slow share − true slow share| ÷ true slow share, averaged over the seeds.

Cells in which nothing is slow in truth have no such error: they are left out and counted, and the largest slow
share that was predicted there is printed. The columns of the table:

    raw      the sample's counts as they are
    estimate recshard.profile.unseen.expected_shares
    ties     the true mean share of each class of equal counts: what no function of the counts can beat
    noise    half the difference between two random halves of the replayed samples: the luck in the truth itself

The same is printed for drawn power laws (all shares equal at exponent 0), and then the time the estimate takes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recshard.profile.build import profile_trace
from recshard.profile.unseen import expected_shares
from recshard.trace import open_trace
from recshard.trace.hashing import to_rows

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

DATA_SETS = ("amazon-book", "ml-100k", "frappe")
KEPT_SHARES = (0.05, 0.2, 0.5)
METHODS = ("raw", "estimate", "ties")
MISLED = 0.05  # relative error from which on a sample's own counts mislead


class Draw(NamedTuple):
    """Lookups of every row of one table, each of shape (rows,): in the sample, and in two halves of the rest."""

    sample: IntArray
    first: IntArray
    second: IntArray


Table = Callable[[np.random.Generator], Draw]


class Cell(NamedTuple):
    """One table with one share of its rows kept fast; arrays over the seeds, shape (seeds,).

    Attributes:
        name: the table and the share kept.
        true: slow share of the replayed samples.
        predicted: slow share that each method predicts.
        noise: half the difference of the true slow share between two halves of the replayed samples.
    """

    name: str
    true: FloatArray
    predicted: dict[str, FloatArray]
    noise: FloatArray

    @property
    def is_slow(self) -> bool:
        """Whether anything was slow in truth."""
        return bool((self.true > 0).any())

    def error(self, method: str) -> float:
        """Return the mean relative error of a method, or the noise, over the seeds in which anything is slow."""
        slow = self.true > 0
        off = self.noise if method == "noise" else np.abs(self.predicted[method] - self.true)
        return float(np.mean(off[slow] / self.true[slow]))


def public_tables(data: Path, fraction: float) -> Iterator[tuple[str, Table]]:
    """Yield the tables of all public data sets: their names, and what draws a sample of each."""
    for name in DATA_SETS:
        trace = open_trace(name, data=data / name)
        profile = profile_trace(trace)
        rows: dict[str, list[IntArray]] = {feature: [] for feature in trace.features}
        samples: dict[str, list[IntArray]] = {feature: [] for feature in trace.features}
        start = 0
        for batch in trace.batches():
            for feature, bag in batch.bags.items():
                rows[feature].append(to_rows(bag.values, profile.table(feature), feature, trace.name))
                samples[feature].append(start + np.repeat(np.arange(batch.samples), bag.lengths))
            start += batch.samples
        for feature in trace.features:
            yield (
                f"{name} {feature}",
                sampler(
                    np.concatenate(rows[feature]),
                    np.concatenate(samples[feature]),
                    profile.table(feature).rows,
                    profile.samples,
                    fraction,
                ),
            )


def sampler(row: IntArray, sample: IntArray, rows: int, samples: int, fraction: float) -> Table:
    """Return what splits a table's lookups, each of one row in one sample, by drawing whole samples."""

    def draw(rng: np.random.Generator) -> Draw:
        part = np.empty(samples, dtype=np.int64)
        order = rng.permutation(samples)
        drawn = round(fraction * samples)
        part[order[:drawn]] = 0
        part[order[drawn:]] = 1 + np.arange(samples - drawn) % 2
        return Draw(*(np.bincount(row[part[sample] == p], minlength=rows) for p in range(3)))

    return draw


def power_laws(fraction: float) -> Iterator[tuple[str, Table]]:
    """Yield tables whose rows' shares fall by a power of their rank, with few and with many lookups a row."""
    for exponent in (0.0, 0.3, 0.8, 1.2):
        for rows in (1000, 50_000):
            for lookups_a_row in (5, 50):
                share = np.arange(1, rows + 1) ** -exponent
                yield (
                    f"power {exponent}, {rows} rows, {lookups_a_row} a row",
                    power_law(share / share.sum(), rows * lookups_a_row, fraction),
                )


def power_law(share: FloatArray, lookups: int, fraction: float) -> Table:
    """Return what draws lookups of rows with these shares, in an order that tells nothing of them."""

    def draw(rng: np.random.Generator) -> Draw:
        shuffled = rng.permutation(share)
        parts = (fraction, (1 - fraction) / 2, (1 - fraction) / 2)
        return Draw(*(rng.multinomial(round(part * lookups), shuffled) for part in parts))

    return draw


def measure(tables: Iterator[tuple[str, Table]], seeds: int) -> list[Cell]:
    """Return all cells of all tables."""
    cells = []
    for name, table in tables:
        outcomes = [outcome(table(np.random.default_rng(seed))) for seed in range(seeds)]
        for i, kept in enumerate(KEPT_SHARES):
            true, predicted, noise = (np.array(column) for column in zip(*(o[i] for o in outcomes), strict=True))
            by_method = dict(zip(METHODS, predicted.T, strict=True))
            cells.append(Cell(f"{name}, {kept:.0%} kept", true, by_method, noise))
    return cells


def outcome(draw: Draw) -> list[tuple[float, list[float], float]]:
    """Return true slow share, slow share by each method and noise, for each share of rows kept."""
    order = np.argsort(-draw.sample, kind="stable")
    first, second, rest = draw.first[order], draw.second[order], (draw.first + draw.second)[order]
    falling, start, size = np.unique(-draw.sample[order], return_index=True, return_counts=True)
    count = -falling
    seen = count > 0
    share, unseen_share = expected_shares(count[seen], size[seen], int(size[~seen].sum()))
    shares = {
        "raw": count / np.dot(count, size),
        "estimate": np.append(share, np.full((~seen).sum(), unseen_share)),
        "ties": np.add.reduceat(rest, start) / size / rest.sum(),
    }
    result = []
    for kept in KEPT_SHARES:
        rows = int(np.ceil(round(kept * len(order), 6)))
        fast = np.clip(rows - start, 0, size)
        predicted = [max(0.0, 1.0 - float(np.dot(fast, shares[method]))) for method in METHODS]
        halves = [float(part[rows:].sum() / part.sum()) for part in (first, second)]
        result.append((float(rest[rows:].sum() / rest.sum()), predicted, abs(halves[0] - halves[1]) / 2))
    return result


def report(title: str, cells: list[Cell]) -> None:
    """Print every cell, and then the median, mean, 90th percentile and the worst cells of each method."""
    columns = (*METHODS, "noise")
    slow = [cell for cell in cells if cell.is_slow]
    print(f"\n{title}")
    print(f"{'relative error of the slow share':45}{'true slow':>10}" + "".join(f"{c:>10}" for c in columns))
    for cell in slow:
        print(f"{cell.name:45}{cell.true.mean():10.5f}" + "".join(f"{cell.error(c):10.2%}" for c in columns))
    print()
    summaries = {"median": np.median, "mean": np.mean, "90th percentile": ninth_decile, "largest": np.max}
    for label, summary in summaries.items():
        figures = (summary([cell.error(c) for cell in slow]) for c in columns)
        print(f"{label + f' of {len(slow)} cells':55}" + "".join(f"{figure:10.2%}" for figure in figures))
    misled = [cell for cell in slow if cell.error("raw") > MISLED]
    figures = (np.median([cell.error(c) for cell in misled]) for c in columns)
    label = f"median of the {len(misled)} cells in which raw is off by over {MISLED:.0%}"
    print(f"{label:55}" + "".join(f"{figure:10.2%}" for figure in figures))
    worst = sorted(slow, key=lambda cell: -cell.error("estimate"))[:5]
    print("worst: " + "; ".join(f"{cell.name} {cell.error('estimate'):.1%}" for cell in worst))
    never = [cell for cell in cells if not cell.is_slow]
    if never:
        largest = max(float(cell.predicted["estimate"].max()) for cell in never)
        print(f"left out: {len(never)} cells with nothing slow in truth; predicted there: at most {largest:.5f}")


def ninth_decile(errors: list[float]) -> float:
    """Return the 90th percentile."""
    return float(np.percentile(errors, 90))


def report_speed(tables: int = 400, classes: int = 10_000) -> None:
    """Print the time of the estimate for a model of many large tables, beside that of sorting as many numbers."""
    rng = np.random.default_rng(0)
    count = np.sort(rng.choice(5 * classes, size=classes, replace=False))[::-1] + 1
    size = np.maximum(1, 10**9 // count**2)
    expected_shares(count, size, 10**6)  # compiles
    start = time.perf_counter()
    for _ in range(tables):
        expected_shares(count, size, 10**6)
    estimate = time.perf_counter() - start
    start = time.perf_counter()
    for _ in range(tables):
        np.sort(rng.random(classes))
    print(
        f"\n{tables} tables of {classes} classes: {estimate:.2f} s, "
        f"{estimate / (time.perf_counter() - start):.1f} times the time of drawing and sorting as many numbers"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with the public data sets")
    parser.add_argument("--fraction", type=float, default=0.1, help="share of the samples that is drawn")
    parser.add_argument("--seeds", type=int, default=10, help="draws to average over")
    arguments = parser.parse_args()
    report("Public data", measure(public_tables(arguments.data, arguments.fraction), arguments.seeds))
    report("Power laws", measure(power_laws(arguments.fraction), arguments.seeds))
    report_speed()


if __name__ == "__main__":
    main()
