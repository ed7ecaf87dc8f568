"""The truth next to a store that was written: what is in it, as JSON, for whoever tests a reader with it.

NAME.manifest.json     options, seed and mix, queues and their offsets, index files, checkpoint, sums of
                       all files; the same for the same input on any machine
NAME.messages.jsonl    with level `full`: every record as it was placed, one object a line

The documents are put together here, and are not dataclasses of their own for `common.documents`: nothing
reads them back, what a level does not ask for is left out, and what they hold is elsewhere in another form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

from rocketfsck.common.documents import to_document
from rocketfsck.formats.dialect import Dialect
from rocketfsck.formats.properties import KEYS, TAGS, UNIQ_KEY, parse_properties, split_keys
from rocketfsck.store.circumstances import GEOMETRY_DEFAULTS
from rocketfsck.writer.filesums import sum_files
from rocketfsck.writer.options import WriteOptions
from rocketfsck.writer.truth import PutRecord, WrittenQueue, WrittenStore

SCHEMA_VERSION = 1


class ManifestLevel(StrEnum):
    """How much the manifest says: nothing, all but SHA-256, that too, and every message as well."""

    NONE = "none"
    BRIEF = "brief"
    HASHES = "hashes"
    FULL = "full"


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
) -> dict[str, Any]:
    """The manifest of a store whose files are below `building`. `source` says what it was made from,
    `known` are CRCs of files that need not be read for them."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "rocketfsck.write.manifest",
        "source": dict(source),
        "options": options_document(options),
        "message_count": written.message_count,
        "record_count": written.record_count,
        "min_offset": written.min_offset,
        "max_offset": written.max_offset,
        "topics": _topics(written.queues),
        "index_files": [{"name": name, **asdict(header)} for name, header in written.index_files],
        "checkpoint": asdict(written.checkpoint),
        "files": [
            to_document(found)
            for found in sum_files(building, list(written.files), known, with_sha256=with_sha256)
        ],
    }


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


def _topics(queues: tuple[WrittenQueue, ...]) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for queue in sorted(queues, key=lambda queue: (queue.topic, queue.queue_id)):
        topics.setdefault(queue.topic, []).append({
            "queue_id": queue.queue_id,
            "kind": "batch" if queue.is_batch else "file",
            "next_offset": queue.next_offset,
            "first_file": queue.first_start,
            "append_position": queue.position,
            "max_physic_offset": queue.max_physic_offset,
        })  # fmt: skip
    return [{"topic": topic, "queues": listed} for topic, listed in topics.items()]


def message_line(put: PutRecord, dialect: Dialect) -> str:
    """One record of the list of messages, as a line of JSON."""
    record = put.record
    properties = parse_properties(record.properties, dialect.property_parser) or {}
    row: dict[str, Any] = {
        "number": put.number,
        "physical_offset": record.physical_offset,
        "size": record.total_size,
        "topic": record.topic.decode(),
        "queue_id": record.queue_id,
        "queue_offset": record.queue_offset,
        "message_count": put.message_count,
        "in_queue": put.in_queue,
        "extra_units": [[unit.topic, unit.queue_id, unit.queue_offset] for unit in put.extra_units],
        "sys_flag": record.sys_flag,
        "body_crc": record.body_crc,
        "body_size": record.body_length,
        "born_timestamp": record.born_timestamp,
        "store_timestamp": record.store_timestamp,
        "offset_message_id": put.offset_msg_id,
        "tags": properties.get(TAGS),
        "keys": split_keys(properties.get(KEYS, "")),
        "unique_key": properties.get(UNIQ_KEY),
    }
    return json.dumps({"schema_version": SCHEMA_VERSION, **row}) + "\n"


def write_document(stream: IO[str], document: Mapping[str, Any]) -> None:
    """The manifest as indented JSON in ASCII."""
    json.dump(document, stream, indent=1)
    stream.write("\n")
