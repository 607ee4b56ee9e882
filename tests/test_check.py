"""The check of a placement: verdicts that do not depend on the scale, and plain words where nothing is known."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from recshard.check import CheckResult, check_placement_cost, check_plan
from recshard.cost.model import load_cost_model
from recshard.errors import InputError
from recshard.placement import Placement, device_costs
from recshard.problem import PlacementProblem
from recshard.shards import cut, cut_evenly
from recshard.strategy.result import split_exactly
from tests.problems import random_problem

DEVICES = 4
TIERS = ("host", "ssd")


@dataclass
class Oracle:
    """Stands for a cost model: costs by the bytes that it is asked about, times a factor for each shard."""

    factor: np.ndarray = field(default_factory=lambda: np.ones(DEVICES * len(TIERS)))
    tiers: tuple[str, ...] = ("host",)
    largest_rows: float = np.inf
    tables_per_shard: int = 1000
    batch_size: int = 16

    @property
    def card(self) -> Any:
        figures = SimpleNamespace(median_error=0.1)
        return SimpleNamespace(
            tiers=list(self.tiers),
            batch_size=self.batch_size,
            held_out=figures,
            tables_per_shard=self.tables_per_shard,
        )

    def predict(self, features: np.ndarray, shard: np.ndarray, shards: int) -> np.ndarray:
        return self.factor[:shards] * np.bincount(shard, features[:, 0] * features[:, 2] * self.batch_size, shards)

    def outside(self, features: np.ndarray) -> np.ndarray:
        return features[:, 1] > self.largest_rows


def some_plan(seed: int = 0, devices: int = DEVICES, **options: Any) -> tuple[PlacementProblem, Placement]:
    problem = random_problem(np.random.default_rng(seed), tables=24, devices=devices, **options)
    host = (problem.rows + 1) // 2
    return problem, Placement(np.arange(24) % devices, np.column_stack([host, problem.rows - host]))


def check(model: Any, plan: tuple[PlacementProblem, Placement] | None = None, **options: Any) -> CheckResult:
    problem, placement = plan or some_plan()
    return check_placement_cost(problem, placement, TIERS, model, **options)


def factor(**devices: float) -> np.ndarray:
    """Factors of the first tier's shards: `factor(d1=2.0)` doubles device 1."""
    values = np.ones(DEVICES * len(TIERS))
    for name, value in devices.items():
        values[int(name[1:]) * len(TIERS)] = value
    return values


def test_a_model_that_sees_the_same_loads_agrees() -> None:
    result = check(Oracle())
    assert result.verdict == "agrees"
    assert result.deviation == pytest.approx(0, abs=1e-9)
    assert result.rank_correlation == pytest.approx(1)
    assert result.load.mean() == pytest.approx(1)
    assert result.predicted_load == pytest.approx(result.load)


def test_the_optimiser_s_side_is_the_bandwidth_model() -> None:
    problem, placement = some_plan()
    result = check(Oracle(), (problem, placement))
    assert result.cost_ms.sum(axis=1) == pytest.approx(device_costs(problem, placement))
    assert 0 < result.checked_share < 1
    assert result.checked_share == pytest.approx(result.cost_ms[:, 0].sum() / result.cost_ms.sum())


def test_the_verdict_follows_the_largest_deviation_in_held_out_errors() -> None:
    for skew in np.linspace(1.0, 6.0, 40):
        result = check(Oracle(factor(d1=float(skew))))
        learned = result.cost_ms[:, 0] * [1, skew, 1, 1]
        expected = np.abs(learned / learned.mean() - result.cost_ms[:, 0] / result.cost_ms[:, 0].mean()).max()
        assert result.deviation == pytest.approx(expected)
        assert result.verdict == ("agrees" if expected <= 0.2 else "doubtful" if expected <= 0.4 else "disagrees")
        assert f"{expected:.1%} of the mean" in result.reason
    assert result.verdict == "disagrees"


def test_the_verdict_does_not_depend_on_how_fast_the_model_s_machine_was() -> None:
    slow, fast = check(Oracle(1000 * factor(d2=1.5))), check(Oracle(factor(d2=1.5)))
    assert slow.predicted_load == pytest.approx(fast.predicted_load)
    assert slow.predicted_ms[:, 0] == pytest.approx(1000 * fast.predicted_ms[:, 0])
    assert (slow.verdict, slow.reason) == (fast.verdict, fast.reason)


def test_a_device_with_faster_memory_is_no_disagreement() -> None:
    result = check(Oracle(), some_plan(equal_devices=False))
    assert result.verdict == "agrees"
    assert result.deviation == pytest.approx(0, abs=1e-9)


def test_tiers_that_the_model_was_never_trained_on_are_unchecked() -> None:
    result = check(Oracle())
    assert result.judged_as == ("host", None)
    assert np.isnan(result.predicted_ms[:, 1]).all()
    assert "unchecked: ssd (the model is trained on host)" in result.reason


def test_a_plan_of_unknown_tiers_only_is_unchecked() -> None:
    problem, placement = some_plan()
    result = check_placement_cost(problem, placement, ("hbm", "uvm"), load_cost_model("cost-host"))
    assert result.verdict == "unchecked"
    assert result.judged_as == (None, None)
    assert (result.deviation, result.rank_correlation, result.checked_share) == (None, None, 0)
    assert result.reason.startswith("the cost model was not trained on any tier of this plan")
    assert "unchecked: hbm, uvm" in result.reason


def test_a_tier_is_judged_as_another_kind_only_where_the_user_says_so() -> None:
    result = check(Oracle(), treat_as={"ssd": "host"})
    assert result.judged_as == ("host", "host")
    assert result.verdict == "agrees"
    assert result.checked_share == pytest.approx(1)
    assert "ssd is treated as host, as asked" in result.reason
    assert result.load == pytest.approx(result.cost_ms.sum(axis=1) / result.cost_ms.sum(axis=1).mean())


def test_claims_about_unknown_tiers_or_kinds_are_refused() -> None:
    with pytest.raises(InputError, match=r"no such tier \(did you mean 'ssd'\?\); accepted: host, ssd"):
        check(Oracle(), treat_as={"sdd": "host"})
    with pytest.raises(InputError, match=r"not trained on.*; accepted: host"):
        check(Oracle(), treat_as={"ssd": "flash"})


@pytest.mark.parametrize("skew", [1.0, 50.0])
def test_a_load_mostly_outside_the_training_is_doubtful_whatever_the_loads_say(skew: float) -> None:
    result = check(Oracle(factor(d0=skew), largest_rows=1))
    assert result.verdict == "doubtful"
    assert result.extrapolates > 0.5
    assert (
        f"{result.extrapolated_share:.0%} of the load lies outside what the cost model was trained on"
        in result.reason
    )


def test_a_few_parts_outside_the_training_are_counted_and_do_not_spoil_the_verdict() -> None:
    problem, placement = some_plan()
    largest = np.sort(placement.rows[:, 0])[-4]
    result = check(Oracle(largest_rows=float(largest)), (problem, placement))
    assert result.extrapolates == pytest.approx((placement.rows[:, 0] > largest).mean())
    assert result.extrapolated_share < 0.5
    assert result.verdict == "agrees"


def test_a_device_with_more_tables_than_any_shard_trained_on_is_outside() -> None:
    assert check(Oracle(tables_per_shard=6)).extrapolates == 0
    assert check(Oracle(tables_per_shard=5)).extrapolates == 1


@pytest.mark.parametrize("kind", ["column", "row"])
def test_shards_are_judged_as_the_tables_that_they_are(kind: Any) -> None:
    problem, _ = some_plan()
    problem = replace(problem, pool_capacity=problem.pool_capacity * 3)
    shards = cut_evenly(
        problem, np.minimum(np.arange(24) % 3 + 1, np.minimum(problem.dim // 4, problem.rows)), kind
    )
    sharded = cut(problem, shards)
    placed = split_exactly(sharded, np.arange(len(shards)) % DEVICES)
    assert placed is not None
    found = check(Oracle(factor(d1=1.3)), (problem, replace(placed, shards=shards)))
    expected = check(Oracle(factor(d1=1.3)), (sharded, placed))
    assert found.document() == expected.document()
    assert found.cost_ms.sum(axis=1) == pytest.approx(device_costs(problem, replace(placed, shards=shards)))
    assert check(Oracle(), (problem, replace(placed, shards=shards))).deviation == pytest.approx(0, abs=1e-9)


def test_a_single_loaded_device_leaves_nothing_to_compare() -> None:
    problem, placement = some_plan()
    result = check(Oracle(), (problem, replace(placement, device=placement.device * 0)))
    assert result.verdict == "unchecked"
    assert "nothing to compare" in result.reason


def test_a_model_without_accesses_is_unchecked() -> None:
    problem, placement = some_plan()
    result = check(Oracle(), (replace(problem, accesses=problem.accesses * 0), placement))
    assert result.verdict == "unchecked"
    assert "serve no accesses" in result.reason


def test_two_devices_or_balanced_loads_have_no_ranking() -> None:
    assert check(Oracle(), some_plan(devices=2)).rank_correlation is None
    problem, placement = some_plan()
    alike = {
        name: np.repeat(getattr(problem, name)[:1], 24) for name in ("rows", "dim", "row_bytes", "access_bytes")
    }
    first = slice(0, problem.class_start[1])
    same = replace(
        problem,
        **alike,
        accesses=np.repeat(problem.accesses[:1], 24),
        class_start=problem.class_start[1] * np.arange(25),
        class_rows=np.tile(problem.class_rows[first], 24),
        class_share=np.tile(problem.class_share[first], 24),
    )
    balanced = Placement(placement.device, np.column_stack([same.rows - 1, np.ones(24, dtype=np.int64)]))
    result = check(Oracle(), (same, balanced))
    assert result.rank_correlation is None
    assert result.verdict == "agrees"


def test_a_step_counts_as_many_batches_as_it_has_samples() -> None:
    problem, _ = some_plan()
    small, large = check(Oracle(batch_size=16)), check(Oracle(batch_size=problem.batch_size))
    assert small.predicted_ms[:, 0] == pytest.approx(large.predicted_ms[:, 0])


def test_the_document_is_plain_json() -> None:
    result = check(Oracle())
    document = json.loads(json.dumps(result.document(), allow_nan=False))
    assert document["verdict"] == "agrees"
    assert document["tiers"][1] == {"name": "ssd", "judged_as": None, "verdict": "unchecked"}
    for d, device in enumerate(document["devices"]):
        assert device["cost_ms"] == pytest.approx(result.cost_ms[d].sum())
        assert device["predicted_ms"] == pytest.approx(result.predicted_ms[d, 0])
        assert device["tiers"]["ssd"]["predicted_ms"] is None
    problem, placement = some_plan()
    unchecked = check_placement_cost(problem, placement, ("hbm", "uvm"), load_cost_model("cost-host"))
    document = json.loads(json.dumps(unchecked.document(), allow_nan=False))
    assert document["devices"][0]["predicted_ms"] is None
    assert document["devices"][0]["load"] is None


def test_the_bundled_model_judges_a_plan_in_host_memory() -> None:
    rng = np.random.default_rng(1)
    problem = random_problem(rng, tables=40, devices=DEVICES, rows=200_000, classes=60)
    problem = replace(problem, dim=problem.dim * 0 + 64, row_bytes=problem.row_bytes * 0 + 260)
    problem = replace(
        problem, access_bytes=np.full(40, 256.0), accesses=2048 * rng.uniform(5, 10, 40), batch_size=2048
    )
    whole = np.column_stack([problem.rows, problem.rows * 0])
    even = Placement(np.arange(40) % DEVICES, whole)
    plan: Any = SimpleNamespace(problem=problem, placement=even, tier_names=TIERS)
    assert check_plan(plan).verdict == "agrees"
    uneven = Placement(np.minimum(np.arange(40) % 10, 3), whole)
    plan.placement = uneven
    result = check_plan(plan, "cost-host")
    assert result.rank_correlation is not None
    assert int(np.argmax(result.predicted_load)) == int(np.argmax(result.load)) == 3
