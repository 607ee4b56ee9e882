"""Check of a placement: the learned cost of every device beside the optimiser's, with a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from recshard.errors import InputError, nearest
from recshard.placement import Placement, shard_traffic
from recshard.problem import FloatArray, PlacementProblem
from recshard.shards import cut

if TYPE_CHECKING:
    from recshard.cost.model import CostModel
    from recshard.plan.plan import Plan

Verdict = Literal["agrees", "doubtful", "disagrees", "unchecked"]

AGREES = 2.0  # most deviation of a device's load, in held-out errors of the model
DOUBTFUL = 4.0
RANKED = 0.7  # least rank correlation of a plan that the model agrees with, where loads are not tied
TIE = 0.01  # loads within this share of their mean have no ranking


@dataclass(frozen=True)
class CheckResult:
    """The bandwidth model's costs beside the learned ones, d devices and k tiers.

    The learned model was measured on another machine, so its milliseconds are that machine's; what is compared
    are loads, device by device: each tier's predicted costs are scaled to the tier's total by the bandwidth
    model, and the sums over the tiers that the model knows are divided by their mean.

    Attributes:
        verdict: `agrees`, `doubtful`, `disagrees`; `unchecked` where the model does not stand for any tier.
        reason: why, in one sentence, with the tiers that are unchecked.
        tier_names: fast to slow.
        judged_as: for each tier the kind of memory that the model judged it as; None: unchecked.
        cost_ms: time per step of each device in each tier by the bandwidth model, network left out, shape (d, k).
        predicted_ms: the same as the model predicts it, NaN in unchecked tiers, shape (d, k).
        load: the bandwidth model's load of each device over the checked tiers, mean 1, shape (d,).
        predicted_load: the learned load, mean 1, shape (d,); both loads are NaN where nothing is checked.
        deviation: largest difference between the two loads of a device; None where nothing is checked.
        held_out_error: the model's median error on shards it had not seen, the yardstick of the deviation.
        rank_correlation: Spearman's over the devices; None for fewer than three, or loads within 1% of each other.
        checked_share: share of all costs by the bandwidth model that stand in checked tiers.
        extrapolates: share of the table parts in checked tiers that lie outside what the model was trained on.
        extrapolated_share: share of the checked costs that those parts make up.
    """

    verdict: Verdict
    reason: str
    tier_names: tuple[str, ...]
    judged_as: tuple[str | None, ...]
    cost_ms: FloatArray
    predicted_ms: FloatArray
    load: FloatArray
    predicted_load: FloatArray
    deviation: float | None
    held_out_error: float
    rank_correlation: float | None
    checked_share: float
    extrapolates: float
    extrapolated_share: float

    def document(self) -> dict[str, Any]:
        """Return the result as `--json` prints it: plain values, null for what is not known."""
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "deviation": self.deviation,
            "held_out_error": self.held_out_error,
            "rank_correlation": self.rank_correlation,
            "checked_share": self.checked_share,
            "extrapolates": self.extrapolates,
            "extrapolated_share": self.extrapolated_share,
            "tiers": [
                {"name": name, "judged_as": kind, "verdict": "unchecked" if kind is None else self.verdict}
                for name, kind in zip(self.tier_names, self.judged_as, strict=True)
            ],
            "devices": [self._device(d) for d in range(len(self.cost_ms))],
        }

    def _device(self, device: int) -> dict[str, Any]:
        known = [k for k, kind in enumerate(self.judged_as) if kind is not None]
        return {
            "cost_ms": float(self.cost_ms[device].sum()),
            "predicted_ms": float(self.predicted_ms[device, known].sum()) if known else None,
            "load": _number(self.load[device]),
            "predicted_load": _number(self.predicted_load[device]),
            "tiers": {
                name: {"cost_ms": float(cost), "predicted_ms": _number(predicted)}
                for name, cost, predicted in zip(
                    self.tier_names, self.cost_ms[device], self.predicted_ms[device], strict=True
                )
            },
        }


def check_plan(
    plan: Plan, cost_model: CostModel | str | Path = "cost-host", treat_as: Mapping[str, str] | None = None
) -> CheckResult:
    """Return the learned cost of a plan's devices beside its own; see `check_placement_cost`.

    Args:
        plan: what to check.
        cost_model: a model, the folder of one, or the name of a bundled one.
        treat_as: tiers to be judged as another kind of memory, such as `{"hbm": "host"}`.

    Raises:
        InputError: no such cost model, or `treat_as` names what the plan or the model lacks.
    """
    from recshard.cost.model import load_cost_model

    model = load_cost_model(cost_model) if isinstance(cost_model, str | Path) else cost_model
    return check_placement_cost(plan.problem, plan.placement, plan.tier_names, model, treat_as)


def check_placement_cost(
    problem: PlacementProblem,
    placement: Placement,
    tier_names: Sequence[str],
    model: CostModel,
    treat_as: Mapping[str, str] | None = None,
) -> CheckResult:
    """Return the learned cost of every device beside the bandwidth model's, with a verdict.

    A device's load deviates by the difference between its learned and its planned load, in mean loads. The
    largest deviation is measured against the model's own median error on shards it had not seen: up to twice that
    error `agrees`, up to four times is `doubtful`, more `disagrees`. The median over shards of all sizes suits the
    largest of several devices: devices hold many tables, whose errors cancel, and so the model's error on them is
    smaller. Where loads differ by more than that and the devices' order does not correlate by 0.7, `agrees`
    becomes `doubtful`; so does every verdict where most of the load lies outside what the model was trained on.
    Of a table that is cut, every shard is judged as a table of its own columns, rows and accesses.

    Args:
        problem: what was placed.
        placement: where it stands.
        tier_names: the problem's tiers, fast to slow, shape (k,).
        model: a trained cost model; it judges the tiers that bear the name of a kind of memory on its card.
        treat_as: tiers to be judged as another kind of memory, such as `{"hbm": "host"}`: the user's own claim,
            which the reason repeats.

    Raises:
        InputError: `treat_as` names a tier that the problem lacks, or a kind that the model does not know.
    """
    from recshard.cost.figures import rank_correlation

    claims = _checked_claims(treat_as or {}, tier_names, model.card.tiers)
    kinds = [claims.get(name, name) for name in tier_names]
    judged_as = tuple(kind if kind in model.card.tiers else None for kind in kinds)
    known = np.array([kind is not None for kind in judged_as])

    problem, placement = cut(problem, placement.shards), replace(placement, shards=None)
    part_ms = 1e3 * shard_traffic(problem, placement) / problem.bandwidth[placement.device]
    cost_ms = np.zeros((problem.devices, problem.tiers))
    np.add.at(cost_ms, placement.device, part_ms)
    predicted_ms, outside = _predict(problem, placement, model, known)
    load, predicted_load = _loads(problem, cost_ms, predicted_ms, known)

    checked_ms = float(part_ms[:, known].sum())
    deviation = float(np.abs(load - predicted_load).max()) if np.isfinite(load).all() else None
    ranked = deviation is not None and np.ptp(load) >= TIE
    parts = outside[~np.isnan(outside)]
    extrapolated_share = float(part_ms[outside == 1].sum()) / checked_ms if checked_ms > 0 else 0.0
    error = model.card.held_out.median_error
    rank = rank_correlation(load, predicted_load) if ranked else None
    # Loads that differ by less than the model errs have an order that the model cannot confirm.
    order = rank if ranked and np.ptp(load) > AGREES * error else None
    verdict, reason = _verdict(deviation, error, order, extrapolated_share, cost_ms[:, known].sum(axis=1), known)
    if known.sum() > 1:
        reason += "; how fast the tiers are beside each other is not checked"
    return CheckResult(
        verdict=verdict,
        reason=reason + _remarks(claims, tier_names, judged_as, model.card.tiers),
        tier_names=tuple(tier_names),
        judged_as=judged_as,
        cost_ms=cost_ms,
        predicted_ms=predicted_ms,
        load=load,
        predicted_load=predicted_load,
        deviation=deviation,
        held_out_error=error,
        rank_correlation=rank,
        checked_share=checked_ms / float(part_ms.sum()) if part_ms.sum() > 0 else 0.0,
        extrapolates=float(parts.mean()) if len(parts) else 0.0,
        extrapolated_share=extrapolated_share,
    )


def _checked_claims(
    claims: Mapping[str, str], tier_names: Sequence[str], kinds: Sequence[str]
) -> Mapping[str, str]:
    for tier, kind in claims.items():
        if tier not in tier_names:
            raise InputError(
                f"tier '{tier}' is to be treated as '{kind}', but the plan has no such tier"
                f"{nearest(tier, tier_names)}; accepted: {', '.join(tier_names)}"
            )
        if kind not in kinds:
            raise InputError(
                f"tier '{tier}' is to be treated as '{kind}', which the cost model was not trained on"
                f"{nearest(kind, kinds)}; accepted: {', '.join(kinds)}"
            )
    return claims


def _predict(
    problem: PlacementProblem, placement: Placement, model: CostModel, known: np.ndarray[Any, np.dtype[np.bool_]]
) -> tuple[FloatArray, FloatArray]:
    """Return predicted ms per device and tier (d, k), and which parts lie outside the training (t, k).

    Whatever one device holds in one tier is a shard, looked up by one fused operator. A step counts as so many
    batches of the size that the model was measured on. Outside is 1, inside 0, NaN where nothing is checked.
    """
    from recshard.cost.features import part_features

    devices, tiers = problem.devices, problem.tiers
    features = part_features(problem, placement.rows, model.card.batch_size)
    table, tier = np.nonzero((features[:, :, 2] > 0) & known)
    shard = placement.device[table] * tiers + tier
    batches = problem.batch_size / model.card.batch_size
    predicted = batches * model.predict(features[table, tier], shard, devices * tiers).reshape(devices, tiers)
    predicted[:, ~known] = np.nan

    crowded = np.bincount(shard, minlength=devices * tiers) > model.card.tables_per_shard
    outside = np.full(features.shape[:2], np.nan)
    outside[table, tier] = model.outside(features[table, tier]) | crowded[shard]
    return predicted, outside


def _loads(
    problem: PlacementProblem,
    cost_ms: FloatArray,
    predicted_ms: FloatArray,
    known: np.ndarray[Any, np.dtype[np.bool_]],
) -> tuple[FloatArray, FloatArray]:
    """Return planned and learned load of each device, mean 1; NaN where the known tiers cost nothing.

    How much faster one tier or device is than another is the hardware's doing and not the plan's: the learned
    cost takes over the bandwidths of devices, and for each tier the total.
    """
    cost = cost_ms[:, known]
    predicted = predicted_ms[:, known] / problem.bandwidth[:, known]
    total = predicted.sum(axis=0)
    predicted = predicted * np.divide(cost.sum(axis=0), total, out=np.zeros_like(total), where=total > 0)
    if cost.sum() <= 0:
        nothing = np.full(problem.devices, np.nan)
        return nothing, nothing
    load, predicted_load = cost.sum(axis=1), predicted.sum(axis=1)
    return load / load.mean(), predicted_load / predicted_load.mean()


def _verdict(
    deviation: float | None,
    error: float,
    rank: float | None,
    extrapolated_share: float,
    checked_ms: FloatArray,
    known: np.ndarray[Any, np.dtype[np.bool_]],
) -> tuple[Verdict, str]:
    if not known.any():
        return "unchecked", "the cost model was not trained on any tier of this plan"
    if deviation is None:
        return "unchecked", "the tiers that the cost model knows serve no accesses"
    if np.count_nonzero(checked_ms) < 2:
        return "unchecked", "a single device has a load in the tiers that the cost model knows: nothing to compare"
    if extrapolated_share > 0.5:
        return "doubtful", f"{extrapolated_share:.0%} of the load lies outside what the cost model was trained on"
    found = f"device loads differ by up to {deviation:.1%} of the mean"
    if deviation <= DOUBTFUL * error and rank is not None and rank < RANKED:
        return "doubtful", f"{found}, but the two orders of the devices have a rank correlation of {rank:.2f} only"
    if deviation <= AGREES * error:
        return "agrees", f"{found}, within {AGREES:.0f} × the cost model's own error of {error:.1%}"
    if deviation <= DOUBTFUL * error:
        return "doubtful", f"{found}, over {AGREES:.0f} × the cost model's own error of {error:.1%}"
    return "disagrees", f"{found}, over {DOUBTFUL:.0f} × the cost model's own error of {error:.1%}"


def _remarks(
    claims: Mapping[str, str], tier_names: Sequence[str], judged_as: Sequence[str | None], kinds: Sequence[str]
) -> str:
    """Return what the reason adds on tiers treated as another kind, and on those left unchecked."""
    text = "".join(f"; {tier} is treated as {kind}, as asked" for tier, kind in claims.items() if tier != kind)
    unchecked = [name for name, kind in zip(tier_names, judged_as, strict=True) if kind is None]
    if unchecked:
        text += f"; unchecked: {', '.join(unchecked)} (the model is trained on {', '.join(kinds)})"
    return text


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
