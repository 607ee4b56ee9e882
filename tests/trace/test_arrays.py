"""NumPy files: what numpy.load gives is what comes out, in slices; nothing is unpickled."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recshard.trace import open_trace
from tests.trace.samples import Samples, read, refusal, samples_of

KINDS = ["<i4", "<i8", ">i4", "<u2", "<u8", "i1"]
Save = Callable[..., None]


def plainly(arrays: dict[str, np.ndarray]) -> Samples:
    return {name: [np.atleast_1d(row).tolist() for row in array] for name, array in arrays.items()}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_npy_is_a_feature_a_column(tmp_path: Path, kind: str, order: str) -> None:
    table = np.array(np.random.default_rng(1).integers(0, 100, (50, 3)), dtype=kind, order=order)
    path = tmp_path / "log.npy"
    np.save(path, table)
    expected = plainly({f"column_{k}": table[:, k] for k in range(3)})
    assert samples_of(open_trace(path), 7) == samples_of(open_trace(path)) == expected
    assert read(path, columns=("column_2",)) == {"column_2": expected["column_2"]}


def test_26_columns_are_the_categories_of_criteo(tmp_path: Path) -> None:
    table = np.random.default_rng(1).integers(0, 2**31, (20, 26)).astype(np.int32)
    path = tmp_path / "day_0_sparse.npy"
    np.save(path, table)
    assert read(path) == plainly({f"cat_{k}": table[:, k] for k in range(26)})


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("batch_size", [1, 7, 1000])
def test_a_numbered_npz_is_multi_hot_categories(tmp_path: Path, save: Save, batch_size: int) -> None:
    rng = np.random.default_rng(2)
    arrays = {str(k): rng.integers(0, 1000, (40, k % 4 + 1)).astype(np.int32) for k in range(26)}
    path = tmp_path / "day_0.npz"
    save(path, **dict(reversed(arrays.items())))
    expected = plainly({f"cat_{k}": array for k, array in arrays.items()})
    trace = open_trace(path)
    assert samples_of(trace, batch_size) == samples_of(trace, batch_size) == expected
    assert read(path, columns=("cat_7",)) == {"cat_7": expected["cat_7"]}


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 30),
    st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 3)), min_size=1, max_size=4),
    st.integers(1, 12),
    st.sampled_from([np.savez, np.savez_compressed]),
)
def test_named_arrays_are_features(
    samples: int, columns: list[tuple[str, int]], batch_size: int, save: Save
) -> None:
    rng = np.random.default_rng(samples)
    arrays = {
        f"f{k}": rng.integers(0, 100, (samples, width) if width else samples).astype(kind)
        for k, (kind, width) in enumerate(columns)
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.npz"
        save(path, **arrays)
        assert samples_of(open_trace(path), batch_size) == plainly(arrays)


def test_arrays_are_recognised_by_their_first_bytes(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[1]]))
    np.savez(tmp_path / "b.npz", items=np.array([[2, 3]]))
    (tmp_path / "a.npy").rename(tmp_path / "day_0")
    (tmp_path / "b.npz").rename(tmp_path / "day_1")
    assert read(tmp_path / "day_0") == {"column_0": [[1]]}
    assert read(tmp_path / "day_1") == read(tmp_path / "day_1", "arrays") == {"items": [[2, 3]]}


def test_a_negative_id_is_named_with_row_and_feature(tmp_path: Path) -> None:
    table = np.ones((5, 2), dtype=np.int32)
    table[3, 1] = -7
    np.save(tmp_path / "log.npy", table)
    for part in ("log.npy: row 4, column 'column_1': found -7", "whole numbers from 0", "--columns"):
        assert part in refusal(tmp_path / "log.npy")
    np.savez(tmp_path / "log.npz", a=table[:, :1], b=table)
    assert "log.npz: row 4, column 'b': found -7" in refusal(tmp_path / "log.npz")
    np.savez(tmp_path / "log.npz", a=np.array([1, 2**63], dtype=np.uint64))
    assert f"row 2, column 'a': found {2**63}" in refusal(tmp_path / "log.npz")


@pytest.mark.parametrize("array", [np.array([["a", 1]], dtype=object), np.ones((2, 2)), np.array([[True]])])
def test_arrays_of_anything_but_integers_are_refused(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "log.npy", array)
    np.savez(tmp_path / "log.npz", a=array)
    for name in ("log.npy", "log.npz"):
        message = refusal(tmp_path / name)
        assert f"found an array of {array.dtype}; accepted: integers" in message
        assert name in message


def test_shapes_that_are_no_samples_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "log.npy", np.arange(3))
    assert "found shape (3,); accepted: (samples, features)" in refusal(tmp_path / "log.npy")
    np.savez(tmp_path / "log.npz", a=np.ones((2, 2, 2), dtype=int))
    assert "a.npy: found shape (2, 2, 2)" in refusal(tmp_path / "log.npz")
    np.savez(tmp_path / "log.npz", a=np.ones((3, 2), dtype=int), b=np.ones((4, 2), dtype=int))
    assert "b.npy: found 4 samples; accepted: 3" in refusal(tmp_path / "log.npz")
    np.savez(tmp_path / "log.npz", a=np.ones((3, 2), dtype=int, order="F"))
    assert "ascontiguousarray" in refusal(tmp_path / "log.npz")
    np.savez(tmp_path / "log.npz")
    assert "no" in refusal(tmp_path / "log.npz", "arrays")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damaged_files_are_refused(tmp_path: Path, save: Save) -> None:
    np.save(tmp_path / "log.npy", np.arange(300).reshape(100, 3))
    whole = (tmp_path / "log.npy").read_bytes()
    (tmp_path / "log.npy").write_bytes(whole[:-1])
    assert "is the file whole?" in refusal(tmp_path / "log.npy")
    (tmp_path / "log.npy").write_bytes(b"a,b\n1,2\n")
    assert "not an array that numpy.save wrote" in refusal(tmp_path / "log.npy")

    path = tmp_path / "log.npz"
    save(path, a=np.random.default_rng(0).integers(0, 2**62, (1000, 3)))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "is the file whole?" in refusal(path)
    path.write_bytes(whole[:5000] + b"\xff" * 100 + whole[5100:])
    assert "log.npz" in refusal(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", (tmp_path / "log.npy").read_bytes())
    assert "a.npy: not an array" in refusal(path)


def test_a_misspelt_feature_gets_a_suggestion(tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", user=np.ones(1, dtype=int), item=np.ones(1, dtype=int))
    assert "'itme' (did you mean 'item'?); present: user, item" in refusal(tmp_path / "log.npz", columns=("itme",))
