"""Orders, ties and steps are told from measured times as the report says."""

from __future__ import annotations

import numpy as np

from recshard.bench.result import Outcome, order_of


def outcome(name: str, *step_ms: float) -> Outcome:
    """A contender whose second device is the slower one."""
    times = np.array([[ms / 2, ms] for ms in step_ms])
    none = np.zeros((2, 2), dtype=np.int64)
    return Outcome(name, none, np.zeros(2), np.zeros(2), none, np.zeros(2), times, 0.0)


def test_a_step_takes_as_long_as_its_slowest_device() -> None:
    times = np.array([[1.0, 5.0], [4.0, 2.0], [3.0, 1.0]])
    none = np.zeros((2, 2), dtype=np.int64)
    found = Outcome("plan", none, None, None, none, np.zeros(2), times, 0.0)
    assert found.step_ms.tolist() == [5.0, 4.0, 3.0]
    assert found.measured_ms == 4.0


def test_the_order_is_as_predicted_where_every_pair_that_differs_is() -> None:
    outcomes = {o.name: o for o in (outcome("a", 1, 1.1), outcome("b", 2, 2.2), outcome("c", 3, 3.3))}
    order = order_of({"c": 30.0, "a": 10.0, "b": 20.0}, outcomes)
    assert order.is_as_predicted
    assert order.predicted == order.measured == ("a", "b", "c")
    assert not order.ties


def test_a_plan_that_was_slower_than_one_predicted_to_be_slower_is_named() -> None:
    outcomes = {o.name: o for o in (outcome("a", 3, 3.1), outcome("b", 2, 2.2))}
    order = order_of({"a": 10.0, "b": 20.0}, outcomes)
    assert not order.is_as_predicted
    assert order.against == (("a", "b"),)
    assert order.measured == ("b", "a")


def test_times_that_overlap_are_a_tie_and_no_order() -> None:
    outcomes = {o.name: o for o in (outcome("a", 2, 3), outcome("b", 1.9, 2.5))}
    order = order_of({"a": 10.0, "b": 20.0}, outcomes)
    assert order.ties == (("a", "b"),)
    assert order.is_as_predicted is None, "nothing was told apart"
    third = outcomes | {"c": outcome("c", 9, 9.5)}
    assert order_of({"a": 10.0, "b": 20.0, "c": 30.0}, third).is_as_predicted is True
    assert order_of({"a": 10.0, "b": 20.0, "c": 5.0}, third).is_as_predicted is False


def test_plans_predicted_to_be_equal_confirm_nothing_by_being_apart() -> None:
    outcomes = {o.name: o for o in (outcome("a", 1, 1.1), outcome("b", 2, 2.2))}
    order = order_of({"a": 10.0, "b": 10.0 * (1 + 1e-12)}, outcomes)
    assert (order.is_as_predicted, order.told_apart, order.ties) == (None, 0, ())


def test_what_has_no_prediction_is_in_no_order() -> None:
    outcomes = {o.name: o for o in (outcome("a", 1, 1), outcome("lru", 0.5, 0.5))}
    assert order_of({"a": 10.0}, outcomes).measured == ("a",)
