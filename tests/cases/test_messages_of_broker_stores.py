"""Every message that went into a broker's store is found with every field equal, and no other one is.

The manifests hold what was handed to the broker and what the broker's own code read back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.api import iter_messages
from rocketfsck.formats.messageid import OffsetMessageId, encode_offset_id
from rocketfsck.formats.record import decode_record
from rocketfsck.scan.views.messages import Message
from rocketfsck.store import open_store

from tests.conftest import RESTART_NAMES, STORE_NAMES, Directory, Document

ADDED_BY_BROKER = {"REAL_TOPIC", "REAL_QID", "CLUSTER", "INNER_MULTI_QUEUE_OFFSET", "INNER_BASE", "__CRC32#"}
IPV6_BITS = 0x30


def _live(directory: Path) -> dict[int, Message]:
    return {
        message.physical_offset: message for message in iter_messages(open_store(directory), live_only=True)
    }


def _walk(document: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {row["o"]: row for row in document["walk"]}


def _expected_walk(name: str, manifest: Document, oracle: Document) -> dict[int, dict[str, Any]]:
    last = manifest(name)["phases"][-1]
    if "live" in last:
        return _walk(last["live"])
    # killed at once: what a real restart finds is what was there
    return _walk(oracle(f"{name}--as-is")["afterStart"])


@pytest.mark.parametrize("name", STORE_NAMES)
def test_what_is_live_is_what_the_broker_reads(
    name: str, store_dir: Directory, manifest: Document, oracle: Document
) -> None:
    found = _live(store_dir(name))
    expected = _expected_walk(name, manifest, oracle)
    assert sorted(found) == sorted(expected)
    for offset, row in expected.items():
        message = found[offset]
        assert (
            message.total_size,
            message.topic,
            message.queue_id,
            message.queue_offset,
            message.store_timestamp,
            message.sys_flag,
            message.prepared_transaction_offset,
        ) == (row["s"], row["t"], row["q"], row["n"], row["ts"], row["f"], row.get("p", 0))
        assert (message.properties or {}).get("KEYS", "") == (row.get("k") or "")
        assert message.unique_key == row.get("u")


@pytest.mark.parametrize("name", STORE_NAMES)
def test_every_message_sent_is_found_with_every_field(
    name: str, store_dir: Directory, manifest: Document, oracle: Document
) -> None:
    found = _live(store_dir(name))
    expected = _expected_walk(name, manifest, oracle)
    level_count = len(manifest(name)["geometry"]["messageDelayLevel"].split())
    rows = 0
    for sent in _sent(manifest(name)):
        if (
            sent["physicalOffset"] not in expected
            or sent["storeTimestamp"] != expected[sent["physicalOffset"]]["ts"]
        ):
            continue  # expired, lost in the crash, or cut away by a later restart
        rows += 1
        _same(found[sent["physicalOffset"]], sent, level_count)
    assert rows > 0


def _sent(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The messages as single records: a legacy batch is unpacked by the broker."""
    for phase in document["phases"]:
        for message in phase["messages"]:
            if message.get("kind") != "legacyBatch":
                yield message
                continue
            ids = message["offsetMsgId"].split(",")
            for number, (inner, offset_id) in enumerate(zip(message["inner"], ids, strict=True)):
                yield {
                    **{key: message[key] for key in ("topic", "queueId", "storeTimestamp", "status")},
                    **inner,
                    "offsetMsgId": offset_id,
                    "physicalOffset": int(offset_id[-16:], 16),
                    "queueOffset": message["queueOffset"] + number,
                }


def _same(message: Message, sent: dict[str, Any], level_count: int) -> None:
    properties = message.properties or {}
    delayed = message.topic == "SCHEDULE_TOPIC_XXXX" and sent["topic"] != message.topic
    assert (properties["REAL_TOPIC"] if delayed else message.topic) == sent["topic"]
    assert (int(properties["REAL_QID"]) if delayed else message.queue_id) == sent["queueId"]
    assert message.body is not None
    assert hashlib.sha256(message.body).hexdigest() == sent["bodySha256"]
    plain = {
        "queueOffset": message.queue_offset,
        "storeTimestamp": message.store_timestamp,
        "bodyLen": message.body_size,
        "flag": message.flag,
        "bornTimestamp": message.born_timestamp,
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_transaction_offset,
        "size": message.total_size,
    }
    assert {key: value for key, value in plain.items() if key in sent} == {
        key: sent[key] for key in plain if key in sent
    }
    if "sysFlag" in sent:
        assert message.sys_flag & ~IPV6_BITS == sent["sysFlag"] & ~IPV6_BITS
        assert _host(message.born_host) == _host(sent["bornHost"])
        assert _host(message.store_host) == _host(sent["storeHost"])
    if "sentPropertiesString" in sent:
        assert sent["sentPropertiesString"].encode() in (
            message.properties_bytes,
            message.properties_bytes[:-1],
        )
    else:
        named = {"KEYS": sent.get("keys"), "TAGS": sent.get("tags"), "UNIQ_KEY": sent.get("uniqKey")}
        wanted = {key: value for key, value in named.items() if value is not None} | sent.get(
            "properties", {}
        )
        if delayed and int(wanted["DELAY"]) > level_count:
            wanted["DELAY"] = str(level_count)  # brokers clamp it
        # no parser gives a name without a value back
        assert {key: properties.get(key, "") for key in wanted} == wanted
        if "sysFlag" in sent:  # the manifest does not list all properties of a batch's items
            assert set(properties) - set(wanted) <= ADDED_BY_BROKER | {"WAIT"}


def _host(text: str) -> tuple[bytes, int]:
    from ipaddress import ip_address

    address, _, port = text.rpartition(":")
    return ip_address(address.strip("[]/").split("%")[0]).packed, int(port)


@pytest.mark.parametrize("name", STORE_NAMES)
def test_offset_message_ids_are_those_the_broker_gave(
    name: str, store_dir: Directory, manifest: Document
) -> None:
    found = _live(store_dir(name))
    checked = 0
    for sent in _sent(manifest(name)):
        message = found.get(sent["physicalOffset"])
        if message is None or message.store_timestamp != sent["storeTimestamp"]:
            continue
        with open(message.path, "rb") as file:  # noqa: PTH123 - the path may hold any bytes
            file.seek(message.pos)
            record = decode_record(file.read(message.total_size))
        host = record.store_host
        given = OffsetMessageId(host.address, host.port, record.physical_offset)
        assert encode_offset_id(given) == sent["offsetMsgId"]
        checked += 1
    assert checked > 0


@pytest.mark.parametrize("name", RESTART_NAMES)
def test_what_is_live_in_a_damaged_store_holds_all_that_a_restart_keeps(
    name: str, restart_dir: Directory, oracle: Document
) -> None:
    """A broker may keep less than is there, since it cuts at damage, but never more."""
    found = set(_live(restart_dir(name)))
    after = oracle(name)["afterStart"]
    kept = {row["o"] for row in after["walk"]} if after else set()
    assert kept <= found
