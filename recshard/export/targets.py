"""The targets of an export, by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from recshard.errors import InputError, nearest
from recshard.export.fbgemm import export_fbgemm
from recshard.export.torchrec.document import export_torchrec
from recshard.plan.plan import Plan

TARGETS = ("fbgemm", "torchrec")


def export_plan(
    plan: Plan, to: str, path: str | Path, *, locations: Mapping[str, str] | None = None
) -> dict[str, object]:
    """Write what the target needs into the folder `path`, and return the document written.

    Args:
        to: `fbgemm` or `torchrec`.
        locations: where a tier stands for the target, for tier names that it does not know: FBGEMM's
            `EmbeddingLocation`, or TorchRec's compute kernel.

    Raises:
        InputError: unknown target, a tier whose location is not known, or a plan that the target cannot have.
    """
    if to not in TARGETS:
        raise InputError(f"export target: found '{to}'{nearest(to, TARGETS)}; accepted: {', '.join(TARGETS)}")
    return export_torchrec(plan, path, locations) if to == "torchrec" else export_fbgemm(plan, path, locations)
