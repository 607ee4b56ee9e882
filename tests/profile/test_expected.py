"""Expected profiles are what drawn ones are on average, at any size, and say plainly that they know no rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recshard.errors import InputError
from recshard.problem import build_problem
from recshard.profile import Profile, load_profile, save_profile
from recshard.profile import expected as room
from recshard.profile.build import profile_trace
from recshard.profile.expected import expected_profile
from recshard.strategy.bound import lower_bound_ms
from recshard.topology import load_topology
from recshard.trace.recipe import synthetic
from recshard.trace.synthetic import SyntheticTrace

RECIPE = """
samples = 65_536
batch_size = 65_536
seed = 3

[[families]]
name = "few"
count = 2
rows = [3, 200]
exponent = [0.0, 1.5]

[[families]]
name = "many"
count = 3
rows = [20_000, 500_000]
exponent = [0.0, 1.2]
pooling_factor = [1.0, 6.0]
coverage = [0.2, 1.0]

[[families]]
name = "crowded"
count = 2
rows = [10_000, 100_000]
raw_ids = [200_000, 2_000_000]
exponent = [0.3, 1.1]
pooling_factor = 3.0

[[families]]
name = "empty"
count = 2
rows = [800_000, 1_000_000]
raw_ids = [300_000, 600_000]
exponent = [0.3, 1.1]
"""


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> SyntheticTrace:
    path = tmp_path_factory.mktemp("recipe") / "mixed.toml"
    path.write_text(RECIPE)
    return synthetic(path)


@pytest.fixture(scope="module")
def drawn(trace: SyntheticTrace) -> Profile:
    return profile_trace(trace)


@pytest.fixture(scope="module")
def expected(trace: SyntheticTrace) -> Profile:
    return expected_profile(trace)


def test_lookups_lengths_and_rows_seen_are_those_of_a_draw(drawn: Profile, expected: Profile) -> None:
    assert expected.tables == drawn.tables
    for e, d in zip(expected.features, drawn.features, strict=True):
        assert e.samples == d.samples
        assert e.lookups == pytest.approx(d.lookups, rel=0.02)
        assert e.coverage == pytest.approx(d.coverage, abs=0.01)
        assert e.pooling_factor == pytest.approx(d.pooling_factor, rel=0.01)
    for e, d in zip(expected.stats, drawn.stats, strict=True):
        assert e.seen_rows == pytest.approx(d.seen_rows, rel=0.02)


def test_access_cdfs_are_those_of_a_draw(drawn: Profile, expected: Profile) -> None:
    for j, table in enumerate(drawn.tables.tables):
        at = np.unique(np.geomspace(1, table.rows, 100).astype(np.int64))
        covered = [np.interp(at, *profile.access_cdf(j)) for profile in (drawn, expected)]
        # A hot row may by luck share its row with others in one hashing and not in another.
        assert np.abs(covered[0] - covered[1]).max() < 0.02, table.name


def test_collisions_are_those_of_a_draw(drawn: Profile, expected: Profile) -> None:
    hashed = [(e.hashing, d.hashing) for e, d in zip(expected.stats, drawn.stats, strict=True) if e.hashing]
    assert len(hashed) == 4
    for e, d in hashed:
        assert d is not None
        assert e.distinct_ids == pytest.approx(d.distinct_ids, rel=0.02)
        assert e.collided_ids / e.distinct_ids == pytest.approx(d.collided_ids / d.distinct_ids, abs=0.02)


def test_a_problem_made_of_it_has_the_bound_of_a_draw(drawn: Profile, expected: Profile) -> None:
    topology = load_topology("demo-x8")
    bounds = [lower_bound_ms(build_problem(profile, topology)) for profile in (drawn, expected)]
    assert bounds[0] == pytest.approx(bounds[1], rel=0.02)


def test_counts_add_up_exactly(trace: SyntheticTrace) -> None:
    for samples in (1, 2, 17, 1000, 10**7):
        profile = expected_profile(replace(trace, samples=samples))
        for table, feature, stats in zip(profile.tables.tables, profile.features, profile.stats, strict=True):
            assert feature.samples == samples
            assert stats.lookups == feature.lookups
            assert stats.seen_rows <= table.rows
            assert (np.diff(stats.class_count) < 0).all()
            assert (stats.class_rows > 0).all()


def test_the_compound_law_of_a_row_is_what_hashing_every_id_gives(
    trace: SyntheticTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowded = replace(trace, parts=tuple(p for p in trace.parts if p.table.ids == "hash"))
    monkeypatch.setattr(room, "_HASHED_ONE_BY_ONE", 10**9)
    one_by_one = expected_profile(crowded)
    monkeypatch.setattr(room, "_HASHED_ONE_BY_ONE", 0)
    by_law = expected_profile(crowded)
    for j in range(len(crowded.parts)):
        at = np.arange(1, crowded.parts[j].table.rows, 97)
        covered = [np.interp(at, *profile.access_cdf(j)) for profile in (one_by_one, by_law)]
        assert np.abs(covered[0] - covered[1]).max() < 0.01


def test_it_is_kept_on_disk_and_says_that_it_knows_no_rows(expected: Profile, tmp_path: Path) -> None:
    save_profile(expected, tmp_path / "profile")
    again = load_profile(tmp_path / "profile")
    assert not again.rows_known
    assert again.lookups == expected.lookups
    for profile in (expected, again):
        with pytest.raises(InputError, match="not which"):
            profile.hot_rows(0)


def test_modulo_is_refused_since_it_does_not_spread_ids_as_hashing_does(trace: SyntheticTrace) -> None:
    part = trace.parts[-1]
    with pytest.raises(InputError, match='"mod"'):
        expected_profile(replace(trace, parts=(replace(part, table=replace(part.table, ids="mod")),)))
