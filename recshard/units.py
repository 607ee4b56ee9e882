"""Sizes and rates as people write them: `"24 GB"`, `"24 GiB"`, `"1555 GB/s"`, `"20%"`."""

from __future__ import annotations

import math
import re

_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_SIZE = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*([KMGTP]?)(i?)B?", re.IGNORECASE)
_ACCEPTED = 'a number of bytes, or text with a unit such as "24 GB" (10⁹) or "24 GiB" (2³⁰)'


def parse_bytes(value: float | int | str) -> float:
    """Return the bytes that `value` stands for: a number, or text such as `"24 GB"` or `"1.5 TiB"`.

    Raises:
        ValueError: the text is no size, or the size is negative or not finite.
    """
    if isinstance(value, bool):
        raise ValueError(f"found {value!r}; accepted: {_ACCEPTED}")
    if isinstance(value, str):
        match = _SIZE.fullmatch(value.strip())
        if match is None:
            raise ValueError(f"found {value!r}; accepted: {_ACCEPTED}")
        number, prefix, binary = match.groups()
        base = 1024 if binary else 1000
        size = float(number.replace("_", "")) * float(base) ** _POWERS[prefix.upper()]
    else:
        size = float(value)
    if not math.isfinite(size) or size < 0:
        raise ValueError(f"found {value!r}; accepted: a finite size of zero or more")
    return size


def parse_rate(value: float | int | str) -> float:
    """Return bytes per second: a number, or text such as `"1555 GB/s"`.

    Raises:
        ValueError: the text is no rate, or the rate is not above zero.
    """
    accepted = 'accepted: bytes per second above zero, as a number or as text such as "1555 GB/s"'
    try:
        if isinstance(value, str):
            text = value.strip()
            if not text.endswith("/s"):
                raise ValueError(f"found {value!r}; {accepted}")
            rate = parse_bytes(text[:-2])
        else:
            rate = parse_bytes(value)
    except ValueError as error:
        raise ValueError(f"found {value!r}; {accepted}") from error
    if rate <= 0:
        raise ValueError(f"found {value!r}; {accepted}")
    return rate


def parse_share(value: str) -> float:
    """Return the share that text such as `"20%"` stands for; a tier may hold more than the model, `"150%"`.

    Raises:
        ValueError: the text is no percentage of zero or more.
    """
    try:
        share = float(value.strip().removesuffix("%")) / 100
    except ValueError:
        share = math.nan
    if not 0 <= share < math.inf:
        raise ValueError(f'found {value!r}; accepted: a share of the model\'s bytes such as "20%", zero or more')
    return share


def format_bytes(size: float) -> str:
    """Return `size` as people read it, in powers of ten: `24.0 GB`."""
    for unit in ("B", "KB", "MB", "GB"):
        if abs(size) < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"
