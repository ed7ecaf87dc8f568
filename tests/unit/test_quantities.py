"""Sizes, durations and times as people write them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketfsck.common.wording import parse_duration, parse_size, parse_time


@pytest.mark.parametrize(
    ("text", "byte_count"),
    [
        ("0", 0),
        ("4096", 4096),
        ("4096B", 4096),
        (" 64K ", 64 << 10),
        ("64KiB", 64 << 10),
        ("64 kib", 64 << 10),
        ("10MB", 10_000_000),
        ("10mb", 10_000_000),
        ("10m", 10 << 20),
        ("4G", 4 << 30),
        ("2TiB", 2 << 40),
    ],
)
def test_a_size(text: str, byte_count: int) -> None:
    assert parse_size(text) == byte_count


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1.5s", 1.5), ("5m", 300), ("5min", 300), ("2h", 7200), ("7d", 604_800)],
)
def test_a_duration(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "timestamp"),
    [
        ("1715934600000", 1_715_934_600_000),
        ("-5", -5),
        ("2024-05-17T08:30:00", 1_715_934_600_000),
        (" 2024-05-17T10:30:00+02:00 ", 1_715_934_600_000),
        ("2024-05-17", 1_715_904_000_000),
    ],
)
def test_a_time(text: str, timestamp: int) -> None:
    assert parse_time(text) == timestamp


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_size, ""),
        (parse_size, "K"),
        (parse_size, "1.5G"),
        (parse_size, "-1"),
        (parse_size, "4iB"),
        (parse_size, "٣"),
        (parse_duration, "soon"),
        (parse_duration, "5 weeks"),
        (parse_duration, "-1s"),
        (parse_time, "yesterday"),
        (parse_time, "99999999999999999999"),
    ],
)
def test_what_is_none_is_refused(parse: Callable[[str], float], text: str) -> None:
    with pytest.raises(ValueError, match=r"is n(ot|either)"):
        parse(text)
