"""What went into a broker-written store, as the writer's input: from its manifest and nothing else where that
says it, from the stored record where it does not (bodies, which are held to the manifest's SHA-256; the
batch items; the order of properties that share a bucket).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from rocketfsck.formats.consumequeue import UNIT, UNIT_SIZE, ExtUnit, decode_ext_unit, ext_offset
from rocketfsck.formats.magic import MAGIC_V1, MAGIC_V2
from rocketfsck.formats.properties import PROPERTY_CRC_SIZE, property_pairs
from rocketfsck.formats.record import Host, InnerItem, Record, decode_items, decode_record
from rocketfsck.formats.timer import parse_delay_levels
from rocketfsck.store.circumstances import Geometry
from rocketfsck.writer import EndState, Kind, OutgoingMessage, WriteOptions

INNER_BITS = 0xC0
IPV6_BITS = 0x30
MAP_CAPACITY = 16
"""The programs that filled the stores made their property maps anew, not from a client's request."""


@dataclass(frozen=True)
class BrokerStore:
    """A broker-written store and its manifest."""

    root: Path
    manifest: dict[str, Any]

    @property
    def version(self) -> str:
        return str(self.manifest["finalVersion"]).split()[0]

    @property
    def config(self) -> dict[str, Any]:
        config: dict[str, Any] = self.manifest["phases"][0]["config"]
        return config

    @property
    def index_names(self) -> tuple[str, ...]:
        listed = (Path(item["path"]) for item in self.manifest["files"])
        return tuple(sorted(path.name for path in listed if path.parts[0] == "index"))

    def options(self, **changed: Any) -> WriteOptions:
        """The options that the manifest states."""
        sizes = self.manifest["geometry"]
        defaults = Geometry()
        geometry = Geometry(
            commitlog_file_size=sizes["mappedFileSizeCommitLog"],
            consumequeue_file_size=sizes["mappedFileSizeConsumeQueue"],
            batch_file_size=sizes.get("mapperFileSizeBatchConsumeQueue", defaults.batch_file_size),
            ext_file_size=sizes.get("mappedFileSizeConsumeQueueExt", defaults.ext_file_size),
            slot_count=sizes["maxHashSlotNum"],
            entry_count=sizes["maxIndexNum"],
        )
        settings: dict[str, Any] = {
            "version": self.version,
            "geometry": geometry,
            "end_state": EndState.KILLED if self.manifest["abortPresent"] else EndState.CLEAN,
            "index_names": self.index_names,
            "batch_topics": frozenset(sizes.get("batchCqTopics", ())),
            "consumequeue_ext": bool(self.config.get("enableConsumeQueueExt")),
            "multi_dispatch": bool(self.config.get("enableMultiDispatch")),
            "append_property_crc": bool(self.config.get("enabledAppendPropCRC")),
            "sync_flush": self.config["flushDiskType"] == "SYNC_FLUSH",
            "delay_levels": parse_delay_levels(sizes["messageDelayLevel"]),
            "property_map_capacity": MAP_CAPACITY,
            "topics_file": False,
            "sync": False,
        }
        return WriteOptions(**{**settings, **changed})

    def record_at(self, offset: int) -> Record | None:
        """The record that stands at a physical offset now, None if none (any more)."""
        size = self.manifest["geometry"]["mappedFileSizeCommitLog"]
        start = offset // size * size
        path = self.root / "commitlog" / f"{start:020d}"
        if not path.exists():
            return None
        data = path.read_bytes()
        if int.from_bytes(data[offset - start + 4 : offset - start + 8], "big", signed=True) not in (
            MAGIC_V1,
            MAGIC_V2,
        ):
            return None
        record = decode_record(data, offset - start)
        return record if record.physical_offset == offset else None

    def messages(self, phase: int, *, end: int | None = None) -> Iterator[OutgoingMessage]:
        """The messages of one process, in the order of the log, those that its delay service delivered
        among them; `end` is the offset where the log ends, behind which acknowledged messages were lost."""
        bit_maps = _bit_maps(self)
        expected: int | None = None
        for row in self.manifest["phases"][phase]["messages"]:
            if end is not None and row["physicalOffset"] >= end:
                return
            if expected is not None:
                yield from self._between(expected, row["physicalOffset"])
            expected = row["physicalOffset"] + row["size"]
            yield self.message(row, bit_maps)
        if expected is not None and phase == len(self.manifest["phases"]) - 1:
            yield from self._between(expected, end)

    def _between(self, offset: int, end: int | None) -> Iterator[OutgoingMessage]:
        """Records that no client sent: delayed messages, delivered as their records say."""
        while (end is None or offset < end) and (record := self.record_at(offset)) is not None:
            yield OutgoingMessage(
                record.topic.decode(),
                record.body,
                record.store_timestamp,
                queue_id=record.queue_id,
                properties=record.properties,
                kind=Kind.DELIVERED,
                flag=record.flag,
                sys_flag=record.sys_flag & ~IPV6_BITS,
                born_timestamp=record.born_timestamp,
                born_host=record.born_host,
                store_host=record.store_host,
                reconsume_times=record.reconsume_times,
                prepared_transaction_offset=record.prepared_transaction_offset,
            )
            offset += record.total_size

    def message(self, row: dict[str, Any], bit_maps: dict[int, bytes]) -> OutgoingMessage:
        """One row of the manifest."""
        offset: int = row["physicalOffset"]
        if row.get("kind") == "legacyBatch":
            return self._legacy_batch(row)
        record = self.record_at(offset)
        body = bytes(row["bodyLen"])
        if record is not None and record.body_length == row["bodyLen"]:
            digest = hashlib.sha256(record.body).hexdigest()
            if digest == row["bodySha256"]:
                body = record.body
        sys_flag: int = row["sysFlag"]
        properties = _properties(row, record)
        inner = bool(sys_flag & INNER_BITS)
        if inner:
            del properties["INNER_NUM"]
        raw = row.get("sentPropertiesString")
        return OutgoingMessage(
            row["topic"],
            b"" if inner else body,
            row["storeTimestamp"],
            queue_id=row["queueId"],
            properties=properties if raw is None else raw.encode(),
            kind=Kind.INNER_BATCH if inner else Kind.NORMAL,
            flag=row["flag"],
            sys_flag=sys_flag & ~INNER_BITS,
            born_timestamp=row["bornTimestamp"],
            born_host=host(row["bornHost"]),
            store_host=host(row["storeHost"]),
            reconsume_times=row.get("reconsumeTimes", 0),
            prepared_transaction_offset=row.get("preparedTransactionOffset", 0),
            items=tuple(decode_items(body)) if inner else (),
            filter_bit_map=bit_maps.get(offset, b""),
        )

    def _legacy_batch(self, row: dict[str, Any]) -> OutgoingMessage:
        """A batch: hosts, born time, bodies and property strings are in its records only."""
        offset = row["physicalOffset"]
        items, first = [], None
        trailer = PROPERTY_CRC_SIZE if self.config.get("enabledAppendPropCRC") else 0
        for inner in row["inner"]:
            record = self.record_at(offset)
            assert record is not None
            assert hashlib.sha256(record.body).hexdigest() == inner["bodySha256"]
            properties = record.properties[: len(record.properties) - trailer]
            pairs = dict(property_pairs(properties, "scan"))
            assert (pairs["KEYS"], pairs["TAGS"]) == (inner["keys"], inner["tags"])
            items.append(InnerItem(record.body, properties, flag=record.flag))
            first = first or record
            offset += record.total_size
        assert first is not None
        assert offset == row["physicalOffset"] + row["size"]
        # 4.4.0 takes the time before the append lock, and not from the clock that gave the others.
        assert first.store_timestamp == row["storeTimestamp"] or self.version == "4.4.0"
        return OutgoingMessage(
            row["topic"],
            store_timestamp=first.store_timestamp,
            queue_id=row["queueId"],
            kind=Kind.LEGACY_BATCH,
            born_timestamp=first.born_timestamp,
            born_host=first.born_host,
            store_host=first.store_host,
            items=tuple(items),
        )


def host(text: str) -> Host:
    """`address:port`, an IPv6 address in brackets or not."""
    address, _, port = text.rpartition(":")
    return Host(ip_address(address.strip("[]")).packed, int(port))


def _properties(row: dict[str, Any], record: Record | None) -> dict[str, str | None]:
    """The properties that were sent, inserted in the order of the record's where it is there: that matters
    only for names in one bucket."""
    named = {"KEYS": row.get("keys"), "UNIQ_KEY": row.get("uniqKey"), "TAGS": row.get("tags")}
    given: dict[str, str | None] = {name: value for name, value in named.items() if value is not None}
    given.update(row.get("properties", {}))
    if record is None:
        return given
    order = [name for name, _ in property_pairs(record.properties, "scan") if name in given]
    return {name: given[name] for name in dict.fromkeys([*order, *given])}


def _bit_maps(store: BrokerStore) -> dict[int, bytes]:
    """The bitmaps in consumequeue_ext by physical offset: made at random, not in the manifest."""
    found: dict[int, bytes] = {}
    if not (store.root / "consumequeue_ext").exists():
        return found
    for path in (store.root / "consumequeue").glob("*/*/*"):
        folder = store.root / "consumequeue_ext" / path.parent.relative_to(store.root / "consumequeue")
        ext = (folder / f"{0:020d}").read_bytes()
        data = path.read_bytes()
        for pos in range(0, len(data), UNIT_SIZE):
            unit = UNIT.parse(data, pos)
            if unit["size"]:
                ext_unit = decode_ext_unit(ext, ext_offset(unit["tagsCode"]))
                assert isinstance(ext_unit, ExtUnit)
                found[unit["offset"]] = ext_unit.filter_bit_map
    return found
