"""Both property parsers, the serialisers and the property CRC."""

from __future__ import annotations

import pytest

from rocketfsck.formats.properties import (
    Parser,
    java_hash_map_order,
    parse_properties,
    property_crc,
    property_crc_digits,
    property_crc_trailer,
    property_crc_value,
    property_pairs,
    serialize_properties,
    split_keys,
    tags_code,
)


@pytest.mark.parametrize(
    ("data", "split", "scan"),
    [
        (b"K\x01V", {"K": "V"}, {"K": "V"}),
        (b"K\x01V\x02", {"K": "V"}, {"K": "V"}),
        (b"K\x01V\x01", {"K": "V"}, {"K": "V\x01"}),
        (b"\x01V", {"": "V"}, {}),
        (b"K\x01", {}, {}),
        (b"K\x01\x02L\x01W", {"L": "W"}, {"L": "W"}),
        (b"K\x01A\x01B", {}, {"K": "A\x01B"}),
        (b"K", {}, {}),
        (b"\x02\x02", {}, {}),
        (b"\x01", {}, {}),
        (b"K\x01V\x02\x02L\x01W", {"K": "V", "L": "W"}, {"K": "V", "L": "W"}),
        (b"K\x01V\x02K\x01W", {"K": "W"}, {"K": "W"}),
        (b"K\x01\x01", {}, {"K": "\x01"}),
        (b"\x01\x01V", {}, {}),
        (b"K\x01\xed\xa0\x80", {"K": "\ufffd"}, {"K": "\ufffd"}),
    ],
)
def test_parsers_differ_where_they_do(data: bytes, split: dict[str, str], scan: dict[str, str]) -> None:
    assert parse_properties(data, "split") == split
    assert parse_properties(data, "scan") == scan


@pytest.mark.parametrize("parser", ["split", "scan"])
def test_no_bytes_are_no_map(parser: Parser) -> None:
    assert parse_properties(b"", parser) is None
    assert property_pairs(b"", parser) == []


def test_pairs_keep_order_and_repetition() -> None:
    assert property_pairs(b"B\x011\x02A\x012\x02B\x013\x02", "scan") == [("B", "1"), ("A", "2"), ("B", "3")]


def test_serialize() -> None:
    pairs = {"KEYS": "a b", "TAGS": "中"}
    assert serialize_properties(pairs, False) == "KEYS\x01a b\x02TAGS\x01中".encode()
    assert serialize_properties(pairs, True) == "KEYS\x01a b\x02TAGS\x01中\x02".encode()
    assert serialize_properties({}, True) == b""
    assert serialize_properties([("A", None), ("B", "1")], True) == b"B\x011\x02"
    assert serialize_properties([("A", None), ("B", "1")], False, null_as_text=True) == b"A\x01null\x02B\x011"


def test_hash_map_order_grows_the_map() -> None:
    names = [f"name{number}" for number in range(13)]  # one more than 12 doubles 16 buckets
    assert java_hash_map_order(names) == java_hash_map_order(names, 32)
    letters = list("bcdefghijklmp")  # p is in bucket 0 of 16 and in bucket 16 of 32
    assert java_hash_map_order(letters) == letters
    assert java_hash_map_order(letters[1:]) == ["p", *letters[1:-1]]
    assert java_hash_map_order(["b", "a", "b"]) == ["a", "b"]


def test_keys_are_split_at_single_spaces() -> None:
    assert split_keys("a  b c\td ") == ["a", "b", "c\td"]
    assert split_keys("") == split_keys("  ") == []


def test_tags_code() -> None:
    assert tags_code(None) == tags_code("") == 0
    assert tags_code("TagA || TagB") != tags_code("TagA")


def test_property_crc_digits_are_reversed() -> None:
    assert property_crc_digits(744205178) == b"8715024470"
    assert property_crc_digits(0) == b"0000000000"
    assert property_crc_trailer(5) == b"__CRC32#\x015000000000\x02"
    assert property_crc_value("8715024470") == 744205178
    assert property_crc_value("") == 0
    # Java computes with ints: eleven nines wrap, and a character that is no digit counts for its code.
    assert property_crc_value("99999999999") == 1215752191
    assert property_crc_value("A") == ord("A") - ord("0")


def test_property_crc_of_less_than_a_trailer_is_over_nothing() -> None:
    assert property_crc(b"short") == 0
