"""Config files: fastjson 1.2.83 gave the expected answers (what it writes, and what it takes or refuses)."""

from __future__ import annotations

from typing import Any

import pytest

from rocketfsck.errors import FormatError
from rocketfsck.formats.config import (
    MAX_DEPTH,
    DataVersion,
    InlineList,
    RepeatedNames,
    TopicConfig,
    compaction_offsets,
    consumer_offsets,
    data_version,
    decode_config,
    delay_offsets,
    encode_config,
    lmq_consumer_offsets,
    split_topic_group,
    topic_configs,
    valid_prefix,
)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({}, b"{}"),
        ({"offsetTable": {}}, b'{\n\t"offsetTable":{}\n}'),
        ({"offsetTable": {1: 5, 3: 7}}, b'{\n\t"offsetTable":{1:5,3:7\n\t}\n}'),
        ({"t": {"T@G": {0: 12, 1: 13}}}, b'{\n\t"t":{\n\t\t"T@G":{0:12,1:13\n\t\t}\n\t}\n}'),
        ({0: {"a": 1}}, b'{0:{\n\t\t"a":1\n\t}\n}'),
        ({"a": 1, 2: 3, "b": 4}, b'{\n\t"a":1,2:3,\n\t"b":4\n}'),
        ({"a": [1, {"b": 2}, []]}, b'{\n\t"a":[\n\t\t1,\n\t\t{\n\t\t\t"b":2\n\t\t},\n\t\t[]\n\t]\n}'),
        ({"a": InlineList([1, 2])}, b'{\n\t"a":[1,2]\n}'),
        ({"a": InlineList([{"b": 2}])}, b'{\n\t"a":[{\n\t\t"b":2\n\t}]\n}'),
        ({"a": {"$ref": "$.b"}}, b'{\n\t"a":{"$ref":"$.b"}\n}'),
        ({"a": True, "b": False, "c": None}, b'{\n\t"a":true,\n\t"b":false,\n\t"c":null\n}'),
        ({"a": '"\\/\b\t\n\f\r\x0b\x00\x7f\u2028'},
         b'{\n\t"a":"\\"\\\\/\\b\\t\\n\\f\\r\\u000B\\u0000\\u007F\\u2028"\n}'),
        ({"主": "😀"}, '{\n\t"主":"😀"\n}'.encode()),
        ([1.5, 0.001, -1e-05, 1e7, 12345678.5, 100.0, 1e22],
         b"[\n\t1.5,\n\t0.001,\n\t-1.0E-5,\n\t1.0E7,\n\t1.23456785E7,\n\t100.0,\n\t1.0E22\n]"),
    ],
)  # fmt: skip
def test_written_as_fastjson_writes(value: Any, data: bytes) -> None:
    assert encode_config(value) == data
    decoded = decode_config(data)
    assert decoded == value
    assert encode_config(decoded) == data


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"{a:1}", {"a": 1}),
        (b"{'a':'it'}", {"a": "it"}),
        (b'{,,"a":1,,}', {"a": 1}),
        (b'{"a":[1,,2,]}', {"a": [1, 2]}),
        (b'{"a":[,]}', {"a": []}),
        (b'/* c */{"a"/**/:// x\n1}// end', {"a": 1}),
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        (b'\0{"a":\x1a1\0}\0\0\x7f', {"a": 1}),
        (b'{"a":01,"b":1.,"c":1e5,"d":3L,"e":3D,"f":undefined}',
         {"a": 1, "b": 1.0, "c": 1e5, "d": 3, "e": 3.0, "f": None}),
        (b"{1.5:2,-1:3}", {1.5: 2, -1: 3}),
        (b"{true:1,$x_1:2}", {"true": 1, "$x_1": 2}),
        ('{主:1}'.encode(), {"主": 1}),
        (b'{"a":"\\0\\7\\v\\F\\/\\\'\\x41\\u4e2d"}', {"a": "\x00\x07\x0b\x0c/'A中"}),
        (b'{"a":"\\ud83d\\ude00"}', {"a": "😀"}),
        (b'{"a":"line\nbreak"}', {"a": "line\nbreak"}),
        (b'{"a":"\xff"}', {"a": "\udcff"}),
        (b"null", None),
        (b" 12 ", 12),
    ],
)  # fmt: skip
def test_taken_as_fastjson_takes(data: bytes, value: Any) -> None:
    assert decode_config(data) == value


@pytest.mark.parametrize(
    ("data", "offset"),
    [
        (b"", 0),
        (b"  ", 2),
        (b"{", 1),
        (b"[", 1),
        (b"{}{}", 2),
        (b'{"a":1}}', 7),
        ('{"主":1} x'.encode(), 10),
        (b'{"a" 1}', 5),
        (b'{"a":}', 5),
        (b'{"a":1 "b":2}', 7),
        (b"[1 2]", 3),
        (b'{"a":"x', 5),
        (b"{'a", 1),
        (b'{"a":"\\q"}', 6),
        (b'{"a":"\\u12"}', 6),
        (b'{"a":"\\', 6),
        (b'{"a\x1a":1}', 1),
        (b"{1 :2}", 2),
        (b"{1.5 :2}", 4),
        (b"{]:2}", 1),
        (b"[nul]", 1),
        (b'{"a":.5}', 5),
        (b"{a:-}", 3),
        (b"[" + b"1" * 5000 + b"]", 1),
        (b'{"\xff":?}', 5),
        (b'\xef\xbb\xbf{"a":1} x', 11),
        (b'\xef\xbb\xbf{"a":?}', 8),
        (b"/* never closed", 0),
    ],
)
def test_refused_where_fastjson_refuses(data: bytes, offset: int) -> None:
    with pytest.raises(FormatError) as caught:
        decode_config(data)
    assert caught.value.offset == offset


def test_depth_is_bounded() -> None:
    deep = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert decode_config(deep) is not None
    for data in (b"[" * 100_000, b'{"a":' * 100_000, b"[" * (MAX_DEPTH + 2)):
        with pytest.raises(FormatError, match="nested"):
            decode_config(data)


def test_repeated_names_are_kept() -> None:
    data = b'{\n\t"t":{1:3,1:4,2:1\n\t}\n}'
    value = decode_config(data)
    assert value == {"t": {1: 4, 2: 1}}
    assert isinstance(value["t"], RepeatedNames)
    assert value["t"].pairs == [(1, 3), (1, 4), (2, 1)]
    assert encode_config(value) == data
    value["t"][2] = 9
    assert encode_config(value) == b'{\n\t"t":{1:4,2:9\n\t}\n}'


def test_bytes_of_another_charset_survive() -> None:
    data = '{\n\t"主题":1\n}'.encode("gbk")
    assert encode_config(decode_config(data)) == data


def test_what_cannot_be_written() -> None:
    assert encode_config({"a": "\ud800"}) == b'{\n\t"a":"?"\n}'
    assert encode_config([float("inf"), float("nan"), -0.0]) == b"[\n\tnull,\n\tnull,\n\t-0.0\n]"
    with pytest.raises(TypeError):
        encode_config({"a": b"bytes"})


def test_valid_prefix() -> None:
    assert valid_prefix(b'{"a":1}garbage') == ({"a": 1}, 7)
    assert valid_prefix('{"主":1}\xff'.encode()) == ({"主": 1}, 9)
    assert valid_prefix(b"\xef\xbb\xbf{} ") == ({}, 5)
    with pytest.raises(FormatError):
        valid_prefix(b'{"a":')


TOPICS = {
    "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 5},
    "topicConfigTable": {
        "A": {
            "attributes": {"+queue.type": "BatchCQ"},
            "order": True,
            "perm": 4,
            "readQueueNums": 1,
            "topicFilterType": "MULTI_TAG",
            "topicName": "A",
            "topicSysFlag": 3,
            "writeQueueNums": 2,
        },
        "B": {},
    },
}


def test_topics() -> None:
    assert topic_configs(TOPICS) == {
        "A": TopicConfig("A", 1, 2, 4, "MULTI_TAG", 3, True, {"+queue.type": "BatchCQ"}),
        "B": TopicConfig(None, 16, 16, 6, "SINGLE_TAG", 0, False, {}),
    }
    assert data_version(TOPICS) == DataVersion(1, 5, 0)
    assert data_version({"dataVersion": {"counter": 2}}) == DataVersion(2, 0)
    assert data_version({}) is None
    with pytest.raises(FormatError, match="topicConfigTable is not an object"):
        topic_configs({"topicConfigTable": None})


def test_offsets() -> None:
    assert consumer_offsets({"offsetTable": {"T@G": {0: 5, "1": 6}}}) == {"T@G": {0: 5, 1: 6}}
    assert consumer_offsets({}) == {}
    both = {"lmqOffsetTable": {"%LMQ%a@%LMQ%G": 7}, "offsetTable": {"T@G": {"1": 4}}}
    assert lmq_consumer_offsets(both) == {"%LMQ%a@%LMQ%G": {0: 7}, "T@G": {1: 4}}
    assert delay_offsets({"offsetTable": {1: 5, "3": "7"}}) == {1: 5, 3: 7}
    assert compaction_offsets({"queueOffsetMap": {"T_0": 9}}) == {"T_0": 9}
    assert split_topic_group("T@G") == ("T", "G")
    assert split_topic_group("T") is split_topic_group("T@G@H") is None


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {"offsetTable": []},
        {"offsetTable": {"T@G": 5}},
        {"offsetTable": {"T@G": {"x": 5}}},
        {"offsetTable": {"T@G": {0: True}}},
        {"offsetTable": {"T@G": {0: 1.5}}},
        {"offsetTable": {"T@G": {0: 1 << 63}}},
        {"offsetTable": {"T@G": {0: None}}},
    ],
)
def test_offsets_of_a_wrong_shape(value: Any) -> None:
    with pytest.raises(FormatError):
        consumer_offsets(value)


@pytest.mark.parametrize(
    "value",
    [
        {"topicConfigTable": {"A": 1}},
        {"topicConfigTable": {"A": {"perm": "x"}}},
        {"topicConfigTable": {"A": {"attributes": 5}}},
    ],
)
def test_topics_of_a_wrong_shape(value: Any) -> None:
    with pytest.raises(FormatError):
        topic_configs(value)
