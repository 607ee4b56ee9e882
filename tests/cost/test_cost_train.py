"""Training: it learns what a straight line cannot, from the training shards only, and the same every time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from recshard.cost.figures import compare, rank_correlation
from recshard.cost.model import CostModel
from recshard.cost.train import baseline_ms, split, train_cost_model
from recshard.errors import InputError
from tests.cost.synthetic import synthetic_measurements

MEASURED = synthetic_measurements(300)


@pytest.fixture(scope="module")
def trained() -> CostModel:
    return train_cost_model(MEASURED, seed=1, epochs=120)


def test_the_model_is_better_than_bytes_alone_on_shards_it_has_not_seen(trained: CostModel) -> None:
    card = trained.card
    assert card.held_out_shards == 60
    assert card.held_out.median_error < card.baseline.median_error / 2
    assert card.held_out.p90_error < card.baseline.p90_error
    assert card.held_out.rank_correlation is not None
    assert card.held_out.rank_correlation > 0.95


def test_the_card_s_figures_are_those_of_the_model_s_own_predictions(trained: CostModel) -> None:
    train, held_out = split(MEASURED.shards.count, seed=1)
    predicted = trained.predict(MEASURED.features, MEASURED.shards.shard)
    error = np.sort(np.abs(predicted[held_out] / MEASURED.total_ms[held_out] - 1))
    assert trained.card.held_out.median_error == pytest.approx((error[29] + error[30]) / 2, rel=1e-4)
    assert trained.card.baseline == compare(baseline_ms(MEASURED, train)[held_out], MEASURED.total_ms[held_out])


def test_training_and_held_out_shards_are_disjoint_and_complete() -> None:
    train, held_out = split(101, seed=3)
    assert sorted([*train, *held_out]) == list(range(101))
    assert len(held_out) == 20


def test_held_out_shards_teach_nothing() -> None:
    _, held_out = split(MEASURED.shards.count, seed=1)
    forward_ms = MEASURED.forward_ms.copy()
    forward_ms[held_out] *= 100
    spoilt = train_cost_model(replace(MEASURED, forward_ms=forward_ms), seed=1, epochs=2)
    model = train_cost_model(MEASURED, seed=1, epochs=2)
    shard = MEASURED.shards.shard
    assert np.array_equal(spoilt.predict(MEASURED.features, shard), model.predict(MEASURED.features, shard))


def test_the_card_says_what_the_model_was_trained_on(trained: CostModel) -> None:
    card = trained.card
    assert (card.tiers, card.batch_size, card.shards, card.epochs, card.seed) == (["host"], 256, 300, 120, 1)
    assert card.features["dim"].low == 16
    assert card.features["dim"].high == 128
    seen = np.isin(MEASURED.shards.shard, split(300, seed=1)[0])
    assert not trained.outside(MEASURED.features[seen]).any()
    larger = MEASURED.features[:1] * np.where(np.arange(21) == 1, 1e6, 1.0)
    assert trained.outside(larger).all()


def test_training_does_not_depend_on_the_number_of_threads_and_leaves_it_as_it_was() -> None:
    threads = torch.get_num_threads()
    predicted = []
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            model = train_cost_model(MEASURED, epochs=2)
            assert torch.get_num_threads() == count
            predicted.append(model.net.state_dict()["table.0.weight"])
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*predicted)


def test_too_few_shards_or_no_epochs_are_refused() -> None:
    with pytest.raises(InputError, match="found 9 shards; accepted: at least 10"):
        train_cost_model(synthetic_measurements(9))
    with pytest.raises(InputError, match="epochs: found 0"):
        train_cost_model(MEASURED, epochs=0)


def test_rank_correlation_of_orders_ties_and_nothing() -> None:
    rising = np.array([1.0, 2.0, 30.0, 31.0])
    assert rank_correlation(rising, rising**3) == pytest.approx(1)
    assert rank_correlation(rising, -rising) == pytest.approx(-1)
    assert rank_correlation(rising, np.array([1.0, 1.0, 2.0, 2.0])) == pytest.approx(2 / np.sqrt(5))
    assert rank_correlation(rising, np.ones(4)) is None
    assert rank_correlation(rising[:2], rising[:2]) is None
