"""Meta's tensor files: indices, offsets and lengths of all tables, checked against each other."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recshard.trace import open_trace
from tests.trace.samples import read, refusal, samples_of

TABLES, BATCH = 3, 50


def tensors() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(5)
    lengths = torch.from_numpy(rng.poisson(1.5, (TABLES, BATCH)))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.ravel().cumsum(0)])
    indices = torch.from_numpy(rng.integers(0, 10**9, int(offsets[-1])))
    return indices, offsets, lengths


def written(tmp_path: Path, content: Any, name: str = "fbgemm_t3_bs50_0.pt") -> Path:
    path = tmp_path / name
    buffer = io.BytesIO()
    torch.save(content, buffer)
    data = buffer.getvalue()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", ["a.pt", "a.pt.gz"])
@pytest.mark.parametrize("batch_size", [1, 7, 50, 64])
def test_every_table_is_a_feature_with_its_bags(tmp_path: Path, name: str, batch_size: int) -> None:
    indices, offsets, _ = tensors()
    expected = {
        f"table_{t:03d}": [
            indices[offsets[t * BATCH + b] : offsets[t * BATCH + b + 1]].tolist() for b in range(BATCH)
        ]
        for t in range(TABLES)
    }
    assert samples_of(open_trace(written(tmp_path, tensors(), name)), batch_size) == expected


def test_narrow_integers_and_chosen_tables_are_read(tmp_path: Path) -> None:
    indices, offsets, lengths = tensors()
    path = written(tmp_path, (indices.int(), offsets.int(), lengths.int()))
    assert list(read(path, columns=("table_002",))) == ["table_002"]


def _shorter_indices(i: Any, o: Any, n: Any) -> Any:
    return i[:-1], o, n


def _moved_offset(i: Any, o: Any, n: Any) -> Any:
    o = o.clone()
    o[5] += 1
    return i, o, n


def _missing_table(i: Any, o: Any, n: Any) -> Any:
    return i, o, n[:-1]


@pytest.mark.parametrize("damage", [_shorter_indices, _moved_offset, _missing_table])
def test_tensors_that_contradict_each_other_are_refused(tmp_path: Path, damage: Any) -> None:
    path = written(tmp_path, damage(*tensors()))
    message = refusal(path)
    assert str(path) in message
    assert "contradict each other" in message


def test_a_negative_index_is_named(tmp_path: Path) -> None:
    indices, offsets, lengths = tensors()
    indices[17] = -4
    assert "indices[17]: found -4" in refusal(written(tmp_path, (indices, offsets, lengths)))


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ([torch.zeros(1)], "three tensors"),
        ({"indices": torch.zeros(1)}, "three tensors"),
        ((torch.zeros(1), torch.zeros(2), torch.ones(1, 1)), "integers"),
        ((torch.zeros(1, dtype=int), torch.zeros(2, dtype=int), torch.ones(1, dtype=int)), "(tables, batch)"),
        (Path("code"), "anything else is refused"),
    ],
    ids=["one", "dict", "floats", "flat", "object"],
)
def test_anything_but_the_three_tensors_is_refused(tmp_path: Path, content: Any, part: str) -> None:
    assert part in refusal(written(tmp_path, content))


@pytest.mark.parametrize("cut", [0, 10, 300, -200])
@pytest.mark.parametrize("name", ["a.pt", "a.pt.gz"])
def test_a_cut_file_is_refused(tmp_path: Path, cut: int, name: str) -> None:
    path = written(tmp_path, tensors(), name)
    path.write_bytes(path.read_bytes()[:cut])
    assert "cannot be read as a tensor file" in refusal(path)


def test_a_garbled_gzip_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, tensors(), "a.pt.gz")
    data = bytearray(path.read_bytes())
    data[200:260] = bytes(60)
    path.write_bytes(bytes(data))
    assert "cannot be read as a tensor file" in refusal(path)


def test_text_is_no_tensor_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    path.write_text("user,item\n1,2\n")
    assert "cannot be read as a tensor file" in refusal(path)
