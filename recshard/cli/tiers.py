"""Options that say what a tier stands for, as TIER=WORD, given as often as there are tiers to name."""

from __future__ import annotations

from collections.abc import Sequence


def words_by_tier(option: str, given: Sequence[str], word: str, example: str) -> dict[str, str]:
    """Return the word for each tier that an option names.

    Raises:
        InputError: text that is not TIER=WORD, or a tier that is named twice.
    """
    from recshard.errors import InputError

    found: dict[str, str] = {}
    for text in given:
        tier, equals, value = (part.strip() for part in text.partition("="))
        if not (tier and equals and value):
            raise InputError(f"{option}: found '{text}'; accepted: TIER={word}, such as {example}")
        if tier in found:
            raise InputError(f"{option}: tier '{tier}' is named twice; name it once")
        found[tier] = value
    return found
