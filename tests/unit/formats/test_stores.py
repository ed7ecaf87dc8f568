"""Broker-written stores decode to what the brokers said of them, and encode back to the same bytes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from rocketfsck.formats.checkpoint import CHECKPOINT, CHECKPOINT_SIZE, decode_checkpoint, encode_checkpoint
from rocketfsck.formats.config import (
    consumer_offsets,
    data_version,
    decode_config,
    delay_offsets,
    encode_config,
    topic_configs,
)
from rocketfsck.formats.consumequeue import (
    BATCH_UNIT,
    UNIT,
    decode_ext_unit,
    encode_ext_unit,
    ext_offset,
    is_ext_address,
)
from rocketfsck.formats.dialect import Dialect, dialect_for
from rocketfsck.formats.indexfile import (
    ENTRY,
    INDEX_HEADER_SIZE,
    decode_header,
    encode_header,
    entry_pos,
    index_file_size,
    slot_of,
    slot_pos,
)
from rocketfsck.formats.javatext import index_hash, java_decode, parse_int32
from rocketfsck.formats.magic import INNER_BATCH
from rocketfsck.formats.messageid import (
    OffsetMessageId,
    decode_offset_id,
    decode_unique_id,
    encode_offset_id,
    encode_unique_id,
    unique_id_times,
)
from rocketfsck.formats.properties import (
    CRC32,
    DELAY,
    INNER_NUM,
    KEYS,
    TAGS,
    UNIQ_KEY,
    java_hash_map_order,
    parse_properties,
    property_crc,
    property_crc_trailer,
    property_crc_value,
    property_pairs,
    split_keys,
    tags_code,
)
from rocketfsck.formats.record import (
    Record,
    body_crc,
    decode_items,
    decode_record,
    encode_items,
    encode_record,
)
from rocketfsck.formats.smallfiles import (
    decode_abort,
    encode_abort,
    filename_to_offset,
    index_filename,
    index_filename_time,
    is_lock_content,
)
from rocketfsck.formats.timer import SCHEDULE_TOPIC, deliver_timestamp, parse_delay_levels
from rocketfsck.store.index_geometry import infer_index_geometry
from rocketfsck.store.model import IndexFile

from tests.conftest import STORE_NAMES, Directory, Document
from tests.unit.formats.store_files import bytes_at, walk

# Stores that lost messages in a crash, by expiry, or by the broker's own truncation.
_LOSSY = ("4.9.8-expired", "5.1.3-expired", "4.9.8-ghosttail", "4.9.8-lagkill-transient")

every_store = pytest.mark.parametrize("name", STORE_NAMES)
SILENT = "4.9.8-lagkill-transient"
"""The one store whose broker was killed before it could say anything."""
every_told_store = pytest.mark.parametrize("name", [name for name in STORE_NAMES if name != SILENT])


def _live(document: dict[str, Any]) -> dict[str, Any]:
    """What the last broker process said just before it stopped; empty if it was killed before it could."""
    return document["phases"][-1].get("live") or {}


def _dialect(document: dict[str, Any]) -> Dialect:
    return dialect_for(document["finalVersion"].split()[0])


def _properties(record: Record, dialect: Dialect) -> dict[str, str] | None:
    return parse_properties(record.properties, dialect.property_parser)


@every_store
def test_every_record_encodes_to_its_bytes(name: str, store_dir: Directory) -> None:
    count = 0
    for physical_offset, data, record in walk(store_dir(name)):
        assert encode_record(record) == data
        assert record.physical_offset == physical_offset
        assert record.body_crc == body_crc(record.body)
        count += 1
    assert count > 20


@every_store
def test_records_are_what_the_broker_walked(name: str, store_dir: Directory, manifest: Document) -> None:
    document = manifest(name)
    live = _live(document)
    if not live:
        assert document["abortPresent"] and name == SILENT
        return
    dialect = _dialect(document)
    levels = parse_delay_levels(document["geometry"]["messageDelayLevel"])
    assert live["walk"]
    for row in live["walk"]:
        data = bytes_at(store_dir(name), row["o"], row["s"])
        record = decode_record(data)
        properties = _properties(record, dialect) or {}
        assert (record.physical_offset, record.total_size) == (row["o"], row["s"])
        assert record.topic.decode() == row["t"]
        assert record.queue_id == row["q"]
        assert record.queue_offset == row["n"]
        assert record.store_timestamp == row["ts"]
        assert record.sys_flag == row["f"]
        assert record.prepared_transaction_offset == row.get("p", 0)
        assert properties.get(KEYS, "") == (row.get("k") or "")
        assert properties.get(UNIQ_KEY) == row.get("u")
        level = parse_int32(properties.get(DELAY, "0"))
        if record.topic.decode() == SCHEDULE_TOPIC and level:
            assert deliver_timestamp(level, record.store_timestamp, levels) == row["tc"]
        else:
            assert tags_code(properties.get(TAGS)) == row["tc"]


@every_told_store
def test_decoded_messages_have_every_field(name: str, store_dir: Directory, manifest: Document) -> None:
    dialect = _dialect(manifest(name))
    rows = _live(manifest(name))["decoded"]
    assert rows
    for row in rows:
        size = int.from_bytes(bytes_at(store_dir(name), row["o"], 4), "big")
        record = decode_record(bytes_at(store_dir(name), row["o"], size))
        assert record.topic.decode() == row["topic"]
        assert record.queue_id == row["queueId"]
        assert record.queue_offset == row["queueOffset"]
        assert record.sys_flag == row["sysFlag"]
        assert record.flag == row["flag"]
        assert record.body_crc == row["bodyCRC"]
        assert record.born_timestamp == row["bornTimestamp"]
        assert record.store_timestamp == row["storeTimestamp"]
        assert _same_host(record.born_host.text, row["bornHost"])
        assert _same_host(record.store_host.text, row["storeHost"])
        assert record.reconsume_times == row["reconsumeTimes"]
        assert record.prepared_transaction_offset == row["prepared"]
        assert len(record.body) == record.body_length
        assert _properties(record, dialect) == row["properties"]
        identity = OffsetMessageId(record.store_host.address, record.store_host.port, record.physical_offset)
        properties = row["properties"] or {}
        assert row["msgId"] in (encode_offset_id(identity), properties.get(UNIQ_KEY))


def _same_host(ours: str, theirs: str) -> bool:
    """Java writes an IPv6 address without brackets or `::`."""
    if ours == theirs:
        return True
    from ipaddress import ip_address

    address, _, port = theirs.rpartition(":")
    mine, _, my_port = ours.rpartition(":")
    return ip_address(mine.strip("[]")) == ip_address(address.strip("[]/")) and port == my_port


def _sent(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for phase in document["phases"]:
        yield from phase.get("messages", [])


@every_store
def test_sent_messages_stand_where_the_broker_put_them(
    name: str, store_dir: Directory, manifest: Document
) -> None:
    document = manifest(name)
    dialect = _dialect(document)
    stored = {offset: record for offset, _, record in walk(store_dir(name))}
    highest_level = len(document["geometry"]["messageDelayLevel"].split())
    # After a truncation the broker puts other messages at the same offsets: the last ones stand there.
    last_put = {
        message["physicalOffset"]: message
        for message in _sent(document)
        if message["status"] in ("PUT_OK", "FLUSH_DISK_TIMEOUT")
    }
    found = 0
    for physical_offset, message in last_put.items():
        record = stored.get(physical_offset)
        batch = message.get("kind") == "legacyBatch"  # stamped with the machine's clock by 4.4.0
        if record is None or (record.store_timestamp != message["storeTimestamp"] and not batch):
            assert name in _LOSSY, name
            continue
        found += 1
        first_id = message["offsetMsgId"].split(",")[0]
        identity = decode_offset_id(first_id)
        assert encode_offset_id(identity) == first_id
        assert identity.physical_offset == record.physical_offset
        assert (identity.address, identity.port) == (record.store_host.address, record.store_host.port)
        if batch:
            assert hashlib.sha256(record.body).hexdigest() == message["inner"][0]["bodySha256"]
            continue
        assert hashlib.sha256(record.body).hexdigest() == message["bodySha256"]
        assert record.total_size == message["size"]
        if "sentPropertiesString" in message:
            continue
        properties = _properties(record, dialect) or {}
        assert properties.get(UNIQ_KEY) == message["uniqKey"]
        assert (properties.get(KEYS) or None) == (message["keys"] or None)
        for key, value in message.get("properties", {}).items():
            if key == DELAY:
                assert int(properties[key]) == min(int(value), highest_level)
            elif value:
                assert properties[key] == value
    assert found > 10


@every_store
def test_unique_keys_decode_to_times_just_before_the_store_time(
    name: str, store_dir: Directory, manifest: Document
) -> None:
    zone = manifest(name)["timezone"]
    dialect = _dialect(manifest(name))
    checked = 0
    for _, _, record in walk(store_dir(name)):
        unique_key = (_properties(record, dialect) or {}).get(UNIQ_KEY)
        if unique_key is None or not re.fullmatch("([0-9A-F]{32}|[0-9A-F]{56})", unique_key):
            continue
        identity = decode_unique_id(unique_key)
        assert encode_unique_id(identity) == unique_key
        made_before = 32 * 86_400_000 if "ipv6" in name else 86_400_000
        stored = 1_700_000_000_000 if "legacybatch" in name else record.store_timestamp
        times = unique_id_times(identity, range(stored - made_before, stored + 60_000), [zone])
        checked += 1
        assert len(times) == 1
        assert times[0].zone == zone
    assert checked > 10


@every_told_store
def test_consume_queue_units_are_what_the_broker_answered(
    name: str, store_dir: Directory, manifest: Document
) -> None:
    live = _live(manifest(name))
    assert any(queue["units"] for queue in live["queues"])
    for queue in live["queues"]:
        batch = queue["cqClass"] == "BatchConsumeQueue"
        layout = BATCH_UNIT if batch else UNIT
        folder = "batchconsumequeue" if batch else "consumequeue"
        directory = store_dir(name) / folder / queue["topic"] / str(queue["queueId"])
        if not queue["units"]:
            continue
        files = {filename_to_offset(path.name) or 0: path.read_bytes() for path in directory.iterdir()}
        assert (
            layout.build(layout.parse(next(iter(files.values()))))
            == next(iter(files.values()))[: layout.size]
        )
        first = min(files)
        stream = b"".join(files[start] for start in sorted(files))
        units = [layout.parse(stream, pos) for pos in range(0, len(stream), layout.size)]
        for answer in queue["units"]:
            if batch:
                unit = next(unit for unit in units if unit["msgBaseOffset"] == answer[0] and unit["size"])
                assert unit["batchSize"] == (answer[4] if len(answer) > 4 else 1)
            else:
                unit = units[answer[0] - first // layout.size]
            assert (unit["offset"], unit["size"]) == tuple(answer[1:3])
            if not is_ext_address(unit["tagsCode"]):
                assert unit["tagsCode"] == answer[3]


def test_ext_addresses_lead_to_units_with_the_records_tags_code(store_dir: Directory) -> None:
    store = store_dir("4.9.8-cqext")
    count = 0
    for path in sorted((store / "consumequeue").glob("*/*/*")):
        queue = path.parent.relative_to(store / "consumequeue")
        ext = b"".join(file.read_bytes() for file in sorted((store / "consumequeue_ext" / queue).iterdir()))
        data = path.read_bytes()
        for pos in range(0, len(data), UNIT.size):
            unit = UNIT.parse(data, pos)
            if not unit["size"]:
                continue
            assert is_ext_address(unit["tagsCode"])
            at = ext_offset(unit["tagsCode"])
            found = decode_ext_unit(ext, at)
            assert found is not None
            assert encode_ext_unit(found) == ext[at : at + found.size]
            record = decode_record(bytes_at(store, unit["offset"], unit["size"]))
            properties = parse_properties(record.properties, "scan") or {}
            assert found.tags_code == tags_code(properties.get(TAGS))
            assert found.msg_store_time == record.store_timestamp
            count += 1
    assert count == 400


@every_store
def test_index_files_decode_and_their_geometry_is_found(
    name: str, store_dir: Directory, manifest: Document
) -> None:
    document = manifest(name)
    geometry = (document["geometry"]["maxHashSlotNum"], document["geometry"]["maxIndexNum"])
    headers = {row["name"]: row for row in document["indexHeadersOnDisk"]}
    paths = sorted((store_dir(name) / "index").iterdir())
    assert {path.name for path in paths} == headers.keys()
    for path in paths:
        data = path.read_bytes()
        created = index_filename_time(path.name)
        assert created is not None
        assert index_filename(created) == path.name
        header = decode_header(data)
        assert encode_header(header) == data[:INDEX_HEADER_SIZE]
        row = headers[path.name]
        assert len(data) == row["size"] == index_file_size(*geometry)
        assert (header.begin_timestamp, header.end_timestamp) == (row["beginTimestamp"], row["endTimestamp"])
        assert (header.begin_physical_offset, header.end_physical_offset) == (
            row["beginPhyOffset"],
            row["endPhyOffset"],
        )
        assert (header.hash_slot_count, header.index_count) == (row["hashSlotCount"], row["indexCount"])
        guess = infer_index_geometry([IndexFile(str(path), path.name, len(data), 0, len(data))])
        assert (guess.slot_count, guess.entry_count) == geometry


@every_store
def test_index_entries_hold_the_hashes_of_their_records_keys(
    name: str, store_dir: Directory, manifest: Document
) -> None:
    dialect = _dialect(manifest(name))
    slots = manifest(name)["geometry"]["maxHashSlotNum"]
    hashes: dict[int, set[int]] = {}
    for physical_offset, _, record in walk(store_dir(name)):
        properties = _properties(record, dialect) or {}
        keys = [properties[UNIQ_KEY]] if UNIQ_KEY in properties else []
        keys += split_keys(properties.get(KEYS, ""))
        topic = java_decode(record.topic)
        hashes[physical_offset] = {index_hash(topic, key) for key in keys}
    for path in sorted((store_dir(name) / "index").iterdir()):
        data = path.read_bytes()
        for number in range(1, decode_header(data).entry_count + 1):
            pos = entry_pos(number, slots)
            entry = ENTRY.parse(data, pos)
            assert ENTRY.build(entry) == data[pos : pos + ENTRY.size]
            newest = int.from_bytes(data[slot_pos(slot_of(entry["keyHash"], slots)) :][:4], "big")
            assert newest >= number
            # Older records have expired, or others have taken their place after a truncation.
            if entry["phyOffset"] in hashes and name != "4.9.8-ghosttail":
                assert entry["keyHash"] in hashes[entry["phyOffset"]]


@every_store
def test_checkpoint(name: str, store_dir: Directory, manifest: Document) -> None:
    data = (store_dir(name) / "checkpoint").read_bytes()
    assert len(data) == CHECKPOINT_SIZE
    assert encode_checkpoint(decode_checkpoint(data)) == data
    stated = manifest(name)["checkpointOnDisk"]
    assert {key: value for key, value in CHECKPOINT.parse(data).items() if key in stated} == stated


def test_config_files_encode_to_their_bytes(store_dir: Directory) -> None:
    seen = set()
    for path in (path for name in STORE_NAMES for path in (store_dir(name) / "config").glob("*")):
        seen.add(path.name.removesuffix(".bak"))
        data = path.read_bytes()
        value = decode_config(data)
        assert encode_config(value) == data, path
        if path.name.startswith("topics.json"):
            assert all(topic == config.topic_name for topic, config in topic_configs(value).items())
            assert data_version(value) is not None
        elif path.name.startswith("consumerOffset.json"):
            assert all(consumer_offsets(value).values())
        else:
            assert path.name.startswith("delayOffset.json")
            assert all(offset >= 0 for offset in delay_offsets(value).values())
    assert seen == {"consumerOffset.json", "delayOffset.json", "topics.json"}


@every_store
def test_markers(name: str, store_dir: Directory, manifest: Document) -> None:
    document = manifest(name)
    store = store_dir(name)
    assert is_lock_content((store / "lock").read_bytes())
    abort = store / "abort"
    assert abort.exists() == document["abortPresent"]
    if abort.exists():
        data = abort.read_bytes()
        assert encode_abort(decode_abort(data)) == data
        assert (decode_abort(data) is not None) == _dialect(document).abort_has_pid
    assert (store / "abort.bak").exists() == _dialect(document).abort_has_pid


def test_property_crc_holds_for_every_record(store_dir: Directory) -> None:
    count = 0
    for _, data, record in walk(store_dir("5.3.3-propcrc")):
        crc = property_crc(data)
        assert data.endswith(property_crc_trailer(crc))
        properties = parse_properties(record.properties, "scan") or {}
        assert property_crc_value(properties[CRC32]) == crc
        count += 1
    assert count == 52


def test_inner_batches_decode_to_as_many_items_as_they_say(store_dir: Directory) -> None:
    batches = 0
    for _, _, record in walk(store_dir("5.0.0-innerbatch")):
        if not record.sys_flag & INNER_BATCH:
            continue
        items = decode_items(record.body)
        assert encode_items(items) == record.body
        properties = parse_properties(record.properties, "scan") or {}
        assert len(items) == int(properties[INNER_NUM])
        batches += 1
    assert batches > 30


@pytest.mark.parametrize("name", [name for name in STORE_NAMES if "propedge" not in name])
def test_properties_stand_in_the_order_of_a_hash_map(name: str, store_dir: Directory) -> None:
    """Not required of a store, but what a writer must do to write the same bytes as a broker.

    Brokers were given the property strings of the stores that are left out.
    """
    for _, _, record in walk(store_dir(name)):
        names = [pair[0] for pair in property_pairs(record.properties, "scan")]
        names = [each for each in names if each != CRC32]  # appended behind the map
        # These brokers were given messages whose maps had grown from Java's default of 16 buckets.
        assert java_hash_map_order(names, 16) == names


def test_trailing_separator_is_as_the_dialect_says(store_dir: Directory, manifest: Document) -> None:
    for name in STORE_NAMES:
        if not name.endswith("-basic"):
            continue
        expected = _dialect(manifest(name)).trailing_separator
        ends = {
            record.properties.endswith(b"\x02") for _, _, record in walk(store_dir(name)) if record.properties
        }
        assert ends == {expected}, name
