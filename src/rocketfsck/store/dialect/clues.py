"""What the bytes of a store show about the version that wrote them: one clue a fact. Reference 0.4.

A clue names a trait of `formats.versions` and the value that something in the store shows: which versions
have it follows from the table, and so does what the clue says of them. The weight of a clue says how sure it
is: what the newest data shows comes before what may be left over from an older or newer broker, and that
before what is only missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rocketfsck.common.wording import count_of
from rocketfsck.errors import StoreError
from rocketfsck.formats.checkpoint import CHECKPOINT, decode_checkpoint
from rocketfsck.formats.dialect import when
from rocketfsck.formats.indexfile import ENTRY, ENTRY_SIZE, INDEX_HEADER_SIZE, decode_header, entry_pos
from rocketfsck.formats.magic import (
    BORN_HOST_V6,
    COMPRESSED,
    COMPRESSION_TYPE_MASK,
    INNER_BATCH,
    MAGIC_V2,
    STORE_HOST_V6,
)
from rocketfsck.formats.record import Record
from rocketfsck.store.dialect.nameclues import clues_in_names, clues_in_options
from rocketfsck.store.dialect.sampling import Clue, Samples, Weight, clue, count_tagged
from rocketfsck.store.model import OtherKind, StoreFile
from rocketfsck.store.reading import FileReader


def find_clues(found: Samples) -> list[Clue]:
    """All clues, the weightiest first. A file that cannot be read gives none."""
    finders = (
        _in_records,
        _in_indexes,
        _in_tag_entries,
        _in_checkpoint,
        _in_abort,
        _in_configs,
        clues_in_names,
        clues_in_options,
    )
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
        lambda record: record.magic_code == MAGIC_V2,
    ),
    (
        Weight.PRESENT,
        "IPv6 hosts in records",
        "brokers know IPv6",
        "ipv6_hosts",
        lambda record: bool(record.sys_flag & (BORN_HOST_V6 | STORE_HOST_V6)),
    ),
    (
        Weight.CLIENT,
        "compression types in sysFlag",
        "brokers know compression types",
        "compression_types",
        lambda record: bool(record.sys_flag & COMPRESSED and record.sys_flag & COMPRESSION_TYPE_MASK),
    ),
    (
        Weight.PRESENT,
        "inner batches",
        "brokers know inner batches",
        "batch_queues",
        lambda record: bool(record.sys_flag & INNER_BATCH),
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
    ends = [
        record.properties.endswith(b"\x02")
        for record in records
        if record.properties and not _has_property_crc(record)
    ]
    share = sum(ends) / len(ends) if ends else 0.5
    ended, ends_all = ("trailing_separator", True), ("broker_writes_properties", True)
    if share >= 0.9:
        why = f"written {when(*ended, 'by')}"
        yield Clue(Weight.NEWEST, "properties end in 0x02", why, (ended,))
    elif share <= 0.1:
        why = (
            f"written {when('trailing_separator', False, 'by')}; "
            f"{when('broker_writes_properties', False)} the client decided"
        )
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
                if slot_count < entry_count:
                    yield clue(
                        Weight.NEWEST,
                        f"hashSlotCount of {file.name} is {slot_count:,}, for "
                        f"{count_of(entry_count, 'entry')}",
                        "the field counts used slots",
                        "counts_entries_in_hash_slot_count",
                        False,
                    )
                    return
                if _has_chain(reader, found.geometry.slot_count, index_count):
                    yield clue(
                        Weight.NEWEST,
                        f"hashSlotCount of {file.name} is the number of entries, though some share a slot",
                        "the field counts entries",
                        "counts_entries_in_hash_slot_count",
                    )
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
    if file is None:
        return b""
    try:
        with FileReader(file.location) as reader:
            return reader.read_upto(pos, size)
    except StoreError:
        return b""
