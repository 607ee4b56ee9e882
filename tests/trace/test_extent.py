"""What progress is told: how many samples are to come, and batches read ahead in their order."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recshard.cli.progress import reading
from recshard.trace import from_batches, open_trace, sample, select, take
from recshard.trace.ahead import ahead
from recshard.trace.extent import expected_samples


def test_samples_are_known_beforehand_where_a_file_says_it(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": range(700), "b": range(700)}), tmp_path / "x.parquet", row_group_size=300)
    np.save(tmp_path / "x.npy", np.zeros((50, 3), dtype=np.int32))
    trace = open_trace(tmp_path / "x.parquet")
    assert expected_samples(trace) == 700
    assert expected_samples(take(trace, slice(10, None, 3))) == 230
    assert expected_samples(select(trace, ["b"])) == 700
    assert expected_samples(sample(trace, 0.1)) == 70
    assert expected_samples(open_trace([tmp_path / "x.parquet"] * 2)) == 1400
    assert expected_samples(open_trace(tmp_path / "x.npy")) == 50
    assert expected_samples(open_trace("demo")) == 65_536


@pytest.mark.parametrize("packed", [False, True])
def test_lines_of_text_are_estimated(tmp_path: Path, packed: bool) -> None:
    rng = np.random.default_rng(0)
    text = ("a\n" + "\n".join(map(str, rng.integers(0, 10**6, 200_000)))).encode()
    path = tmp_path / ("x.csv.gz" if packed else "x.csv")
    path.write_bytes(gzip.compress(text) if packed else text)
    assert expected_samples(open_trace(path)) == pytest.approx(200_000, rel=0.05)


def test_nothing_is_made_up_where_nothing_is_known() -> None:
    assert expected_samples(from_batches(iter([{"a": ([1], [1])}]))) is None


def test_items_come_in_order_and_are_made_ahead_in_another_thread() -> None:
    makers = []

    def make() -> Iterator[int]:
        for number in range(5):
            makers.append(threading.get_ident())
            yield number

    assert list(ahead(make())) == [0, 1, 2, 3, 4]
    assert threading.get_ident() not in makers
    assert len(set(makers)) == 1


def test_an_error_comes_in_its_turn() -> None:
    def make() -> Iterator[int]:
        yield 1
        raise ValueError("second")

    coming = ahead(make())
    assert next(coming) == 1
    with pytest.raises(ValueError, match="second"):
        next(coming)


def test_progress_off_a_terminal_is_plain_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recshard.cli.progress._EVERY_SECONDS", 0.0)
    with reading("profile", open_trace("demo")) as advance:
        advance(16_384, 2_000_000)
        advance(16_384, 2_000_000)
    captured = capsys.readouterr()
    assert captured.out == ""
    first, second = captured.err.splitlines()
    assert first.startswith("profile: 16,384 rows, ")
    assert "25%" in first
    assert second.startswith("profile: 32,768 rows, ")
    assert "million lookups/s, 50%, about" in second
