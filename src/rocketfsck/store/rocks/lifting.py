"""A store whose databases have become files: queues and configs in RocksDB where the other readers look.

    <scratch>/consumequeue/<topic>/<queueId>/    units of the queues (`store.rocks.spilling`)
    <scratch>/config/*.json                      topics, groups, consumer offsets

Which queue a broker reads where it has it in both forms is what `combineCQPreferCQType` says: the files by
default, and the database for light queues with `combineCQUseRocksdbForLmq`. Reference 3.9, 11.4, 11.5.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats.properties import LMQ_PREFIX
from rocketfsck.store.circumstances import Evidence
from rocketfsck.store.elsewhere import QUEUE_DATABASES
from rocketfsck.store.model import ConsumeQueue, DatabaseQueues, Lifted, Other, QueueBounds, Store, StoreFile
from rocketfsck.store.reading import named_errors
from rocketfsck.store.rocks import families
from rocketfsck.store.rocks.reading import RocksError, read_rows, scratch_directory, why_not_readable
from rocketfsck.store.rocks.spilling import Bound, Spill, consume_queues, spill_queues

CONFIG_CONTENTS = frozenset(
    {families.Content.TOPICS, families.Content.GROUPS, families.Content.OFFSETS, families.Content.CONFIG}
)
AREA = "consumequeue"

_TABLES: Mapping[str, tuple[str, str]] = {
    "topic": ("topics.json", "topicConfigTable"),
    "subscription-group": ("subscriptionGroup.json", "subscriptionGroupTable"),
    "consumer-offset": ("consumerOffset.json", "offsetTable"),
}
_NAMES = {"topic": "topicName", "subscription-group": "groupName"}
LIGHT = ("lmqConsumerOffset.json", "lmqOffsetTable")


@dataclass(slots=True)
class Lifting:
    """A store with what its databases hold, and what kept some of it from being read: by database."""

    store: Store
    spills: list[Spill] = field(default_factory=list)
    failed: dict[str, StoreError] = field(default_factory=dict)
    odd: dict[str, families.OddRows] = field(default_factory=dict)


@contextmanager
def lifted(store: Store) -> Iterator[Lifting]:
    """The store with the queues and configs of its databases, as long as the context lasts.

    A store without such databases is given as it is; so is one whose databases cannot be read, with the
    reasons. Raises StoreError where there is no room for the scratch directory.
    """
    wanted = [other for other in families.databases_of(store) if is_lifted(other)]
    lifting = Lifting(store)
    if not wanted:
        yield lifting
        return
    with scratch_directory() as directory:
        queues: list[ConsumeQueue] = []
        configs: list[StoreFile] = []
        for other in wanted:
            if (reason := why_not_readable(other)) is not None:
                lifting.failed[other.relative] = RocksError(reason, path=str(other.path))
                continue
            try:
                if other.relative in QUEUE_DATABASES:
                    queues += _lift_queues(lifting, other, directory / AREA)
                else:
                    configs += _lift_configs(lifting, other, directory / "config")
            except StoreError as error:
                lifting.failed[other.relative] = error
        lifting.store = _with(store, lifting, wanted, queues, configs, directory)
        yield lifting


def is_lifted(other: Other) -> bool:
    """Whether a database holds queues or configs."""
    return other.relative in QUEUE_DATABASES or bool(families.contents_of(other.relative) & CONFIG_CONTENTS)


def _lift_queues(lifting: Lifting, other: Other, directory: Path) -> list[ConsumeQueue]:
    file_size = lifting.store.geometry.consumequeue_file_size
    directory.mkdir(exist_ok=True)
    spill = spill_queues(other, directory, file_size)
    lifting.spills.append(spill)
    return list(consume_queues(spill, file_size))


def _lift_configs(lifting: Lifting, other: Other, directory: Path) -> Iterator[StoreFile]:
    """The tables of a database as the JSON files that brokers would keep instead."""
    tables: dict[tuple[str, str], dict[str, Any]] = {}
    versions: dict[str, Any] = {}
    for rows in read_rows(other):
        content = families.content_of(other.relative, rows.family)
        if content not in CONFIG_CONTENTS:
            continue
        for key, value in rows.pairs():
            try:
                kind, values = families.decode_row(content, key, value)
                if kind == "version":
                    versions[values["name"].decode()] = values["content"]
                _put(tables, kind, values)
            except FormatError as error:
                odd = lifting.odd.setdefault(other.relative, families.OddRows())
                odd.add(rows.family, key, str(error))
    directory.mkdir(exist_ok=True)
    mtime = max((file.mtime_ns for file in other.files), default=0)
    changed = {name: versions[kind] for kind, (name, _) in _TABLES.items() if kind in versions}
    for (name, member), table in sorted(tables.items()):
        path, document = directory / name, {member: table}
        if name in changed:
            document["dataVersion"] = changed[name]
        with named_errors(path, "cannot be written"):
            path.write_text(json.dumps(document, ensure_ascii=True), "utf-8")
        size = path.stat().st_size
        yield StoreFile(str(path), other.relative, size, mtime, size)


def _put(tables: dict[tuple[str, str], dict[str, Any]], kind: str, values: Mapping[str, Any]) -> None:
    """Take a row of a config over into the table that the JSON form has of it."""
    if kind not in _TABLES:
        return
    if "offset" in values:  # second form: a row a queue
        name = f"{os.fsdecode(values['topic'])}@{os.fsdecode(values['group'])}"
        offsets = {str(values["queueId"]): values["offset"]}
    elif kind == "consumer-offset":
        name = os.fsdecode(values["name"])
        content = values["content"]
        table = content.get("offsetTable") if isinstance(content, dict) else None
        if not isinstance(table, dict):
            raise FormatError("offsetTable: not an object", offset=0)
        offsets = {str(queue_id): offset for queue_id, offset in table.items()}
    else:
        name, content = os.fsdecode(values["name"]), values["content"]
        if not isinstance(content, dict):
            raise FormatError("value: not a JSON object", offset=0)
        stated = content.get(_NAMES[kind])
        if stated != name:
            raise FormatError(f"{_NAMES[kind]}: {stated!r} in the value, but {name!r} in the key", offset=0)
        tables.setdefault(_TABLES[kind], {})[name] = content
        return
    if name.startswith(LMQ_PREFIX):
        tables.setdefault(LIGHT, {})[name] = next(iter(offsets.values()), 0)
    else:
        tables.setdefault(_TABLES[kind], {}).setdefault(name, {}).update(offsets)


def _with(
    store: Store,
    lifting: Lifting,
    wanted: list[Other],
    queues: list[ConsumeQueue],
    configs: list[StoreFile],
    directory: Path,
) -> Store:
    read = frozenset(other.relative for other in wanted) - lifting.failed.keys()
    names = {config.name for config in configs}
    kept = [config for config in store.configs if config.name.removesuffix(".bak") not in names]
    chosen, areas = _chosen(store, queues, directory)
    notes = [Evidence(f"{name} was not read", str(error)) for name, error in sorted(lifting.failed.items())]
    return replace(
        store,
        queues=chosen,
        configs=(*kept, *configs),
        notes=(*store.notes, *notes),
        lifted=Lifted(
            read,
            areas,
            directory / AREA if (directory / AREA).is_dir() else None,
            {spill.database.relative: _queues_of(spill) for spill in lifting.spills},
            {name: str(error) for name, error in lifting.failed.items()},
            any(queue.kind == "file" and queue.files for queue in store.queues),
        ),
    )


def _queues_of(spill: Spill) -> DatabaseQueues:
    bounds = {
        name: QueueBounds(_pair(queue.least), _pair(queue.greatest), queue.row_count)
        for name, queue in spill.queues.items()
    }
    return DatabaseQueues(spill.dispatched, bounds)


def _pair(bound: Bound | None) -> tuple[int, int] | None:
    return None if bound is None else (bound.queue_offset, bound.physical_offset)


def _chosen(
    store: Store, queues: list[ConsumeQueue], directory: Path
) -> tuple[tuple[ConsumeQueue, ...], Mapping[str, Path]]:
    """The queues that a broker reads, and the directory that stands for `consumequeue/` when it starts."""
    settings = store.settings
    prefers = (settings.get("combineCQPreferCQType") or "").startswith("defaultRocksDB")
    alone = (settings.get("storeType") or "").startswith("defaultRocksDB")
    if alone or prefers or not any(queue.files for queue in store.queues if queue.kind == "file"):
        others = tuple(queue for queue in store.queues if queue.kind != "file")
        areas = {AREA: directory / AREA} if queues or (directory / AREA).is_dir() else {}
        return (*queues, *others), areas
    light = settings.flag("combineCQUseRocksdbForLmq", False)
    in_files = {(queue.topic, queue.queue_id): queue for queue in store.queues}
    found = list(store.queues)
    for queue in queues:
        name = (queue.topic, queue.queue_id)
        if name not in in_files:
            found.append(queue)
        elif light and queue.topic.startswith(LMQ_PREFIX):
            found[found.index(in_files[name])] = queue
    found.sort(key=lambda queue: (queue.kind == "batch", queue.topic, queue.queue_id))
    return tuple(found), {}
