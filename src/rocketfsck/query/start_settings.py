"""What decides a start beside the files' bytes: settings, checkpoint, and what topics.json says of topics.

Reference 5.1, 6.1, appendix B.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats.checkpoint import CHECKPOINT, Checkpoint, decode_checkpoint
from rocketfsck.formats.config import decode_config
from rocketfsck.formats.configviews import topic_configs
from rocketfsck.formats.dialect import Dialect
from rocketfsck.store.model import QueueKind, Settings, Store
from rocketfsck.store.reading import FileReader, read_whole

_MAX_CONFIG_SIZE = 256 << 20


@dataclass(frozen=True, slots=True)
class Role:
    """The settings that decide; what is not set has the broker's default, or what the store shows."""

    master: bool
    index_enabled: bool
    index_safe: bool
    check_crc: bool
    force_property_crc: bool
    recheck_from_queues: bool
    with_ext: bool
    multi_dispatch: bool


def refuse_unknown(store: Store, settings: Settings, dialect: Dialect) -> None:
    """Raise StoreError for a store whose start is another story than the one told here."""
    reasons = (
        (dialect.dledger and settings.flag("enableDLegerCommitLog", False), "its commit log is DLedger's"),
        (
            dialect.rocksdb_consumequeue and (settings.get("storeType") or "").startswith("defaultRocksDB"),
            "its consume queues are in RocksDB",
        ),
    )
    for applies, reason in reasons:
        if applies:
            raise StoreError(f"the start cannot be predicted: {reason}", path=str(store.root))


def role_of(store: Store, settings: Settings) -> Role:
    """The settings with the broker's defaults; what a default cannot tell is as the store shows it."""
    index_enabled = settings.flag("messageIndexEnable", True)
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
    )


def read_start_checkpoint(store: Store) -> Checkpoint:
    """The checkpoint as the broker maps it: what a short file lacks reads as zeros."""
    if store.checkpoint is None:
        return Checkpoint()
    with FileReader(store.checkpoint.path) as reader:
        data = reader.read_upto(0, CHECKPOINT.size)
    return decode_checkpoint(data.ljust(CHECKPOINT.size, b"\0"))


def topic_kinds(store: Store) -> tuple[dict[str, QueueKind], bool]:
    """The kind of queue of every topic in topics.json that says one, and whether there is such a file."""
    for config in store.configs:
        if config.relative == "config/topics.json":
            try:
                found = topic_configs(decode_config(read_whole(config.path, _MAX_CONFIG_SIZE)))
            except FormatError:
                break
            batch = (name for name, topic in found.items() if topic.attributes.get("queue.type") == "BatchCQ")
            return dict.fromkeys(batch, "batch"), True
    return {}, False


def notes_of(settings: Settings, role: Role) -> list[str]:
    """What the prediction assumes or leaves out with these settings."""
    notes = []
    if settings.path is None:
        notes.append("no broker.conf is given: the defaults, and what the store shows, are taken")
    notes += [
        f"{name}: the confirm offset's part in recovery and dispatch is left out"
        for name in ("duplicationEnable", "enableControllerMode")
        if settings.flag(name, False)
    ]
    if role.with_ext:
        notes.append("enableConsumeQueueExt: what happens to the ext files is left out")
    if role.multi_dispatch:
        notes.append("multi-dispatch: records go to the further queues that they name")
    return notes
