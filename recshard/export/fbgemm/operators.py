"""FBGEMM's table-batched operators of one device, what feeds them, and where their outputs belong.

An operator has one optimizer, one weight type and one processor (the GPU reads `DEVICE` and `MANAGED`, the CPU
`HOST`): a device whose parts differ in these has an operator for each combination. Bags are summed.

```
devices = [operator(folder, d, weights=weights, learning_rate=0.01) for d in range(n)]   # one a process, usually
pooled = put_in_place([device(batch) for device in devices])                              # feature → (bags, dim)
```
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recshard.errors import InputError, nearest
from recshard.export.fbgemm.specs import PartSpec, Specs, load_fbgemm, specs_of
from recshard.plan.plan import Plan
from recshard.remap.parts import Routed
from recshard.runtime.batch import Batch, joined, read_batch

_OPTIMIZERS = {
    "sgd": "EXACT_SGD",
    "rowwise_adagrad": "EXACT_ROWWISE_ADAGRAD",
    "adagrad": "EXACT_ADAGRAD",
    "adam": "ADAM",
}
_NOT_ON_CPU = ("adam",)
_DTYPES = {"float32": "FP32", "float16": "FP16"}

Outputs = dict[tuple[str, int], Tensor]


@dataclass(frozen=True)
class _Group:
    """The parts of one operator, in its order."""

    optimizer: str
    dtype: str
    on_cpu: bool
    specs: tuple[PartSpec, ...]


class DeviceOperators(nn.Module):
    """The operators of one device: `operators[i]` is the real `SplitTableBatchedEmbeddingBagsCodegen`.

    The optimizer's step is part of an operator's backward, as always in FBGEMM: there is none to call.

    Attributes:
        device: its number in the plan.
        specs: of all devices.
        operators: one for each optimizer, weight type and kind of memory.
    """

    def __init__(
        self, specs: Specs, device: int, *, use_cpu: bool, optimizer: str | None, options: Mapping[str, Any]
    ) -> None:
        """Make the operators; see `operator`."""
        super().__init__()
        self.specs, self.device = specs, device
        self._features = {s.table: s.features for parts in specs.devices for s in parts}
        self._shapes = {s.table: (s.table_rows, s.table_dim) for parts in specs.devices for s in parts}
        self._dtypes = {s.table: s.dtype for parts in specs.devices for s in parts}
        self._parts = {part.name: part for remap in specs.remaps.values() for part in remap.parts}
        self._home = _processor(use_cpu)
        self._groups = _groups(specs, device, use_cpu, optimizer)
        self.operators = nn.ModuleList([_make(group, options) for group in self._groups])

    @property
    def tables(self) -> list[str]:
        """Tables that have a part here."""
        return list(dict.fromkeys(spec.table for spec in self.specs.devices[self.device]))

    def route(self, batch: Batch) -> list[tuple[Tensor, Tensor, Tensor | None]]:
        """Return what feeds each operator: indices, offsets and the lookups' weights, if there are any.

        Args:
            batch: (rows, lengths) or (rows, lengths, weights) by feature, or a KeyedJaggedTensor; features of
                tables without a part here may be left out.

        Raises:
            InputError: a batch that does not fit the model, or a row beyond its table.
        """
        known = [feature for features in self._features.values() for feature in features]
        bags = read_batch(batch, known, [feature for table in self.tables for feature in self._features[table]])
        found: dict[str, tuple[Routed, Tensor | None]] = {}
        for table in self.tables:
            whole = joined([bags[feature] for feature in self._features[table]])
            for routed in self.specs.remaps[table].route(whole.values, whole.offsets):
                found[routed.part.name] = routed, _own_weights(routed, whole.weights)
        return [_fed([found[spec.name] for spec in group.specs], group.on_cpu) for group in self._groups]

    def outputs(self, pooled: Sequence[Tensor]) -> Outputs:
        """Return what this device contributes, shape (bags, columns) each.

        Args:
            pooled: output of each operator, shape (bags, sum of the dims of its parts' features).

        Returns:
            by feature and first column; tiers and row shards of one device are added up.
        """
        out: Outputs = {}
        for group, output in zip(self._groups, pooled, strict=True):
            output, first = output.to(self._home), 0
            for spec in group.specs:
                for feature in spec.features:
                    _add(out, (feature, spec.columns[0]), output[:, first : first + spec.dim])
                    first += spec.dim
        return out

    def forward(self, batch: Batch) -> Outputs:
        """Return what this device contributes to the pooled rows: see `route`, `outputs` and `put_in_place`."""
        fed = self.route(batch)
        return self.outputs([op(*given) for op, given in zip(self.operators, fed, strict=True)])

    def load_whole(self, weights: Mapping[str, Tensor]) -> None:
        """Write the rows of whole tables, shape (rows, dim), into the parts that are here.

        Raises:
            InputError: a table that is missing or of another shape or type; then nothing was written.
        """
        for table in self.tables:
            self._check_whole(weights, table)
        with torch.no_grad():
            for spec, rows, weight in self._held():
                columns = weights[spec.table].detach()[:, slice(*spec.columns)]
                weight.copy_(columns[rows.to(columns.device)])
        for op in self.operators:
            split: Any = op
            split.reset_cache_states()  # what it had of the rows before is out of date

    def write_whole(self, out: Mapping[str, Tensor]) -> None:
        """Write the parts that are here into whole tables, shape (rows, dim); other elements stay as they are.

        Raises:
            InputError: a table that is missing or of another shape or type; then nothing was written.
        """
        for table in self.tables:
            self._check_whole(out, table)
        with torch.no_grad():
            for spec, rows, weight in self._held():
                whole = out[spec.table]
                whole[rows.to(whole.device), slice(*spec.columns)] = weight.to(whole.device)

    def _held(self) -> list[tuple[PartSpec, Tensor, Tensor]]:
        """Return every part here with the rows of its table that it holds, and their weights."""
        found = []
        for group, op in zip(self._groups, self.operators, strict=True):
            split: Any = op
            split.flush()  # rows that were trained in the cache of a MANAGED_CACHING part
            for spec, weight in zip(group.specs, split.split_embedding_weights(), strict=True):
                rows = self.specs.remaps[spec.table].rows_of(self._parts[spec.name])
                found.append((spec, torch.from_numpy(rows), weight))
        return found

    def _check_whole(self, weights: Mapping[str, Tensor], table: str) -> None:
        if table in weights and not _is_a(weights[table], Tensor):
            raise InputError(
                f"weights: table '{table}': found {type(weights[table]).__name__}; accepted: a tensor, the whole "
                "table (of an nn.EmbeddingBag, its weight)"
            )
        if table not in weights:
            raise InputError(
                f"weights: table '{table}' is missing{nearest(table, weights)}; give every table whole"
            )
        found, accepted = tuple(weights[table].shape), self._shapes[table]
        if found != accepted:
            raise InputError(
                f"weights: table '{table}': found shape {found}; accepted: {accepted}, the whole table"
            )
        dtype, planned = str(weights[table].dtype).removeprefix("torch."), self._dtypes[table]
        if dtype != planned:
            raise InputError(
                f"weights: table '{table}': found {dtype}; accepted: {planned}, as planned; convert it first, or "
                "plan for a table of that dtype"
            )


def operator(
    source: Plan | Specs | str | Path,
    device: int,
    *,
    weights: Mapping[str, Tensor] | None = None,
    use_cpu: bool | None = None,
    optimizer: str | None = None,
    learning_rate: float = 0.01,
    **options: Any,
) -> DeviceOperators:
    """Return the FBGEMM operators of one device of a plan.

    Args:
        source: the plan, its export, or the folder of its export.
        device: number of the device in the plan; on CUDA its parts go to the process's current GPU.
        weights: every table whole, shape (rows, dim); None: uniform within ± 1 ÷ √(rows of the table).
        use_cpu: hold everything in host memory and look it up on the CPU; None: where there is no CUDA.
        optimizer: for all tables, in place of what each declares: sgd, rowwise_adagrad, adagrad or adam.
        learning_rate: of all operators.
        options: further arguments of FBGEMM's operator, such as `eps` or `weight_decay`.

    Raises:
        InputError: fbgemm_gpu is not installed, no such device, a part that FBGEMM has no operator for (a dim that
            is no multiple of 4, an optimizer or type that is not executed), or weights that do not fit.
    """
    specs = specs_of(source) if isinstance(source, Plan) else source
    specs = specs if isinstance(specs, Specs) else load_fbgemm(specs)
    if not _is_a(device, Integral) or not 0 <= device < len(specs.devices):
        raise InputError(f"device: found {device}; accepted: 0 to {len(specs.devices) - 1}, the plan's devices")
    if not (_is_a(learning_rate, Real) and 0 <= learning_rate < float("inf")):
        raise InputError(f"learning_rate: found {learning_rate!r}; accepted: a number, 0 or more")
    if use_cpu is False and not torch.cuda.is_available():
        raise InputError("use_cpu: found False, and torch finds no CUDA here; accepted here: True or None")
    if optimizer is not None and optimizer not in _OPTIMIZERS:
        raise InputError(
            f"optimizer: found '{optimizer}'{nearest(optimizer, _OPTIMIZERS)}; accepted: {', '.join(_OPTIMIZERS)}"
        )
    made = DeviceOperators(
        specs, device, use_cpu=not torch.cuda.is_available() if use_cpu is None else use_cpu, optimizer=optimizer,
        options={"learning_rate": learning_rate} | options,
    )  # fmt: skip
    if weights is not None:
        made.load_whole(weights)
        return made
    with torch.no_grad():
        for spec, _, weight in made._held():
            weight.uniform_(-(spec.table_rows**-0.5), spec.table_rows**-0.5)
    return made


def _is_a(given: object, kind: type) -> bool:
    return isinstance(given, kind)


def put_in_place(outputs: Sequence[Outputs]) -> dict[str, Tensor]:
    """Return the pooled rows of every feature, shape (bags, dim), from what all devices of a plan contribute.

    Contributions to the same columns are added, ranges of columns set side by side.
    """
    added: Outputs = {}
    for contributed in outputs:
        for key, pooled in contributed.items():
            _add(added, key, pooled)
    ranges: dict[str, list[Tensor]] = {}
    for (feature, _), pooled in sorted(added.items(), key=lambda item: item[0]):
        ranges.setdefault(feature, []).append(pooled)
    return {feature: pieces[0] if len(pieces) == 1 else torch.cat(pieces, 1) for feature, pieces in ranges.items()}


def _add(out: Outputs, key: tuple[str, int], pooled: Tensor) -> None:
    out[key] = out[key] + pooled.to(out[key].device) if key in out else pooled


def _groups(specs: Specs, device: int, use_cpu: bool, optimizer: str | None) -> list[_Group]:
    """Return the parts of a device by operator, in the order of their first parts."""
    found: dict[tuple[str, str, bool], list[PartSpec]] = {}
    for spec in specs.devices[device]:
        chosen, on_cpu = optimizer or spec.optimizer, use_cpu or spec.location == "HOST"
        where = f"{specs.source}: part '{spec.name}'"
        if spec.dim % 4:
            raise InputError(
                f"{where}: dim: found {spec.dim}; FBGEMM accepts multiples of 4; declare such a dim, or allow no "
                "cuts by columns that leave less"
            )
        if spec.dtype not in _DTYPES:
            raise InputError(f"{where}: dtype: found '{spec.dtype}'; accepted: {', '.join(_DTYPES)}")
        if on_cpu and chosen in _NOT_ON_CPU:
            others = ", ".join(name for name in _OPTIMIZERS if name not in _NOT_ON_CPU)
            raise InputError(
                f"{where}: optimizer: FBGEMM has no '{chosen}' on the CPU; accepted there: {others}; give "
                "optimizer='rowwise_adagrad', or hold the part in HBM or UVM of a GPU"
            )
        found.setdefault((chosen, spec.dtype, on_cpu), []).append(spec)
    return [_Group(*key, tuple(parts)) for key, parts in found.items()]


def _make(group: _Group, options: Mapping[str, Any]) -> nn.Module:
    training, common = _fbgemm("split_table_batched_embeddings_ops_training"), _fbgemm("split_embedding_configs")
    shared = _fbgemm("split_table_batched_embeddings_ops_common")
    compute = training.ComputeDevice.CPU if group.on_cpu else training.ComputeDevice.CUDA
    features = [len(spec.features) for spec in group.specs]
    codegen = training.SplitTableBatchedEmbeddingBagsCodegen
    planned = {
        "embedding_specs": [
            (
                spec.rows,
                spec.dim,
                shared.EmbeddingLocation["HOST" if group.on_cpu else spec.location],
                compute,
            )
            for spec in group.specs
        ],
        "feature_table_map": np.repeat(np.arange(len(features)), features).tolist(),
        "weights_precision": common.SparseType[_DTYPES[group.dtype]],
        "optimizer": common.EmbOptimType[_OPTIMIZERS[group.optimizer]],
        "pooling_mode": shared.PoolingMode.SUM,
        "device": _processor(group.on_cpu),
        "table_names": [spec.name for spec in group.specs],
    }
    accepted = [name for name in inspect.signature(codegen).parameters if name not in planned]
    for name in options:
        if name in planned:
            raise InputError(f"option '{name}': found one of your own; accepted: none, since the plan says it")
        if name not in accepted:
            raise InputError(
                f"option '{name}': FBGEMM's operator has none of this name{nearest(name, accepted)}; accepted: "
                "those of SplitTableBatchedEmbeddingBagsCodegen"
            )
    made: nn.Module = codegen(**planned, **options)
    return made


def _processor(on_cpu: bool) -> torch.device:
    return torch.device("cpu") if on_cpu else torch.device("cuda", torch.cuda.current_device())


def _fbgemm(module: str) -> Any:
    try:
        return importlib.import_module(f"fbgemm_gpu.{module}")
    except ImportError as error:
        raise InputError(
            f"fbgemm_gpu cannot be imported ({error}); install recshard[torchrec], or fbgemm-gpu for CUDA, in the "
            "release that goes with the installed torch"
        ) from None


def _own_weights(routed: Routed, weights: Tensor | None) -> Tensor | None:
    if weights is None or routed.lookups is None:
        return weights
    return weights.index_select(0, torch.from_numpy(routed.lookups).to(weights.device))


def _fed(parts: Sequence[tuple[Routed, Tensor | None]], on_cpu: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the lookups of parts one after the other, with offsets that run through."""
    indices = np.concatenate([routed.slots for routed, _ in parts])
    begins = np.cumsum([0, *(len(routed.slots) for routed, _ in parts)])
    offsets = np.concatenate(
        [*(routed.offsets[:-1] + begin for (routed, _), begin in zip(parts, begins, strict=False)), begins[-1:]]
    )
    device = _processor(on_cpu)
    given = [
        torch.ones(len(routed.slots), device=device) if weights is None else weights.to(device, torch.float32)
        for routed, weights in parts
    ]
    weights = torch.cat(given) if any(w is not None for _, w in parts) else None
    return torch.from_numpy(indices).to(device), torch.from_numpy(offsets).to(device), weights
