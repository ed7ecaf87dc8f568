"""Which broker versions may have written a store, and which dialect to read it with. Reference 0.2 to 0.4.

No file names its version. The versions that fit are those whose traits agree with every clue,
taken in the order of their weight; a clue that would leave no version is set aside
and said to conflict: several versions wrote the store, or it is damaged. Of those left, the newest release
stands for all. A version that the user names is used as it is.

What the bytes of a store show about the version that wrote them: one clue a fact. Reference 0.4.

A clue names a trait of `formats.versions` and the value that something in the store shows: which versions
have it follows from the table, and so does what the clue says of them. The weight of a clue says how sure it
is: what the newest data shows comes before what may be left over from an older or newer broker, and that
before what is only missing.

Clues to the dialect in what files and directories a store has. Reference 1.1 and 1.6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rocketfsck.common.wording import count_of
from rocketfsck.errors import StoreError
from rocketfsck.formats import dialect as formats_dialect
from rocketfsck.formats import magic
from rocketfsck.formats.checkpoint import CHECKPOINT, decode_checkpoint
from rocketfsck.formats.indexfile import ENTRY, ENTRY_SIZE, INDEX_HEADER_SIZE, decode_header, entry_pos
from rocketfsck.formats.record import Record
from rocketfsck.store.circumstances import DialectEvidence, Evidence
from rocketfsck.store.dialect.sampling import Clue, Samples, Weight, clue, count_tagged
from rocketfsck.store.elsewhere import QUEUE_DATABASES
from rocketfsck.store.model import OtherKind, StoreFile
from rocketfsck.store.reading import FileReader, read_whole

# Clues in the options that RocksDB writes next to a database whenever a broker opens it.
#
#     OPTIONS-NNNNNN   text; the highest number belongs to the last opening
#       [DBOptions]
#         bytes_per_sync=1048576   set by brokers with the trait rocksdb_syncs_bytes, 0 by others
#
# No setting of a broker changes this option. Reference 3.9.

OPTIONS_LIMIT = 1 << 20
"""Bytes of a file of options that are read; RocksDB's own have some 15 KB."""
_NAME = re.compile(r"OPTIONS-(\d{1,18})")
_SYNC = re.compile(rb"^\s*bytes_per_sync=(\d+)\s*$", re.MULTILINE)


def clues_in_options(found: Samples) -> Iterator[Clue]:
    """What the newest options of each database of consume queues show; nothing where they cannot be read."""
    for other in found.others:
        if other.kind is not OtherKind.ROCKSDB or other.relative not in QUEUE_DATABASES:
            continue
        numbered = [(int(name[1]), file) for file in other.files if (name := _NAME.fullmatch(file.name))]
        if not numbered:
            continue
        _, newest = max(numbered, key=lambda item: item[0])
        try:
            option = _SYNC.search(read_whole(newest.path, OPTIONS_LIMIT))
        except StoreError:
            continue
        if option is not None:
            size = int(option[1])
            what = f"{newest.relative} has bytes_per_sync={size}"
            yield clue(Weight.PRESENT, what, "brokers set the option", "rocksdb_syncs_bytes", lacks=size == 0)


Shown = tuple[str, str, Any]
"""What a clue says before the versions, the trait and the value."""
_TIMER_WHEEL: Shown = ("brokers have the timer wheel", "timer_wheel", True)
_COMPACTION: Shown = ("brokers have compaction", "compaction", True)
_TIERED: Shown = ("brokers have the tiered store", "tiered_store", True)
_WRITTEN = "brokers write the file"
_DATABASE = "brokers have this database"

_CONFIG_NAMES: Mapping[str, Shown] = {
    "lmqConsumerOffset.json": (_WRITTEN, "multi_dispatch", True),
    "consumerFilter.json": ("brokers have these", "kept_files", "config/consumerFilter.json"),
    "consumerOrderInfo.json": (_WRITTEN, "kept_files", "config/consumerOrderInfo.json"),
    "messageRequestMode.json": (_WRITTEN, "kept_files", "config/messageRequestMode.json"),
    "topicQueueMapping.json": (_WRITTEN, "kept_files", "config/topicQueueMapping.json"),
    "timermetrics": _TIMER_WHEEL,
    "transactionMetrics": (_WRITTEN, "kept_files", "config/transactionMetrics"),
    "tieredStoreMetadata.json": _TIERED,
}

_OTHERS: Mapping[OtherKind, Shown] = {
    OtherKind.TIMER_WHEEL: _TIMER_WHEEL,
    OtherKind.TIMER_LOG: _TIMER_WHEEL,
    OtherKind.TIMER_CHECK: _TIMER_WHEEL,
    OtherKind.EPOCH: ("brokers have epochs", "epoch_file", True),
    OtherKind.BROKER_IDENTITY: (_WRITTEN, "kept_files", "brokerIdentity"),
    OtherKind.DLEDGER_DATA: ("brokers have DLedger", "dledger", True),
    OtherKind.COMPACTION_LOG: _COMPACTION,
    OtherKind.COMPACTION_CQ: _COMPACTION,
    OtherKind.TIERED_INDEX: _TIERED,
}

_DATABASES: Mapping[str, Shown] = {
    "consumequeue": ("brokers have consume queues in RocksDB", "rocksdb_consumequeue", True),
    "config/topics": ("brokers have configs in RocksDB", "kept_files", "config/topics"),
    "config/rdb": (_DATABASE, "kept_files", "config/rdb"),
    "config/users": (_DATABASE, "kept_files", "config/users"),
    "kvStore": (_DATABASE, "pop_database", True),
    "rocksdbstore": ("brokers create the directory", "message_database", True),
}


_FOUND: tuple[tuple[str, Shown], ...] = (
    ("batchconsumequeue/ has queues", ("brokers have batch queues", "batch_queues", True)),
    ("consumequeue_ext/ has queues", ("brokers have these", "consumequeue_ext", True)),
    ("RMQ_SYS_TRANS_HALF_TOPIC has queues", ("brokers store half messages", "half_topic", True)),
    ("topics named %LMQ%… have queues", ("brokers know multi-dispatch", "multi_dispatch", True)),
    ("lock exists", (_WRITTEN, "lock_file", True)),
)


def clues_in_names(found: Samples) -> Iterator[Clue]:
    """What files and directories are there; empty queues of a kind are enough."""
    for file in found.configs:
        if file.name in _CONFIG_NAMES:
            yield _present(f"{file.relative} exists", _CONFIG_NAMES[file.name])
    stated = set()
    for other in found.others:
        shown = _DATABASES.get(other.relative) if other.kind is OtherKind.ROCKSDB else _OTHERS.get(other.kind)
        made = _present(f"{other.relative} exists", shown) if shown is not None else None
        if made is not None and made.why not in stated:
            stated.add(made.why)
            yield made
    topics = {queue.topic for queue in found.queues}
    there = (
        any(queue.kind == "batch" for queue in found.queues),
        bool(found.ext_queues),
        "RMQ_SYS_TRANS_HALF_TOPIC" in topics,
        any(topic.startswith("%LMQ%") for topic in topics),
        found.lock is not None,
    )
    yield from (_present(what, shown) for exists, (what, shown) in zip(there, _FOUND, strict=True) if exists)
    if found.lock is not None and not any(other.relative == "rocksdbstore" for other in found.others):
        yield clue(Weight.ABSENT, "there is no rocksdbstore/", *_DATABASES["rocksdbstore"], lacks=True)


def _present(what: str, shown: Shown) -> Clue:
    return clue(Weight.PRESENT, what, *shown)


def find_clues(found: Samples) -> list[Clue]:
    """All clues, the weightiest first. A file that cannot be read gives none."""
    in_files = (_in_records, _in_indexes, _in_tag_entries, _in_checkpoint, _in_abort, _in_configs)
    finders = (*in_files, clues_in_names, clues_in_options)
    return sorted((clue for finder in finders for clue in finder(found)), key=lambda clue: clue.weight)


_NEWEST_COUNT = 64
_ENOUGH_COUNT = 8
_CRC_NAME = b"__CRC32#\x01"
_CRC_SIZE = 20
_MAX_ENTRIES = 1000
_CONFIG_PART = 64 << 10


def _has_property_crc(record: Record) -> bool:
    return record.properties[-_CRC_SIZE:].startswith(_CRC_NAME)


_RECORD_CLUES: tuple[tuple[Weight, str, str, str, Callable[[Record], bool]], ...] = (
    (
        Weight.PRESENT,
        "records with the V2 magic",
        "brokers know V2",
        "v2_allowed",
        lambda record: record.magic_code == magic.MAGIC_V2,
    ),
    (
        Weight.PRESENT,
        "IPv6 hosts in records",
        "brokers know IPv6",
        "ipv6_hosts",
        lambda record: bool(record.sys_flag & (magic.BORN_HOST_V6 | magic.STORE_HOST_V6)),
    ),
    (
        Weight.CLIENT,
        "compression types in sysFlag",
        "brokers know compression types",
        "compression_types",
        lambda record: bool(
            record.sys_flag & magic.COMPRESSED and record.sys_flag & magic.COMPRESSION_TYPE_MASK
        ),
    ),
    (
        Weight.PRESENT,
        "inner batches",
        "brokers know inner batches",
        "batch_queues",
        lambda record: bool(record.sys_flag & magic.INNER_BATCH),
    ),
    (
        Weight.PRESENT,
        "properties that end in __CRC32#",
        "brokers know the property CRC",
        "property_crc",
        _has_property_crc,
    ),
    (
        Weight.PRESENT,
        "INNER_MULTI_QUEUE_OFFSET in properties",
        "brokers know multi-dispatch",
        "multi_dispatch",
        lambda record: b"INNER_MULTI_QUEUE_OFFSET\x01" in record.properties,
    ),
    (
        Weight.CLIENT,
        "the property CLUSTER",
        "brokers add the property",
        "broker_writes_properties",
        lambda record: b"\x02CLUSTER\x01" in record.properties or record.properties[:8] == b"CLUSTER\x01",
    ),
)


def _in_records(found: Samples) -> Iterator[Clue]:
    sample = found.sample
    records = (*sample.oldest, *sample.newest, *sample.last)
    for weight, what, said, trait, shows in _RECORD_CLUES:
        if any(map(shows, records)):
            yield clue(weight, what, said, trait)
    enough = len(sample.last) >= _ENOUGH_COUNT
    yield from _in_property_ends(sample.last if enough else sample.newest[-_NEWEST_COUNT:])
    if any(found.sample.filler):
        yield Clue(
            Weight.HINT,
            "bytes that are not zero after a BLANK's header",
            "usual up to 4.9.0; later only where a broker had truncated the file",
            (),
        )


def _in_property_ends(records: Sequence[Record]) -> Iterator[Clue]:
    """Whether properties end in 0x02. Batches and property strings that a client wrote may do otherwise."""
    told = (record for record in records if record.properties and not _has_property_crc(record))
    ends = [record.properties.endswith(b"\x02") for record in told]
    share = sum(ends) / len(ends) if ends else 0.5
    ended, ends_all = ("trailing_separator", True), ("broker_writes_properties", True)
    if share >= 0.9:
        why = f"written {formats_dialect.when(*ended, 'by')}"
        yield Clue(Weight.NEWEST, "properties end in 0x02", why, (ended,))
    elif share <= 0.1:
        written = formats_dialect.when("trailing_separator", False, "by")
        decided = formats_dialect.when("broker_writes_properties", False)
        why = f"written {written}; {decided} the client decided"
        yield Clue(Weight.NEWEST, "properties do not end in 0x02", why, (ended, ends_all), lacks=True)


def _in_indexes(found: Samples) -> Iterator[Clue]:
    """hashSlotCount of the newest file that tells: entries, or used slots."""
    for file in reversed(found.indexes[-3:]):
        try:
            with FileReader(file.location) as reader:
                header = decode_header(reader.read(0, INDEX_HEADER_SIZE))
                slot_count, index_count = header.hash_slot_count, header.index_count
                entry_count = index_count - 1
                if not 0 < slot_count <= entry_count < found.geometry.entry_count:
                    continue
                trait = "counts_entries_in_hash_slot_count"
                if slot_count < entry_count:
                    counted = count_of(entry_count, "entry")
                    what = f"hashSlotCount of {file.name} is {slot_count:,}, for {counted}"
                    yield clue(Weight.NEWEST, what, "the field counts used slots", trait, False)
                    return
                if _has_chain(reader, found.geometry.slot_count, index_count):
                    what = f"hashSlotCount of {file.name} is the number of entries, though some share a slot"
                    yield clue(Weight.NEWEST, what, "the field counts entries", trait)
                    return
        except StoreError:
            continue


def _in_tag_entries(found: Samples) -> Iterator[Clue]:
    """Whether the newest index entries have one more for each record with tags."""
    wanted, met = count_tagged(found.sample.last, found.sample.entries, "scan")
    said, trait = "brokers index tags", "tag_entries"
    if wanted >= _ENOUGH_COUNT and met >= 0.9 * wanted:
        what = "the newest records with tags have an index entry for the tags"
        yield clue(Weight.NEWEST, what, said, trait)
    elif met:
        what = "some records with tags have an index entry for the tags"
        yield clue(Weight.PRESENT, what, said, trait)
    elif wanted >= _ENOUGH_COUNT:
        what = "the newest records with tags have no index entry for the tags"
        yield clue(Weight.ABSENT, what, said, trait, lacks=True)


def _has_chain(reader: FileReader, slot_count: int, index_count: int) -> bool:
    """Whether one of the first entries has a predecessor in its slot."""
    entries = reader.read(entry_pos(1, slot_count), ENTRY_SIZE * min(_MAX_ENTRIES, index_count - 1))
    links = (before for _, _, _, before, *_ in ENTRY.packer().iter_unpack(entries))
    return any(0 < before < number for number, before in enumerate(links, 1))


_CHECKPOINT_CLUES = (
    (Weight.PRESENT, "masterFlushedOffset", "master_flushed_offset"),
    (Weight.PRESENT, "confirmPhyOffset", "confirm_physical_offset"),
    # A stray number there must not outweigh that there is no rocksdbstore/, which such a broker always makes.
    (Weight.CLIENT, "logicsPhysicalOffset", "logics_physical_offset"),
)


def _in_checkpoint(found: Samples) -> Iterator[Clue]:
    data = _part(found.checkpoint, CHECKPOINT.size or 0)
    if len(data) < (CHECKPOINT.size or 0):
        return
    checkpoint = decode_checkpoint(data)
    for weight, name, attribute in _CHECKPOINT_CLUES:
        value = getattr(checkpoint, attribute)
        if value:
            what = f"{name} in the checkpoint is {value}"
            yield clue(weight, what, "brokers write the field", "checkpoint_fields", name)


def _in_abort(found: Samples) -> Iterator[Clue]:
    trait = "abort_has_pid"
    backup = any(other.kind is OtherKind.ABORT_BACKUP for other in found.others)
    if backup:
        yield clue(Weight.PRESENT, "abort.bak exists", "brokers keep the file forever", trait)
    if found.abort is not None:
        content = _part(found.abort, 32)
        if content.isdigit():
            yield clue(Weight.PRESENT, "abort holds a process id", "brokers write it", trait)
        elif not content:
            said = "brokers write their process id into the file"
            yield clue(Weight.ABSENT, "abort is empty", said, trait, lacks=True)
    elif not backup and found.lock is not None:
        said = "brokers keep abort.bak forever"
        yield clue(Weight.ABSENT, "there is no abort.bak", said, trait, lacks=True)


def _in_configs(found: Samples) -> Iterator[Clue]:
    for file in found.configs:
        if file.name != "topics.json":
            continue
        data = _part(file, _CONFIG_PART)
        if file.size > _CONFIG_PART:
            data += _part(file, _CONFIG_PART, max(_CONFIG_PART, file.size - _CONFIG_PART))
        said, trait = "brokers write a stateVersion", "config_has_state_version"
        if b'"stateVersion"' in data:
            yield clue(Weight.PRESENT, "topics.json has a stateVersion", said, trait)
        elif b'"dataVersion"' in data:
            yield clue(Weight.ABSENT, "topics.json has no stateVersion", said, trait, lacks=True)


def _part(file: StoreFile | None, size: int, pos: int = 0) -> bytes:
    """Up to `size` bytes of a file; empty if it is missing or cannot be read."""
    if file is not None:
        with suppress(StoreError), FileReader(file.location) as reader:
            return reader.read_upto(pos, size)
    return b""


def infer_dialect(found: Samples, version: str | None = None) -> DialectEvidence:
    """The dialect of a store and how it is known. UsageError if `version` names no broker version."""
    if version is not None:
        return _given(found, formats_dialect.parse_version(version))
    left: tuple[formats_dialect.Version, ...] = formats_dialect.ALL_VERSIONS
    possible = left
    known_from = []
    conflict = False
    for shown in find_clues(found):
        fitting = tuple(candidate for candidate in left if shown.fits(formats_dialect.dialect_of(candidate)))
        if fitting:
            left = fitting
            possible = left if shown.weight < Weight.CLIENT else possible
            known_from.append(Evidence(shown.what, shown.why))
        else:
            conflict = conflict or shown.weight <= Weight.PRESENT
            known_from.append(Evidence(shown.what, f"{shown.why}; ignored: this conflicts with the rest"))
    releases = [candidate for candidate in left if not candidate.stage]
    representative = max(releases or left)
    dialect = formats_dialect.dialect_of(representative)
    possible = formats_dialect.ALL_VERSIONS if conflict else possible
    return DialectEvidence(dialect, left, tuple(known_from), conflict=conflict, possible=possible)


def _given(found: Samples, version: formats_dialect.Version) -> DialectEvidence:
    dialect = formats_dialect.dialect_of(version)
    known_from = [Evidence(f"version {version}", _given_as(version))]
    conflict = False
    for shown in find_clues(found):
        fits = shown.fits(dialect)
        conflict = conflict or (shown.weight <= Weight.PRESENT and not fits)
        why = shown.why if fits else f"{shown.why}; conflicts with {version}"
        known_from.append(Evidence(shown.what, why))
    versions = (version,)
    return DialectEvidence(dialect, versions, tuple(known_from), True, conflict, versions)


def _given_as(version: formats_dialect.Version) -> str:
    known = formats_dialect.nearest_examined(version)
    if known == version:
        return "given by the user"
    return f"given by the user; rocketfsck does not know this version and reads the store as {known}"
