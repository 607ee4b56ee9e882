"""A tier stands for the usual place of its name, for the one it is given, or for none."""

from __future__ import annotations

import pytest

from recshard.errors import InputError
from recshard.export.tiers import Places

PLACES = Places("Target", "location", {"hbm": "DEVICE", "uvm": "MANAGED"}, ("DEVICE", "MANAGED", "HOST"))


def test_names_have_their_usual_places_unless_others_are_given() -> None:
    assert PLACES.of(("hbm", "uvm")) == {"hbm": "DEVICE", "uvm": "MANAGED"}
    assert list(PLACES.of(("hbm", "ssd"), {"ssd": "HOST", "hbm": "MANAGED"}).items()) == [
        ("hbm", "MANAGED"),
        ("ssd", "HOST"),
    ]


@pytest.mark.parametrize(
    ("tiers", "given", "message"),
    [
        (
            ("hbm", "ssd"),
            {},
            r"tier 'ssd': Target has no such memory; known tiers: hbm, uvm; .*--location ssd=MANAG",
        ),
        (
            ("hbm", "ssd"),
            {"sdd": "HOST"},
            r"location: no tier 'sdd' \(did you mean 'ssd'\?\); the plan's tiers: hbm",
        ),
        (
            ("hbm", "ssd"),
            {"ssd": "HOTS"},
            r"tier 'ssd': found location 'HOTS' \(did you mean 'HOST'\?\); accepted: D",
        ),
    ],
)
def test_what_is_not_there_is_named(tiers: tuple[str, ...], given: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        PLACES.of(tiers, given)
