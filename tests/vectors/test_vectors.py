"""rocketfsck's decoders and encoders against specs/vectors."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.errors import FormatError
from rocketfsck.formats import (
    consumequeue,
    indexfile,
    javatext,
    messageid,
    properties,
    record,
    rocks,
    smallfiles,
    timer,
)
from rocketfsck.formats.layout import Layout, registry

from tests.conftest import Directory

VECTORS = Path(__file__).parents[2] / "specs" / "vectors"
FILES = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(VECTORS.glob("*.json"))}
LAYOUTS = registry()

# Where a structure's own decoder refuses more than its layout alone does.
DECODERS: dict[str, Callable[[bytes], Any]] = {
    "record": record.decode_record,
    "inner_item": record.decode_items,
    "consumequeue_ext_unit": consumequeue.decode_ext_unit,
}


def expected_values(layout: Layout, stated: dict[str, Any]) -> dict[str, Any]:
    """The values of a vector as Python has them."""
    return {
        field.name: bytes.fromhex(stated[field.name]) if field.kind == "bytes" else int(stated[field.name])
        for field in layout.fields
    }


def of_layouts(key: str) -> list[Any]:
    return [
        pytest.param(name, row, id=f"{name}-{row['name']}")
        for name, document in FILES.items()
        if "layout" in document
        for row in document.get(key, ())
    ]


def test_every_layout_has_vectors() -> None:
    assert {document["layout"] for document in FILES.values() if "layout" in document} == set(LAYOUTS)
    assert {name for name, document in FILES.items() if "kind" in document} == {
        "index_file", "java_text", "properties", "message_ids", "names", "epoch", "rocksdb_keys",
        "rocksdb_rows",
    }  # fmt: skip
    assert all(document.get("layout", document.get("kind")) == name for name, document in FILES.items())


@pytest.mark.parametrize(("name", "row"), of_layouts("vectors"))
def test_layout(name: str, row: dict[str, Any]) -> None:
    layout = LAYOUTS[name]
    data = bytes.fromhex(row["hex"])
    wanted = expected_values(layout, row["values"])
    assert layout.parse(data) == wanted
    assert list(row["values"]) == [field.name for field in layout.fields]
    assert layout.build(wanted) == data
    if name in DECODERS:
        assert DECODERS[name](data)


@pytest.mark.parametrize(("name", "row"), of_layouts("rejected"))
def test_layout_rejected(name: str, row: dict[str, Any]) -> None:
    data = bytes.fromhex(row["hex"])
    decode: Callable[[bytes], Any] = DECODERS[name] if name in DECODERS else LAYOUTS[name].parse
    with pytest.raises(FormatError) as caught:
        decode(data)
    assert caught.value.offset is not None
    assert 0 <= caught.value.offset <= len(data)


@pytest.mark.parametrize(("name", "row"), of_layouts("vectors"))
def test_broker_wrote_it(store_dir: Directory, name: str, row: dict[str, Any]) -> None:
    source = row.get("source")
    if source is None:
        assert "note" in row or name != "record"
        return
    with (store_dir(source["store"]) / source["file"]).open("rb") as file:
        file.seek(source["pos"])
        assert file.read(len(row["hex"]) // 2).hex() == row["hex"]


@pytest.mark.parametrize("row", FILES["record"]["vectors"], ids=lambda row: row["name"])
def test_record(row: dict[str, Any]) -> None:
    data = bytes.fromhex(row["hex"])
    stated = row["values"]
    found = record.decode_record(data)
    assert record.encode_record(found) == data
    assert (found.total_size, found.magic_code, found.body_crc) == (
        stated["totalSize"],
        stated["magicCode"],
        stated["bodyCRC"],
    )
    assert record.encode_host(found.born_host).hex() == stated["bornHost"]
    assert record.encode_host(found.store_host).hex() == stated["storeHost"]
    assert (found.physical_offset, found.queue_offset) == (
        int(stated["physicalOffset"]),
        int(stated["queueOffset"]),
    )
    assert (found.body_length, found.properties_length) == (stated["bodyLength"], stated["propertiesLength"])
    if found.body_length > 0:
        assert record.body_crc(found.body) == found.body_crc
    bigger = b"\xee" * 7 + data + b"\xee" * 9
    assert record.decode_record(bigger, 7) == found


def test_index_file() -> None:
    document = FILES["index_file"]
    slot_count, entry_count = document["slotCount"], document["entryCount"]
    data = bytes.fromhex(document["hex"])
    assert len(data) == indexfile.index_file_size(slot_count, entry_count)
    assert indexfile.HEADER.parse(data) == expected_values(indexfile.HEADER, document["header"])
    slots = [
        indexfile.SLOT.parse(data, indexfile.slot_pos(slot))["newestIndex"] for slot in range(slot_count)
    ]
    assert slots == document["slots"]
    for row in document["entries"]:
        entry = indexfile.ENTRY.parse(data, indexfile.entry_pos(row["entry"], slot_count))
        assert entry["keyHash"] == row["keyHash"] == javatext.index_hash(row["topic"], row["key"])
        assert indexfile.slot_of(row["keyHash"], slot_count) == row["slot"]
        assert slots[row["slot"]] == row["entry"]
    for row in document["timeDiffs"]:
        assert indexfile.time_diff(int(row["storeTimestamp"]), int(row["beginTimestamp"])) == row["timeDiff"]


def test_java_text() -> None:
    document = FILES["java_text"]
    for row in document["hashes"]:
        assert javatext.java_hash(row["text"]) == row["hash"]
    for row in document["keyHashes"]:
        assert javatext.index_hash(row["topic"], row["key"]) == row["keyHash"]
    for row in document["decoded"]:
        assert javatext.java_decode(bytes.fromhex(row["hex"])) == row["text"]


@pytest.mark.parametrize("row", FILES["properties"]["vectors"], ids=lambda row: row["name"])
@pytest.mark.parametrize("parser", ["split", "scan"])
def test_properties(row: dict[str, Any], parser: properties.Parser) -> None:
    data = bytes.fromhex(row["hex"])
    pairs = row[parser]
    if pairs is None:
        assert properties.parse_properties(data, parser) is None
    else:
        assert properties.property_pairs(data, parser) == [tuple(pair) for pair in pairs]
        assert properties.parse_properties(data, parser) == dict(pairs)


def test_keys_tags_and_crc() -> None:
    document = FILES["properties"]
    for row in document["keys"]:
        assert properties.split_keys(row["text"]) == row["keys"]
    for row in document["tagsCodes"]:
        assert properties.tags_code(row["tags"]) == int(row["tagsCode"])
    for row in document["crc"]:
        data = bytes.fromhex(row["record"])
        assert properties.property_crc(data) == row["crc"]
        assert properties.property_crc_digits(row["crc"]) == row["digits"].encode()
        assert data.endswith(b"__CRC32#\x01" + row["digits"].encode() + b"\x02")


def test_message_ids() -> None:
    document = FILES["message_ids"]
    for row in document["offsetMsgIds"]:
        found = messageid.decode_offset_id(row["text"])
        assert (found.address.hex(), found.port, str(found.physical_offset)) == (
            row["address"],
            row["port"],
            row["physicalOffset"],
        )
        assert messageid.encode_offset_id(found) == row["text"]
    for row in document["uniqIDs"]:
        unique = messageid.decode_unique_id(row["text"])
        assert unique == messageid.UniqueMessageId(
            bytes.fromhex(row["address"]), row["pid"], row["classLoaderHash"], row["span"], row["counter"]
        )
        assert messageid.encode_unique_id(unique) == row["text"]
    for text in document["rejected"]:
        for decode in (messageid.decode_offset_id, messageid.decode_unique_id):
            with pytest.raises(FormatError):
                decode(text)


def test_names() -> None:
    document = FILES["names"]
    for row in document["offsets"]:
        assert smallfiles.offset_to_filename(int(row["offset"])) == row["name"]
        assert smallfiles.filename_to_offset(row["name"]) == int(row["offset"])
    assert [smallfiles.filename_to_offset(name) for name in document["notOffsets"]] == [None] * 11
    for row in document["indexTimes"]:
        assert smallfiles.index_filename_time(row["name"]) == datetime.fromisoformat(row["time"])
        assert smallfiles.index_filename(datetime.fromisoformat(row["time"])) == row["name"]
    assert [smallfiles.index_filename_time(name) for name in document["notIndexTimes"]] == [None] * 6
    for row in document["javaLongs"]:
        value = row["value"]
        assert smallfiles.java_parse_long(row["text"]) == (None if value is None else int(value))
    for row in document["delays"]:
        found = timer.deliver_timestamp(row["level"], int(row["storeTimestamp"]))
        assert found == int(row["deliverTimestamp"])


def test_epoch_files() -> None:
    document = FILES["epoch"]
    for row in document["vectors"]:
        data = bytes.fromhex(row["hex"])
        found = smallfiles.decode_epochs(data)
        assert found.crc == row["crc"]
        assert [[entry.epoch, str(entry.start_offset)] for entry in found.entries] == row["entries"]
        if row["crc"]:
            assert smallfiles.encode_epochs(found.entries) == data
    for row in document["rejected"]:
        with pytest.raises(FormatError):
            smallfiles.decode_epochs(bytes.fromhex(row["hex"]))


def test_rocksdb_keys() -> None:
    document = FILES["rocksdb_keys"]
    for row in document["units"]:
        key = rocks.UnitKey(bytes.fromhex(row["topic"]), row["queueId"], int(row["cqOffset"]))
        assert rocks.decode_unit_key(bytes.fromhex(row["hex"])) == key
        assert rocks.encode_unit_key(key).hex() == row["hex"]
    for row in document["bounds"]:
        bound = rocks.BoundKey(bytes.fromhex(row["topic"]), row["queueId"], row["bound"] == "max")
        assert rocks.decode_bound_key(bytes.fromhex(row["hex"])) == bound
        assert rocks.encode_bound_key(bound).hex() == row["hex"]
    for row in document["rejected"]:
        for decode in (rocks.decode_unit_key, rocks.decode_bound_key):
            with pytest.raises(FormatError):
                decode(bytes.fromhex(row["hex"]))


def _texts(row: dict[str, Any], *names: str) -> list[bytes]:
    return [bytes.fromhex(row[name]) for name in names]


def test_rocksdb_rows() -> None:
    document = FILES["rocksdb_rows"]
    keys: list[tuple[dict[str, Any], Any, Callable[[bytes], Any], Callable[[Any], bytes]]] = []
    for row in document["index"]:
        topic, text, unique = _texts(row, "topic", "text", "uniqKey")
        place = int(row["phyOffset"])
        key: Any = rocks.IndexKey(int(row["hour"]), topic, row["type"].encode(), text, unique, place)
        keys.append((row, key, rocks.decode_index_key, rocks.encode_index_key))
    for row in document["timer"]:
        key = rocks.TimerKey(int(row["deliverTime"]), *_texts(row, "uniqKey"))
        keys.append((row, key, rocks.decode_timer_key, rocks.encode_timer_key))
    for row in document["trans"]:
        key = rocks.TransKey(int(row["phyOffset"]), *_texts(row, "topic", "uniqKey"))
        keys.append((row, key, rocks.decode_trans_key, rocks.encode_trans_key))
    for row in document["pop"]:
        group, topic = _texts(row, "group", "topic")
        place = int(row["queueOffset"])
        key = rocks.PopKey(int(row["visibleTime"]), group, topic, row["queueId"], place)
        keys.append((row, key, rocks.decode_pop_key, rocks.encode_pop_key))
    for row in document["config"]:
        table = rocks.Table(row["table"])
        if "group" in row:
            group, topic = _texts(row, "group", "topic")
            key = rocks.OffsetKey(table, group, topic, row["queueId"])
        else:
            key = rocks.ConfigKey(table, None if row["name"] is None else bytes.fromhex(row["name"]))
        keys.append((row, key, rocks.decode_config_key, rocks.encode_config_key))
    assert len(keys) >= 10
    for row, key, decode, encode in keys:
        assert decode(bytes.fromhex(row["hex"])) == key
        assert encode(key).hex() == row["hex"]
    for row in document["rejected"]:
        for decode in (rocks.decode_index_key, rocks.decode_trans_key,
                       rocks.decode_pop_key, rocks.decode_config_key):  # fmt: skip
            with pytest.raises(FormatError):
                decode(bytes.fromhex(row["hex"]))
