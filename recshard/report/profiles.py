"""Profiles as tables on a terminal."""

from __future__ import annotations

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from recshard.profile.profile import Profile, expected_ids, expected_reached
from recshard.profile.reuse import reuse_histogram
from recshard.report.cells import share, table_of
from recshard.reuse_bins import REUSE_EDGES

_FEW = 0.005  # of the rows: bins below are summed up in the sentence on reuse


def profile_report(profile: Profile) -> RenderableType:
    """Return a profile's report: tables, features and what hashing did, the most looked up first, and reuse."""
    order = sorted(range(len(profile.tables)), key=lambda j: -profile.stats[j].lookups)
    parts: list[RenderableType] = [_tables(profile, order), _features(profile)]
    if any(_says_something_of_hashing(profile, j) for j in order):
        parts.append(_hashing(profile, [j for j in order if _says_something_of_hashing(profile, j)]))
    parts.append(Text(_reuse(profile)))
    if profile.sampled < 1:
        parts.append(Text(f"Counted in a random {share(profile.sampled)} of the samples."))
    return Group(*parts)


def _tables(profile: Profile, order: list[int]) -> RenderableType:
    title = f"{profile.samples:,} samples, {profile.lookups:,} lookups, {len(profile.tables)} tables"
    names = ("table", "rows", "ids", "per sample", "coverage", "reached", "50% in", "90% in")
    table = table_of(title, names)
    for j in order:
        emb = profile.tables.tables[j]
        table.add_row(
            emb.name,
            f"{emb.rows:,}",
            str(emb.ids),
            f"{profile.accesses_per_sample(j):.3g}",
            share(profile.stats[j].lengths.coverage),
            share(profile.occupancy(j)),
            f"{profile.rows_for(j, 0.5):,}",
            f"{profile.rows_for(j, 0.9):,}",
        )
    table.caption = "per sample: lookups; 50% in: the hottest rows that half of the accesses go to"
    table.caption_justify = "left"
    return table


def _features(profile: Profile) -> RenderableType:
    names = ("feature", "coverage", "mean", "p50", "p90", "p99", "max")
    table = table_of("features: IDs of the samples that have any", names)
    shown = [f for f in profile.features if f.coverage < 1 or f.lengths.percentile(1.0) > 1]
    for feature in sorted(shown, key=lambda f: -f.lookups):
        lengths = feature.lengths
        table.add_row(
            feature.name,
            share(feature.coverage),
            f"{feature.pooling_factor:.3g}",
            *(f"{lengths.percentile(q):,}" for q in (0.5, 0.9, 0.99, 1.0)),
        )
    plain = len(profile.features) - len(shown)
    sentence = Text(f"{plain} features have one ID in every sample.")
    return Group(*([table] if shown else []), *([sentence] if plain else []))


def _says_something_of_hashing(profile: Profile, index: int) -> bool:
    stats, rows = profile.stats[index], profile.tables.tables[index].rows
    return stats.hashing is not None or 0 < stats.seen_rows < rows


def _hashing(profile: Profile, order: list[int]) -> RenderableType:
    names = ("table", "raw IDs", "reached", "expected", "collided IDs", "collided accesses")
    table = table_of("hashing", names)
    for j in order:
        emb, stats = profile.tables.tables[j], profile.stats[j]
        reached = share(profile.occupancy(j))
        if stats.hashing is None:
            table.add_row(emb.name, f"{expected_ids(stats.seen_rows, emb.rows):,.0f}?", reached, "–", "–", "–")
            continue
        table.add_row(
            emb.name,
            f"{stats.hashing.distinct_ids:,}",
            reached,
            share(expected_reached(stats.hashing.distinct_ids, emb.rows) / emb.rows),
            share(stats.hashing.collided_ids / max(stats.hashing.distinct_ids, 1)),
            share(stats.hashing.collided_accesses / max(stats.lookups, 1)),
        )
    if any(profile.stats[j].hashing is None for j in order):
        table.caption = (
            "?: the IDs are rows already, and what collided before is not in the trace; had hashing filled the "
            "rows, it would have taken about so many IDs"
        )
        table.caption_justify = "left"
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
