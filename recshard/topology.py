"""Topology: what the hardware offers. Devices in nodes, each with tiers of memory from fast to slow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import field_validator, model_validator

from recshard import content
from recshard.errors import InputError
from recshard.spec import Spec, parse_spec, read_spec
from recshard.units import parse_bytes, parse_rate, parse_share

_MOST_DEVICES = 65_536


@dataclass(frozen=True)
class Tier:
    """A kind of memory.

    Attributes:
        name: such as `hbm` or `uvm`.
        capacity: bytes per device, or per node where `shared` is `node`; None where `share` is given.
        share: instead of bytes, the share of the model's bytes that the tier holds over all devices, 0 … 1.
        bandwidth: bytes per second that one device reads from it.
        shared: whether the capacity belongs to each device or to the devices of a node together.
    """

    name: str
    capacity: float | None
    bandwidth: float
    share: float | None = None
    shared: Literal["device", "node"] = "device"


@dataclass(frozen=True)
class Group:
    """Equal devices: `nodes` × `devices_per_node`, each with the same tiers, fast to slow."""

    nodes: int
    devices_per_node: int
    tiers: tuple[Tier, ...]


@dataclass(frozen=True)
class Device:
    """One GPU: its index over the whole topology, its node, and the tiers that it reaches."""

    index: int
    node: int
    tiers: tuple[Tier, ...]


@dataclass(frozen=True)
class Topology:
    """Groups of equal devices; `network_bandwidth` is bytes per second per device, None where it is free."""

    groups: tuple[Group, ...]
    network_bandwidth: float | None = None
    name: str = "topology"

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """Every device in order, group by group and node by node."""
        devices: list[Device] = []
        node = 0
        for group in self.groups:
            for _ in range(group.nodes):
                for _ in range(group.devices_per_node):
                    devices.append(Device(len(devices), node, group.tiers))
                node += 1
        return tuple(devices)

    @property
    def tier_names(self) -> tuple[str, ...]:
        """Names of the tiers, fast to slow, as every device orders them."""
        order: list[str] = []
        for group in self.groups:
            order += [t.name for t in group.tiers if t.name not in order]
        longest = max(self.groups, key=lambda g: len(g.tiers))
        names = [t.name for t in longest.tiers]
        return tuple(names) if set(names) == set(order) else tuple(order)


class _TierSpec(Spec):
    name: str
    capacity: float | int | str
    bandwidth: float | int | str
    shared: Literal["device", "node"] = "device"

    @field_validator("capacity")
    @classmethod
    def _size(cls, value: float | int | str) -> float | int | str:
        if isinstance(value, str) and value.strip().endswith("%"):
            parse_share(value)
        else:
            parse_bytes(value)
        return value

    @field_validator("bandwidth")
    @classmethod
    def _rate(cls, value: float | int | str) -> float:
        return parse_rate(value)

    def tier(self) -> Tier:
        is_share = isinstance(self.capacity, str) and self.capacity.strip().endswith("%")
        return Tier(
            name=self.name,
            capacity=None if is_share else parse_bytes(self.capacity),
            share=parse_share(str(self.capacity)) if is_share else None,
            bandwidth=float(self.bandwidth),
            shared=self.shared,
        )


class _GroupSpec(Spec):
    nodes: int = 1
    devices_per_node: int = 1
    tiers: list[_TierSpec]

    @field_validator("nodes", "devices_per_node")
    @classmethod
    def _positive(cls, value: int) -> int:
        if not 1 <= value <= _MOST_DEVICES:
            raise ValueError(f"found {value}; accepted: a whole number of 1 or more, at most {_MOST_DEVICES}")
        return value

    @model_validator(mode="after")
    def _tiers_in_order(self) -> _GroupSpec:
        if self.nodes * self.devices_per_node > _MOST_DEVICES:
            raise ValueError(
                f"found {self.nodes} × {self.devices_per_node} devices; accepted: up to {_MOST_DEVICES}"
            )
        if not self.tiers:
            raise ValueError("found no tiers; accepted: one [[tiers]] block or more, fast to slow")
        names = [t.name for t in self.tiers]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"found tier '{name}' twice; tier names must be unique")
        for fast, slow in zip(self.tiers, self.tiers[1:], strict=False):
            if float(fast.bandwidth) < float(slow.bandwidth):
                raise ValueError(
                    f"found tier '{slow.name}' after '{fast.name}' although it is faster; "
                    "list tiers from fast to slow"
                )
        return self

    def group(self) -> Group:
        return Group(self.nodes, self.devices_per_node, tuple(t.tier() for t in self.tiers))


class _NetworkSpec(Spec):
    bandwidth: float | int | str

    @field_validator("bandwidth")
    @classmethod
    def _rate(cls, value: float | int | str) -> float:
        return parse_rate(value)


class _TopologySpec(Spec):
    name: str | None = None
    nodes: int | None = None
    devices_per_node: int | None = None
    tiers: list[_TierSpec] | None = None
    groups: list[_GroupSpec] | None = None
    network: _NetworkSpec | None = None

    @model_validator(mode="after")
    def _one_way(self) -> _TopologySpec:
        flat = [k for k in ("nodes", "devices_per_node", "tiers") if getattr(self, k) is not None]
        if self.groups is not None and flat:
            raise ValueError(f"found both [[groups]] and '{flat[0]}'; equal devices need no groups")
        if self.groups is None and self.tiers is None:
            raise ValueError("found neither [[tiers]] nor [[groups]]; one of them is needed")
        if self.groups is not None and not self.groups:
            raise ValueError("found an empty list of groups; accepted: one [[groups]] block or more")
        return self

    def topology(self, name: str) -> Topology:
        groups = self.groups
        if groups is None:
            groups = [
                _GroupSpec.model_validate(
                    {
                        "nodes": 1 if self.nodes is None else self.nodes,
                        "devices_per_node": 1 if self.devices_per_node is None else self.devices_per_node,
                        "tiers": [t.model_dump() for t in self.tiers or []],
                    }
                )
            ]
        network = None if self.network is None else float(self.network.bandwidth)
        return Topology(tuple(g.group() for g in groups), network, self.name or name)

    @model_validator(mode="after")
    def _groups_agree(self) -> _TopologySpec:
        topology = self.topology("")
        order = topology.tier_names
        for number, group in enumerate(topology.groups, start=1):
            ranks = [order.index(t.name) for t in group.tiers]
            if ranks != sorted(ranks):
                raise ValueError(
                    f"groups[{number}]: found tiers in the order {', '.join(t.name for t in group.tiers)}; "
                    f"other groups have {', '.join(order)}: all must agree"
                )
        return self


def load_topology(name_or_path: str | Path) -> Topology:
    """Return a topology: a named preset, or a TOML file.

    Raises:
        InputError: no such preset or file, or the file does not fit the schema.
    """
    path = content.find(name_or_path, "presets", "topology")
    return read_spec(path, _TopologySpec).topology(path.stem)


def parse_topology(document: dict[str, Any], name: str, source: str) -> Topology:
    """Return the topology that a TOML document describes; `source` names it in errors.

    Raises:
        InputError: it does not fit the schema.
    """
    return parse_spec(document, _TopologySpec, source).topology(name)


def preset_names() -> list[str]:
    """Return the names of the bundled presets."""
    return content.names("presets")


def preset_text(name: str) -> str:
    """Return the TOML text of a preset.

    Raises:
        InputError: no such preset; suggests the nearest.
    """
    path = content.find(name, "presets", "topology")
    return path.read_text(encoding="utf-8")


def check_topology(topology: Topology) -> None:
    """Raise InputError for a topology built in Python that no device could have."""
    if not topology.devices:
        raise InputError(f"topology '{topology.name}': no devices")
    for device in topology.devices:
        for tier in device.tiers:
            if not tier.bandwidth > 0:
                raise InputError(
                    f"topology '{topology.name}', tier '{tier.name}': found bandwidth {tier.bandwidth}; "
                    "accepted: bytes per second above zero"
                )
