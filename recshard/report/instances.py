"""The instance library on the console: bounds, best known bottlenecks, proofs, and what disagrees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from recshard.instances.verify import Verdict


def instances_report(verdicts: Sequence[Verdict]) -> RenderableType:
    """Return a table of instances, a row each, and below it what disagrees."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(title="instances")
    for heading in (
        "instance",
        "tables",
        "devices",
        "tiers",
        "best ms",
        "bound ms",
        "gap %",
        "bound by",
        "solvers",
    ):
        table.add_column(heading, justify="left" if heading in ("instance", "bound by", "solvers") else "right")
    table.add_column("verdict")
    for v in verdicts:
        proofs = ", ".join(f"{p.solver} {p.seconds:.1f} s" for p in v.proofs)
        table.add_row(
            *(v.name, str(v.tables), str(v.devices), str(v.tiers)),
            *(f"{v.bottleneck_ms:.6f}", f"{v.lower_bound_ms:.6f}", f"{100 * v.gap:.4f}", v.bound_by, proofs),
            v.verdict,
        )
    troubles = [Text(f"{v.name}: {trouble}") for v in verdicts for trouble in v.troubles]
    return Group(table, *troubles)
