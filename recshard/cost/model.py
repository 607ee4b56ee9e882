"""A trained cost model: the network, what it was trained on, and both on disk.

A folder: `weights.safetensors` and `card.json`. The card says for which kinds of memory and which ranges of
features the model stands, and how far it was off on shards that it had not seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from recshard.content import content_dir
from recshard.cost.features import FEATURES, log_numbers
from recshard.cost.figures import Figures
from recshard.cost.net import CostNet
from recshard.errors import InputError, nearest
from recshard.files import new_folder, read_json
from recshard.problem import FloatArray, IntArray
from recshard.spec import Spec, parse_spec

FORMAT_VERSION = 1
_CARD = "card.json"
_WEIGHTS = "weights.safetensors"
_KIND = "cost model"


class FeatureRange(Spec):
    """One feature over the training tables: its range, and the constants that standardise it.

    Mean and standard deviation of dim, rows, pooling factor and size are of their natural logarithms.
    """

    low: float
    high: float
    mean: float
    deviation: float


class Card(Spec):
    """What a cost model was trained on, and how good it is.

    Attributes:
        tiers: kinds of memory that it was measured on, such as `host`: a CPU reading its own memory.
        batch_size: samples of the batches that it was measured on; it predicts the cost of such a batch.
        optimizer: the optimizer whose update is part of the cost.
        threads: threads that read the memory.
        torch: version of torch that measured.
        shards: shards measured, those held out included.
        held_out_shards: how many of them were held out of training.
        tables_per_shard: most tables in a shard.
        scale_ms: cost of a typical shard, the unit of the network's output.
        seed: of the split, the first weights and the order of training.
        epochs: passes over the training shards.
        features: range of every feature over the training shards.
        held_out: the model's errors on the held-out shards.
        baseline: errors on the same shards of a straight line through the bytes that the lookups touch.
    """

    format_version: int = FORMAT_VERSION
    tiers: list[str]
    batch_size: int
    optimizer: str
    threads: int
    torch: str
    shards: int
    held_out_shards: int
    tables_per_shard: int
    scale_ms: float
    seed: int
    epochs: int
    features: dict[str, FeatureRange]
    held_out: Figures
    baseline: Figures


@dataclass(frozen=True)
class CostModel:
    """A network and its card."""

    net: CostNet
    card: Card

    def predict(self, features: FloatArray, shard: IntArray, shards: int | None = None) -> FloatArray:
        """Return the predicted cost of each shard in ms for a batch of `card.batch_size` samples, shape (shards,).

        Args:
            features: features of all tables, shape (n, 21), as `part_features` gives them for that batch size.
            shard: the shard of each table, shape (n,).
            shards: number of shards; None: one more than the largest in `shard`. One without tables costs 0.
        """
        count = shards if shards is not None else (int(shard.max()) + 1 if len(shard) else 0)
        with torch.no_grad():
            cost = self.net(
                torch.from_numpy(standardise(features, self.card.features)),
                torch.from_numpy(shard.astype(np.int64)),
                count,
            )
        held = np.bincount(shard, minlength=count) > 0
        return np.where(held, cost.numpy().astype(np.float64) * self.card.scale_ms, 0.0)

    def outside(self, features: FloatArray) -> FloatArray:
        """Return which tables have a feature outside the range that the model was trained on, bool, shape (n,)."""
        ranges = [self.card.features[name] for name in FEATURES]
        low = np.array([r.low for r in ranges])
        high = np.array([r.high for r in ranges])
        slack = 1e-9 * (high - low)
        return np.asarray(((features < low - slack) | (features > high + slack)).any(axis=1))


def standardise(features: FloatArray, ranges: Mapping[str, FeatureRange]) -> NDArray[np.float32]:
    """Return features as the network reads them: mean 0 and deviation 1 over the training tables, float32."""
    mean = np.array([ranges[name].mean for name in FEATURES])
    deviation = np.array([ranges[name].deviation for name in FEATURES])
    return np.asarray((log_numbers(features) - mean) / deviation, dtype=np.float32)


def save_cost_model(model: CostModel, folder: str | Path) -> None:
    """Write a model to a folder, whole or not at all; an older model there is replaced.

    Raises:
        InputError: the folder holds something else, or cannot be written.
    """
    from safetensors.torch import save_file

    with new_folder(folder, _CARD) as target:
        save_file({name: value.contiguous() for name, value in model.net.state_dict().items()}, target / _WEIGHTS)
        (target / _CARD).write_text(model.card.model_dump_json(indent=2) + "\n", encoding="utf-8")


def load_cost_model(name_or_folder: str | Path = "cost-host") -> CostModel:
    """Return the model in a folder, or a bundled one by name.

    Raises:
        InputError: no such model, another format version, a card that lacks something, or weights that are
            damaged or of another network.
    """
    folder = _find(name_or_folder)
    document = read_json(folder, _CARD, _KIND, FORMAT_VERSION)
    card = parse_spec(document, Card, source=str(folder / _CARD))
    missing = [name for name in FEATURES if name not in card.features]
    if missing:
        raise InputError(f"{folder / _CARD}: features: '{missing[0]}' is missing; accepted: {', '.join(FEATURES)}")
    net = CostNet()
    net.load_state_dict(_read_weights(folder / _WEIGHTS, net.state_dict()))
    return CostModel(net.eval(), card)


def _find(name_or_folder: str | Path) -> Path:
    folder = Path(name_or_folder)
    if folder.exists():
        return folder
    bundled = content_dir("solver_models") / name_or_folder
    if bundled.is_dir():
        return bundled
    known = sorted(path.parent.name for path in content_dir("solver_models").glob(f"cost-*/{_CARD}"))
    raise InputError(
        f"{name_or_folder}: no such folder, and no bundled {_KIND} of that name"
        f"{nearest(str(name_or_folder), known)}; bundled: {', '.join(known)}"
    )


def _read_weights(path: Path, expected: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors in a file, which are to have the names and shapes of `expected`."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise InputError(f"{path}: no such file; a {_KIND} has it beside its {_CARD}")
    try:
        weights = load_file(path)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path}: cannot be read as safetensors: {error}; train the {_KIND} again") from None
    for name, tensor in expected.items():
        found = tuple(weights[name].shape) if name in weights else "nothing"
        if found != tuple(tensor.shape):
            raise InputError(f"{path}: {name}: found {found}; accepted: a tensor of shape {tuple(tensor.shape)}")
        if not torch.isfinite(weights[name]).all():
            raise InputError(f"{path}: {name}: found a number that is not finite; train the {_KIND} again")
    extra = sorted(set(weights) - set(expected))
    if extra:
        raise InputError(f"{path}: found a tensor '{extra[0]}'; accepted: {', '.join(expected)}")
    return weights
