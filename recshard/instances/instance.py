"""Instances: placement problems with names, made anew from their recipes, and what is known about each.

A folder holds one: `instance.toml` (the problem, and below it the results), `placement.parquet` (the best
placement known) and, for small ones, `model.mps` (the tight MILP).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field

from recshard import content
from recshard.errors import InputError, nearest
from recshard.problem import PlacementProblem, Workload, build_problem
from recshard.profile.expected import expected_profile
from recshard.profile.profile import Profile
from recshard.shards import SplitKind, SplitRules
from recshard.spec import Spec, read_spec
from recshard.topology import Topology, load_topology, parse_topology
from recshard.trace.recipe import synthetic

SPEC = "instance.toml"
PLACEMENT = "placement.parquet"
MODEL = "model.mps"


class WorkloadSpec(Spec):
    """How the model runs, as `Workload`."""

    batch_size: int | None = None
    training: bool = True
    traffic_multiplier: float = 1.0
    unseen: bool = True


class SplitSpec(Spec):
    """Which cuts are allowed, as `SplitRules`."""

    kind: SplitKind = "none"
    min_dim: int = 32
    max_shards: int = 0


class BestSpec(Spec):
    """What is known.

    Attributes:
        bottleneck_ms, bottleneck_by: of the placement stored, and how it was found.
        lower_bound_ms, lower_bound_by: proven, and by what: an argument of `recshard.strategy.bound`, or `milp`.
        recshard: version that found them.
    """

    bottleneck_ms: float
    bottleneck_by: str
    lower_bound_ms: float
    lower_bound_by: str
    recshard: str


class ProofSpec(Spec):
    """A MILP solver's word on the tight model: its optimum, the bound it stated, and how long it took."""

    solver: str
    version: str
    optimum_ms: float
    bound_ms: float | None = None
    seconds: float


class InstanceSpec(Spec):
    """What `instance.toml` says."""

    description: str
    recipe: str
    topology: str | dict[str, Any]
    workload: WorkloadSpec = Field(default_factory=WorkloadSpec)
    split: SplitSpec = Field(default_factory=SplitSpec)
    model: bool = False
    best: BestSpec | None = None
    proofs: tuple[ProofSpec, ...] = ()


@dataclass(frozen=True)
class Instance:
    """A named placement problem.

    Attributes:
        name: of its folder.
        folder: that holds it.
        spec: what its file says.
    """

    name: str
    folder: Path
    spec: InstanceSpec

    @cached_property
    def profile(self) -> Profile:
        """The profile to be expected of the recipe."""
        beside = self.folder / self.spec.recipe
        return expected_profile(synthetic(beside if beside.is_file() else self.spec.recipe))

    @cached_property
    def topology(self) -> Topology:
        """What the tables are placed on."""
        if isinstance(self.spec.topology, str):
            return load_topology(self.spec.topology)
        return parse_topology(self.spec.topology, self.name, f"{self.folder / SPEC}: topology")

    @cached_property
    def problem(self) -> PlacementProblem:
        """The arrays that strategies work on."""
        return build_problem(self.profile, self.topology, Workload(**self.spec.workload.model_dump()))

    @property
    def rules(self) -> SplitRules:
        """Which cuts are allowed."""
        return SplitRules(**self.spec.split.model_dump())


def library() -> Path:
    """Return the folder of the bundled instances."""
    return content.content_dir("solver_models") / "instances"


def instance_names(folder: Path | None = None) -> list[str]:
    """Return the names of the instances in a folder, sorted; None: of the bundled ones."""
    return sorted(path.parent.name for path in (folder or library()).glob(f"*/{SPEC}"))


def open_instance(name: str, folder: Path | None = None) -> Instance:
    """Return an instance by name.

    Args:
        folder: that holds instances; None: the bundled ones.

    Raises:
        InputError: there is none of that name, or its file does not fit the schema.
    """
    where = folder or library()
    known = instance_names(where)
    if name not in known:
        raise InputError(f"instance: found '{name}'{nearest(name, known)}; accepted: {', '.join(known)}")
    return Instance(name, where / name, read_spec(where / name / SPEC, InstanceSpec))


def load_instance(name: str) -> PlacementProblem:
    """Return the problem of a bundled instance: `load_instance("rm1")`.

    Raises:
        InputError: there is none of that name.
    """
    return open_instance(name).problem
