"""Nothing that a store says reaches a terminal unescaped."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.cli.show.text import byte_size, count_of, pad, shorten, timestamp, visible, width
from rocketfsck.common.wording import duration, first_names


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("", ""),
        ("two\nlines", "two\\nlines"),
        ("tab\there\r", "tab\\there\\r"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x9b31m", "\\x9b31m"),
        ("\x00\x7f", "\\x00\\x7f"),
        ("abc\u202etxt.exe", "abc\\u202etxt.exe"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("line\u2028separator", "line\\u2028separator"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("back\\slash", "back\\\\slash"),
        ("%n%s", "%n%s"),
        ("../../etc", "../../etc"),
        ("订单 😀 café", "订单 😀 café"),
        (b"bytes \xff\xfe", "bytes \\xff\\xfe"),
        (b"utf-8 \xe8\xae\xa2", "utf-8 订"),
        ("lone \ud800", "lone \\ud800"),
        ("from a name \udcff", "from a name \\xff"),
    ],
)
def test_visible(raw: str | bytes, shown: str) -> None:
    assert visible(raw) == shown


@given(st.text(st.characters(codec=None)) | st.binary())
def test_visible_is_always_printable(raw: str | bytes) -> None:
    shown = visible(raw)
    assert shown.isprintable()
    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_visible_keeps_different_texts_different(one: str, other: str) -> None:
    assert (visible(one) == visible(other)) == (one == other)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1700000000525, "2023-11-14T22:13:20.525Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (253402300799999, "9999-12-31T23:59:59.999Z"),
        (253402300800000, "253402300800000 ms"),
        (-(1 << 63), "-9223372036854775808 ms"),
        ((1 << 63) - 1, "9223372036854775807 ms"),
        (-62135596800000, "0001-01-01T00:00:00.000Z"),
    ],
)
def test_timestamp(value: int, shown: str) -> None:
    assert timestamp(value) == shown


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_timestamp_takes_every_long(value: int) -> None:
    assert timestamp(value)


def test_sizes_and_counts() -> None:
    assert [byte_size(n) for n in (0, 1023, 1024, 1536, 1 << 30, 1 << 62)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 KiB",
        "1.0 GiB",
        "4.0 EiB",
    ]
    assert [count_of(n, "entry", "entries") for n in (0, 1, 12345)] == [
        "0 entries",
        "1 entry",
        "12,345 entries",
    ]
    assert [duration(s) for s in (0.04, 12.3, 185, 7810)] == ["0.0 s", "12 s", "3 min 05 s", "2 h 10 min"]


def test_columns_of_wide_characters() -> None:
    assert width("订单ab") == 6
    assert pad("订", 4) == "订  "
    assert pad("7", 3, right=True) == "  7"
    assert shorten("abcdef", 4) == "abc…"
    assert shorten("abcd", 4) == "abcd"


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ((), ""),
        (("a", "b"), "a, b"),
        (tuple("abcde"), "a, b, c, d, e"),
        (tuple("abcdef"), "a, b, c, d, e, ..."),
    ],
)
def test_the_first_names_are_shown(names: tuple[str, ...], shown: str) -> None:
    assert first_names(names) == shown
