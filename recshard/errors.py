"""Errors that speak to the user: each is one message, and knows the exit status it stands for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RecshardError(Exception):
    """Base of every error a user can cause; its text is shown as it is, without a traceback."""

    exit_status = 1


class InputError(RecshardError):
    """Bad input: the message names the file, the field or row, what was found, and what is accepted."""

    exit_status = 2


class DoesNotFit(RecshardError):
    """The model needs more bytes than the topology has; the message names the memory and the shortfall."""


def nearest(found: str, accepted: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for the accepted word closest to `found`, or an empty string."""
    match = difflib.get_close_matches(found, list(accepted), n=1, cutoff=0.6)
    return f" (did you mean '{match[0]}'?)" if match else ""
