"""What a store must give, held against what the real code gave; and what a check says afterwards."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from rocketfsck.formats.dialect import Dialect
from rocketfsck.formats.javatext import index_hash
from rocketfsck.formats.magic import is_indexed
from rocketfsck.formats.properties import KEYS, TAGS, UNIQ_KEY, parse_properties, split_keys
from rocketfsck.formats.record import Record, encode_record
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, Severity, check_store, describe
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.writer import PutRecord

from tests.oracle.broker import Key, Put, PutAnswer, QueueName, Served, State

MAX_FOUND = 64
"""A broker gives no more for a key (maxMsgsNumBatch)."""

AFTER_KILL = {"CP001", "CP003"}
"""What is above info in a store whose broker was killed and that is all right."""

Place = tuple[QueueName, int]
"""A queue and an offset in it."""

Row = tuple[int, int, int, str]
"""Queue offset, physical offset, size in bytes, SHA-256 of the record."""


def problems(store: Path, version: str, delay_levels: str | None = None) -> dict[str, list[str]]:
    """Findings above info of the deepest check, in words, by rule."""
    report = check_store(
        open_store(store, version=version, delay_levels=delay_levels), CheckOptions(level="full", jobs=1)
    )
    assert not any(item.operational for item in report.not_checked), report.not_checked
    found: dict[str, list[str]] = {
        rule: [] for rule, count in report.counts.items() if count and RULES[rule].severity > Severity.INFO
    }
    for finding in report.findings:
        if finding.rule in found:
            found[finding.rule].append(f"{finding.where.file}: {describe(finding)}")
    return found


def rows_of(records: Iterable[PutRecord], min_offset: int) -> dict[QueueName, list[Row]]:
    """What every queue must serve of records at or behind `min_offset`, in the order of queue offsets."""
    rows: dict[QueueName, list[Row]] = defaultdict(list)
    for put in records:
        record = put.record
        if record.physical_offset < min_offset:
            continue
        sha256 = hashlib.sha256(encode_record(record)).hexdigest()
        units = [(unit.topic, unit.queue_id, unit.queue_offset) for unit in put.extra_units]
        if put.in_queue:
            units.append((record.topic.decode(), record.queue_id, record.queue_offset))
        for topic, queue_id, queue_offset in units:
            rows[topic, queue_id].append((queue_offset, record.physical_offset, record.total_size, sha256))
    return {queue: sorted(found) for queue, found in rows.items()}


def rows_served(state: State) -> dict[QueueName, list[Row]]:
    """What every queue that serves anything served."""
    rows = {
        name: [
            (m.queue_offset, m.physical_offset, m.size, m.record_sha256)
            for m in queue.messages
            if m.status == "FOUND"
        ]
        for name, queue in state.queues.items()
    }
    return {name: found for name, found in rows.items() if found}


def decoded_otherwise(state: State, records: Iterable[Record], dialect: Dialect) -> list[str]:
    """Messages that the real decoder read otherwise than our own; not one is to be expected."""
    ours = {record.physical_offset: record for record in records}
    wrong: list[str] = []
    for name, queue in state.queues.items():
        for message in queue.messages:
            if message.physical_offset not in ours:
                continue
            expected = _fields(ours[message.physical_offset], dialect)
            found = {field: (message.fields or {}).get(field) for field in expected}
            if found != expected:
                wrong.append(f"{name} {message.queue_offset}: {found} is not {expected}")
    return wrong


def _fields(record: Record, dialect: Dialect) -> dict[str, object]:
    return {
        "topic": record.topic.decode(),
        "queueId": record.queue_id,
        "recordQueueOffset": record.queue_offset,
        "recordPhysicalOffset": record.physical_offset,
        "bodySha256": hashlib.sha256(record.body).hexdigest(),
        "bodyCRC": record.body_crc & 0xFFFFFFFF,
        "sysFlag": record.sys_flag,
        "flag": record.flag,
        "bornTimestamp": record.born_timestamp,
        "storeTimestamp": record.store_timestamp,
        "reconsumeTimes": record.reconsume_times,
        "preparedTransactionOffset": record.prepared_transaction_offset,
        "properties": parse_properties(record.properties, dialect.property_parser) or None,
    }


def keys_of(records: Iterable[Record], dialect: Dialect) -> dict[Key, set[int]]:
    """Physical offsets of the records that a broker indexes, by topic and key.

    The key of tags (5.4.0+) is `T#` and the tags: a query by tag asks for topic#T#tags.
    """
    offsets: dict[Key, set[int]] = defaultdict(set)
    for record in records:
        if not is_indexed(record.sys_flag):
            continue
        properties = parse_properties(record.properties, dialect.property_parser) or {}
        keys = split_keys(properties.get(KEYS, ""))
        if UNIQ_KEY in properties:
            keys.append(properties[UNIQ_KEY])
        if dialect.tag_entries and properties.get(TAGS):
            keys.append(f"T#{properties[TAGS]}")
        for key in keys:
            offsets[record.topic.decode(), key].add(record.physical_offset)
    return offsets


def keys_unanswered(state: State, expected: Mapping[Key, set[int]]) -> list[str]:
    """Keys for which the store gave other records than it must; equal hashes answer for each other.

    Entries of records that expired are in the index still: other records have the same tags.
    """
    by_hash: dict[int, set[int]] = defaultdict(set)
    for (topic, key), offsets in expected.items():
        by_hash[index_hash(topic, key)] |= offsets
    wrong: list[str] = []
    for (topic, key), answer in state.keys.items():
        wanted = by_hash[index_hash(topic, key)]
        if len(wanted) > MAX_FOUND // 2:
            continue  # duplicates after a restart count, too: too many to be all given
        for how, found in (("indexed", answer.indexed), ("served", answer.served)):
            if {offset for offset in found if offset >= state.min_offset} != wanted:
                wrong.append(f"{topic} {key!r} {how}: {sorted(found)} is not {sorted(wanted)}")
    return wrong


def unserved(state: State, expired: Collection[Place] = ()) -> list[tuple[QueueName, Served]]:
    """Queue offsets for which the store had nothing, or nothing that its own decoder takes.

    Of `expired` messages it may say that they are being removed (before 5.x a queue of which nothing is left
    keeps its least offset).
    """
    return [
        (name, message)
        for name, queue in state.queues.items()
        for message in queue.messages
        if not (message.status == "FOUND" and message.fields is not None)
        and not (message.status == "MESSAGE_WAS_REMOVING" and (name, message.queue_offset) in expired)
    ]


def puts_not_served(state: State, puts: Sequence[Put], answers: Sequence[PutAnswer]) -> list[str]:
    """Messages put without a batch that their queue does not serve where the store said that it put them."""
    wrong: list[str] = []
    for put, answer in zip(puts, answers, strict=True):
        if answer.status != "PUT_OK":
            wrong.append(f"{put.topic}: {answer.status}")
            continue
        if put.items or put.topic.startswith("RMQ_SYS_"):
            continue
        sha256 = hashlib.sha256(put.body).hexdigest()
        queue = state.queues[put.topic, put.queue_id]
        found = Counter(
            (m.queue_offset, m.physical_offset, (m.fields or {}).get("bodySha256")) for m in queue.messages
        )
        if found[answer.queue_offset, answer.physical_offset, sha256] != 1:
            wrong.append(f"{put.topic}-{put.queue_id}: nothing like {answer} is served")
    return wrong
