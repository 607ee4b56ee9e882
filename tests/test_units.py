"""Sizes and rates as people write them."""

from __future__ import annotations

import pytest

from recshard.units import format_bytes, parse_bytes, parse_rate, parse_share


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("24 GB", 24e9),
        ("24 GiB", 24 * 2**30),
        ("1.5TiB", 1.5 * 2**40),
        ("7", 7),
        (12, 12),
        ("1e3 MB", 1e9),
        ("0", 0),
    ],
)
def test_sizes_are_read_as_written(text: str | int, size: float) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GB", "24 XB", "-3 GB", "nan", "inf", True, "24 GB/s"])
def test_what_is_no_size_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(ValueError, match="accepted"):
        parse_bytes(text)


def test_rates_need_a_unit_per_second_and_more_than_zero() -> None:
    assert parse_rate("1555 GB/s") == 1555e9
    for wrong in ("1555 GB", "0 GB/s", "-1 GB/s", 0):
        with pytest.raises(ValueError, match="above zero"):
            parse_rate(wrong)


def test_shares_are_percentages_of_zero_or_more() -> None:
    assert parse_share("20%") == 0.2
    assert parse_share("150%") == 1.5
    for wrong in ("-1%", "x%", "nan%", "inf%"):
        with pytest.raises(ValueError, match="zero or more"):
            parse_share(wrong)


@pytest.mark.parametrize("size", [0, 999, 1000, 123456, 5e9, 7.25e12])
def test_formatted_sizes_read_back_to_within_their_digits(size: float) -> None:
    assert parse_bytes(format_bytes(size).replace(",", "")) == pytest.approx(size, rel=0.05)
