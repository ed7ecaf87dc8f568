"""What decides a start apart from the files' bytes: settings, checkpoint, what topics.json says of topics.

Reference 5.1, 6.1, appendix B.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache

from rocketfsck.errors import StoreError
from rocketfsck.formats.dialect import NEWEST_NAME, Dialect, is_newer
from rocketfsck.formats.javatext import INT64_MAX, parse_int32
from rocketfsck.formats.smallfiles import filename_to_offset, is_queue_name
from rocketfsck.query.start.databases import kind_of_queues, not_described, unread_databases
from rocketfsck.query.start.load import entries_of
from rocketfsck.reader.configs import loaded_topics, may_lack_topics, swept_before
from rocketfsck.store.circumstances import Settings
from rocketfsck.store.model import OtherKind, QueueKind, Store, StrayReason
from rocketfsck.store.places.entries import EntryKind

BOTH_REASON = "predictions do not cover consume queues in RocksDB together with DLedger"
NO_DATA_REASON = "DLedger keeps the commit log, and none of DLedger's data files is there"
NO_ENTRIES_REASON = "DLedger keeps the commit log, and which files belong to DLedger's log is uncertain"
QUEUES_REASON = "the consume queues are in RocksDB"

NEWER_REASON = "{version} is newer than {newest}, the newest version that is known"

NOTED_TOPICS = 5


@dataclass(frozen=True, slots=True)
class Role:
    """The settings that decide; what is not set has the broker's default, or what the store shows.

    `file_limit` is how many commit log files a recovery looks at for its start (None: all), `accelerated`
    whether it begins with the record that the checkpoint names (5.5.0+).
    """

    master: bool
    index_enabled: bool
    index_safe: bool
    check_crc: bool
    force_property_crc: bool
    recheck_from_queues: bool
    with_ext: bool
    multi_dispatch: bool
    file_limit: int | None = None
    accelerated: bool = False


class NotCoveredError(StoreError):
    """What a broker does with a store like this is not described here. `reasons` say why, each a clause;
    `what` is what cannot be done."""

    def __init__(
        self, reasons: tuple[str, ...], *, path: str, what: str = "the start cannot be predicted"
    ) -> None:
        super().__init__(f"{what}: {'; '.join(reasons)}", path=path)
        self.reasons = reasons


def refuse_unknown(store: Store, settings: Settings, dialect: Dialect) -> None:
    """Raise NotCoveredError for a store whose queues or commit log are kept in a form that is not read here.

    What the settings say decides; without them the files do.
    """
    reasons = (
        _newer(settings, dialect)
        or _not_read(store, settings, dialect)
        or not_described(store, settings, dialect)
    )
    if reasons:
        raise NotCoveredError(reasons, path=str(store.root))


def _newer(settings: Settings, dialect: Dialect) -> tuple[str, ...]:
    """A version or a kind of store that is newer than this program: what such a broker does is not known."""
    store_type = settings.get("storeType")
    known = store_type is None or store_type == "default" or store_type.startswith("defaultRocksDB")
    asked = (
        (is_newer(dialect.version), NEWER_REASON.format(version=dialect.version, newest=NEWEST_NAME)),
        (dialect.rocksdb_consumequeue and not known, f"storeType={store_type} is not known"),
    )
    return tuple(reason for applies, reason in asked if applies)


def refuse_unanswered(store: Store, dialect: Dialect, *, queues: bool) -> None:
    """Raise NotCoveredError for a store whose commit log is kept in a form that is not read here, or with
    `queues` its queues: what a running broker answers cannot be predicted.

    Queues that are kept in both forms have the same units.
    """
    settings = store.settings
    doubled = bool(store.queues) and not (settings.get("storeType") or "").startswith("defaultRocksDB")
    left_out = {BOTH_REASON}
    if store.has_entries:
        left_out.update(_node_reasons(store, settings, dialect))
    if doubled or not queues:
        left_out.add(QUEUES_REASON)
    reasons = tuple(reason for reason in _not_read(store, settings, dialect) if reason not in left_out)
    if reasons:
        raise NotCoveredError(reasons, path=str(store.root), what="a broker's answers cannot be predicted")


def _not_read(store: Store, settings: Settings, dialect: Dialect) -> tuple[str, ...]:
    in_database = kind_of_queues(store, settings, dialect) != "files"
    asked = (
        *((True, reason) for reason in _node_reasons(store, settings, dialect)),
        (in_database and uses_entries(store, settings, dialect), BOTH_REASON),
        (in_database and unread_databases(store), QUEUES_REASON),
        *((True, reason) for reason in _log_elsewhere(store)),
    )
    return tuple(reason for applies, reason in asked if applies)


def uses_entries(store: Store, settings: Settings, dialect: Dialect) -> bool:
    """Whether a broker with these settings reads the store's log as DLedger's."""
    return dialect.dledger and store.has_entries and settings.flag("enableDLegerCommitLog", True)


def _node_reasons(store: Store, settings: Settings, dialect: Dialect) -> list[str]:
    """Why the start of a broker with DLedger cannot be predicted on this store."""
    found = [other for other in store.others if other.kind is OtherKind.DLEDGER_DATA]
    if not dialect.dledger or not settings.flag("enableDLegerCommitLog", bool(found)):
        return []
    if not store.has_entries:
        return [NO_ENTRIES_REASON if any(other.files for other in found) else NO_DATA_REASON]
    names = {file.relative.split("/")[0] for file in store.commitlog.files if file.in_entries}
    own = settings.get("dLegerSelfId")
    reasons = []
    if own is not None and names != {f"dledger-{own.strip()}"}:
        reasons.append(
            f"broker.conf names the node {own.strip()}, but the store has {', '.join(sorted(names))}"
        )
    if settings.get("storePathDLedgerCommitLog") is not None:
        reasons.append("storePathDLedgerCommitLog names other directories for DLedger's data")
    if settings.flag("enableAcceleratedRecovery", False) or settings.flag("duplicationEnable", False):
        reasons.append(
            "predictions do not cover enableAcceleratedRecovery or duplicationEnable together with DLedger"
        )
    return reasons


def _log_elsewhere(store: Store) -> list[str]:
    """The reason where nobody said so, but the commit log is in directories of other names."""
    if store.commitlog.files or store.settings.path is not None or store.stated.commitlog_paths:
        return []
    found = [
        stray.relative
        for stray in store.strays
        if stray.area == "root" and stray.reason is StrayReason.UNKNOWN and _has_log_files(str(stray.path))
    ]
    if not found:
        return []
    return [f"commitlog/ has no files, but {', '.join(found)} may be the commit log (--commitlog-path)"]


def _has_log_files(directory: str) -> bool:
    return any(
        entry.kind is EntryKind.FILE and filename_to_offset(entry.name) is not None
        for entry in entries_of(directory)
    )


def role_of(store: Store, settings: Settings, dialect: Dialect) -> Role:
    """The settings with the broker's defaults; what a default cannot tell is as the store shows it."""
    index_enabled = settings.flag("messageIndexEnable", True)
    if dialect.message_database:
        index_enabled = index_enabled and settings.flag("indexFileWriteEnable", True)
    return Role(
        master=(settings.get("brokerId") or "0").strip() == "0",
        index_enabled=index_enabled and store.geometry.entry_count > 1,
        index_safe=index_enabled and settings.flag("messageIndexSafe", False),
        check_crc=settings.flag("checkCRCOnRecover", True),
        force_property_crc=settings.flag("forceVerifyPropCRC", False),
        recheck_from_queues=settings.flag("recheckReputOffsetFromCq", False),
        with_ext=settings.flag("enableConsumeQueueExt", bool(store.ext_queues)),
        multi_dispatch=settings.flag(
            "enableLmq", any(queue.topic.startswith("%LMQ%") for queue in store.queues)
        ),
        file_limit=_file_limit(settings, dialect),
        accelerated=dialect.accelerated_recovery and settings.flag("enableAcceleratedRecovery", False),
    )


def _file_limit(settings: Settings, dialect: Dialect) -> int | None:
    """How many commit log files a recovery looks at for its start; None: all."""
    if dialect.recovery_file_limit is None:
        return None
    stated = parse_int32((settings.get("commitLogRecoverMaxNum") or "").strip()) or 0
    return stated if stated > 0 else dialect.recovery_file_limit


def topic_kinds(store: Store) -> tuple[dict[str, QueueKind], bool]:
    """The kind of queue of every topic in topics.json that says one, and whether there is such a file."""
    found = loaded_topics(store)
    if found is None:
        return {}, False
    batch = (name for name, topic in found.items() if topic.attributes.get("queue.type") == "BatchCQ")
    return dict.fromkeys(batch, "batch"), True


def deleted_queues(store: Store, last: Mapping[tuple[str, int], int]) -> Callable[[str, int], int]:
    """Before which physical offset the records of a queue that the store has not were removed from it on
    purpose, -1 for none: by what topics.json says. Nothing where the file is missing, or names none of the
    topics that have queues (without any queue: none of those in the log) or may lack some, nor of topics that
    no broker can serve. `last` is the physical offset of the last record of each queue. Reference 8."""
    found = loaded_topics(store) or {}
    with_queues = {queue.topic for queue in store.queues}
    tells = not may_lack_topics(store) and not found.keys().isdisjoint(
        with_queues or {topic for topic, _ in last}
    )
    counts = {name: max(topic.read_queue_nums, topic.write_queue_nums) for name, topic in found.items()}

    def is_deleted(name: tuple[str, int]) -> bool:
        topic, queue_id = name
        return queue_id >= counts[topic] if topic in counts else topic not in with_queues

    @cache
    def swept(topic: str) -> int:
        return swept_before(store, topic, last, is_deleted)

    def deleted_before(topic: str, queue_id: int) -> int:
        if not tells or not is_queue_name(topic):
            return -1
        return INT64_MAX if is_deleted((topic, queue_id)) else swept(topic)

    return deleted_before


TIERED_NOTE = (
    "tiered storage: the prediction leaves out what the start does to its metadata and "
    "files, and messages that only tiered storage has"
)


def notes_of(settings: Settings, role: Role) -> list[str]:
    """What the prediction assumes or leaves out with these settings."""
    notes = []
    if settings.path is None:
        notes.append("without broker.conf, the prediction uses the default settings and what the store shows")
    notes += [
        f"{name}: the prediction ignores the confirm offset in recovery and dispatch"
        for name in ("duplicationEnable", "enableControllerMode")
        if settings.flag(name, False)
    ]
    if role.with_ext:
        notes.append("enableConsumeQueueExt: the prediction leaves out the extension files")
    if role.multi_dispatch:
        notes.append("multi-dispatch: records also go to the other queues that they name")
    return notes


def kinds_note(batch_topics: Collection[str]) -> str:
    """What is assumed where there is no topics.json and bytes show that these topics are batch topics."""
    shown = ", ".join(sorted(batch_topics)[:NOTED_TOPICS])
    more = f" and {len(batch_topics) - NOTED_TOPICS} more" if len(batch_topics) > NOTED_TOPICS else ""
    return (
        f"config/topics.json is missing or cannot be read: the prediction treats {shown}{more} as "
        "BatchCQ, as batchconsumequeue/ or the records show; a broker without that file treats "
        "every topic as SimpleCQ"
    )
