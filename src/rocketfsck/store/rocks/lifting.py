"""A store whose databases have become files: queues and configs in RocksDB where the other readers look.

    <scratch>/consumequeue/<topic>/<queueId>/    units of the queues (`store.rocks.spilling`)
    <scratch>/config/*.json                      topics, groups, consumer offsets

Which queue a broker reads where it has it in both forms is what `combineCQPreferCQType` says: the files by
default, and the database for light queues with `combineCQUseRocksdbForLmq`. Reference 3.9, 11.4, 11.5.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats.properties import LMQ_PREFIX
from rocketfsck.store.circumstances import Evidence
from rocketfsck.store.elsewhere import QUEUE_DATABASES
from rocketfsck.store.model import ConsumeQueue, DatabaseQueues, Lifted, Other, QueueBounds, Store, StoreFile
from rocketfsck.store.reading import named_errors
from rocketfsck.store.rocks import families, spilling
from rocketfsck.store.rocks.reading import RocksError, read_rows, scratch_directory, why_not_readable

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
class _Content:
    """What databases hold, in a scratch directory, and what kept some of it from being read: by database."""

    directory: Path
    queues: list[ConsumeQueue] = field(default_factory=list)
    configs: list[StoreFile] = field(default_factory=list)
    spills: list[spilling.Spill] = field(default_factory=list)
    failed: dict[str, StoreError] = field(default_factory=dict)
    odd: dict[str, families.OddRows] = field(default_factory=dict)
    late: list[spilling.LateQueues] = field(default_factory=list)

    def fetch(self, queue: ConsumeQueue) -> ConsumeQueue | None:
        """The queue with its files, where these come late; None where they cannot be read."""
        found: ConsumeQueue | None = queue
        for late in self.late:
            try:
                found = None if found is None else late.fetch(found)
            except StoreError as error:
                self.failed[late.spill.database.relative] = error
                found = None
        return found


@dataclass(frozen=True, slots=True)
class Lifting:
    """A store with what its databases hold, and what kept some of it from being read: by database."""

    store: Store
    spills: Sequence[spilling.Spill] = ()
    failed: Mapping[str, StoreError] = field(default_factory=dict)
    odd: Mapping[str, families.OddRows] = field(default_factory=dict)


@contextmanager
def lifted(store: Store, *, late: bool = False) -> Iterator[Lifting]:
    """The store with the queues and configs of its databases, as long as the context lasts.

    A store without such databases is given as it is; so is one whose databases cannot be read, with the
    reasons. `late`: queues have no files until they are fetched (`Lifted.fetch`), for who looks at a few of
    them. Raises StoreError where there is no room for the scratch directory.
    """
    wanted = tuple(other for other in families.databases_of(store) if is_lifted(other))
    if not wanted:
        yield Lifting(store)
        return
    file_size = store.geometry.consumequeue_file_size
    late = late and not any(queue.kind == "batch" for queue in store.queues)  # of two alike the larger counts
    kept = None if late else _kept.get()
    with _read(wanted, file_size, late=late) if kept is None else kept.content(wanted, file_size) as content:
        yield Lifting(_with(store, content, wanted), content.spills, content.failed, content.odd)


@contextmanager
def _read(wanted: Sequence[Other], file_size: int, *, late: bool = False) -> Iterator[_Content]:
    with scratch_directory() as directory:
        content = _Content(directory)
        for other in wanted:
            if (reason := why_not_readable(other)) is not None:
                content.failed[other.relative] = RocksError(reason, path=str(other.path))
                continue
            try:
                if other.relative in QUEUE_DATABASES:
                    content.queues += _lift_queues(content, other, file_size, late=late)
                else:
                    content.configs += _lift_configs(content, other)
            except StoreError as error:
                content.failed[other.relative] = error
        yield content


class _Kept:
    """The content of databases that was read last. Of one store at a time, so that there is no more of it on
    the disk than without keeping any; not where one cannot be read, so that a second look is one."""

    def __init__(self) -> None:
        self.stack = ExitStack()
        self.found: tuple[Sequence[Other], int, _Content] | None = None
        self.in_use = False

    @contextmanager
    def content(self, wanted: Sequence[Other], file_size: int) -> Iterator[_Content]:
        """What these databases hold."""
        if self.in_use:
            with _read(wanted, file_size) as content:
                yield content
            return
        if self.found is None or self.found[:2] != (wanted, file_size):
            self.found = None
            self.stack.close()
            content = self.stack.enter_context(_read(wanted, file_size))
            self.found = (wanted, file_size, content)
        content = self.found[2]
        self.in_use = True
        try:
            yield content
        finally:
            self.in_use = False
            if content.failed:
                self.found = None
                self.stack.close()


_kept: ContextVar[_Kept | None] = ContextVar("kept", default=None)


@contextmanager
def kept_databases() -> Iterator[None]:
    """Within the block a database is read once, however often its store is lifted: by a check and a verdict.
    What is lifted stays on the disk until other databases are, or the block ends."""
    kept = _Kept()
    before = _kept.set(kept)
    try:
        yield
    finally:
        _kept.reset(before)
        kept.stack.close()


def is_lifted(other: Other) -> bool:
    """Whether a database holds queues or configs."""
    return other.relative in QUEUE_DATABASES or bool(families.contents_of(other.relative) & CONFIG_CONTENTS)


def _lift_queues(content: _Content, other: Other, file_size: int, *, late: bool) -> list[ConsumeQueue]:
    directory = content.directory / AREA
    directory.mkdir(exist_ok=True)
    if late:
        content.late.append(spilling.LateQueues(spilling.spill_bounds(other), directory, file_size))
        return content.late[-1].queues
    spill = spilling.spill_queues(other, directory, file_size)
    content.spills.append(spill)
    return list(spilling.consume_queues(spill, file_size))


def _lift_configs(found: _Content, other: Other) -> Iterator[StoreFile]:
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
                odd = found.odd.setdefault(other.relative, families.OddRows())
                odd.add(rows.family, key, str(error))
    directory = found.directory / "config"
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


def _with(store: Store, content: _Content, wanted: Sequence[Other]) -> Store:
    read = frozenset(other.relative for other in wanted) - content.failed.keys()
    names = {config.name for config in content.configs}
    kept = [config for config in store.configs if config.name.removesuffix(".bak") not in names]
    chosen, areas = _chosen(store, content.queues, content.directory)
    notes = [Evidence(f"{name} was not read", str(error)) for name, error in sorted(content.failed.items())]
    files = content.directory / AREA
    return replace(
        store,
        queues=chosen,
        configs=(*kept, *content.configs),
        notes=(*store.notes, *notes),
        lifted=Lifted(
            read,
            areas,
            files if files.is_dir() else None,
            {spill.database.relative: _queues_of(spill) for spill in content.spills},
            content.failed,
            any(queue.kind == "file" and queue.files for queue in store.queues),
            content.fetch if content.late else None,
        ),
    )


def _queues_of(spill: spilling.Spill) -> DatabaseQueues:
    bounds = {
        name: QueueBounds(queue.least, queue.greatest, queue.row_count)
        for name, queue in spill.queues.items()
    }
    return DatabaseQueues(spill.dispatched, bounds)


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
