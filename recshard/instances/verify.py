"""Verification: what the library records of an instance is made again and compared, claim by claim."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from recshard.errors import InputError
from recshard.instances.instance import MODEL, PLACEMENT, BestSpec, Instance, ProofSpec
from recshard.instances.placements import load_placement
from recshard.placement import InvalidPlacement, Placement, bottleneck_ms, check_placement
from recshard.problem import FloatArray, PlacementProblem
from recshard.shards import SplitRules, most_shards
from recshard.strategy.bound import lower_bound
from recshard.strategy.quiet import without_output
from recshard.strategy.stop import relative_gap

RECOMPUTED = 1e-9  # relative: the same sums in another order
SOLVED = 1e-5  # relative: solvers prove to their own tolerances
PROVEN = "milp"  # `lower_bound_by` of what solvers raised
DEFAULT_SECONDS = 120.0


@dataclass(frozen=True)
class Verdict:
    """What became of one instance.

    Attributes:
        name: of the instance.
        tables, devices, tiers: its size.
        bottleneck_ms: of the stored placement, recomputed; NaN where it is not valid.
        lower_bound_ms, bound_by: as recorded.
        proofs: solvers' results, as recorded or, where solved again, as found.
        seconds: that verifying took.
        troubles: what disagrees, one sentence each; empty: all is as recorded.
        solved_again: whether solvers were asked anew.
    """

    name: str
    tables: int
    devices: int
    tiers: int
    bottleneck_ms: float
    lower_bound_ms: float
    bound_by: str
    proofs: tuple[ProofSpec, ...]
    seconds: float
    troubles: tuple[str, ...]
    solved_again: bool = False

    @property
    def gap(self) -> float:
        """(bottleneck − lower bound) ÷ lower bound."""
        return relative_gap(self.bottleneck_ms, self.lower_bound_ms)

    @property
    def verdict(self) -> str:
        """`verified`; `recorded` where the bound is a solver's that was not asked again; or `disagrees`."""
        if self.troubles:
            return "disagrees"
        return "recorded" if self.bound_by == PROVEN and not self.solved_again else "verified"

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object of the instance."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "tables": self.tables,
            "devices": self.devices,
            "tiers": self.tiers,
            "bottleneck_ms": self.bottleneck_ms,
            "lower_bound_ms": self.lower_bound_ms,
            "lower_bound_by": self.bound_by,
            "gap": self.gap,
            "proofs": [proof.model_dump() for proof in self.proofs],
            "seconds": self.seconds,
            "troubles": list(self.troubles),
        }


def verify_instance(
    instance: Instance, solvers: Sequence[str] = (), time_limit: float = DEFAULT_SECONDS
) -> Verdict:
    """Build an instance anew from its recipe and check all that is recorded of it.

    Args:
        solvers: MILP solvers that solve it again, where it is small enough to have a model.
        time_limit: seconds per solver.

    Raises:
        InputError: the instance's recipe or topology cannot be read, or a solver is unknown or absent.
    """
    begin = time.perf_counter()
    problem, best = instance.problem, instance.spec.best
    proofs = instance.spec.proofs
    again = bool(solvers) and instance.spec.model
    if best is None:
        troubles, found = ["nothing is recorded: run `recshard verify --update`"], float("nan")
    else:
        troubles, found = _check_placement(instance, problem, best)
        troubles += _check_bound(instance, problem, best)
        troubles += _check_proofs(proofs, best)
        troubles += _check_model(instance, problem)
        if again:
            proofs = tuple(solved(problem, solver, time_limit)[0] for solver in solvers)
            troubles += _check_proofs(proofs, best)
    return Verdict(
        instance.name,
        problem.tables,
        problem.devices,
        problem.tiers,
        found,
        best.lower_bound_ms if best else 0.0,
        best.lower_bound_by if best else "",
        proofs,
        time.perf_counter() - begin,
        tuple(troubles),
        again,
    )


def solved(problem: PlacementProblem, solver: str, time_limit: float) -> tuple[ProofSpec, Placement]:
    """Return what a MILP solver says of the tight model, with nothing to start from, and its placement.

    Raises:
        InputError: the solver is unknown or absent.
        DoesNotFit, SolverFailed: it found nothing in that time.
    """
    from recshard.strategy.milp import milp
    from recshard.strategy.solvers.run import SolverFailed

    found = milp(problem, "tight", solver, time_limit, warm_start=False)
    optimum, bound = found.notes.get("model_bottleneck_ms"), found.notes.get("model_bound_ms")
    seconds = found.notes.get("solver_seconds")
    if optimum is None:
        raise SolverFailed(
            f"solver {solver} found no optimum in {time_limit:g} s ({found.notes.get('solver_status')})"
        )
    proof = ProofSpec(
        solver=solver,
        version=solver_version(solver),
        optimum_ms=float(str(optimum)),
        bound_ms=None if bound is None else float(str(bound)),
        seconds=round(float(str(seconds)), 2),
    )
    return proof, found.placement


def solver_version(solver: str) -> str:
    """Return the version of the installed package that brings a solver, or `unknown`."""
    from importlib.metadata import PackageNotFoundError, version

    package = {"highs": "highspy", "scip": "PySCIPOpt", "cbc": "PuLP", "gurobi": "gurobipy", "cplex": "cplex"}
    try:
        name = package.get(solver.lower(), "")
        return f"{name} {version(name)}" if name else "unknown"
    except PackageNotFoundError:
        return "unknown"


def _check_placement(instance: Instance, problem: PlacementProblem, best: BestSpec) -> tuple[list[str], float]:
    """Return what is wrong with the stored placement, and its bottleneck recomputed."""
    names = [t.name for t in instance.profile.tables.tables]
    try:
        placement = load_placement(instance.folder / PLACEMENT, names, instance.topology.tier_names)
        check_placement(problem, placement)
        troubles = _check_rules(problem, placement, instance.rules)
    except (InvalidPlacement, InputError) as error:
        return [str(error)], float("nan")
    found = bottleneck_ms(problem, placement)
    if not np.isclose(found, best.bottleneck_ms, rtol=RECOMPUTED, atol=0):
        troubles.append(f"the placement's bottleneck is {found!r} ms; recorded: {best.bottleneck_ms!r} ms")
    return troubles, found


def _check_rules(problem: PlacementProblem, placement: Placement, rules: SplitRules) -> list[str]:
    """Say which table is cut in a way that the instance does not allow."""
    shards = placement.shards
    if shards is None:
        return []
    count = np.bincount(shards.table, minlength=problem.tables)
    for j in np.flatnonzero(count > most_shards(problem, rules)):
        return [f"table {j} is cut into {count[j]} shards, more than the instance's split rules allow"]
    by_rows = shards.parts > 1
    by_columns = (count[shards.table] > 1) & ~by_rows
    if (rules.kind == "column" and by_rows.any()) or (rules.kind == "row" and by_columns.any()):
        return [f"tables are not cut by {rules.kind}, which the instance's split rules ask for"]
    narrow = by_columns & (shards.columns < rules.min_dim)
    for j in shards.table[narrow]:
        return [f"a shard of table {j} has fewer than {rules.min_dim} columns"]
    return []


def _check_bound(instance: Instance, problem: PlacementProblem, best: BestSpec) -> list[str]:
    """Return what is wrong with the recorded bound: not proven again, or contradicted."""
    troubles = []
    found = lower_bound(problem, instance.rules)
    bound = found.ms
    if best.lower_bound_by != PROVEN and bound < best.lower_bound_ms * (1 - RECOMPUTED):
        troubles.append(f"the bound proven is {bound!r} ms (by {found.by}); recorded: {best.lower_bound_ms!r} ms")
    if max(bound, best.lower_bound_ms) > best.bottleneck_ms * (1 + RECOMPUTED):
        troubles.append(
            f"a bound, {bound!r} ms proven or {best.lower_bound_ms!r} ms recorded, lies above the recorded "
            f"bottleneck of {best.bottleneck_ms!r} ms"
        )
    if best.lower_bound_by == PROVEN and not instance.spec.model:
        troubles.append("the bound is recorded as a MILP's, but the instance has no model")
    if best.lower_bound_by == PROVEN and not instance.spec.proofs:
        troubles.append("the bound is recorded as a MILP's, but no solver's proof is")
    return troubles


def _check_model(instance: Instance, problem: PlacementProblem) -> list[str]:
    """Say whether `model.mps` is not the model of the problem, to the digits that the format has."""
    if not instance.spec.model:
        return []
    from recshard.strategy.milp.export import write_model

    path = instance.folder / MODEL
    with TemporaryDirectory() as folder:
        anew = Path(folder) / MODEL
        write_model(problem, anew)
        if not path.is_file():
            return [f"{path}: no such file"]
        recorded, made = (_read_model(file) for file in (path, anew))
    if recorded is None or made is None:
        return [f"{path}: cannot be read as MPS"]
    same = all(
        a.shape == b.shape and np.allclose(a, b, rtol=SOLVED, atol=0) for a, b in zip(recorded, made, strict=True)
    )
    return [] if same else [f"{path}: is not the model of this problem"]


def _read_model(path: Path) -> list[FloatArray] | None:
    """Return all numbers of a model, or None where the file is none."""
    import highspy

    untyped: Any = highspy
    with without_output():
        solver = untyped.Highs()
        solver.setOptionValue("output_flag", False)
        if solver.readModel(str(path)) == highspy.HighsStatus.kError:
            return None
    model = solver.getLp()
    matrix = model.a_matrix_
    parts = (
        model.col_cost_,
        model.col_lower_,
        model.col_upper_,
        model.row_lower_,
        model.row_upper_,
        matrix.start_,
        matrix.index_,
        matrix.value_,
    )
    return [np.asarray(part, dtype=np.float64) for part in parts]


def _check_proofs(proofs: Sequence[ProofSpec], best: BestSpec) -> list[str]:
    """Say which solver's optimum or bound does not agree with what is recorded."""
    troubles = []
    for found in proofs:
        stated = found.optimum_ms if found.bound_ms is None else min(found.optimum_ms, found.bound_ms)
        if not stated >= best.lower_bound_ms * (1 - SOLVED):
            troubles.append(f"{found.solver} states {stated!r} ms; recorded bound: {best.lower_bound_ms!r} ms")
        if not found.optimum_ms <= best.bottleneck_ms * (1 + SOLVED):
            troubles.append(
                f"{found.solver}'s optimum is {found.optimum_ms!r} ms; recorded bottleneck: "
                f"{best.bottleneck_ms!r} ms"
            )
    return troubles
