"""Optimizers that read and write only the rows that a step looked up: SGD and row-wise Adagrad.

A step's gradient is sparse; lookups of one row are added up first, so that every row is written once. Arithmetic
is float32, whatever the rows are stored as.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from recshard.errors import InputError
from recshard.plan.plan import Plan
from recshard.runtime.memory import Block
from recshard.runtime.row_kernels import step_rowwise_adagrad, step_sgd
from recshard.runtime.table_parts import TableParts, new_states
from recshard.runtime.weights import model_of

EXECUTED = ("sgd", "rowwise_adagrad")


class RowOptimizer(Optimizer):
    """SGD and row-wise Adagrad over parameters with sparse gradients, a rule for each group of them.

    Attributes:
        blocks: for the parameters of row-wise Adagrad, the running sum of mean squared gradients of each row,
            float32, shape (rows,), in the same memory as the rows; also `state[parameter]["sum"]`.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], lr: float, eps: float = 1e-8) -> None:
        """Take groups of parameters.

        Args:
            groups: each with `params`, `rule` (`sgd` or `rowwise_adagrad`) and, for row-wise Adagrad, `blocks`: of
                each parameter; `rows`, where there is one, says which rows of tables they are.
            lr: learning rate.
            eps: added to the root of the state.
        """
        if not lr >= 0:
            raise InputError(f"lr: found {lr}; accepted: 0 or more")
        super().__init__(list(groups), {"lr": lr, "eps": eps})
        self.blocks: dict[nn.Parameter, Block] = {}
        for group in self.param_groups:
            self.blocks |= zip(group["params"], group.pop("blocks", ()), strict=False)
        self._keep()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Read what `state_dict` returned, into the memory where the state is.

        Raises:
            InputError: the state of other parameters; nothing was changed.
        """
        weights = [weight for group in self.param_groups for weight in group["params"]]
        numbers = [number for group in state_dict["param_groups"] for number in group["params"]]
        sums = [state_dict["state"].get(number, {}).get("sum") for number in numbers]
        found = [None if total is None else tuple(total.shape) for total in sums]
        accepted = [(len(weight),) if weight in self.blocks else None for weight in weights]
        if found != accepted:
            raise InputError(
                f"optimizer state: found sums of shapes {found[:8]}…; accepted: {accepted[:8]}…; it is of another "
                "plan: load a checkpoint, which is of whole tables"
            )
        held = [
            [group.get("rows") for group in groups] for groups in (state_dict["param_groups"], self.param_groups)
        ]
        if held[0] != held[1]:
            raise InputError(
                "optimizer state: the parts it is of hold other rows than these; it is of another plan: load a "
                "checkpoint, which is of whole tables"
            )
        super().load_state_dict(state_dict | {"state": {}})  # states are as large as memories: none is copied
        for weight, total in zip(weights, sums, strict=True):
            if weight in self.blocks:
                self.blocks[weight].tensor.copy_(total)
        self._keep()

    def __getstate__(self) -> dict[str, Any]:
        """Refuse to be copied: the state stands in the memories of a module's rows.

        Raises:
            InputError: always.
        """
        raise InputError(
            "a row optimizer cannot be copied or pickled, since its state stands where the rows of its module "
            "stand; make one for the module's copy with optimizer_for, and give it state_dict() of this one"
        )

    def _keep(self) -> None:
        for weight, block in self.blocks.items():
            self.state[weight]["sum"] = block.tensor

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update the rows that the gradients are about; return what `closure` returns."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            for group in self.param_groups:
                for weight in group["params"]:
                    if weight.grad is not None:
                        total = self.state[weight]["sum"] if weight in self.blocks else None
                        _update(weight, weight.grad, total, float(group["lr"]), float(group["eps"]))
        return loss


class SGD(RowOptimizer):
    """w −= lr · g, for the rows in the gradient."""

    def __init__(self, params: Iterable[nn.Parameter], lr: float) -> None:
        """Take parameters with sparse gradients."""
        super().__init__([{"params": list(params), "rule": "sgd"}], lr)


class RowwiseAdagrad(RowOptimizer):
    """s += mean(g²) over the row; w −= lr · g ÷ (√s + eps), for the rows in the gradient, as FBGEMM has it."""

    def __init__(self, params: Iterable[nn.Parameter], lr: float, eps: float = 1e-8) -> None:
        """Take parameters with sparse gradients; their state is where they are, in ordinary memory."""
        weights = list(params)
        sums = [weight.new_zeros(len(weight), dtype=torch.float32) for weight in weights]
        blocks = [Block("cuda" if total.is_cuda else "host", total, total) for total in sums]
        super().__init__([{"params": weights, "rule": "rowwise_adagrad", "blocks": blocks}], lr, eps)


def optimizer_for(
    module: nn.Module, plan: Plan, lr: float, *, eps: float = 1e-8, optimizer: str | None = None
) -> RowOptimizer:
    """Return one optimizer for all parts in a module: each table's rows are updated as the plan declares it.

    Args:
        optimizer: for all tables, in place of what is declared; the plan's bytes are those of what is declared.

    Raises:
        InputError: a module without tables or with those of another plan, an optimizer that is not executed, or no
            room for its state on a disk.
    """
    declared = {table.name: optimizer or table.optimizer for table in plan.tables.tables}
    model = model_of(module)
    strange = next((name for name in model if name not in declared), None)
    if strange is not None or not model:
        raise InputError(
            f"{type(module).__name__}: "
            + (f"table '{strange}' is not the plan's" if model else "no tables of a plan are in it")
            + "; accepted: a module made from this plan, or one that contains some"
        )
    tables: dict[str, list[TableParts]] = {rule: [] for rule in EXECUTED}
    for table in module.modules():
        if not isinstance(table, TableParts):
            continue
        rule = declared[table.remap.table]
        if rule not in tables:
            raise InputError(
                f"table '{table.remap.table}': optimizer: found '{rule}'; the runtime executes "
                f"{', '.join(EXECUTED)}; declare one of these, or give optimizer='rowwise_adagrad' or 'sgd'"
            )
        tables[rule].append(table)
    groups: list[dict[str, Any]] = []
    for rule, mine in tables.items():
        if mine:
            group: dict[str, Any] = {"params": [w for table in mine for w in table.weights], "rule": rule}
            group["rows"] = [int(table.get_extra_state()) for table in mine]
            groups.append(group | ({"blocks": new_states(mine)} if rule == "rowwise_adagrad" else {}))
    # A device of a plan may hold nothing, and has its part in every step all the same.
    return RowOptimizer(groups or [{"params": [], "rule": "sgd"}], lr, eps)


def _update(weight: Tensor, gradient: Tensor, total: Tensor | None, lr: float, eps: float) -> None:
    if not gradient.is_sparse:
        raise TypeError("rows are updated from sparse gradients; found a dense one")
    if gradient.dtype != torch.float32:
        gradient = gradient.to(torch.float32)
    rows, values = gradient._indices()[0], gradient._values()
    if weight.is_cuda or not bool((rows[1:] > rows[:-1]).all()):  # autograd forgets that rows are there once
        gradient = gradient.coalesce()
        rows, values = gradient.indices()[0], gradient.values()
    if not len(rows):
        return
    if weight.device.type == "cpu" and weight.dtype == torch.float32:
        table, own = weight.detach().numpy(), values.contiguous().numpy()
        if total is None:
            step_sgd(table, rows.numpy(), own, lr)
        else:
            step_rowwise_adagrad(table, total.numpy(), rows.numpy(), own, lr, eps)
        torch.autograd.graph.increment_version(weight)  # what was read for a backward pass is out of date
        return
    if total is not None:
        sums = total.index_select(0, rows) + values.square().mean(1)
        total.index_copy_(0, rows, sums)
        values = values / (sums.sqrt() + eps)[:, None]
    # Every row is there once: it is read, and written without atomics, which memory across a bus may not have.
    updated = weight.index_select(0, rows).to(torch.float32).sub_(values, alpha=lr)
    weight.index_copy_(0, rows, updated.to(weight.dtype))
