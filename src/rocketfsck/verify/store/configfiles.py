"""Reads the files in `config/` as a broker does: the file, else its .bak; and tells what is wrong with them.

Reference 1.6.2, 1.6.3; fault class K5. A file counts as sound if fastjson would take all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats import config
from rocketfsck.formats.properties import LMQ_PREFIX
from rocketfsck.formats.timer import SCHEDULE_TOPIC
from rocketfsck.reader.configs import CONFIG_LIMIT
from rocketfsck.store.model import Store, StoreFile, StrayReason
from rocketfsck.store.reading import read_whole
from rocketfsck.verify.finding import Facts, Finding, Findings, Where
from rocketfsck.verify.report import NotChecked

_BACKUP = ".bak"
EMPTY = "the file is empty"
"""Why a file cannot be parsed that a broker treats as one that is not there."""

SYSTEM_TOPICS = frozenset(
    {SCHEDULE_TOPIC, "TBW102", "SELF_TEST_TOPIC", "BenchmarkTest", "OFFSET_MOVED_EVENT"}
)
SYSTEM_PREFIXES = ("rmq_sys_", "RMQ_SYS_", LMQ_PREFIX)

TOPICS = "topics.json"
VIEWS: Mapping[str, Callable[[Any], Mapping[Any, Any]]] = {
    TOPICS: config.topic_configs,
    **config.OFFSET_VIEWS,
    "delayOffset.json": config.delay_offsets,
}
"""What is compared with the queues; of other files only the syntax is checked."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """One file. `value` is there if it is sound; else `reason` and `offset` say what is not.

    `prefix_size` is set where a whole value is followed by something else; `value` is then that value.
    """

    file: StoreFile
    value: Any = None
    reason: str | None = None
    offset: int = 0
    prefix_size: int | None = None

    @property
    def sound(self) -> bool:
        return self.reason is None


@dataclass(frozen=True, slots=True)
class Configs:
    """The views of the files that were there and could be read, by name; and from which file each is."""

    views: Mapping[str, Mapping[Any, Any]]
    files: Mapping[str, str]
    findings: tuple[Finding | NotChecked, ...]


def load_configs(store: Store) -> Configs:
    """Read every config file, and its .bak; what is wrong is in `findings`.

    A broker takes `null` for a file that has nothing, and asks no .bak.
    """
    findings: list[Finding | NotChecked] = []
    parsed: dict[str, Parsed] = {}
    for file in store.configs:
        try:
            parsed[file.name] = parse_file(file)
        except StoreError as error:
            findings.append(NotChecked(file.relative, str(error), operational=True))
    unreadable = {file.name for file in store.configs} - parsed.keys()
    views: dict[str, Mapping[Any, Any]] = {}
    files: dict[str, str] = {}
    for name in sorted({name.removesuffix(_BACKUP) for name in parsed}):
        main, backup = parsed.get(name), parsed.get(name + _BACKUP)
        if name not in unreadable:
            findings += _check_pair(store, name, main, backup)
        used = _used(main, backup)
        if used is None:
            continue
        try:
            if used.value is None:
                views[name], files[name] = {}, used.file.relative
                raise FormatError("the content is null")
            if not isinstance(used.value, Mapping):
                raise FormatError("the content is not an object")
            config.data_version(used.value)
            views[name] = VIEWS.get(name, dict)(used.value)
            files[name] = used.file.relative
        except FormatError as error:
            findings.append(Finding(RuleName.CONFIG_SHAPE, Where(used.file.relative), {"reason": str(error)}))
    findings += _unfinished(store)
    return Configs(views, files, tuple(findings))


def is_system_topic(topic: str) -> bool:
    """Whether a broker makes this topic itself, so that it need not be in topics.json."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIXES)


def is_slave(store: Store) -> bool:
    """Whether a broker.conf says that the store is a slave's: it takes offsets and files of its master."""
    return (store.settings.get("brokerRole") or "").strip() == "SLAVE"


def parse_file(file: StoreFile) -> Parsed:
    """Parse one file. Raises StoreError if it cannot be read or is too large."""
    data = read_whole(file.path, CONFIG_LIMIT)
    if not data:
        return Parsed(file, reason=EMPTY)
    try:
        return Parsed(file, config.decode_config(data))
    except FormatError as error:
        reason, offset = str(error), min(error.offset or 0, len(data))
    try:
        value, end = config.valid_prefix(data)
    except FormatError:
        if not data.strip(b"\0"):
            reason = "the file has only NUL bytes"
        return Parsed(file, reason=reason, offset=offset)
    return Parsed(file, value, reason, offset, end)


def _used(main: Parsed | None, backup: Parsed | None) -> Parsed | None:
    """What a broker continues with; where it would have nothing, a whole value that something follows."""
    for candidate in (main, backup):
        if candidate is not None and candidate.sound:
            return candidate
    return main if main is not None and main.prefix_size is not None else None


def _check_pair(store: Store, name: str, main: Parsed | None, backup: Parsed | None) -> Findings:
    backup_sound = backup is not None and backup.sound
    if main is None:
        if backup is not None:
            pending = any(stray.relative == f"config/{name}.tmp" for stray in store.strays)
            text = "; the unfinished write is in .tmp" if pending else ""
            yield Finding(
                RuleName.CONFIG_MISSING,
                Where(f"config/{name}"),
                {"pending": text, "backup_sound": backup_sound, "reason": backup.reason},
            )
    elif main.prefix_size is not None:
        where = Where(main.file.relative, main.prefix_size, main.file.size)
        extra = main.file.size - main.prefix_size
        yield Finding(
            RuleName.CONFIG_TRAILING_BYTES, where, {"extra_byte_count": extra, "backup_sound": backup_sound}
        )
    elif not main.sound:
        where = Where(main.file.relative, main.offset, main.file.size)
        rule = RuleName.CONFIG_FALLS_BACK if backup_sound else RuleName.CONFIG_LOST
        yield Finding(rule, where, {"reason": main.reason})
    elif backup is not None and not backup.sound and backup.file.size:
        where = Where(backup.file.relative, backup.offset, backup.file.size)
        yield Finding(RuleName.CONFIG_BACKUP_DAMAGED, where, {"reason": backup.reason})
    elif backup is not None and backup.sound and not is_slave(store):
        yield from _check_age(main, backup)


def _check_age(main: Parsed, backup: Parsed) -> Findings:
    """A .bak is the state before the last write: never newer."""
    try:
        new, old = config.data_version(main.value), config.data_version(backup.value)
    except FormatError:
        return
    if new is None or old is None or new.state_version != old.state_version or old.counter <= new.counter:
        return
    if main.file.name == TOPICS and _differ_in_own_topics(main.value, backup.value):
        return
    found: Facts = {"counter": new.counter, "timestamp": new.timestamp}
    wanted = {"counter": old.counter, "timestamp": old.timestamp}
    yield Finding(RuleName.CONFIG_BACKUP_NEWER, Where(main.file.relative), found, wanted)


def _differ_in_own_topics(main: Any, backup: Any) -> bool:
    """Whether two files differ, but only in topics that a broker makes itself when it needs them.

    A master that becomes a slave takes the file of the new master, which may not have made them yet.
    """
    try:
        new, old = config.topic_configs(main), config.topic_configs(backup)
    except FormatError:
        return False
    changed = {name for name in new.keys() | old.keys() if new.get(name) != old.get(name)}
    return bool(changed) and all(map(is_system_topic, changed))


def _unfinished(store: Store) -> Findings:
    for stray in store.strays:
        if stray.area == "config" and stray.reason is StrayReason.TEMPORARY:
            yield Finding(RuleName.CONFIG_UNFINISHED_WRITE, Where(stray.relative), {"size": stray.size})
