"""A plan as one HTML file that needs nothing else: numbers, devices, tables and figures as inline SVG."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from recshard import files
from recshard.plan.plan import Plan
from recshard.report import figures
from recshard.report.cells import share
from recshard.report.console import cut_sentence, proof_sentence
from recshard.report.solving import solver_sentences
from recshard.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TEMPLATE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{{ plan.strategy }} on {{ plan.topology }}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #ddd; }
td { font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; }
svg { max-width: 100%; height: auto; }
</style>
<h1>{{ plan.strategy }} on {{ plan.topology }}</h1>
<p>{{ sentence }} {{ slow }} of all accesses are expected outside the fastest tier.</p>
{% if cuts %}<p>{{ cuts }}</p>{% endif %}
<h2>Devices</h2>
{{ loads }}
<table>
<tr><th>device<th>cost ms<th>{{ "shards" if cuts else "tables" }}
{% for tier in plan.tier_names %}<th>{{ tier }}<th>accesses{% endfor %}</tr>
{% for device in plan.devices %}
<tr><td>{{ loop.index0 }}<td>{{ "%.4g" | format(device.cost_ms) }}<td>{{ device.tables | length }}
{% for tier in device.tiers.values() %}<td>{{ bytes(tier.bytes) }}<td>{{ share(tier.access_share) }}
{% endfor %}</tr>
{% endfor %}
</table>
<h2>What the solver has to say</h2>
{% for sentence in solver %}<p>{{ sentence }}</p>
{% endfor %}
{{ history }}
<h2>Splits of the largest tables</h2>
{{ splits }}
<h2>Where it comes from</h2>
<table>
{% for name, value in plan.provenance.items() %}<tr><td>{{ name }}<td>{{ value }}</tr>
{% endfor %}
</table>
</html>
"""


def write_html(plan: Plan, path: str | Path) -> None:
    """Write a plan's report as one HTML file.

    Raises:
        InputError: the file cannot be written.
    """
    from jinja2 import Environment
    from markupsafe import Markup

    page = Environment(autoescape=True).from_string(_TEMPLATE)
    text = page.render(
        plan=plan,
        sentence=proof_sentence(plan),
        cuts=cut_sentence(plan) if plan.tables_cut else "",
        slow=share(plan.slow_share),
        share=share,
        bytes=format_bytes,
        loads=Markup(_svg(lambda axes: figures.device_loads([plan], axes), 3.5)),
        solver=solver_sentences(plan.solver),
        history=Markup(_svg(lambda axes: figures.incumbent_and_bound(plan, axes), 3.0)),
        splits=Markup(_svg(lambda axes: figures.splits(plan, axes), 5.0)),
    )
    files.write_text(path, text)


def _svg(draw: Callable[[Axes], None], height: float) -> str:
    """Return a figure as an SVG element: the same bytes for the same plan."""
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, height), layout="constrained")
    draw(figure.subplots())
    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "recshard"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]
