"""Measuring: the fused lookup computes what torch's own modules compute; nothing here depends on speed."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from recshard.cost.measure import EPSILON, LEARNING_RATE, FusedLookup, measure_shards
from recshard.cost.measurements import Measurements, load_measurements, save_measurements
from recshard.errors import InputError


@pytest.fixture(scope="module")
def measured() -> Measurements:
    return measure_shards(3, seed=11, batch_size=16, repetitions=1)


def test_fused_lookup_is_embedding_bag_with_rowwise_adagrad() -> None:
    generator = torch.Generator().manual_seed(0)
    weight, state = torch.rand(50, 8, generator=generator), torch.rand(50, generator=generator)
    rows = torch.randint(0, 40, (200,), generator=generator)  # rows 40 … 49 are never reached
    begin = torch.tensor([0, 3, 3, 90, 150, 200])  # the second bag and the last are empty
    gradient = torch.rand(6, 8, generator=generator)

    plain = torch.nn.EmbeddingBag.from_pretrained(weight.clone(), freeze=False, mode="sum")
    expected = plain(rows, begin)
    expected.backward(gradient)
    row_gradient = plain.weight.grad
    assert row_gradient is not None
    expected_state = state + row_gradient.pow(2).mean(dim=1)
    expected_weight = weight - LEARNING_RATE * row_gradient / (expected_state.sqrt()[:, None] + EPSILON)

    lookup = FusedLookup(weight.clone(), state.clone())
    output = lookup.forward((rows, begin))
    lookup.backward((rows, begin), gradient)
    assert torch.allclose(output, expected)
    assert torch.allclose(lookup.state, expected_state)
    assert torch.allclose(lookup.weight, expected_weight, atol=1e-7)
    assert torch.equal(lookup.weight[40:], weight[40:])


def test_every_shard_has_times_above_zero(measured: Measurements) -> None:
    assert measured.shards.count == len(measured.forward_ms) == len(measured.backward_ms) == 3
    assert (measured.forward_ms > 0).all()
    assert (measured.backward_ms > 0).all()
    assert measured.features.shape == (len(measured.shards.shard), 21)


def test_a_seed_measures_the_same_lookups_and_reports_progress(measured: Measurements) -> None:
    seen: list[tuple[int, int]] = []
    again = measure_shards(
        3, seed=11, batch_size=16, repetitions=1, progress=lambda done, of: seen.append((done, of))
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert np.array_equal(again.features, measured.features)


def test_measuring_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="count: found 0; accepted: a whole number of at least 1"):
        measure_shards(0, seed=0)


def test_measurements_survive_the_disk(measured: Measurements, tmp_path: Path) -> None:
    save_measurements(measured, tmp_path / "m")
    loaded = load_measurements(tmp_path / "m")
    for field in fields(Measurements):
        if field.name != "shards":
            assert np.array_equal(getattr(loaded, field.name), getattr(measured, field.name))
    assert np.array_equal(loaded.features, measured.features)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_measurements_on_disk_say_nothing_about_the_machine(measured: Measurements, tmp_path: Path) -> None:
    save_measurements(measured, tmp_path / "m")
    keys = "format_version shards tier batch_size optimizer repetitions threads torch seed"
    assert list(json.loads((tmp_path / "m" / "measurements.json").read_text())) == keys.split()


def test_damaged_measurements_are_named(measured: Measurements, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    with pytest.raises(InputError, match="no such folder of measurements"):
        load_measurements(folder)

    save_measurements(measured, folder)
    about = folder / "measurements.json"
    text = about.read_text()
    about.write_text(text.replace('"format_version": 1', '"format_version": 7'))
    with pytest.raises(InputError, match="found format_version 7; accepted: 1"):
        load_measurements(folder)
    about.write_text(text.replace('"threads": ', '"threads": "many", "was": '))
    with pytest.raises(InputError, match="threads: found 'many'; accepted: int"):
        load_measurements(folder)
    about.write_text(text)

    tables = pq.read_table(folder / "tables.parquet")
    pq.write_table(tables.drop_columns(["dim"]), folder / "tables.parquet")
    with pytest.raises(InputError, match=r"tables.parquet: column 'dim' is missing"):
        load_measurements(folder)
    (folder / "tables.parquet").write_bytes(b"cut short")
    with pytest.raises(InputError, match=r"tables.parquet: cannot be read as Parquet"):
        load_measurements(folder)


def test_times_that_cannot_be_are_refused(measured: Measurements, tmp_path: Path) -> None:
    save_measurements(replace(measured, forward_ms=measured.forward_ms * 0), tmp_path / "m")
    with pytest.raises(InputError, match="not above zero"):
        load_measurements(tmp_path / "m")
    save_measurements(replace(measured, forward_ms=np.ones(4), backward_ms=np.ones(4)), tmp_path / "m")
    with pytest.raises(InputError, match="its shards are not 0 … 3"):
        load_measurements(tmp_path / "m")
