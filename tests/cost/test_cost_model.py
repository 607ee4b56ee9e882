"""Cost models on disk, and the bundled one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from recshard.content import content_dir
from recshard.cost.measurements import load_measurements
from recshard.cost.model import CostModel, load_cost_model, save_cost_model
from recshard.cost.train import baseline_ms, held_out_figures, split, train_cost_model
from recshard.errors import InputError
from tests.cost.synthetic import synthetic_measurements

MEASURED = synthetic_measurements(20)


@pytest.fixture(scope="module")
def model() -> CostModel:
    return train_cost_model(MEASURED, epochs=2)


def test_a_saved_model_predicts_to_the_last_bit_as_before(model: CostModel, tmp_path: Path) -> None:
    save_cost_model(model, tmp_path / "m")
    loaded = load_cost_model(tmp_path / "m")
    shard = MEASURED.shards.shard
    assert np.array_equal(loaded.predict(MEASURED.features, shard), model.predict(MEASURED.features, shard))
    assert loaded.card == model.card


def test_training_twice_writes_the_same_bytes(model: CostModel, tmp_path: Path) -> None:
    for name, one in (("a", model), ("b", train_cost_model(MEASURED, epochs=2))):
        save_cost_model(one, tmp_path / name)
    for file in ("card.json", "weights.safetensors"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_a_shard_without_tables_costs_nothing(model: CostModel) -> None:
    one = MEASURED.features[:2]
    predicted = model.predict(one, np.array([1, 1]), shards=3)
    assert predicted[0] == predicted[2] == 0
    assert predicted[1] > 0
    assert len(model.predict(one[:0], np.array([], dtype=np.int64))) == 0


def test_unknown_names_list_the_bundled_models() -> None:
    with pytest.raises(InputError, match=r"no bundled cost model of that name \(did you mean 'cost-host'\?\)"):
        load_cost_model("cost-hots")


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("card.json", lambda text: text[:40], r"card.json: cannot be read as a cost model's JSON"),
        ("card.json", lambda text: text.replace('"format_version": 1', '"format_version": 2'), "accepted: 1"),
        (
            "card.json",
            lambda text: text.replace('"tiers"', '"tires"'),
            r"unknown key 'tires' \(did you mean 'tiers'",
        ),
        ("card.json", lambda text: text.replace('"reuse_3"', '"reuse_x"'), "features: 'reuse_3' is missing"),
        ("card.json", lambda text: text.replace('"scale_ms": ', '"scale_ms": "fast", "x": '), "x"),
    ],
)
def test_damaged_cards_are_named(
    model: CostModel, tmp_path: Path, file: str, change: object, message: str
) -> None:
    save_cost_model(model, tmp_path / "m")
    path = tmp_path / "m" / file
    assert callable(change)
    path.write_text(change(path.read_text()))
    with pytest.raises(InputError, match=message):
        load_cost_model(tmp_path / "m")


def test_damaged_weights_are_named(model: CostModel, tmp_path: Path) -> None:
    save_cost_model(model, tmp_path / "m")
    path = tmp_path / "m" / "weights.safetensors"
    weights = load_file(path)

    save_file({**weights, "head.0.bias": weights["head.0.bias"][:5].clone()}, path)
    with pytest.raises(InputError, match=r"head.0.bias: found \(5,\); accepted: a tensor of shape \(64,\)"):
        load_cost_model(tmp_path / "m")
    save_file({name: value for name, value in weights.items() if name != "head.0.bias"}, path)
    with pytest.raises(InputError, match=r"head.0.bias: found nothing"):
        load_cost_model(tmp_path / "m")
    save_file({**weights, "head.0.bias": weights["head.0.bias"] * np.nan}, path)
    with pytest.raises(InputError, match=r"head.0.bias: found a number that is not finite"):
        load_cost_model(tmp_path / "m")
    save_file({**weights, "tail": weights["head.0.bias"].clone()}, path)
    with pytest.raises(InputError, match=r"found a tensor 'tail'"):
        load_cost_model(tmp_path / "m")
    path.write_bytes(b"not safetensors")
    with pytest.raises(InputError, match=r"cannot be read as safetensors"):
        load_cost_model(tmp_path / "m")
    path.unlink()
    with pytest.raises(InputError, match=r"weights.safetensors: no such file"):
        load_cost_model(tmp_path / "m")


def test_other_folders_are_never_overwritten(model: CostModel, tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("mine")
    with pytest.raises(InputError, match=r"exists and is not a folder with a card.json"):
        save_cost_model(model, tmp_path)
    assert (tmp_path / "diary.txt").read_text() == "mine"


def test_the_bundled_model_is_as_good_as_its_card_says() -> None:
    model = load_cost_model("cost-host")
    measured = load_measurements(content_dir("solver_models") / "cost-host-measurements")
    found, card = held_out_figures(model, measured), model.card
    assert found.median_error == pytest.approx(card.held_out.median_error, rel=1e-3)
    assert found.p90_error == pytest.approx(card.held_out.p90_error, rel=1e-3)
    assert found.rank_correlation == pytest.approx(card.held_out.rank_correlation, abs=1e-3)
    train, held_out = split(measured.shards.count, card.seed)
    assert not set(train) & set(held_out)
    line = np.abs(baseline_ms(measured, train) / measured.total_ms - 1)[held_out]
    assert card.baseline.median_error == pytest.approx(float(np.median(line)), rel=1e-6)
    assert card.held_out.median_error < card.baseline.median_error / 3
    assert card.held_out.p90_error < card.baseline.p90_error / 2


def test_the_bundled_model_finds_more_accesses_and_wider_rows_costlier() -> None:
    model = load_cost_model("cost-host")
    reuse = [0.6, 0.2, 0.1, 0.1] + [0.0] * 13
    shards = [(16, 1.0), (64, 1.0), (64, 8.0), (128, 8.0), (128, 40.0)]
    features = np.array([[dim, 1e5, pooling, 1e5 * (4 * dim + 4), *reuse] for dim, pooling in shards])
    predicted = model.predict(features, np.arange(5))
    assert (np.diff(predicted) > 0).all()
    twice = model.predict(np.vstack([features[3], features[3]]), np.array([0, 0]))
    assert 1.5 < twice[0] / predicted[3] < 2.5


def test_the_bundled_card_says_nothing_about_the_machine() -> None:
    card = json.loads((content_dir("solver_models") / "cost-host" / "card.json").read_text())
    assert card["tiers"] == ["host"]
    assert not any("/" in value for value in card.values() if isinstance(value, str))


def test_importing_the_room_does_not_import_torch() -> None:
    code = "import sys, recshard.cost, recshard.check; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
