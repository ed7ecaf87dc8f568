"""Which parts of a store each rule looks at, and which parts a store has.

A rule about timers finds nothing in a store without timers, and that proves nothing: whoever says what was
proven (`commands.certify`) leaves it out. A rule that says that something is missing looks at what tells that
it should be there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.timer import SCHEDULE_TOPIC
from rocketfsck.scan.log.resync import RegionKind
from rocketfsck.store.elsewhere import lost_queue_database
from rocketfsck.store.model import OtherKind, Store
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import RULES

Part = Literal[
    "store", "log", "records", "ends of log files", "queues", "batch queues", "extensions of queues",
    "index", "checkpoint", "lock", "epochs", "identity", "configs", "delay queues", "delay offsets",
    "timer checkpoint", "timers", "compacted logs", "databases", "tiered storage", "DLedger",
]  # fmt: skip

_FAMILIES: Mapping[str, Part] = {
    "ST": "store",
    "CL": "records",
    "CQ": "queues",
    "IX": "index",
    "CP": "checkpoint",
    "CF": "configs",
    "KV": "compacted logs",
    "TM": "timers",
    "XR": "records",
    "RK": "databases",
    "TS": "tiered storage",
}
"""What the rules of a family look at, but for those of `_OTHERWISE`."""

_OTHERWISE: Mapping[Part, tuple[RuleName, ...]] = {
    "store": (RuleName.ABORT_PRESENT, RuleName.ABORT_OF_RUNNING_BROKER),
    "log": (
        RuleName.LOG_BOUNDARY_LOST, RuleName.LOG_TORN_TAIL, RuleName.LOG_NO_RECORDS, RuleName.STALE_TAIL,
        RuleName.RECORD_MALFORMED, RuleName.RECORD_MAGIC_UNKNOWN, RuleName.BYTES_BEHIND_END,
        RuleName.RECOVERY_START, RuleName.RECOVERY_SCANS_ALL, RuleName.CHECKPOINT_MISSING,
        RuleName.TIMES_LOST, RuleName.LOG_FILE_MISNAMED, RuleName.LOG_FILE_COPIED,
        RuleName.LOG_FILE_APPENDED, RuleName.LOG_BEGINNING_GONE,
        RuleName.LOG_OLDER,
    ),
    "ends of log files": (RuleName.BLANK_SIZE, RuleName.BLANK_TOO_EARLY),
    "queues": (
        RuleName.QUEUES_OF_ANOTHER_LOG, RuleName.QUEUE_KIND_TWICE, RuleName.QUEUE_KIND_ATTRIBUTE,
        RuleName.CONSUMER_OFFSETS_GONE, RuleName.SUBSCRIPTIONS_GONE, RuleName.TOPICS_GONE,
        RuleName.TOPICS_ELSEWHERE, RuleName.TOPICS_FOREIGN, RuleName.TOPIC_NAME_MISSING,
        RuleName.QUEUE_WITHOUT_TOPIC,
        RuleName.QUEUE_BEYOND_TOPIC, RuleName.GHOST_QUEUE,
        RuleName.RECORD_WITHOUT_UNIT, RuleName.UNIT_BEYOND_LOG, RuleName.UNIT_GHOST, RuleName.UNIT_SHIFTED,
        RuleName.UNIT_SIZE, RuleName.UNIT_TAGS_CODE, RuleName.UNIT_OF_DAMAGED_RECORD,
        RuleName.UNIT_IN_MISSING_SEGMENT, RuleName.UNIT_OF_FILLER, RuleName.UNIT_IN_MISNAMED_FILE,
        RuleName.LIGHT_UNITS_SHIFTED, RuleName.QUEUES_OLDER, RuleName.QUEUES_FOREIGN, RuleName.LOG_FOREIGN,
        RuleName.LOG_FILE_FOREIGN,
    ),
    "batch queues": (
        RuleName.BATCH_UNIT_BASE, RuleName.BATCH_UNIT_RESERVED, RuleName.BATCH_UNIT_CONTENT,
    ),
    "extensions of queues": (
        RuleName.EXT_UNIT_MALFORMED, RuleName.EXT_UNIT_ORPHAN, RuleName.EXT_UNIT_CONTENT,
        RuleName.QUEUE_EXTENSION_ORPHAN,
    ),
    "index": (
        RuleName.INDEX_FILE_DOOMED, RuleName.INDEX_NAME,
        RuleName.RECORD_UNINDEXED, RuleName.KEY_UNINDEXED, RuleName.ENTRY_BEYOND_LOG, RuleName.ENTRY_DANGLING,
        RuleName.ENTRY_KEY, RuleName.ENTRY_DUPLICATE, RuleName.ENTRY_TIME, RuleName.INDEX_AHEAD_OF_LOG,
        RuleName.ENTRIES_EXPIRED, RuleName.ENTRY_OF_DAMAGED_RECORD, RuleName.ENTRY_IN_MISSING_SEGMENT,
        RuleName.UNKNOWN_ENTRIES, RuleName.TAGS_OF_OLDER_BROKER, RuleName.TAGS_UNINDEXED,
        RuleName.INDEX_FOREIGN,
    ),
    "lock": (RuleName.LOCK_CONTENT,),
    "epochs": (
        RuleName.EPOCH_DAMAGED, RuleName.EPOCH_ORDER, RuleName.EPOCH_RANGE, RuleName.EPOCH_BOUNDARY,
    ),
    "identity": (RuleName.IDENTITY_DAMAGED, RuleName.IDENTITY_DIFFERS),
    "delay queues": (RuleName.DELAY_OFFSET_GONE, RuleName.DELAY_LEVELS_INFERRED),
    "delay offsets": (
        RuleName.DELAY_OFFSET_RANGE, RuleName.DELAY_LEVEL_UNKNOWN, RuleName.DELAYED_EXPIRED,
        RuleName.DELAY_OFFSET_LATE,
    ),
    "timer checkpoint": (RuleName.TIMER_CHECK_LENGTH, RuleName.TIMER_CHECK_RANGE),
    "DLedger": (
        RuleName.DLEDGER_INDEX_ENTRY, RuleName.DLEDGER_ENTRY_PLACE, RuleName.DLEDGER_RANGE,
        RuleName.DLEDGER_TERM, RuleName.DLEDGER_UNUSED_FIELD, RuleName.DLEDGER_STATE,
    ),
}  # fmt: skip

_PARTS: Mapping[str, Part] = {rule: part for part, rules in _OTHERWISE.items() for rule in rules}

_OTHERS: Mapping[Part, frozenset[OtherKind]] = {
    "epochs": frozenset({OtherKind.EPOCH}),
    "identity": frozenset({OtherKind.BROKER_IDENTITY}),
    "timer checkpoint": frozenset({OtherKind.TIMER_CHECK}),
    "timers": frozenset({OtherKind.TIMER_WHEEL, OtherKind.TIMER_LOG, OtherKind.TIMER_CHECK}),
    "compacted logs": frozenset(
        {OtherKind.COMPACTION_LOG, OtherKind.COMPACTION_CQ, OtherKind.COMPACTION_CHECKPOINT}
    ),
    "databases": frozenset({OtherKind.ROCKSDB}),
    "tiered storage": frozenset(
        {OtherKind.TIERED_INDEX, OtherKind.TIERED_LOG, OtherKind.TIERED_QUEUE, OtherKind.TIERED_SEGMENT_INDEX}
    ),
    "DLedger": frozenset({OtherKind.DLEDGER, OtherKind.DLEDGER_DATA, OtherKind.DLEDGER_INDEX}),
}
"""The parts that are among a store's `others`."""

_DELAY_OFFSETS = "config/delayOffset.json"
_ENDS = frozenset({RegionKind.BLANK, RegionKind.FILLER})


def part_of(rule: str) -> Part:
    """What a rule looks at."""
    return _PARTS.get(rule) or _FAMILIES[RULES[rule].family]


def parts_of(store: Store, report: Report) -> frozenset[Part]:
    """The parts that a store has, of which a report at level full says what was in them."""
    kinds = {other.kind for other in store.others if other.files}
    records = report.checked.get("commitlog")
    regions = {region.kind for file in report.regions.values() for region in file}
    found: dict[Part, Callable[[], bool]] = {
        "store": lambda: True,
        "log": lambda: bool(store.commitlog.files),
        "records": lambda: records is not None and records.record_count > 0,
        "ends of log files": lambda: not _ENDS.isdisjoint(regions),
        "queues": lambda: bool(store.queues),
        "batch queues": lambda: any(queue.kind == "batch" for queue in store.queues),
        "extensions of queues": lambda: bool(store.ext_queues),
        "index": lambda: bool(store.indexes),
        "checkpoint": lambda: store.checkpoint is not None,
        "lock": lambda: store.lock is not None,
        "configs": lambda: bool(store.configs) or _has_config_database(store),
        "delay queues": lambda: any(queue.topic == SCHEDULE_TOPIC for queue in store.queues),
        "delay offsets": lambda: any(file.relative.startswith(_DELAY_OFFSETS) for file in store.configs),
        "databases": lambda: OtherKind.ROCKSDB in kinds or lost_queue_database(store) is not None,
    }
    there = {part for part, is_there in found.items() if is_there()}
    return frozenset(there | {part for part, wanted in _OTHERS.items() if not wanted.isdisjoint(kinds)})


def _has_config_database(store: Store) -> bool:
    return any(
        other.kind is OtherKind.ROCKSDB and other.relative.startswith("config/") for other in store.others
    )
