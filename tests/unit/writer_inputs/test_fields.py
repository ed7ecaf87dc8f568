"""Rows to messages: every field's value, and every refusal with its place and field."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from rocketfsck.formats.record import Host, InnerItem, encode_items
from rocketfsck.writer.input.fields import DERIVED, FIELDS, FIELDS_BY_NAME, InputError
from rocketfsck.writer.input.rows import message_of_row
from rocketfsck.writer.message.messages import Kind, MessageError, OutgoingMessage


def _message(**row: Any) -> OutgoingMessage:
    found = message_of_row({"topic": "T", **row}, "x, line 1", clock=5)
    assert found is not None
    return found


def test_only_the_topic_is_needed() -> None:
    assert _message() == OutgoingMessage("T", store_timestamp=5)


SAID = {
    "queue_id": (3, "queue_id", 3),
    "body": ("é", "body", "é".encode()),
    "body_b64": ("AAEC", "body", b"\0\1\2"),
    "body_hex": ("00ff", "body", b"\0\xff"),
    "tags": ("A", "properties", {"TAGS": "A"}),
    "unique_key": ("U", "properties", {"UNIQ_KEY": "U"}),
    "properties_b64": ("YQFi", "properties", b"a\x01b"),
    "properties_raw_b64": ("YQFi", "properties", b"a\x01b"),
    "properties_raw": (b"a\x01b", "properties", b"a\x01b"),
    "flag": (-7, "flag", -7),
    "sys_flag": (1, "sys_flag", 1),
    "born_timestamp": (4, "born_timestamp", 4),
    "store_timestamp": (9, "store_timestamp", 9),
    "born_host": ("10.1.2.3:5", "born_host", Host(bytes((10, 1, 2, 3)), 5)),
    "store_host": ("[::1]:65535", "store_host", Host(bytes(15) + b"\x01", 65535)),
    "reconsume_times": (2, "reconsume_times", 2),
    "prepared_transaction_offset": (77, "prepared_transaction_offset", 77),
    "delay_level": (3, "delay_level", 3),
    "multi_dispatch": (["%LMQ%a", "b"], "multi_dispatch", ("%LMQ%a", "b")),
    "filter_bit_map": ("AQ==", "filter_bit_map", b"\x01"),
    "kind": ("half", "kind", Kind.HALF),
}


@pytest.mark.parametrize("name", SAID)
def test_each_field_says_one_thing(name: str) -> None:
    given, attribute, value = SAID[name]
    changed: dict[str, Any] = {attribute: value}
    if name == "born_timestamp":
        changed["store_timestamp"] = 4  # stored when it was born, if nothing says when
    assert _message(**{name: given}) == replace(_message(), **changed)


def test_every_field_is_tested_and_documented() -> None:
    others = {"topic", "keys", "properties", "items", "schema_version"}
    assert set(SAID) | others == {field.name for field in FIELDS}
    assert all(field.doc for field in FIELDS)
    assert not DERIVED & set(FIELDS_BY_NAME)


@pytest.mark.parametrize(
    ("given", "properties"),
    [
        ({"keys": "a b"}, {"KEYS": "a b"}),
        ({"keys": ["a", "b"]}, {"KEYS": "a b"}),
        ({"properties": {"x": "1", "y": None}, "tags": "A"}, {"x": "1", "y": None, "TAGS": "A"}),
        ({"properties": [["x", "1"], ["x", "2"]], "tags": "A"}, (("x", "1"), ("x", "2"), ("TAGS", "A"))),
        ({"properties": {"TAGS": "A"}, "tags": "A"}, {"TAGS": "A"}),
        ({"properties": b"a\x01b\x02"}, b"a\x01b\x02"),
        ({"properties": {"b": "1", "a": "2"}, "tags": "Z", "kind": "record"}, (("b", "1"), ("a", "2"))),
        ({"properties": {"b": "1"}, "properties_raw_b64": "/wE=", "kind": "record"}, b"\xff\x01"),
        ({"properties": None, "tags": None}, {}),
    ],
)
def test_properties(given: dict[str, Any], properties: Any) -> None:
    assert _message(**given).properties == properties


def test_items() -> None:
    found = _message(
        kind="legacy batch",
        items=[
            {"body": "1", "flag": 2},
            {"body_b64": "AA==", "properties": {"a": "b"}},
            {"properties_b64": "YQE=", "body": None},
            {"properties": [["a", "b"]]},
            {"properties": b"raw"},
        ],
    )
    assert found.kind is Kind.LEGACY_BATCH
    assert found.items == (
        InnerItem(b"1", flag=2),
        InnerItem(b"\0", b"a\x01b\x02"),
        InnerItem(b"", b"a\x01"),
        InnerItem(b"", b"a\x01b\x02"),
        InnerItem(b"", b"raw"),
    )


def test_a_dumped_inner_batch_has_its_items_in_its_body() -> None:
    items = (InnerItem(b"1", b"a\x01b"), InnerItem(b"22"))
    found = _message(kind="record", sys_flag=0xC0, body=encode_items(items))
    assert (found.kind, found.items, found.body, found.sys_flag) == (Kind.INNER_BATCH, items, b"", 0)
    with pytest.raises(InputError, match="line 1: body: no items of an inner batch"):
        _message(kind="record", sys_flag=0xC0, body=b"12345")


def test_what_is_derived_is_passed_over_and_rows_without_message_too() -> None:
    assert _message(**dict.fromkeys(DERIVED, 1)) == _message()
    assert message_of_row({"kind": "zero", "start": 0}, "x") is None


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"topic": None}, "topic", "needs one"),
    ({"topic": ""}, "topic", "needs one"),
    ({"topic": 7}, "topic", "not text"),
    ({"topic": "a\ud800"}, "topic", "surrogate"),
    ({"topic": b"\xff"}, "topic", "not UTF-8"),
    ({"colour": "red"}, "colour", "unknown field"),
    ({"x" * 99: 1}, "x" * 57 + "...", "unknown field"),
    ({"queue_id": -1}, "queue_id", "-1 must be 0"),
    ({"queue_id": True}, "queue_id", "not a whole number"),
    ({"queue_id": "1"}, "queue_id", "not a whole number"),
    ({"queue_id": 1 << 31}, "queue_id", "must be"),
    ({"sys_flag": 0x800}, "sys_flag", "must be"),
    ({"store_timestamp": -1}, "store_timestamp", "must be"),
    ({"store_timestamp": 1 << 63}, "store_timestamp", "must be"),
    ({"delay_level": -3}, "delay_level", "must be"),
    ({"body_b64": "AAE"}, "body_b64", "not base64"),
    ({"body_b64": "A*EC"}, "body_b64", "not base64"),
    ({"body_b64": 5}, "body_b64", "not base64"),
    ({"body_hex": "0"}, "body_hex", "not hexadecimal"),
    ({"body": "a", "body_b64": "AA=="}, "body_b64", "body is also given"),
    ({"body": 3}, "body", "not text"),
    ({"born_host": "10.1.2.3"}, "born_host", "not ADDRESS:PORT"),
    ({"born_host": "10.1.2.3:"}, "born_host", "port"),
    ({"born_host": "10.1.2.3:65536"}, "born_host", "port"),
    ({"born_host": "10.1.2.3:٣"}, "born_host", "port"),
    ({"born_host": "::1:5"}, "born_host", "brackets"),
    ({"born_host": "host:5"}, "born_host", "not ADDRESS:PORT"),
    ({"keys": ["a b"]}, "keys", "more than one word"),
    ({"keys": [""]}, "keys", "more than one word"),
    ({"keys": [1]}, "keys", "not text"),
    ({"multi_dispatch": "a"}, "multi_dispatch", "not a list"),
    ({"properties": "a"}, "properties", "neither"),
    ({"properties": ["a"]}, "properties", "not a pair"),
    ({"properties": {"": "a"}}, "properties", "cannot be a property's name"),
    ({"properties": {"a\x01": "a"}}, "properties", "cannot be a property's name"),
    ({"properties": {"a": "\x02"}}, "properties", "separator"),
    ({"properties": {"a": 1}}, "properties", "not text"),
    ({"properties": {}, "properties_b64": ""}, "properties", "properties string is also given"),
    ({"properties_b64": "", "properties_raw_b64": ""}, "properties_raw_b64", "properties_b64 is also given"),
    ({"properties_b64": "", "keys": "a"}, "keys", "has all of them"),
    ({"properties_b64": base64.b64encode(bytes(32768)).decode()}, "properties_b64", "32768 bytes"),
    ({"properties": {"TAGS": "A"}, "tags": "B"}, "tags", "have another"),
    ({"items": {}}, "items", "not a list"),
    ({"items": [1]}, "items", "item 1: 1 is not an object"),
    ({"items": [{}, {"topic": "a"}]}, "items", "item 2: unknown field 'topic'"),
    ({"items": [{"body": "a", "body_b64": ""}]}, "items", "item 1: body appears twice"),
    ({"items": [{"flag": "a"}]}, "items", "item 1: flag: 'a' is not"),
    ({"items": [{"properties": {"a": "b" * 32768}}]}, "items", "32771 bytes"),
    ({"kind": "odd"}, "kind", "not one of normal"),
    ({"schema_version": 2}, "schema_version", "reads 1"),
    ({"schema_version": True}, "schema_version", "reads 1"),
]


@pytest.mark.parametrize(("row", "field", "reason"), REFUSED)
def test_refusals_name_place_and_field(row: dict[str, Any], field: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        _message(**row)
    assert (caught.value.place, caught.value.field) == ("x, line 1", field)
    assert reason in caught.value.reason
    assert str(caught.value).startswith(f"x, line 1: {field}: ")


def test_a_message_error_is_not_lost_in_between() -> None:
    assert MessageError("topic of 300 bytes: 255 at most", 4).reason == "topic of 300 bytes: 255 at most"
