"""Public data from end to end: one half profiled and planned for, the other half replayed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from recshard.plan import make_plan
from recshard.profile.build import profile_trace
from recshard.replay import replay_plan
from recshard.strategy.run import BASELINES, StrategyOptions
from recshard.topology import Group, Tier, Topology
from recshard.trace import open_trace, take

DATA = Path(__file__).parents[2] / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the public data sets are not beside the checkout")

# Four devices whose fast tier holds a fifth of the bytes, all together.
TOPOLOGY = Topology((Group(1, 4, (Tier("hbm", None, 1555e9, 0.2), Tier("uvm", None, 16e9, 4.0))),), name="fifth")


def lookups_by_plain_python(name: str) -> int:
    """Count the lookups of every other sample, from the second on, without any of the project's readers."""
    folder = DATA / name
    if name == "frappe":
        lines = [
            line
            for file in ("frappe.validation.libfm", "frappe.test.libfm")
            for line in (folder / file).read_text().splitlines()
        ]
        return sum(len(line.split()) - 1 for line in lines[1::2])
    if name == "amazon-book":
        return sum(len(line.split()) for line in (folder / "user_items.txt").read_text().splitlines()[1::2])
    genres = {
        line.split("|")[0]: sum(map(int, line.split("|")[5:]))
        for line in (folder / "u.item").read_text(encoding="latin-1").splitlines()
    }
    # user, item, age and occupation are one lookup each.
    ratings = (folder / "u.data").read_text().splitlines()[1::2]
    return sum(4 + genres[line.split("\t")[1]] for line in ratings)


@pytest.mark.parametrize("name", ["ml-100k", "frappe", "amazon-book"])
def test_plans_of_one_half_replay_exactly_on_the_other_and_beat_the_baselines(name: str) -> None:
    trace = open_trace(name, data=DATA / name)
    tables = profile_trace(trace).tables  # the model's tables are known before training; only statistics are not
    profile = profile_trace(take(trace, slice(0, None, 2)), tables)
    held_out = take(trace, slice(1, None, 2))
    options = StrategyOptions(time_limit=8)
    expected = lookups_by_plain_python(name)
    cost = {}
    for strategy in ("search", "milp", *BASELINES):
        plan = make_plan(profile, TOPOLOGY, strategy, options=options)
        replay = replay_plan(plan, held_out)
        summary = replay.summary()
        assert sum(sum(device["accesses"].values()) for device in summary["devices"]) == expected
        cost[strategy] = plan.bottleneck_ms
        assert plan.lower_bound_ms <= plan.bottleneck_ms
    best_baseline = min(cost[baseline] for baseline in BASELINES)
    assert cost["search"] <= best_baseline * (1 + 1e-9)
    assert cost["milp"] <= best_baseline * (1 + 1e-9)


def test_genres_of_a_film_are_one_multi_hot_feature() -> None:
    trace = open_trace("ml-100k", data=DATA / "ml-100k")
    assert trace.features == ("user", "item", "age", "occupation", "genre")
    batch = next(trace.batches(1000))
    films = {
        int(line.split("|")[0]): [i for i, flag in enumerate(line.split("|")[5:]) if flag == "1"]
        for line in (DATA / "ml-100k" / "u.item").read_text(encoding="latin-1").splitlines()
    }
    begin = 0
    for item, length in zip(batch.bags["item"].values, batch.bags["genre"].lengths, strict=True):
        assert batch.bags["genre"].values[begin : begin + length].tolist() == films[int(item)]
        begin += length


def test_frappe_fields_hold_the_ids_of_the_file() -> None:
    profile = profile_trace(open_trace("frappe", data=DATA / "frappe"))
    expected: Counter[int] = Counter()
    for file in ("frappe.validation.libfm", "frappe.test.libfm"):
        for line in (DATA / "frappe" / file).read_text().splitlines():
            expected[int(line.split()[1].partition(":")[0])] += 1
    rows, counts = profile.hot_rows(0)
    assert profile.tables.tables[0].ids == "rows"
    assert dict(zip(rows.tolist(), counts.tolist(), strict=True)) == expected
