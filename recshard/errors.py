"""Errors that speak to the user: each is one message, and knows the exit status it stands for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recshard.strategy.infeasible import Infeasible


class RecshardError(Exception):
    """Base of every error a user can cause; its text is shown as it is, without a traceback."""

    exit_status = 1


class InputError(RecshardError):
    """Bad input: the message names the file, the field or row, what was found, and what is accepted."""

    exit_status = 2


class DoesNotFit(RecshardError):
    """The model needs more bytes than the topology has; the message names the memory and the shortfall.

    Strategies know tables by index only: they write `{table}` and pass the index, and `named` fills in the name.
    Where the reason was looked into, `explanation` has it as data.
    """

    def __init__(self, message: str, table: int | None = None, explanation: Infeasible | None = None) -> None:
        self.message, self.table, self.explanation = message, table, explanation
        super().__init__(message.replace("{table}", f"table {table}"))

    def named(self, names: Sequence[str]) -> DoesNotFit:
        """Return the same error with the table's name in place of its index."""
        if self.table is None:
            return self
        message = self.message.replace("{table}", f"table '{names[self.table]}'")
        return DoesNotFit(message, explanation=self.explanation)


def nearest(found: str, accepted: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for the accepted word closest to `found`, or an empty string."""
    match = difflib.get_close_matches(found, list(accepted), n=1, cutoff=0.6)
    return f" (did you mean '{match[0]}'?)" if match else ""
