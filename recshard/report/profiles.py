"""Profiles as tables on a terminal."""

from __future__ import annotations

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from recshard.profile.profile import Profile, expected_ids, expected_reached
from recshard.profile.reuse import reuse_histogram
from recshard.report.console import share, table_of
from recshard.reuse_bins import REUSE_EDGES

_FEW = 0.005  # of the rows: bins below are summed up in the sentence on reuse


def profile_report(profile: Profile) -> RenderableType:
    """Return a profile's report: a line per table, the most looked up first, features where they differ, reuse."""
    parts: list[RenderableType] = [_tables(profile)]
    if any(len(table.features) > 1 for table in profile.tables.tables):
        parts.append(_features(profile))
    parts.append(Text(_reuse(profile)))
    if any(
        stats.hashing is None and 0 < stats.seen_rows < table.rows
        for stats, table in zip(profile.stats, profile.tables.tables, strict=True)
    ):
        parts.append(Text(_ROWS_ALREADY))
    if profile.sampled < 1:
        parts.append(Text(f"Counted in a random {share(profile.sampled)} of the samples."))
    return Group(*parts)


_ROWS_ALREADY = (
    "Tables whose IDs are rows already: whether IDs collided before is not in the trace. Had hashing filled their "
    "rows, it would have taken about the number of IDs in brackets."
)


def _tables(profile: Profile) -> RenderableType:
    title = f"{profile.samples:,} samples, {profile.lookups:,} lookups, {len(profile.tables)} tables"
    names = (
        "table",
        "rows",
        "ids",
        "lookups/sample",
        "coverage",
        "pooling p50/p99/max",
        "rows reached",
        "50% / 90% of accesses in",
        "collided IDs / accesses",
    )
    table = table_of(title, names)
    for j in sorted(range(len(profile.tables)), key=lambda j: -profile.stats[j].lookups):
        emb, stats = profile.tables.tables[j], profile.stats[j]
        lengths = stats.lengths
        reached = share(profile.occupancy(j))
        collided = "–"
        if stats.hashing is not None:
            expected = expected_reached(stats.hashing.distinct_ids, emb.rows) / emb.rows
            reached += f" ({share(expected)} expected)"
            ids = share(stats.hashing.collided_ids / max(stats.hashing.distinct_ids, 1))
            collided = f"{ids} / {share(stats.hashing.collided_accesses / max(stats.lookups, 1))}"
        elif 0 < stats.seen_rows < emb.rows:
            reached += f" ({expected_ids(stats.seen_rows, emb.rows):,.0f} IDs)"
        table.add_row(
            emb.name,
            f"{emb.rows:,}",
            str(emb.ids),
            f"{profile.accesses_per_sample(j):.3g}",
            share(lengths.coverage),
            " / ".join(f"{lengths.percentile(q):,}" for q in (0.5, 0.99, 1.0)),
            reached,
            " / ".join(f"{profile.rows_for(j, covered):,}" for covered in (0.5, 0.9)) + " rows",
            collided,
        )
    return table


def _features(profile: Profile) -> RenderableType:
    names = ("feature", "table", "lookups/sample", "coverage", "pooling factor", "p50", "p90", "p99", "max")
    table = table_of("features", names)
    for feature in sorted(profile.features, key=lambda f: -f.lookups):
        lengths = feature.lengths
        table.add_row(
            feature.name,
            feature.table,
            f"{feature.lookups / max(feature.samples, 1):.3g}",
            share(feature.coverage),
            f"{feature.pooling_factor:.3g}",
            *(f"{lengths.percentile(q):,}" for q in (0.5, 0.9, 0.99, 1.0)),
        )
    return table


def _reuse(profile: Profile) -> str:
    """Return the reuse histogram as a sentence."""
    shares = reuse_histogram(profile)
    lows = np.concatenate([[0], REUSE_EDGES[:-1]])
    edges = zip(lows, REUSE_EDGES, strict=True)
    names = [f"{low + 1:,}–{high:,}" if high > low + 1 else f"{high}" for low, high in edges]
    names.append(f"above {REUSE_EDGES[-1]:,}")
    shown = np.flatnonzero(shares >= _FEW)
    listed = [f"{names[k]}: {share(float(shares[k]))}" for k in shown]
    rest = float(shares.sum() - shares[shown].sum())
    if rest > 1e-12:
        listed.append(f"other counts: {share(rest)}")
    return "Rows reached, by how often: " + ", ".join(listed) + "."
