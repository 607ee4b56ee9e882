"""Spec files: what they mean, and what a user reads who made a mistake in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from recshard.errors import InputError
from recshard.tables import format_tables, load_tables
from recshard.topology import load_topology, preset_names, preset_text

TOPOLOGY = """
nodes = 2
devices_per_node = 4
[[tiers]]
name = "hbm"
capacity = "20%"
bandwidth = "1555 GB/s"
[[tiers]]
name = "uvm"
capacity = "128 GB"
bandwidth = "16 GB/s"
shared = "node"
[network]
bandwidth = "25 GB/s"
"""
TABLES = """
batch_size = 4096
[[tables]]
name = "item"
rows = 40_000_000
dim = 32
dtype = "float16"
optimizer = "adam"
features = ["item", "last_item"]
ids = "hash"
[[tables]]
name = "user"
"""


def write(folder: Path, text: str, name: str = "spec.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_topology_reads_as_it_is_written(tmp_path: Path) -> None:
    topology = load_topology(write(tmp_path, TOPOLOGY))
    assert len(topology.devices) == 8
    assert [device.node for device in topology.devices] == [0] * 4 + [1] * 4
    hbm, uvm = topology.groups[0].tiers
    assert (hbm.share, hbm.capacity, hbm.bandwidth, hbm.shared) == (0.2, None, 1555e9, "device")
    assert (uvm.share, uvm.capacity, uvm.bandwidth, uvm.shared) == (None, 128e9, 16e9, "node")
    assert topology.network_bandwidth == 25e9


def test_unequal_devices_are_groups(tmp_path: Path) -> None:
    text = """
[[groups]]
devices_per_node = 2
[[groups.tiers]]
name = "hbm"
capacity = "80 GB"
bandwidth = "3350 GB/s"
[[groups.tiers]]
name = "uvm"
capacity = "1 TB"
bandwidth = "64 GB/s"
[[groups]]
[[groups.tiers]]
name = "uvm"
capacity = "1 TB"
bandwidth = "32 GB/s"
"""
    topology = load_topology(write(tmp_path, text))
    assert len(topology.devices) == 3
    assert topology.tier_names == ("hbm", "uvm")


def test_every_preset_loads_and_its_text_is_a_topology(tmp_path: Path) -> None:
    assert {"a100-40gb-x16", "h100-80gb-x8", "h200-141gb-x8"} <= set(preset_names())
    for name in preset_names():
        assert load_topology(write(tmp_path, preset_text(name))).devices == load_topology(name).devices
    assert len(load_topology("a100-40gb-x16").devices) == 16


def test_tables_read_as_they_are_written_and_write_back(tmp_path: Path) -> None:
    tables = load_tables(write(tmp_path, TABLES))
    item, user = tables.tables
    assert tables.batch_size == 4096
    assert (item.rows, item.dim, item.weight_bytes, item.row_bytes) == (40_000_000, 32, 64, 64 + 2 * 32 * 4)
    assert item.features == ("item", "last_item")
    assert not user.is_complete
    assert user.features == ("user",)
    filled = tables.with_tables((item,))
    assert load_tables(write(tmp_path, format_tables(filled), "again.toml")) == filled


@pytest.mark.parametrize(
    ("optimizer", "state"), [("sgd", 0), ("rowwise_adagrad", 4), ("adagrad", 64 * 4), ("adam", 64 * 8)]
)
def test_row_bytes_include_the_optimizer_state(tmp_path: Path, optimizer: str, state: int) -> None:
    text = f'[[tables]]\nname = "a"\nrows = 5\ndim = 64\noptimizer = "{optimizer}"\n'
    assert load_tables(write(tmp_path, text)).tables[0].row_bytes == 64 * 4 + state


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TOPOLOGY.replace("devices_per_node", "device_per_node"), ["device_per_node", "devices_per_node"]),
        (TOPOLOGY.replace('capacity = "20%"', 'capacty = "20%"'), ["tiers[1].capacty", "'capacity'"]),
        (TOPOLOGY.replace("1555 GB/s", "0 GB/s"), ["tiers[1].bandwidth", "0 GB/s", "above zero"]),
        (TOPOLOGY.replace("25 GB/s", "0"), ["network.bandwidth", "above zero"]),
        (TOPOLOGY.replace("1555 GB/s", "1 GB/s"), ["fast to slow"]),
        (TOPOLOGY.replace("128 GB", "128 QB"), ["tiers[2].capacity", "128 QB"]),
        (TOPOLOGY.replace('"uvm"', '"hbm"'), ["hbm", "twice"]),
        (TOPOLOGY.replace('"node"', '"rack"'), ["tiers[2].shared", "rack", "device"]),
        (TOPOLOGY.replace("nodes = 2", "nodes = 0"), ["0", "1 or more"]),
        ("nodes = 1", ["tiers"]),
        ("nodes = ", ["not valid TOML"]),
    ],
)
def test_a_mistake_in_a_topology_is_named_with_file_and_field(tmp_path: Path, text: str, words: list[str]) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_topology(path)
    for word in [str(path), *words]:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TABLES.replace("rows =", "row ="), ["tables[1].row", "'rows'"]),
        (TABLES.replace("40_000_000", "0"), ["tables[1].rows", "1 or more"]),
        (TABLES.replace("float16", "flot16"), ["tables[1].dtype", "flot16", "float16"]),
        (TABLES.replace('"hash"', '"hashed"'), ["tables[1].ids", "hashed", "hash"]),
        (TABLES.replace('"user"', '"item"'), ["item", "twice"]),
        (TABLES.replace('"last_item"', '"user"'), ["user", "claimed"]),
        (TABLES.replace("4096", "-1"), ["batch_size", "1 or more"]),
        ("batch_size = 3", ["tables", "missing"]),
    ],
)
def test_a_mistake_in_the_tables_is_named_with_file_and_field(tmp_path: Path, text: str, words: list[str]) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_tables(path)
    for word in [str(path), *words]:
        assert word in str(caught.value)


def test_a_missing_topology_lists_the_presets_and_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match=r"did you mean 'h100-80gb-x8'.*a100-40gb-x16"):
        load_topology("h100-80gb-x9")
