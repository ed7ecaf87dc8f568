"""The small files of a store: checkpoint, abort, lock and what stands in `config/`. Reference 1.1, 1.6, 5.

abort      stands when the broker was killed: empty, from 5.0.0 on its PID
abort.bak  from 5.0.0 on always, empty
lock       from 4.2.0 on, `lock`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rocketfsck.errors import FormatError, UsageError
from rocketfsck.formats.checkpoint import Checkpoint, encode_checkpoint
from rocketfsck.formats.config import decode_config, encode_config
from rocketfsck.formats.configviews import PERM_READ, PERM_WRITE, topic_configs
from rocketfsck.formats.markers import ABORT_NAME, LOCK_CONTENT, LOCK_NAME, encode_abort
from rocketfsck.formats.properties import java_hash_map_order
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import place_at
from rocketfsck.writer.options import EndState, WriteOptions

CHECKPOINT_NAME = "checkpoint"
TOPICS_NAME = "topics.json"
CONFIG_FOLDER = "config"
BATCH_QUEUE_ATTRIBUTES = {"queue.type": "BatchCQ"}

_TOPIC_TABLE_CAPACITY = 1024
"""Buckets of the broker's table of topics, whose order topics.json has."""


def write_markers(root: Path, options: WriteOptions, abort_backup: bytes = b"") -> None:
    """Write abort, abort.bak (`abort_backup`) and lock as this end state of this version leaves them."""
    dialect = options.dialect
    abort, backup = root / ABORT_NAME, root / f"{ABORT_NAME}.bak"
    if fileops.exists(place_at(abort)):
        fileops.unlink(place_at(abort))
    if options.end_state is EndState.KILLED:
        fileops.write_new(place_at(abort), encode_abort(options.pid if dialect.abort_has_pid else None))
    if dialect.abort_has_pid:
        fileops.write_new(place_at(backup), abort_backup)
    if dialect.lock_file:
        fileops.write_new(place_at(root / LOCK_NAME), LOCK_CONTENT)


def write_checkpoint(root: Path, checkpoint: Checkpoint) -> None:
    """Write the checkpoint file."""
    fileops.write_new(place_at(root / CHECKPOINT_NAME), encode_checkpoint(checkpoint))


def write_config(root: Path, files: Mapping[str, Any]) -> None:
    """Write these files of `config/` as a broker's JSON; UsageError for a value that is none."""
    folder = root / CONFIG_FOLDER
    for name, value in files.items():
        if not name or "/" in name or "\0" in name or name in (".", ".."):
            raise UsageError(f"{name!r} cannot be a file in {CONFIG_FOLDER}/")
        try:
            data = encode_config(value)
        except TypeError as error:
            raise UsageError(f"{CONFIG_FOLDER}/{name}: {error}") from None
        fileops.make_directories(place_at(folder))
        fileops.write_new(place_at(folder / name), data)


def stored_topics(root: Path) -> dict[str, Any]:
    """The value of an existing topics.json, empty without one; UsageError if it cannot be read."""
    path = root / CONFIG_FOLDER / TOPICS_NAME
    if not path.exists():
        return {}
    try:
        value = decode_config(path.read_bytes())
        topic_configs(value)
    except FormatError as error:
        raise UsageError(f"{CONFIG_FOLDER}/{TOPICS_NAME}: {error}") from None
    found: dict[str, Any] = value
    return found


def topics_document(
    queues: Iterable[tuple[str, int]], options: WriteOptions, timestamp: int, stored: Mapping[str, Any]
) -> dict[str, Any]:
    """The value of topics.json for queues (topic, queueId): each topic has as many as its highest needs.

    Topics that `stored`, the value before, has are kept as they are.
    """
    counts: dict[str, int] = {}
    for topic, queue_id in queues:
        counts[topic] = max(counts.get(topic, 0), queue_id + 1)
    known = dict(stored.get("topicConfigTable") or {})
    table = {topic: _topic_entry(topic, count, options) for topic, count in counts.items()} | known
    version: dict[str, int] = {"counter": len(table)}
    if options.dialect.config_has_state_version:
        version["stateVersion"] = 0
    version["timestamp"] = timestamp
    ordered = {topic: table[topic] for topic in java_hash_map_order(table, _TOPIC_TABLE_CAPACITY)}
    return {"dataVersion": version, "topicConfigTable": ordered}


def _topic_entry(topic: str, queue_count: int, options: WriteOptions) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    if options.dialect.config_has_state_version:
        entry["attributes"] = dict(BATCH_QUEUE_ATTRIBUTES) if topic in options.batch_topics else {}
    return entry | {
        "order": False,
        "perm": PERM_READ | PERM_WRITE,
        "readQueueNums": queue_count,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic,
        "topicSysFlag": 0,
        "writeQueueNums": queue_count,
    }
