"""A file of config/ as a broker loads it: the file, and where that is missing, empty or broken its .bak.

ConfigManager.load. Reference 1.6.

The epoch file of a store whose broker is under a controller, and its .bak. Reference 1.7.

The checkpoint. Reference 5.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Generic, TypeVar

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats import checkpoint, config, javatext, properties, smallfiles
from rocketfsck.reader.units import UnitReader
from rocketfsck.store.areas import list_directory
from rocketfsck.store.elsewhere import has_queues_elsewhere
from rocketfsck.store.model import OtherKind, Store, StoreFile
from rocketfsck.store.reading import FileReader, read_whole
from rocketfsck.store.rocks.families import CONFIG_V2, database_at

EPOCH_LIMIT = 16 << 20
"""Bytes; a longer file is not read."""
BACKUP = ".bak"
_SWEPT = (properties.HALF_TOPIC, properties.OP_TOPIC)


def read_checkpoint(store: Store) -> checkpoint.Checkpoint:
    """The checkpoint as a broker maps it: zeros without one, and for what a short file lacks.

    Raises StoreError for a file that cannot be read.
    """
    if store.checkpoint is None:
        return checkpoint.Checkpoint()
    with FileReader(store.checkpoint.location) as reader:
        data = reader.read_upto(0, checkpoint.CHECKPOINT.size)
    return checkpoint.decode_checkpoint(data.ljust(checkpoint.CHECKPOINT.size, b"\0"))


def epoch_files(store: Store) -> Mapping[str, StoreFile]:
    """The epoch files by name, those that end in .bak, too."""
    files = (file for other in store.others if other.kind is OtherKind.EPOCH for file in other.files)
    return {file.name: file for file in files}


def read_epochs(store: Store) -> tuple[smallfiles.EpochEntry, ...]:
    """The epochs in the file itself, as in the file; without one: none.

    Raises FormatError for a damaged file and StoreError for one that cannot be read.
    """
    files = (file for name, file in epoch_files(store).items() if not name.endswith(BACKUP))
    found = (smallfiles.decode_epochs(read_whole(file.path, EPOCH_LIMIT)).entries for file in files)
    return tuple(chain.from_iterable(found))


CONFIG_LIMIT = 64 << 20
"""Bytes of a file of config/ that is parsed; a parsed one takes several times as much memory."""

Value = TypeVar("Value")


def loaded_config(store: Store, name: str) -> object | None:
    """The value that a broker goes by, of at most `CONFIG_LIMIT` bytes; None where neither file helps."""
    value: object = _loaded(store, name, config.decode_config)
    return value


def loaded_topics(store: Store) -> Mapping[str, config.TopicConfig] | None:
    """What topics.json says; None without one of at most `CONFIG_LIMIT` bytes, or for another form."""
    return _loaded(store, "topics.json", _topics)


def compacted_topics(store: Store) -> frozenset[str]:
    """The topics that topics.json has compacted."""
    found = loaded_topics(store) or {}
    wanted = (name for name, topic in found.items() if topic.attributes.get("cleanup.policy") == "COMPACTION")
    return frozenset(wanted)


def may_lack_topics(store: Store) -> bool:
    """Whether the broker may have had topics that its configs lack: the second form of configs in RocksDB has
    those that somebody created, and never those that a broker made when their first message came (5.3.3 and
    5.5.0: of what changes topics, TopicConfigManagerV2 writes updateTopicConfig alone)."""
    return database_at(store, CONFIG_V2) is not None


def topics_changed(store: Store) -> int | None:
    """When the table of topics was last changed (ms), by its dataVersion; None where nothing says so."""
    version = _loaded(store, "topics.json", lambda data: config.data_version(config.decode_config(data)))
    return None if version is None else version.timestamp


def is_swept(store: Store, topic: str) -> bool:
    """Whether a broker has removed the queues of a topic in use: its directory is there, and empty.

    A broker before 5.0.0 that deletes any topic destroys the queues of all that topics.json does not list at
    that time, of half messages among them (of op messages up to 4.8.0). DefaultMessageStore#cleanUnusedTopic.
    """
    if topic not in _SWEPT or any(queue.topic == topic for queue in store.queues):
        return False
    try:
        return not list_directory(store.root / "consumequeue" / topic)
    except StoreError:
        return False


def swept_before(
    store: Store,
    topic: str,
    last: Mapping[tuple[str, int], int],
    is_deleted: Callable[[tuple[str, int]], bool],
) -> int:
    """Where the records of a topic in use end that a broker has removed from its queues, as a physical
    offset: after the record that the last of all units leads to; -1 for a topic that is not swept.

    Records after that one were in no queue when the broker stopped, or lost their units with all others
    there. Not after a clean stop, before which a broker dispatches every record, if all of them belong to
    queues that are swept or deleted: then nothing else was lost there. `last` is the physical offset of the
    last record of each queue, `is_deleted` says of a queue that somebody deleted it. Raises StoreError for a
    file that fails.
    """
    if not is_swept(store, topic):
        return -1
    if has_queues_elsewhere(store):
        return javatext.INT64_MAX
    before = _last_offset(store) + 1
    if store.abort is not None:
        return before
    names = [name for name, offset in last.items() if offset >= before]
    nothing_else = all(is_swept(store, name[0]) or is_deleted(name) for name in names)
    return javatext.INT64_MAX if nothing_else else before


def _last_offset(store: Store) -> int:
    """The greatest physical offset that a queue's last unit leads to; -2 without any unit."""
    greatest = -2
    for queue in store.queues:
        with UnitReader(queue) as reader:
            last = reader.unit(reader.find_offset(javatext.INT64_MAX) - 1)
            if last is not None and last.is_used:
                greatest = max(greatest, last.physical_offset)
    return greatest


@lru_cache(maxsize=1)
def _topics(data: bytes) -> Mapping[str, config.TopicConfig] | None:
    """Many ask for the same file, each start of a prediction several times: it is decoded once."""
    value = config.decode_config(data)
    with suppress(FormatError):
        return config.topic_configs(value)
    return None


@dataclass(frozen=True, slots=True)
class LoadedConfig(Generic[Value]):
    """What a broker goes by, the file that says it, and why the first one does not where none does.

    `file` is the one with the `error`, if there is one. All are None without a file that has any bytes.
    """

    value: Value | None = None
    file: StoreFile | None = None
    error: StoreError | None = None


def load_config(store: Store, name: str, decode: Callable[[bytes], Value]) -> LoadedConfig[Value]:
    """The config `name`, of at most `CONFIG_LIMIT` bytes; `decode` raises FormatError for bytes that a broker
    does not load."""
    files = {file.name: file for file in store.configs}
    failed: LoadedConfig[Value] = LoadedConfig()
    for candidate in (name, f"{name}{BACKUP}"):
        file = files.get(candidate)
        if file is None or not file.size:
            continue
        try:
            return LoadedConfig(decode(read_whole(file.location, CONFIG_LIMIT)), file)
        except (FormatError, StoreError) as error:
            failed = failed if failed.error else LoadedConfig(file=file, error=error)
    return failed


def _loaded(store: Store, name: str, decode: Callable[[bytes], Value]) -> Value | None:
    return load_config(store, name, decode).value
