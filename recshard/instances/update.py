"""Updating the library: search again, keep what is better, prove again where solvers can, write it down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from recshard import files
from recshard.errors import InputError
from recshard.instances.instance import MODEL, PLACEMENT, SPEC, BestSpec, Instance, ProofSpec
from recshard.instances.placements import load_placement, save_placement
from recshard.instances.verify import PROVEN, RECOMPUTED, solved
from recshard.placement import InvalidPlacement, Placement, bottleneck_ms, check_placement
from recshard.strategy.bound import lower_bound
from recshard.strategy.result import ROUNDING
from recshard.strategy.search import search
from recshard.strategy.stop import after_seconds, any_of, at_gap

_MARKER = "# Results, written by `recshard verify --update`."
_ENOUGH = 1e-7  # gap
_SOLVER_TOLERANCE = 1e-6


def update_instance(
    instance: Instance, seconds: float, seed: int = 0, solvers: Sequence[str] = (), time_limit: float = 120.0
) -> Instance:
    """Search for a better placement, have solvers prove small instances, and write the results where they stand.

    Args:
        seconds: of searching.
        solvers: that solve the tight model, where the instance has one.
        time_limit: seconds per solver.

    Returns:
        The instance with its new results.

    Raises:
        InputError: the folder cannot be written, or a solver is unknown or absent.
        DoesNotFit: there is no placement, old or new.
    """
    problem, names = instance.problem, [t.name for t in instance.profile.tables.tables]
    proved = lower_bound(problem, instance.rules)
    bound, bound_by = proved.ms * (1 - ROUNDING), proved.by
    recorded = _recorded(instance, names)
    stop = any_of(after_seconds(seconds), at_gap(_ENOUGH))
    found = search(problem, stop, seed, instance.rules).placement
    candidates = [*recorded, (found, f"search, {seconds:g} s, seed {seed}")]
    proofs = instance.spec.proofs
    whole = instance.rules.kind == "none"  # the MILP knows no others: of tables that may be cut it proves nothing
    if solvers and instance.spec.model:
        proven = [solved(problem, solver, time_limit) for solver in solvers]
        proofs = tuple(proof for proof, _ in proven)
        candidates += [(placement, f"milp, {proof.solver}") for proof, placement in proven]
        # The solvers agree within their tolerances; the least of the bounds that they state is the safest.
        stated = [p.bound_ms for p in proofs if p.bound_ms is not None]
        said = min(stated, default=0.0) * (1 - _SOLVER_TOLERANCE)
        if said > bound and whole:
            bound, bound_by = said, PROVEN
    elif recorded and instance.spec.best is not None and instance.spec.best.lower_bound_by == PROVEN and whole:
        bound, bound_by = max((bound, bound_by), (instance.spec.best.lower_bound_ms, PROVEN))
    else:
        proofs = ()
    best, by = min(candidates, key=lambda entry: bottleneck_ms(problem, entry[0]))
    dim = [t.dim for t in instance.profile.tables.tables]
    save_placement(best, names, dim, instance.topology.tier_names, instance.folder / PLACEMENT)
    if instance.spec.model:
        from recshard.strategy.milp.export import write_model

        write_model(problem, instance.folder / MODEL)
    results = BestSpec(
        bottleneck_ms=bottleneck_ms(problem, best),
        bottleneck_by=by,
        lower_bound_ms=bound,
        lower_bound_by=bound_by,
        recshard=_version(),
    )
    _write(instance, results, proofs)
    return replace(instance, spec=instance.spec.model_copy(update={"best": results, "proofs": proofs}))


def _recorded(instance: Instance, names: list[str]) -> list[tuple[Placement, str]]:
    """Return the placement stored with how it was found, or nothing where it is not what the results are about."""
    try:
        placement = load_placement(instance.folder / PLACEMENT, names, instance.topology.tier_names)
        check_placement(instance.problem, placement)
    except (InputError, InvalidPlacement):
        return []
    best = instance.spec.best
    if best is None or not np.isclose(
        bottleneck_ms(instance.problem, placement), best.bottleneck_ms, rtol=RECOMPUTED
    ):
        return []  # the problem has changed since, and what was proven of it means nothing
    return [(placement, best.bottleneck_by)]


def _version() -> str:
    from importlib.metadata import version

    return version("recshard")


def _write(instance: Instance, best: BestSpec, proofs: Sequence[ProofSpec]) -> None:
    """Write the results below what `instance.toml` says of the problem, which stays as it is."""
    path = instance.folder / SPEC
    problem = path.read_text(encoding="utf-8").split(_MARKER)[0].rstrip()
    lines = [problem, "", _MARKER, "[best]", *_lines(best)]
    for found in proofs:
        lines += ["", "[[proofs]]", *_lines(found)]
    files.write_text(path, "\n".join(lines) + "\n")


def _lines(values: BestSpec | ProofSpec) -> list[str]:
    import json

    entries = values.model_dump(exclude_none=True).items()
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entries]
