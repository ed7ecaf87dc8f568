"""What is written is what is read: records by construct and by the scan, units, index entries, checkpoint.

The readers here know the files only: the consume queues are followed by their names, the index by the query
of reference 4.7.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, given, settings

from rocketfsck.formats.consumequeue import (
    BATCH_UNIT,
    PRE_BLANK_UNIT,
    UNIT,
    decode_ext_unit,
    ext_offset,
    is_ext_address,
)
from rocketfsck.formats.indexfile import (
    ENTRY,
    INDEX_HEADER_SIZE,
    IndexHeader,
    decode_header,
    entry_pos,
    slot_of,
    slot_pos,
)
from rocketfsck.formats.javatext import TAG_KEY_PREFIX, index_hash
from rocketfsck.formats.magic import is_in_consume_queue, is_indexed
from rocketfsck.formats.properties import parse_properties, split_keys, tags_code
from rocketfsck.formats.record import decode_record, encode_record
from rocketfsck.formats.timer import deliver_timestamp
from rocketfsck.scan.log.resync import Region, RegionKind
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.views.messages import Message, walk_messages
from rocketfsck.store.reading import FileReader
from rocketfsck.writer import (
    EndState,
    Event,
    Expiry,
    Kind,
    OutgoingMessage,
    PutRecord,
    Restart,
    WriteOptions,
    WrittenStore,
    write_store,
)

from tests.property.writer_strategies import stores

_SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=30)
_SOUND = {RegionKind.RECORDS, RegionKind.BLANK, RegionKind.FILLER, RegionKind.ZERO}


@contextmanager
def _written(options: WriteOptions, events: list[Event]) -> Iterator[tuple[WrittenStore, list[PutRecord]]]:
    folder = Path(tempfile.mkdtemp())
    try:
        put: list[PutRecord] = []
        yield write_store(folder / "store", events, options, on_put=put.append), put
    finally:
        shutil.rmtree(folder)


def _scan(written: WrittenStore, options: WriteOptions) -> list[Message | Region]:
    found: list[Message | Region] = []
    for path in sorted((written.path / "commitlog").iterdir()):
        with FileReader(path) as reader:
            scan = ScanOptions(True, options.dialect.property_parser, written.geometry.commitlog_file_size)
            found += walk_messages(reader, int(path.name), scan)
    return found


@given(stores())
@_SETTINGS
def test_scan_reads_what_was_put(store: tuple[WriteOptions, list[Event]]) -> None:
    options, events = store
    with _written(options, events) as (written, put):
        found = _scan(written, options)
        assert {item.kind for item in found if isinstance(item, Region)} <= _SOUND
        messages = [item for item in found if isinstance(item, Message)]
        kept = [item for item in put if item.physical_offset >= written.min_offset]
        assert len(messages) == len(kept)
        for message, item in zip(messages, kept, strict=True):
            record = item.record
            assert not message.faults
            assert message.physical_offset == record.physical_offset
            assert message.topic_bytes == record.topic
            assert (message.queue_id, message.queue_offset) == (record.queue_id, record.queue_offset)
            assert (message.body, message.properties_bytes) == (record.body, record.properties)
            assert (message.born_host, message.store_host) == (record.born_host.text, record.store_host.text)
            assert (message.flag, message.sys_flag) == (record.flag, record.sys_flag)
            times = (message.born_timestamp, message.store_timestamp, message.reconsume_times)
            assert times == (record.born_timestamp, record.store_timestamp, record.reconsume_times)


@given(stores(events=False))
@_SETTINGS
def test_records_decode_and_encode_to_themselves(store: tuple[WriteOptions, list[Event]]) -> None:
    options, events = store
    with _written(options, events) as (written, put):
        size = written.geometry.commitlog_file_size
        for item in put:
            start = item.physical_offset // size * size
            data = (written.path / "commitlog" / f"{start:020d}").read_bytes()
            assert decode_record(data, item.physical_offset - start) == item.record
            assert (
                encode_record(item.record) == data[item.physical_offset - start :][: item.record.total_size]
            )
            assert item.physical_offset - start + item.record.total_size + 8 <= size


@given(stores(events=False))
@_SETTINGS
def test_what_was_given_stands_in_the_records(store: tuple[WriteOptions, list[Event]]) -> None:
    options, events = store
    with _written(options, events) as (_, put):
        by_number: dict[int, list[PutRecord]] = {}
        for item in put:
            by_number.setdefault(item.number, []).append(item)
        assert list(by_number) == list(range(len(events)))
        for message, records in zip(events, by_number.values(), strict=True):
            assert isinstance(message, OutgoingMessage)
            if message.kind is Kind.LEGACY_BATCH:
                assert [(item.record.body, item.record.flag) for item in records] == [
                    (item.body, item.flag) for item in message.items
                ]
                offsets = [item.queue_offset for item in records]
                assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
                continue
            [item] = records
            record = item.record
            properties = parse_properties(record.properties, options.dialect.property_parser) or {}
            if record.topic.decode() != message.topic:
                assert properties["REAL_TOPIC"] == message.topic
                assert properties["REAL_QID"] == str(message.queue_id)
            else:
                assert record.queue_id == message.queue_id
            if message.kind is Kind.INNER_BATCH:
                assert (properties["INNER_NUM"], properties["INNER_BASE"]) == (
                    str(len(message.items)),
                    str(record.queue_offset),
                )
            else:
                assert record.body == message.body
            assert ("__CRC32#" in properties) == options.append_property_crc


def _units(written: WrittenStore, topic: str, queue_id: int) -> dict[int, dict[str, int]]:
    """The units of a plain queue by queue offset, pre-blank ones left out."""
    found = {}
    for path in (written.path / "consumequeue" / topic / str(queue_id)).iterdir():
        data = path.read_bytes()
        assert len(data) == written.geometry.consumequeue_file_size
        for pos in range(0, len(data), 20):
            if data[pos : pos + 20] not in (bytes(20), PRE_BLANK_UNIT):
                found[(int(path.name) + pos) // 20] = UNIT.parse(data, pos)
    return found


def _real_tags_code(written: WrittenStore, queue: tuple[str, int], unit: dict[str, int]) -> int:
    code = unit["tagsCode"]
    if not is_ext_address(code):
        return code
    offset, size = ext_offset(code), written.geometry.ext_file_size
    folder = written.path / "consumequeue_ext" / queue[0] / str(queue[1])
    data = (folder / f"{offset // size * size:020d}").read_bytes()
    ext = decode_ext_unit(data, offset % size)
    assert ext is not None
    return ext.tags_code


@given(stores(events=False))
@_SETTINGS
def test_units_point_at_the_records_put(store: tuple[WriteOptions, list[Event]]) -> None:
    options, events = store
    with _written(options, events) as (written, put):
        plain: dict[tuple[str, int], dict[int, tuple[int, int, int]]] = {}
        batch: dict[tuple[str, int], list[tuple[int, ...]]] = {}
        for item in put:
            record = item.record
            if not is_in_consume_queue(record.sys_flag):
                assert not item.in_queue
                continue
            topic = record.topic.decode()
            properties = parse_properties(record.properties, options.dialect.property_parser) or {}
            code = tags_code(properties.get("TAGS"))
            if topic == "SCHEDULE_TOPIC_XXXX":
                code = deliver_timestamp(int(properties["DELAY"]), record.store_timestamp)
            place = (record.physical_offset, record.total_size, code)
            if topic in options.batch_topics:
                row = (*place, record.store_timestamp, record.queue_offset, item.message_count, -1, 0)
                batch.setdefault((topic, record.queue_id), []).append(row)
            else:
                plain.setdefault((topic, record.queue_id), {})[record.queue_offset] = place
            for extra in item.extra_units:
                plain.setdefault((extra.topic, extra.queue_id), {})[extra.queue_offset] = place
        queues = {(queue.topic, queue.queue_id): queue for queue in written.queues}
        for key, expected in plain.items():
            units = _units(written, *key)
            seen = {
                index: (unit["offset"], unit["size"], _real_tags_code(written, key, unit))
                for index, unit in units.items()
            }
            assert seen == expected
            assert queues[key].next_offset == max(expected) + 1
        for key, rows in batch.items():
            folder = written.path / "batchconsumequeue" / key[0] / str(key[1])
            data = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
            parsed = [tuple(BATCH_UNIT.parse(data, pos).values()) for pos in range(0, len(data), 46)]
            assert parsed[: len(rows)] == rows
            assert not any(data[46 * len(rows) :])


def _index_files(written: WrittenStore) -> list[tuple[IndexHeader, bytes]]:
    paths = sorted((written.path / "index").iterdir()) if (written.path / "index").exists() else []
    found = [(decode_header(data), data) for data in (path.read_bytes() for path in paths)]
    assert [(path.name, header) for path, (header, _) in zip(paths, found, strict=True)] == list(
        written.index_files
    )
    return found


def _select(data: bytes, key_hash: int, slot_count: int) -> list[int]:
    """Offsets of all entries of a hash, newest first: reference 4.7 without times and limits."""
    header = decode_header(data)
    pos = slot_pos(slot_of(key_hash, slot_count))
    number = int.from_bytes(data[pos : pos + 4], "big")
    found = []
    while number:
        assert 0 < number < header.index_count
        entry = ENTRY.parse(data, entry_pos(number, slot_count))
        if entry["keyHash"] == key_hash:
            found.append(entry["phyOffset"])
        assert entry["prevIndex"] < number
        assert entry["timeDiff"] >= 0
        number = entry["prevIndex"]
    return found


@given(stores(events=False))
@_SETTINGS
def test_every_key_is_found(store: tuple[WriteOptions, list[Event]]) -> None:
    options, events = store
    with _written(options, events) as (written, put):
        files = _index_files(written)
        expected: dict[int, list[int]] = {}
        for item in put:
            if not is_indexed(item.record.sys_flag):
                continue
            properties = parse_properties(item.record.properties, options.dialect.property_parser) or {}
            unique = [properties["UNIQ_KEY"]] if "UNIQ_KEY" in properties else []
            tags = properties.get("TAGS") if options.dialect.tag_entries else None
            tag_keys = [f"{TAG_KEY_PREFIX}{tags}"] if tags else []
            for key in unique + split_keys(properties.get("KEYS", "")) + tag_keys:
                key_hash = index_hash(item.record.topic.decode(), key)
                expected.setdefault(key_hash, []).append(item.physical_offset)
        if not options.message_index:
            assert not files
            return
        assert bool(files) == bool(put)
        slots = written.geometry.slot_count
        for key_hash, offsets in expected.items():
            found = [offset for _, data in files for offset in reversed(_select(data, key_hash, slots))]
            assert found == offsets
        counts = [header.entry_count for header, _ in files]
        assert sum(counts) == sum(map(len, expected.values()))
        assert all(count == written.geometry.entry_count - 1 for count in counts[:-1])
        for header, data in files:
            used = sum(any(data[pos : pos + 4]) for pos in range(INDEX_HEADER_SIZE, slot_pos(slots), 4))
            wants = header.entry_count if options.dialect.counts_entries_in_hash_slot_count else used
            assert header.hash_slot_count == wants


@given(stores())
@_SETTINGS
def test_end_state_and_side_files(store: tuple[WriteOptions, list[Event]]) -> None:
    options, events = store
    with _written(options, events) as (written, put):
        dialect, names = options.dialect, {name for name, _ in written.files}
        killed = options.end_state is EndState.KILLED
        assert ("abort" in names) == killed
        assert ("abort.bak" in names) == dialect.abort_has_pid
        assert ("lock" in names) == dialect.lock_file
        assert dict(written.files)["checkpoint"] == 4096
        log = [name for name in names if name.startswith("commitlog/")]
        if put:
            last = (written.max_offset - 1) // written.geometry.commitlog_file_size
            first = written.min_offset // written.geometry.commitlog_file_size
            assert len(log) == last - first + 1 + killed
        if put and not killed and not any(isinstance(item, Restart) for item in events):
            assert written.checkpoint.confirm_physical_offset == 0
            times = [item.record.store_timestamp for item in put if item.in_queue]
            # From 5.5 on the field moves at a thorough flush only, of which a short run sees none.
            possible = {0, *times} if dialect.logics_timestamp_at_flush else {times[-1] if times else 0}
            assert written.checkpoint.logics_msg_timestamp in possible
        if not put:
            assert (written.min_offset, written.max_offset) == (options.start_offset,) * 2
        leftovers = [item.name for item in written.path.parent.iterdir()]
        assert leftovers == ["store"]


@given(stores(events=False, max_size=16))
@_SETTINGS
def test_appending_is_a_restart(store: tuple[WriteOptions, list[Event]]) -> None:
    """Written at once with an orderly restart in it, or in two runs: the same bytes."""
    options, events = store
    folder = Path(tempfile.mkdtemp())
    try:
        clean = WriteOptions(
            **{name: getattr(options, name) for name in options.__slots__}
            | {"end_state": EndState.CLEAN, "topics_file": False}
        )
        half = len(events) // 2
        whole = write_store(folder / "whole", [*events[:half], Restart(), *events[half:]], clean)
        write_store(folder / "parts", events[:half], clean)
        parts = write_store(folder / "parts", events[half:], clean, append=True)
        if half:
            assert parts.files == whole.files
            for name, _ in whole.files:
                assert (parts.path / name).read_bytes() == (whole.path / name).read_bytes(), name
            assert (parts.min_offset, parts.max_offset) == (whole.min_offset, whole.max_offset)
    finally:
        shutil.rmtree(folder)


@given(stores(max_size=24))
@_SETTINGS
def test_same_input_same_bytes(store: tuple[WriteOptions, list[Event]]) -> None:
    options, events = store
    with _written(options, events) as (first, _), _written(options, events) as (second, _):
        assert first.files == second.files
        assert all(
            (first.path / name).read_bytes() == (second.path / name).read_bytes() for name, _ in first.files
        )


@given(stores(max_size=24))
@_SETTINGS
def test_expiry_keeps_what_the_log_has(store: tuple[WriteOptions, list[Event]]) -> None:
    options, events = store
    with _written(options, [*events, Expiry(2, whole_queues=True)]) as (written, _):
        for queue in written.queues:
            if queue.first_start is not None and not queue.is_batch:
                units = _units(written, queue.topic, queue.queue_id)
                end = max(unit["offset"] + unit["size"] for unit in units.values())
                assert queue.topic == "SCHEDULE_TOPIC_XXXX" or end >= written.min_offset
