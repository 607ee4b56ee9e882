"""FBGEMM: a plan as its table-batched operators, their specs on disk and the operators themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recshard.export.fbgemm.document import MARKER, VERSION, export_fbgemm
from recshard.export.fbgemm.specs import PartSpec, Specs, load_fbgemm, specs_of

if TYPE_CHECKING:
    from recshard.export.fbgemm.operators import DeviceOperators, operator, put_in_place

__all__ = [
    "MARKER",
    "VERSION",
    "DeviceOperators",
    "PartSpec",
    "Specs",
    "export_fbgemm",
    "load_fbgemm",
    "operator",
    "put_in_place",
    "specs_of",
]


def __getattr__(name: str) -> Any:
    # torch takes seconds to import, and writing an export does without it.
    if name not in ("DeviceOperators", "operator", "put_in_place"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from recshard.export.fbgemm import operators

    return getattr(operators, name)
