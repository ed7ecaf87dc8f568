"""The plain scanner's columns: against the reference decoder, against what brokers said, fault by fault."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketfsck.formats.dialect import dialect_for
from rocketfsck.formats.javatext import index_hash, java_decode
from rocketfsck.formats.magic import MAGIC_V2
from rocketfsck.formats.properties import parse_properties, property_crc_trailer, split_keys, tags_code
from rocketfsck.formats.record import Host, decode_record
from rocketfsck.scan.columns import KEY_DTYPES, KEY_TAGS, KEY_UNIQUE, KEY_WORD, Fault, Trait, new_batch
from rocketfsck.scan.compiled import records as compiled
from rocketfsck.scan.options import PropertyParser, ScanOptions, Stop
from rocketfsck.scan.plain import records as plain
from rocketfsck.scan.plain.records import find_properties
from rocketfsck.scan.queues import QueueTable

from tests.conftest import STORE_NAMES, Directory, Document
from tests.unit.scan.logmaker import BASE, blank, log, record, scan

FILE_SIZE = 4096

Rows = list[dict[str, Any]]


def _parser(document: dict[str, Any]) -> PropertyParser:
    return dialect_for(document["finalVersion"].split()[0]).property_parser


def _scan(
    data: bytes, *, file_size: int = FILE_SIZE, **options: Any
) -> tuple[list[dict[str, Any]], Stop, int]:
    batch = new_batch(64, 1 << 15)
    buffer = np.frombuffer(data, np.uint8)
    end, stop = plain.scan_records(
        buffer, 0, len(data), 0, BASE, file_size, ScanOptions(**options), batch, QueueTable()
    )
    rows = [
        {name: batch.records[name][number].item() for name in batch.records}
        for number in range(batch.record_count)
    ]
    for row in rows:
        start = row["key_start"]
        row["keys"] = list(
            zip(*(batch[name][start : start + row["key_count"]].tolist() for name in batch.keys), strict=True)
        )
    return rows, stop, end


@pytest.mark.parametrize("name", STORE_NAMES)
def test_columns_are_what_the_reference_decoder_reads(
    name: str, store_dir: Directory, manifest: Document
) -> None:
    parser = _parser(manifest(name))
    table = QueueTable()
    count = 0
    for path in sorted((store_dir(name) / "commitlog").iterdir()):
        data = path.read_bytes()
        rows, _ = scan(path, base=int(path.name), options=ScanOptions(property_parser=parser), table=table)
        count += len(rows)
        for row in rows:
            _same_as_reference(row, data, parser, table)
    assert count > 0


def _same_as_reference(row: dict[str, Any], data: bytes, parser: PropertyParser, table: QueueTable) -> None:
    found = decode_record(data, row["pos"])
    for field in (
        "total_size",
        "magic_code",
        "body_crc",
        "queue_id",
        "flag",
        "queue_offset",
        "physical_offset",
        "sys_flag",
        "born_timestamp",
        "store_timestamp",
        "reconsume_times",
    ):
        assert row[field] == getattr(found, field), field
    assert row["prepared_transaction_offset"] == found.prepared_transaction_offset
    assert (row["body_size"], row["properties_size"]) == (found.body_length, found.properties_length)
    assert data[row["body_pos"] :][: row["body_size"]] == found.body
    assert data[row["topic_pos"] :][: row["topic_size"]] == found.topic
    assert data[row["properties_pos"] :][: row["properties_size"]] == found.properties
    assert row["born_host"] == plain_host(found.born_host)
    assert row["store_host"] == plain_host(found.store_host)
    assert table.names[row["queue_index"]] == (found.topic, found.queue_id)
    pairs = parse_properties(found.properties, parser) or {}
    topic = java_decode(found.topic)
    assert row["tags_code"] == tags_code(pairs.get("TAGS"))
    words = [(KEY_UNIQUE, pairs["UNIQ_KEY"])] if "UNIQ_KEY" in pairs else []
    words += [(KEY_WORD, word) for word in split_keys(pairs.get("KEYS", "")) if word]
    assert [(kind, key_hash) for key_hash, _, _, kind in row["keys"]] == [
        (kind, index_hash(topic, word)) for kind, word in words
    ]
    assert [java_decode(data[pos : pos + size]) for _, pos, size, _ in row["keys"]] == [
        word for _, word in words
    ]
    assert row["faults"] & ~Fault.PROPERTY_SHAPE == 0


def plain_host(host: Host) -> int:
    """The column's value, from its definition."""
    raw = host.address + struct.pack(">i", host.port)
    if len(raw) == 8:
        return int.from_bytes(raw, "big", signed=True)
    value = 0xCBF29CE484222325
    for byte in raw:
        value = ((value ^ byte) * 0x100000001B3) % (1 << 64)
    return value - (1 << 64) if value >= 1 << 63 else value


@pytest.mark.parametrize("name", STORE_NAMES)
def test_every_record_that_the_broker_walked_is_there(
    name: str, store_dir: Directory, manifest: Document, oracle: Document
) -> None:
    live = manifest(name)["phases"][-1].get("live")
    if live is None:  # killed before it could answer: a restart did
        live = oracle(f"{name}--as-is")["afterStart"]
    parser = _parser(manifest(name))
    rows = {}
    for path in sorted((store_dir(name) / "commitlog").iterdir()):
        for row in scan(path, base=int(path.name), options=ScanOptions(property_parser=parser))[0]:
            rows[int(path.name) + row["pos"]] = row
    for walked in live["walk"]:
        row = rows[walked["o"]]
        assert row["total_size"] == walked["s"]
        assert (row["queue_id"], row["queue_offset"]) == (walked["q"], walked["n"])
        assert (row["store_timestamp"], row["sys_flag"]) == (walked["ts"], walked["f"])
        if not row["traits"] & Trait.SCHEDULE_TOPIC:
            assert row["tags_code"] == walked["tc"]


Change = Callable[[bytearray], None]


def _put(at: int, form: str, value: int) -> Change:
    return lambda data: struct.pack_into(form, data, at, value)


def _nothing(data: bytearray) -> None:
    """Leaves the record as it is."""
    del data


FAULTS: list[tuple[str, Change, dict[str, Any], Fault]] = [
    ("sound", _nothing, {}, Fault(0)),
    ("a body byte", _put(88, ">B", 0x21), {}, Fault.BODY_CRC),
    ("a negative bodyCRC", _put(8, ">i", -5), {}, Fault.BODY_CRC | Fault.BODY_CRC_NEGATIVE),
    ("physicalOffset", _put(28, ">q", 5), {}, Fault.PHYSICAL_OFFSET),
    ("an unknown sysFlag", _put(36, ">i", 0x800), {}, Fault.SYS_FLAG),
    ("the sign of sysFlag", _put(36, ">i", -(1 << 31)), {}, Fault.SYS_FLAG),
    ("compression type 4", _put(36, ">i", 0x401), {}, Fault.COMPRESSION_TYPE),
    ("a type without compression", _put(36, ">i", 0x100), {}, Fault.COMPRESSION_TYPE),
    ("bornHost's port", _put(52, ">i", 65536), {}, Fault.PORT),
    ("storeHost's port", _put(68, ">i", -1), {}, Fault.PORT),
    ("queueId", _put(12, ">i", -1), {}, Fault.QUEUE_ID),
    ("queueOffset", _put(20, ">q", -1), {}, Fault.QUEUE_OFFSET),
    ("preparedTransactionOffset", _put(76, ">q", -1), {}, Fault.PREPARED_OFFSET),
    ("negative bodyLength", _put(84, ">i", -7), {"body": b""}, Fault.BODY_SIZE),
    ("an empty topic", _nothing, {"topic": b""}, Fault.TOPIC_EMPTY),
    ("an ANSI code in the topic", _nothing, {"topic": b"a\x1b[2J"}, Fault.TOPIC_CHARSET),
    ("a path in the topic", _nothing, {"topic": b"../x"}, Fault.TOPIC_CHARSET),
    ("Latin-1", _nothing, {"topic": b"caf\xe9"}, Fault.TOPIC_CHARSET | Fault.TOPIC_UTF8),
    ("256 bytes", _nothing, {"topic": b"t" * 256, "magic_code": MAGIC_V2}, Fault.TOPIC_SIZE),
    ("NUL", _nothing, {"properties": b"A\x01" + bytes(8) + b"\x02"}, Fault.PROPERTY_NUL),
    ("no value", _nothing, {"properties": b"TAGS\x01\x02"}, Fault.PROPERTY_SHAPE),
    ("no name", _nothing, {"properties": b"\x01v\x02"}, Fault.PROPERTY_SHAPE),
    ("two separators", _nothing, {"properties": b"A\x01b\x01c\x02"}, Fault.PROPERTY_SHAPE),
    ("no separator", _nothing, {"properties": b"word\x02"}, Fault.PROPERTY_SHAPE),
    ("empty pieces", _nothing, {"properties": b"\x02A\x01b\x02\x02"}, Fault(0)),
    (
        "DELAY",
        _nothing,
        {"topic": b"SCHEDULE_TOPIC_XXXX", "properties": b"DELAY\x01soon\x02"},
        Fault.DELAY,
    ),
    ("DELAY elsewhere", _nothing, {"properties": b"DELAY\x01soon\x02"}, Fault(0)),
    (
        "INNER_BASE",
        _nothing,
        {"properties": b"INNER_NUM\x013\x02INNER_BASE\x018\x02"},
        Fault.INNER_BATCH,
    ),
    (
        "INNER_NUM",
        _nothing,
        {"properties": b"INNER_NUM\x0140000\x02INNER_BASE\x017\x02"},
        Fault.INNER_BATCH,
    ),
    (
        "__CRC32#",
        _nothing,
        {"properties": property_crc_trailer(12345)},
        Fault.PROPERTY_CRC,
    ),
]


@pytest.mark.parametrize(
    ("change", "values", "fault"), [case[1:] for case in FAULTS], ids=[c[0] for c in FAULTS]
)
def test_a_fault_is_told_by_its_bit_alone(change: Change, values: dict[str, Any], fault: Fault) -> None:
    data = bytearray(record(BASE, **values))
    change(data)
    rows, stop, _ = _scan(bytes(data))
    assert stop == Stop.LIMIT
    assert Fault(rows[0]["faults"]) == fault
    quick, _, _ = _scan(bytes(data), read_bodies=False)
    assert Fault(quick[0]["faults"]) == fault & ~(Fault.BODY_CRC | Fault.PROPERTY_CRC)


def test_a_record_that_leaves_no_room_for_a_blank_says_so() -> None:
    data = record(BASE)
    for file_size, expected in ((len(data) + 8, Fault(0)), (len(data) + 7, Fault.END_OF_FILE)):
        rows, _, _ = _scan(data, file_size=file_size)
        assert Fault(rows[0]["faults"]) == expected


STOPS: list[tuple[str, bytes, Stop]] = [
    ("nothing", b"", Stop.LIMIT),
    ("zeros", bytes(8), Stop.ZERO),
    ("blank", blank(4096), Stop.BLANK),
    ("magic", struct.pack(">ii", 100, 1), Stop.MAGIC),
    ("total size 0", struct.pack(">i", 0) + record(0)[4:], Stop.SIZE),
    ("total size 90", struct.pack(">i", 90) + record(0)[4:], Stop.SIZE),
    ("past the file", struct.pack(">i", 5000) + record(0)[4:], Stop.SIZE),
    ("seven bytes", record(0)[:7], Stop.NEED_BYTES),
    ("a part", record(0)[:100], Stop.NEED_BYTES),
]


@pytest.mark.parametrize(("data", "stop"), [case[1:] for case in STOPS], ids=[case[0] for case in STOPS])
def test_why_a_run_ends(data: bytes, stop: Stop) -> None:
    assert _scan(data)[1:] == (stop, 0)
    good = record(BASE)
    rows, found, end = _scan(good + data)
    assert (len(rows), found, end) == (1, stop, len(good))


@pytest.mark.parametrize(
    ("at", "form", "value", "stop"),
    [
        (84, ">i", 1000, Stop.BODY_LENGTH),
        (84, ">i", (1 << 31) - 1, Stop.BODY_LENGTH),
        (93, ">b", -1, Stop.TOPIC_LENGTH),
        (93, ">b", 127, Stop.TOPIC_LENGTH),
        (103, ">h", 32767, Stop.PROPERTIES_LENGTH),
        (103, ">h", 3, Stop.LENGTHS),
        (103, ">h", -3, Stop.LENGTHS),
        (36, ">i", 0x30, Stop.BODY_LENGTH),
    ],
)
def test_lengths_that_do_not_add_up(at: int, form: str, value: int, stop: Stop) -> None:
    data = bytearray(record(BASE))
    struct.pack_into(form, data, at, value)
    assert _scan(bytes(data))[1:] == (stop, 0)


@pytest.mark.parametrize(("left", "stop"), [(bytes(5), Stop.ZERO), (b"\0\0\0\x01\0", Stop.SHORT)])
def test_the_last_bytes_of_a_file(left: bytes, stop: Stop) -> None:
    assert _scan(left, file_size=5)[1] == stop
    assert _scan(left[:3], file_size=5)[1] == Stop.NEED_BYTES


def test_the_batch_ends_before_a_record_that_does_not_fit() -> None:
    data = log(b"a", b"b", b"c")
    size = len(data) // 3
    buffer = np.frombuffer(data, np.uint8)
    for rows, keys in ((2, 1000), (10, 7)):
        batch = new_batch(rows, keys)
        options = ScanOptions()
        found = plain.scan_records(buffer, 0, len(data), 0, BASE, FILE_SIZE, options, batch, QueueTable())
        assert found == (2 * size, Stop.BATCH_FULL)
        assert (batch.record_count, batch.key_count) == (2, 6)


NAMES = st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "DELAY", "A", "é", ""])
PIECES = st.one_of(
    st.tuples(NAMES, st.text(max_size=6)).map(lambda pair: "\x01".join(pair).encode("utf-8", "replace")),
    st.binary(max_size=8),
    st.sampled_from([b"", b"\x01", b"\x01\x01", b"K\x01V\x01", b"K\x01A\x01B"]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=6), st.booleans(), st.sampled_from(["split", "scan"]))
def test_properties_are_found_where_the_parsers_see_them(
    pieces: list[bytes], ended: bool, parser: PropertyParser
) -> None:
    data = b"\x02".join(pieces) + b"\x02" * ended
    spans, shaped = find_properties(data, parser)
    expected = parse_properties(data, parser) or {}
    found: dict[str, str] = {}
    for name, (low, high) in sorted(spans.items(), key=lambda item: item[1]):
        found[java_decode(name)] = java_decode(data[low:high])
    assert found == expected
    if shaped:
        assert parse_properties(data, "split") == parse_properties(data, "scan")


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400), st.integers(0, 50))
def test_any_bytes_give_an_answer_inside_them(data: bytes, more: int) -> None:
    _, stop, end = _scan(data, file_size=len(data) + more)
    assert 0 <= end <= len(data)
    assert stop in Stop


def test_long_keys_and_odd_texts_are_hashed_like_java(tmp_path: Path) -> None:
    keys = "中文 😀 \ud7ff x" + "y" * 2000
    properties = f"KEYS\x01{keys}\x02".encode()
    path = tmp_path / "log"
    path.write_bytes(record(0, topic="主题".encode(), properties=properties))
    rows, _ = scan(path, base=0)
    assert [key[0] for key in rows[0]["keys"]] == [index_hash("主题", word) for word in keys.split(" ")]


@pytest.mark.parametrize("name", ["5.5.0-full-killed", "5.5.0-upgraded"])
def test_tags_are_one_more_key_in_both_scans(name: str, real_dir: Directory) -> None:
    count = 0
    for path in sorted((real_dir(name) / "commitlog").glob("0*")):
        data = np.fromfile(path, np.uint8)
        rows = {}
        for scanner in (plain.scan_records, compiled.scan_records):
            for index_tags in (False, True):
                batch, table = new_batch(), QueueTable()
                options = ScanOptions(index_tags=index_tags)
                scanner(data, 0, len(data), 0, int(path.name), len(data), options, batch, table)
                rows[scanner, index_tags] = {key: batch[key].tolist() for key in (*KEY_DTYPES, "key_count")}
        assert rows[plain.scan_records, True] == rows[compiled.scan_records, True]
        assert rows[plain.scan_records, False] == rows[compiled.scan_records, False]
        found = rows[plain.scan_records, True]
        tags = [at for at, kind in enumerate(found["key_kind"]) if kind == KEY_TAGS]
        without = rows[plain.scan_records, False]
        count += len(tags)
        assert KEY_TAGS not in without["key_kind"]
        assert len(found["key_hash"]) - len(tags) == len(without["key_hash"])
    assert count > 20
