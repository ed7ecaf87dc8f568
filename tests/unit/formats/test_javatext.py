"""Java's text rules, against values that Java 17 gave."""

from __future__ import annotations

import pytest

from rocketfsck.formats.javatext import (
    INT32_MIN,
    index_hash,
    int32,
    int64,
    java_abs,
    java_decode,
    java_encode,
    java_hash,
    parse_int16,
    parse_int32,
    parse_int64,
    split_java,
    truncated_quotient,
    utf16_length,
)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain", "plain"),
        (b"\xed\xa0\x80", "\ufffd"),  # an encoded surrogate is one replacement
        (b"\xed\xbf\xbf\xed\xa0\x81", "\ufffd\ufffd"),
        (b"\xed\xa0A", "\ufffdA"),
        (b"\xed\xa0", "\ufffd"),
        (b"\xed\x9f\xbf", "\ud7ff"),
        (b"\xed", "\ufffd"),
        (b"\xe4\xb8", "\ufffd"),
        (b"\xe4\xb8\xed\xa0\x80", "\ufffd\ufffd"),
        (b"\xf0\x9f\x98", "\ufffd"),
        (b"\xf4\x90\x80\x80", "\ufffd" * 4),
        (b"\xc0\x80", "\ufffd\ufffd"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_decode_as_java(data: bytes, text: str) -> None:
    assert java_decode(data) == text


def test_encode_as_java() -> None:
    assert java_encode("a\ud800b") == b"a?b"
    assert java_encode("\udc00\ud800") == b"??"
    assert java_encode("\ud83d\ude00") == "\U0001f600".encode()
    assert java_encode("中文") == "中文".encode()


def test_absolute_value_of_the_least_int_is_negative_but_indexed_as_zero() -> None:
    assert java_abs(INT32_MIN) == INT32_MIN
    assert java_abs(-5) == 5
    assert java_hash("TopicTest#aentnpwi") == INT32_MIN
    assert index_hash("TopicTest", "aentnpwi") == 0


def test_lone_surrogates_have_a_hash() -> None:
    assert java_hash("\ud800") == 0xD800
    assert utf16_length("\U0001f600a") == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("+7", 7),
        ("-7", -7),
        ("-0", 0),
        ("0000000000000000000000000000012", 12),
        ("٣٤", 34),  # digits of another script
        ("-９", -9),
        ("", None),
        ("+", None),
        ("-", None),
        ("+-1", None),
        (" 1", None),
        ("1 ", None),
        ("1_0", None),
        ("0x10", None),
        ("²", None),
        ("½", None),
        ("𝟏", None),  # a digit of two UTF-16 units
        ("1.0", None),
    ],
)
def test_parse_integers_as_java(text: str, expected: int | None) -> None:
    assert parse_int16(text) == parse_int32(text) == parse_int64(text) == expected


@pytest.mark.parametrize(("parse", "bits"), [(parse_int16, 16), (parse_int32, 32), (parse_int64, 64)])
def test_parse_integers_within_their_range(parse: object, bits: int) -> None:
    assert callable(parse)
    most = (1 << bits - 1) - 1
    assert parse(str(most)) == most
    assert parse(str(-most - 1)) == -most - 1
    assert parse(str(most + 1)) is None
    assert parse(str(-most - 2)) is None
    assert parse("9" * 5000) is None


@pytest.mark.parametrize(
    ("dividend", "divisor", "quotient"), [(7, 2, 3), (-7, 2, -3), (7, -2, -3), (-7, -2, 3), (0, 5, 0)]
)
def test_division_truncates(dividend: int, divisor: int, quotient: int) -> None:
    assert truncated_quotient(dividend, divisor) == quotient


def test_integers_wrap() -> None:
    assert int32(1 << 31) == -(1 << 31)
    assert int32(-1) == -1
    assert int64((1 << 63) + 5) == -(1 << 63) + 5


@pytest.mark.parametrize(
    ("text", "pieces"),
    [("a,b", ["a", "b"]), ("a,,", ["a"]), (",a", ["", "a"]), (",", []), (",,", []), ("", [""]), ("a", ["a"])],
)
def test_split_drops_trailing_empties(text: str, pieces: list[str]) -> None:
    assert split_java(text, ",") == pieces
