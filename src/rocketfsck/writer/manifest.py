"""The truth next to a store that was written: what is in it, as JSON, for whoever tests a reader with it.

NAME.manifest.json     options, seed and mix, queues and their offsets, index files, checkpoint, sums of
                       all files; the same for the same input on any machine
NAME.messages.jsonl    with level `full`: every record as it was placed, one object a line

Sums over the files of a store: CRC-32 (as zlib's) and, where asked for, SHA-256.

Most of a store's bytes can be holes: 420 MB of an index file, 6 MB of every consume queue. A run of zeros is
taken into a CRC by a multiplication in GF(2)[x] modulo the polynomial, without reading it.

What the writer says of a store that it wrote: the truth that readers and checks are held against.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, Literal

from rocketfsck.common.documents import FLAT, LEFT_OUT, to_document
from rocketfsck.formats.checkpoint import Checkpoint
from rocketfsck.formats.dialect import Dialect
from rocketfsck.formats.indexfile import IndexHeader
from rocketfsck.formats.messageid import OffsetMessageId, encode_offset_id
from rocketfsck.formats.properties import KEYS, TAGS, UNIQ_KEY, parse_properties, split_keys
from rocketfsck.formats.record import Record
from rocketfsck.progress import moved_to, part, phase
from rocketfsck.store.circumstances import GEOMETRY_DEFAULTS, Geometry
from rocketfsck.store.reading import FileReader
from rocketfsck.writer.consumequeue import ExtraUnit
from rocketfsck.writer.options import WriteOptions


@dataclass(frozen=True, slots=True)
class PutRecord:
    """One record as it is in the log. `number` is its message's place among those given, from 0.

    `in_queue` says whether its own queue got a unit; `extra_units` are those in other queues.
    """

    number: int
    record: Record
    message_count: int
    in_queue: bool
    extra_units: tuple[ExtraUnit, ...] = ()

    @property
    def physical_offset(self) -> int:
        return self.record.physical_offset

    @property
    def queue_offset(self) -> int:
        return self.record.queue_offset

    @property
    def offset_msg_id(self) -> str:
        """The offsetMsgId that the producer would be given."""
        host = self.record.store_host
        return encode_offset_id(OffsetMessageId(host.address, host.port, self.record.physical_offset))


@dataclass(frozen=True, slots=True)
class WrittenQueue:
    """One consume queue: file positions as queue offsets, for a batch queue the counter and positions.

    `next_offset` is the queue offset that the next message gets; `position` the append position in bytes of
    the queue's stream, `first_start` the start of its first file (None without one).
    """

    topic: str
    queue_id: int
    is_batch: bool
    first_start: int | None
    position: int
    next_offset: int
    max_physic_offset: int


@dataclass(frozen=True, slots=True)
class WrittenStore:
    """A store that was written: `min_offset` .. `max_offset` of its log, its queues and index files.

    `files` are all files, relative to `path`, with their sizes in bytes, sorted.
    """

    path: Path
    version: str
    geometry: Geometry
    min_offset: int
    max_offset: int
    message_count: int
    record_count: int
    queues: tuple[WrittenQueue, ...]
    index_files: tuple[tuple[str, IndexHeader], ...]
    checkpoint: Checkpoint
    files: tuple[tuple[str, int], ...]


try:
    from isal.isal_zlib import crc32 as crc32  # zlib's numbers, quicker
except ImportError:
    from zlib import crc32 as crc32

_CHUNK_SIZE = 4 << 20

_POLYNOMIAL = 0xEDB88320
_ZEROS = bytes(1 << 16)


@dataclass(frozen=True, slots=True)
class FileSum:
    """One file below a root: its size in bytes, CRC-32 of all of it, SHA-256 in hex (None: not asked for)."""

    path: str
    size: int
    crc32: int
    sha256: str | None = field(default=None, metadata=LEFT_OUT)


def _times(left: int, right: int) -> int:
    """The product of two polynomials, bit-reflected (bit 31 is x**0), modulo the CRC's."""
    product = 0
    for bit in range(31, -1, -1):
        if left >> bit & 1:
            product ^= right
        right = right >> 1 ^ (_POLYNOMIAL if right & 1 else 0)
    return product


def _zero_powers() -> list[int]:
    """x**(8 * 2**k): what 2**k zero bytes multiply a CRC register by."""
    powers = [1 << 31 - 8]
    while len(powers) < 63:
        powers.append(_times(powers[-1], powers[-1]))
    return powers


_POWERS = _zero_powers()


def crc32_of_zeros(crc: int, count: int) -> int:
    """The CRC-32 of something with `crc` and `count` zero bytes after it."""
    register = crc ^ 0xFFFFFFFF
    bit = 0
    while count >> bit:
        if count >> bit & 1:
            register = _times(register, _POWERS[bit])
        bit += 1
    return register ^ 0xFFFFFFFF


def sum_files(
    root: Path, files: list[tuple[str, int]], known: Mapping[str, int], *, with_sha256: bool
) -> list[FileSum]:
    """The sums of these files (paths below `root`, sizes in bytes). StoreError if one cannot be read.

    Those whose CRC is `known` are read for a SHA-256 only.
    """
    buffer = memoryview(bytearray(_CHUNK_SIZE))
    sums = []
    with phase("summing up the files", sum(size for _, size in files)):
        for path, size in files:
            with part(size):
                if path in known and not with_sha256:
                    sums.append(FileSum(path, size, known[path]))
                else:
                    sums.append(_sum_file(root, path, buffer, with_sha256=with_sha256))
    return sums


def _sum_file(root: Path, path: str, buffer: memoryview, *, with_sha256: bool) -> FileSum:
    digest = hashlib.sha256() if with_sha256 else None
    value = done = 0
    with FileReader(root / path) as reader:
        for start, end in [*reader.data_extents(), (reader.size, reader.size)]:
            value = crc32_of_zeros(value, start - done)
            if digest is not None:
                _add_zeros(digest, start - done)
            for pos in range(start, end, _CHUNK_SIZE):
                chunk = buffer[: min(_CHUNK_SIZE, end - pos)]
                reader.read_into(chunk, pos)
                moved_to(pos)
                value = crc32(chunk, value)
                if digest is not None:
                    digest.update(chunk)
            done = end
        return FileSum(path, reader.size, value, None if digest is None else digest.hexdigest())


def _add_zeros(digest: hashlib._Hash, count: int) -> None:
    for pos in range(0, count, len(_ZEROS)):
        digest.update(_ZEROS[: count - pos])


SCHEMA_VERSION = 1


class ManifestLevel(StrEnum):
    """How much the manifest says: nothing, all but SHA-256, that too, and every message as well."""

    NONE = "none"
    BRIEF = "brief"
    HASHES = "hashes"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class ManifestQueue:
    """A queue that was written: the queue offset of its next message, the queue offset with which its first
    file begins, positions in bytes."""

    queue_id: int
    kind: Literal["batch", "file"]
    next_offset: int
    first_file: int | None
    append_position: int
    max_physic_offset: int


@dataclass(frozen=True, slots=True)
class WrittenTopic:
    """The queues of a topic."""

    topic: str
    queues: tuple[ManifestQueue, ...]


@dataclass(frozen=True, slots=True)
class WrittenIndex:
    """An index file and its header."""

    name: str
    header: IndexHeader = field(metadata=FLAT)


@dataclass(frozen=True, slots=True)
class WriteManifest:
    """NAME.manifest.json: physical offsets are those of the log."""

    schema_version: int
    kind: Literal["rocketfsck.write.manifest"]
    source: Mapping[str, Any]
    options: Mapping[str, Any]
    message_count: int
    record_count: int
    min_offset: int
    max_offset: int
    topics: tuple[WrittenTopic, ...]
    index_files: tuple[WrittenIndex, ...]
    checkpoint: Checkpoint
    files: tuple[FileSum, ...]


@dataclass(frozen=True, slots=True)
class WrittenMessage:
    """A line of NAME.messages.jsonl; sizes in bytes, times in ms."""

    schema_version: int
    number: int
    physical_offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    message_count: int
    in_queue: bool
    extra_units: tuple[tuple[str, int, int], ...]
    sys_flag: int
    body_crc: int
    body_size: int
    born_timestamp: int
    store_timestamp: int
    offset_message_id: str
    tags: str | None
    keys: tuple[str, ...]
    unique_key: str | None


@dataclass(frozen=True, slots=True)
class ManifestPaths:
    """Where the manifest and the list of messages of a store go."""

    manifest: Path
    messages: Path


def manifest_paths(target: Path, given: Path | None = None) -> ManifestPaths:
    """The files next to `target`, or `given` for the manifest and a list of messages next to that."""
    manifest = target.with_name(f"{target.name}.manifest.json") if given is None else given.absolute()
    stem = manifest.name.removesuffix(".json").removesuffix(".manifest")
    return ManifestPaths(manifest, manifest.with_name(f"{stem}.messages.jsonl"))


def manifest_document(
    written: WrittenStore,
    options: WriteOptions,
    source: Mapping[str, Any],
    building: Path,
    known: Mapping[str, int],
    *,
    with_sha256: bool,
) -> WriteManifest:
    """The manifest of a store whose files are below `building`. `source` says what it was made from,
    `known` are CRCs of files that need not be read for them."""
    return WriteManifest(
        schema_version=SCHEMA_VERSION,
        kind="rocketfsck.write.manifest",
        source=source,
        options=options_document(options),
        message_count=written.message_count,
        record_count=written.record_count,
        min_offset=written.min_offset,
        max_offset=written.max_offset,
        topics=_topics(written.queues),
        index_files=tuple(WrittenIndex(name, header) for name, header in written.index_files),
        checkpoint=written.checkpoint,
        files=tuple(sum_files(building, list(written.files), known, with_sha256=with_sha256)),
    )


def options_document(options: WriteOptions) -> dict[str, Any]:
    """The options that shape a store, as JSON; what cannot be said in JSON (a clock) is left out."""
    document: dict[str, Any] = {}
    for item in fields(options):
        value = getattr(options, item.name)
        if item.name == "geometry":
            document |= {name: getattr(value, name) for name in GEOMETRY_DEFAULTS}
        elif item.name == "end_state":
            document[item.name] = value.value
        elif item.name == "batch_topics":
            document[item.name] = sorted(value)
        elif item.name == "delay_levels":
            document[item.name] = {str(level): delay for level, delay in value.items()}
        elif item.name == "queue_start_offsets":
            document[item.name] = [[topic, queue, start] for (topic, queue), start in sorted(value.items())]
        elif isinstance(value, (str, int)) and item.name != "sync":
            document[item.name] = value
    return document


def _topics(queues: tuple[WrittenQueue, ...]) -> tuple[WrittenTopic, ...]:
    topics: dict[str, list[ManifestQueue]] = {}
    for queue in sorted(queues, key=lambda queue: (queue.topic, queue.queue_id)):
        listed = ManifestQueue(
            queue_id=queue.queue_id,
            kind="batch" if queue.is_batch else "file",
            next_offset=queue.next_offset,
            first_file=queue.first_start,
            append_position=queue.position,
            max_physic_offset=queue.max_physic_offset,
        )
        topics.setdefault(queue.topic, []).append(listed)
    return tuple(WrittenTopic(topic, tuple(listed)) for topic, listed in topics.items())


def message_line(put: PutRecord, dialect: Dialect) -> str:
    """One record of the list of messages, as a line of JSON."""
    record = put.record
    properties = parse_properties(record.properties, dialect.property_parser) or {}
    message = WrittenMessage(
        schema_version=SCHEMA_VERSION,
        number=put.number,
        physical_offset=record.physical_offset,
        size=record.total_size,
        topic=record.topic.decode(),
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        message_count=put.message_count,
        in_queue=put.in_queue,
        extra_units=tuple((unit.topic, unit.queue_id, unit.queue_offset) for unit in put.extra_units),
        sys_flag=record.sys_flag,
        body_crc=record.body_crc,
        body_size=record.body_length,
        born_timestamp=record.born_timestamp,
        store_timestamp=record.store_timestamp,
        offset_message_id=put.offset_msg_id,
        tags=properties.get(TAGS),
        keys=tuple(split_keys(properties.get(KEYS, ""))),
        unique_key=properties.get(UNIQ_KEY),
    )
    return json.dumps(to_document(message)) + "\n"


def write_document(stream: IO[str], manifest: WriteManifest) -> None:
    """The manifest as indented JSON in ASCII."""
    json.dump(to_document(manifest), stream, indent=1)
    stream.write("\n")
