"""Reports of profiles say what was counted, at any width, and claim nothing that is not in the trace."""

from __future__ import annotations

import io

import numpy as np
from rich.console import Console, RenderableType

from recshard.profile import Profiler
from recshard.profile.drift import drift
from recshard.profile.hash_size import hash_sizes
from recshard.report.drifting import drift_report
from recshard.report.hashing import hash_report
from recshard.report.profiles import profile_report
from recshard.tables import EmbeddingTable, TableSet

TABLES = TableSet(
    (
        EmbeddingTable("plain", 100, features=("plain",)),
        EmbeddingTable("hashed_by_someone", 40, features=("hashed_by_someone",), ids="hash"),
    )
)


def profiled(seed: int) -> Profiler:
    rng = np.random.default_rng(seed)
    profiler = Profiler(TABLES)
    lengths = rng.integers(0, 4, 500)
    raw = rng.integers(0, 60, int(lengths.sum())) * 10**9
    profiler.update(
        {"plain": (rng.integers(0, 60, 500), np.ones(500, dtype=int)), "hashed_by_someone": (raw, lengths)}
    )
    return profiler


def printed(report: RenderableType, width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(report)
    text = console.file.getvalue()
    assert "…" not in text  # nothing is cut
    return text


def test_a_profile_is_reported_with_its_lengths_collisions_and_reuse() -> None:
    profile = profiled(0).profile()
    for width in (80, 160):
        text = printed(profile_report(profile), width)
        assert f"{profile.lookups:,} lookups" in text
        assert "1 features have one ID in every sample" in text
        assert "Rows reached, by how often" in text
    hashing = profile.stats[1].hashing
    assert hashing is not None
    assert f"{hashing.distinct_ids}" in text
    # Of rows that are none but rows, only a guess, marked as one.
    plain = next(line for line in text.splitlines() if "plain" in line and "?" in line)
    assert "–" in plain


def test_hash_sizes_are_reported_for_hashed_tables_alone() -> None:
    sizes = hash_sizes(profiled(0).profile(), 0.1)
    text = printed(hash_report(sizes, 0.1), 80)
    assert f"{sizes[1].rows}" in text
    assert "plain" not in text
    assert "Of 1 tables the IDs are rows already" in " ".join(text.split())


def test_drift_is_reported_beside_luck() -> None:
    found = drift(profiled(0).profile(), profiled(1).profile())
    text = " ".join(printed(drift_report(found, None, None), 80).split())
    assert "two samples of the same traffic would differ by" in text
    assert "old plan" not in text
