"""Tiers: what each of a plan's stands for in the system that takes the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recshard.errors import InputError, nearest


@dataclass(frozen=True)
class Places:
    """The places for tables that a system knows.

    Attributes:
        system: its name.
        word: what it calls such a place.
        usual: the place of a tier, by its name.
        accepted: all places.
    """

    system: str
    word: str
    usual: Mapping[str, str]
    accepted: tuple[str, ...]

    def of(self, tier_names: Sequence[str], given: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the place of each tier.

        Args:
            given: the place of a tier, by its name, where it is not the usual one of that name.

        Raises:
            InputError: a tier without a usual place that `given` does not name, or `given` names a tier or a place
                that is not there.
        """
        for tier, place in (given or {}).items():
            if tier not in tier_names:
                raise InputError(
                    f"{self.word}: no tier '{tier}'{nearest(tier, tier_names)}; the plan's tiers: "
                    f"{', '.join(tier_names)}"
                )
            if place not in self.accepted:
                raise InputError(
                    f"tier '{tier}': found {self.word} '{place}'{nearest(place, self.accepted)}; accepted: "
                    f"{', '.join(self.accepted)}"
                )
        known = dict(self.usual) | dict(given or {})
        for tier in tier_names:
            if tier not in known:
                names = ", ".join(sorted(self.usual))
                raise InputError(
                    f"tier '{tier}': {self.system} has no such memory; known tiers: {names}; rename the tier in "
                    f"the topology, or say which {self.word} it stands for (--location {tier}={self.accepted[1]})"
                )
        return {tier: known[tier] for tier in tier_names}
