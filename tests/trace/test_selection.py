"""Part of a trace: samples as Python slices them, features by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.errors import InputError
from recshard.trace import declared_tables, open_trace, parse_samples, sample, select, take
from recshard.trace.selection import sampled_share
from tests.trace.samples import samples_of
from tests.traces import MemoryTrace

BOUND = st.none() | st.integers(0, 40)


@settings(deadline=None)
@given(
    samples=st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=30),
    start=BOUND,
    stop=BOUND,
    step=st.none() | st.integers(1, 7),
    batch_size=st.integers(1, 40),
)
def test_take_selects_what_python_slices(
    samples: list[list[int]], start: int | None, stop: int | None, step: int | None, batch_size: int
) -> None:
    trace = MemoryTrace({"a": samples, "b": [[7]] * len(samples)})
    chosen = slice(start, stop, step)
    taken = take(trace, chosen)
    assert taken.features == trace.features
    assert samples_of(taken, batch_size) == {"a": samples[chosen], "b": [[7]] * len(samples[chosen])}


def test_halves_make_up_the_whole() -> None:
    trace = take(open_trace("demo"), slice(20_000))
    even, odd = (samples_of(take(select(trace, ["id_00"]), slice(k, None, 2)))["id_00"] for k in (0, 1))
    whole = samples_of(select(trace, ["id_00"]))["id_00"]
    assert [sample for pair in zip(even, odd, strict=True) for sample in pair] == whole


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0::2", slice(0, None, 2)),
        (":50000", slice(None, 50000)),
        ("5:", slice(5, None)),
        (":", slice(None)),
        ("1:2:3", slice(1, 2, 3)),
        ("::", slice(None)),
    ],
)
def test_samples_are_written_as_in_python(text: str, expected: slice) -> None:
    assert parse_samples(text) == expected


@pytest.mark.parametrize("text", ["", "5", "-1:", "a:b", "0:::2", "1.5:", "0 : 1"])
def test_other_text_is_no_selection(text: str) -> None:
    with pytest.raises(InputError, match="START:STOP:STEP"):
        parse_samples(text)


@pytest.mark.parametrize("samples", [slice(-1, None), slice(0, -1), slice(0, 5, 0), slice(5, 0, -1)])
def test_slices_that_count_from_the_end_are_refused(samples: slice) -> None:
    with pytest.raises(InputError, match="accepted"):
        take(MemoryTrace({"a": [[1]]}), samples)


def test_features_are_selected_in_the_order_given() -> None:
    trace = MemoryTrace({"user": [[1]], "item": [[2]], "shop": [[3]]})
    assert list(samples_of(select(trace, ["shop", "user"])).items()) == [("shop", [[3]]), ("user", [[1]])]
    with pytest.raises(InputError, match=r"'itme' \(did you mean 'item'\?\).*user, item, shop"):
        select(trace, ["itme"])


def test_parts_of_a_recipe_keep_its_tables() -> None:
    trace = open_trace("demo")
    chosen = declared_tables(select(take(trace, slice(10)), ["id_03", "context_00"]))
    assert chosen is not None
    assert {table.name for table in chosen.tables} == {"id_03", "context_00"}
    assert declared_tables(MemoryTrace({"a": [[1]]})) is None


@pytest.mark.parametrize("batch_size", [7, 1000])
def test_a_random_share_is_the_same_samples_however_it_is_read(tmp_path: Path, batch_size: int) -> None:
    for number in range(3):
        text = "\n".join(str(1000 * number + n) for n in range(900))
        (tmp_path / f"{number}.csv").write_text(f"a\n{text}\n")
    whole = sample(open_trace(str(tmp_path / "*.csv")), 0.2, seed=5)
    found = [bag[0] for bag in samples_of(whole, batch_size)["a"]]
    assert found == [bag[0] for bag in samples_of(whole, 65536)["a"]]
    assert 400 < len(found) < 680
    assert found == sorted(found)
    # Files choose apart from each other, and seeds from each other.
    apart = [{n % 1000 for n in found if n // 1000 == number} for number in range(3)]
    assert apart[0] != apart[1] != apart[2]
    other = samples_of(sample(open_trace(str(tmp_path / "*.csv")), 0.2, seed=6))["a"]
    assert found != [bag[0] for bag in other]


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, float("nan")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(InputError, match="sample: found"):
        sample(open_trace("demo"), share)


def test_the_share_is_known_through_other_selections() -> None:
    trace = sample(open_trace("demo"), 0.25)
    assert sampled_share(trace) == 0.25
    assert sampled_share(take(trace, slice(0, None, 2))) == 0.25
    assert sampled_share(sample(trace, 0.5)) == 0.125
    assert sampled_share(open_trace("demo")) == 1.0
