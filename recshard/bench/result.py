"""What a bench found: the time of each contender beside its prediction, and whether both give the same order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from recshard.bench.calibrate import Rate
from recshard.problem import FloatArray, IntArray
from recshard.runtime.memory import Kind

LRU = "lru"
STEP = (
    "forward lookups of one batch: every device routes the IDs of its tables to tiers, reads their rows and pools "
    "them; devices take turns on this machine, and the slowest one's time is the step's; no gradients, no network"
)


@dataclass(frozen=True)
class Outcome:
    """One contender.

    Attributes:
        name: the strategy of the plan, or `lru`.
        accesses: lookups that each tier of each device served, all steps together, shape (d, k); of a page cache
            those that hit in the fastest tier's column, and those that missed in the last one.
        predicted_ms: cost of each device per step, from the plan's formula at measured rates, shape (d,); None for
            a page cache, for which there is no such formula.
        replayed_ms: the same from the accesses that were made in fact, shape (d,).
        reads: what was read of each tier of each device: of a file every row once a step, of memory every row as
            often as it was asked for; of a page cache the pages in the last tier's column, shape (d, k).
        reads_ms: what these reads cost per step, shape (d,).
        times_ms: measured, shape (steps, d).
        slow_share: share of accesses outside the fastest tier, as `Replay` has it: column shards serve their
            share of an access's columns; of a page cache the lookups that missed.
    """

    name: str
    accesses: IntArray
    predicted_ms: FloatArray | None
    replayed_ms: FloatArray | None
    reads: IntArray
    reads_ms: FloatArray
    times_ms: FloatArray
    slow_share: float

    @property
    def step_ms(self) -> FloatArray:
        """Time of each step: its slowest device's, shape (steps,)."""
        return np.asarray(self.times_ms.max(axis=1))

    @property
    def measured_ms(self) -> float:
        """Median time of a step."""
        return float(np.median(self.step_ms))

    @property
    def range_ms(self) -> tuple[float, float]:
        """What a tenth of the steps stay below, and what a tenth exceed."""
        low, high = np.percentile(self.step_ms, [10, 90])
        return float(low), float(high)

    @property
    def bottleneck_ms(self) -> float | None:
        """The slowest device's predicted cost."""
        return None if self.predicted_ms is None else float(self.predicted_ms.max())

    @property
    def pages_read(self) -> int:
        """Of a page cache, the pages that it read, all steps and devices together."""
        return int(self.reads[:, -1].sum())


@dataclass(frozen=True)
class Order:
    """Whether contenders rank by measured time as they were predicted to.

    Attributes:
        predicted, measured: their names, fastest first.
        ties: pairs whose times overlap between their 10th and 90th percentiles: no order to speak of.
        against: other pairs, of which the one predicted to be faster was slower.
        told_apart: how many pairs are neither tied nor predicted to be equal.
    """

    predicted: tuple[str, ...]
    measured: tuple[str, ...]
    ties: tuple[tuple[str, str], ...]
    against: tuple[tuple[str, str], ...]
    told_apart: int

    @property
    def is_as_predicted(self) -> bool | None:
        """Whether no pair is against the prediction; None where no two were told apart."""
        return not self.against if self.told_apart else None

    def document(self) -> dict[str, Any]:
        """Return the order as JSON."""
        return {
            "as_predicted": self.is_as_predicted,
            "told_apart": self.told_apart,
            "predicted": list(self.predicted),
            "measured": list(self.measured),
            "ties": [list(pair) for pair in self.ties],
            "against": [list(pair) for pair in self.against],
        }


def order_of(predicted: Mapping[str, float], outcomes: Mapping[str, Outcome]) -> Order:
    """Return how the contenders that have a prediction rank.

    Args:
        predicted: ms per step, by name.
        outcomes: by name; more than those predicted may be there.
    """
    ties, against, told_apart = [], [], 0
    for a, b in combinations(sorted(predicted, key=lambda name: predicted[name]), 2):
        (low_a, high_a), (low_b, high_b) = outcomes[a].range_ms, outcomes[b].range_ms
        if low_a <= high_b and low_b <= high_a:
            ties.append((a, b))
        elif not math.isclose(predicted[a], predicted[b], rel_tol=1e-9):
            told_apart += 1
            if outcomes[a].measured_ms > outcomes[b].measured_ms:
                against.append((a, b))
    return Order(
        predicted=tuple(sorted(predicted, key=lambda name: predicted[name])),
        measured=tuple(sorted(predicted, key=lambda name: outcomes[name].measured_ms)),
        ties=tuple(ties),
        against=tuple(against),
        told_apart=told_apart,
    )


@dataclass(frozen=True)
class Bench:
    """One run of all contenders on the same steps.

    Attributes:
        trace: its name.
        places: the memory that stood for each tier, fast to slow.
        rates: what each kind of memory was measured to do.
        batch_size: samples per step, over all devices.
        warm_up: steps before the first that counts.
        outcomes: the plan first, then its rivals.
        left_out: rivals that did not run, and why.
        cache_full: whether the page cache was full before the first step that counts; None: it did not run.
        cache_samples: samples that filled it.
        passes: how often the trace was begun.
        doubt: why times say little, where the memories' rates came together while steps ran; None: they did not.
    """

    trace: str
    places: Mapping[str, Kind]
    rates: Mapping[Kind, Rate]
    batch_size: int
    warm_up: int
    outcomes: tuple[Outcome, ...]
    left_out: Mapping[str, str]
    cache_full: bool | None
    cache_samples: int
    passes: int
    doubt: str | None

    @property
    def by_name(self) -> dict[str, Outcome]:
        """The outcomes by name."""
        return {outcome.name: outcome for outcome in self.outcomes}

    @property
    def order(self) -> Order:
        """The plans by measured time against their predictions."""
        found = {o.name: o.bottleneck_ms for o in self.outcomes if o.bottleneck_ms is not None}
        return order_of(found, self.by_name)

    @property
    def replayed_order(self) -> Order:
        """The plans by measured time against what their exact accesses cost."""
        found = {o.name: float(o.replayed_ms.max()) for o in self.outcomes if o.replayed_ms is not None}
        return order_of(found, self.by_name)

    @property
    def reads_order(self) -> Order:
        """All contenders by measured time against what their reads cost."""
        return order_of({o.name: float(o.reads_ms.max()) for o in self.outcomes}, self.by_name)

    def summary(self) -> dict[str, Any]:
        """Return the JSON object of `recshard bench --json`."""
        return {
            "trace": self.trace,
            "step": STEP,
            "batch_size": self.batch_size,
            "steps": len(self.outcomes[0].times_ms),
            "warm_up": self.warm_up,
            "passes": self.passes,
            "doubt": self.doubt,
            "cache_full": self.cache_full,
            "cache_samples": self.cache_samples,
            "tiers": [
                {
                    "name": tier,
                    "memory": kind,
                    "reads_per_s": self.rates[kind].reads_per_s,
                    "bytes_per_s": self.rates[kind].bytes_per_s,
                    "access_bytes": self.rates[kind].load.access_bytes,
                }
                for tier, kind in self.places.items()
            ],
            "contenders": [self._document(outcome) for outcome in self.outcomes],
            "left_out": dict(self.left_out),
            "order": self.order.document(),
            "replayed_order": self.replayed_order.document(),
            "reads_order": self.reads_order.document(),
        }

    def _document(self, outcome: Outcome) -> dict[str, Any]:
        low, high = outcome.range_ms
        costs = {
            "predicted": outcome.predicted_ms,
            "replayed": outcome.replayed_ms,
            "reads": outcome.reads_ms,
        }
        slowest = {name: None if cost is None else float(cost.max()) for name, cost in costs.items()}
        document: dict[str, Any] = {
            "name": outcome.name,
            **{f"{name}_ms": cost for name, cost in slowest.items()},
            "measured_ms": outcome.measured_ms,
            "p10_ms": low,
            "p90_ms": high,
            "ratio": outcome.measured_ms / self.outcomes[0].measured_ms,
            **{
                f"measured_over_{name}": outcome.measured_ms / cost if cost else None
                for name, cost in slowest.items()
            },
            "slow_share": outcome.slow_share,
            "accesses": self._tiers(outcome.accesses.sum(axis=0)),
            "reads": self._tiers(outcome.reads.sum(axis=0)),
            "devices": [
                {
                    **{f"{name}_ms": None if cost is None else float(cost[d]) for name, cost in costs.items()},
                    "measured_ms": float(np.median(outcome.times_ms[:, d])),
                    "accesses": self._tiers(outcome.accesses[d]),
                    "reads": self._tiers(outcome.reads[d]),
                }
                for d in range(len(outcome.accesses))
            ],
        }
        if outcome.name == LRU:
            document["hit_rate"] = 1.0 - outcome.slow_share
            document["pages_read"] = outcome.pages_read
        return document

    def _tiers(self, counts: IntArray) -> dict[str, int]:
        return {tier: int(n) for tier, n in zip(self.places, counts, strict=True)}
