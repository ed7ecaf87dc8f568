"""What differs between broker versions in the bytes or on a restart, as data. Reference 0.3, 0.4, 1.2, 1.4.

Files never say which version wrote them, so a `Dialect` is either found from the bytes or given. A version is
a node of the lineage: 4.9.1 … 4.9.8 and 5.0.0-ALPHA … are two lines that part at 4.9.0, and 5.0.0-PREVIEW is
a third. "Since X" means: X is the version itself or one of its ancestors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from functools import cache, total_ordering
from typing import Any, Literal

from rocketfsck.errors import UsageError

_TEXT = re.compile(r"(?:rocketmq-)?(?:all-)?v?(\d+)\.(\d+)\.(\d+)(?:-([A-Za-z]+))?", re.ASCII)
_NEWEST = (5, 5, 1)
_STAGES = ("PREVIEW", "ALPHA", "SNAPSHOT", "")
_LAST_COMMON = (4, 9, 0)


@total_ordering
@dataclass(frozen=True, slots=True)
class Version:
    """A broker version. `stage` is PREVIEW, ALPHA, SNAPSHOT or "" for a release.

    The order is a total one for display and sorting; `since` is the question that the lineage answers.
    """

    major: int
    minor: int
    patch: int
    stage: str = ""

    @property
    def number(self) -> tuple[int, int, int]:
        return self.major, self.minor, self.patch

    @property
    def line(self) -> Literal["common", "4.9", "preview", "5"]:
        """The line of development: common up to 4.9.0, then one of three."""
        if self.number <= _LAST_COMMON:
            return "common"
        if self.major == 4:
            return "4.9"
        return "preview" if self.stage == "PREVIEW" else "5"

    def descends_from(self, ancestor: Version) -> bool:
        """Whether `ancestor` is this version or one that it was developed from."""
        return ancestor.line in ("common", self.line) and ancestor <= self

    def since(self, *starts: str) -> bool:
        """Whether what began at these versions (one for each line that has it) holds for this one."""
        return any(self.descends_from(parse_version(start)) for start in starts)

    def _key(self) -> tuple[tuple[int, int, int], int]:
        return self.number, _STAGES.index(self.stage)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Version):
            return NotImplemented
        return self._key() < other._key()

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}" + (f"-{self.stage}" if self.stage else "")


@cache
def parse_version(text: str) -> Version:
    """The version that a text such as `4.9.8`, `5.0.0-ALPHA` or `rocketmq-all-4.4.0` names.

    UsageError if it names none.
    """
    newest = ".".join(map(str, _NEWEST))
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"{text!r} is not a broker version such as 4.9.8 or 5.0.0-ALPHA; the newest known is {newest}"
        )
    major, minor, patch = (int(number[:6]) for number in match.group(1, 2, 3))
    stage = (match.group(4) or "").upper()
    if stage == "INCUBATING":
        stage = ""
    if stage not in _STAGES or major < 4:
        raise UsageError(f"{text!r} is not a known broker version: 4.0.0 or later")
    if major > _NEWEST[0] or (major == 4 and minor > _LAST_COMMON[1]):
        raise UsageError(
            f"{text!r} is not a known broker version: 4.0.0 to 4.9.x or 5.x.y, the newest {newest}"
        )
    return Version(major, minor, patch, stage)


ALL_VERSION_NAMES = (
    "4.0.0", "4.1.0", "4.2.0", "4.3.0", "4.3.1", "4.3.2", "4.4.0", "4.5.1", "4.5.2", "4.6.0", "4.6.1",
    "4.7.0", "4.7.1", "4.8.0", "4.9.0", "4.9.1", "4.9.2", "4.9.3", "4.9.4", "4.9.5", "4.9.6", "4.9.7",
    "4.9.8", "5.0.0-PREVIEW", "5.0.0-ALPHA", "5.0.0", "5.1.0", "5.1.1", "5.1.2", "5.1.3", "5.1.4",
    "5.2.0", "5.3.0", "5.3.1", "5.3.2", "5.3.3", "5.3.4",
    "5.4.0", "5.5.0", "5.5.1",
)  # fmt: skip
ALL_VERSIONS: tuple[Version, ...] = tuple(map(parse_version, ALL_VERSION_NAMES))
"""Every version whose behaviour the reference states, in order."""

RecoveryMark = Literal["timestamp", "offset"]

_CHECKPOINT_FIELDS = (
    "physicMsgTimestamp",
    "logicsMsgTimestamp",
    "indexMsgTimestamp",
    "masterFlushedOffset",
    "confirmPhyOffset",
    "logicsPhysicalOffset",
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The traits of one broker version. D-numbers are those of reference 0.4."""

    version: Version
    # What the bytes can be.
    ipv6_hosts: bool  # D1
    v2_allowed: bool  # D2
    trailing_separator: bool  # D3: 0x02 after the last property
    property_parser: Literal["split", "scan"]  # D4
    null_property_as_text: bool  # a null value is written as "null" (2.5)
    broker_writes_properties: bool  # the broker serialises the properties again (2.5)
    property_map_capacity: int  # buckets of the HashMap whose order the properties have (2.5)
    property_crc: bool  # D5: `enabledAppendPropCRC` exists
    property_crc_zero_valid: bool  # a property CRC of 0 passes (2.7)
    stale_blank_filler: bool  # D6: junk after a BLANK's header
    compression_types: bool  # D20
    counts_entries_in_hash_slot_count: bool  # D7: else it counts used slots
    checkpoint_fields: tuple[str, ...]  # D12: fields that this version writes
    abort_has_pid: bool  # D13
    unique_key_has_low_pid: bool  # D14: else bits 16-31 of the pid
    half_topic: bool  # D15: else prepared records are in the real topic
    legacy_batch: bool  # 2.12
    batch_queues: bool  # D16: batchconsumequeue and inner batches
    consumequeue_ext: bool  # 3.6
    multi_dispatch: bool  # LMQ, 2.13
    dledger: bool  # 2.14
    dledger_dispatches: bool  # after an unclean stop DLedger's recovery dispatches, too (2.14)
    timer_wheel: bool  # D17
    compaction: bool  # D18
    rocksdb_consumequeue: bool  # D19
    tag_entries: bool  # D21: one more index entry, for the record's tags (4.5)
    message_database: bool  # D22: rocksdbstore/ exists, even if nothing is in it (1.1)
    epoch_file: bool  # 1.7
    lock_file: bool  # 5.4
    config_has_state_version: bool  # dataVersion.stateVersion (1.6)
    config_is_utf8: bool  # else the JVM's default charset (1.6)
    config_written_in_place: bool  # else by rename (1.6.2)
    record_limit_spares_properties: (
        bool  # maxMessageSize limits the body, the record may have 64 KiB more (2.9)
    )
    # What a start does.
    max_physic_offset_is_end: bool  # D8: of a consume queue's last record; else its start
    dispatch_restart: Literal["commitlog end", "consumequeue end", "recovery"]  # D9: after a clean stop
    clean_scan_start: Literal["third last file", "consumequeue", "first record"]  # D10
    recovery_mark: RecoveryMark  # D23: of the checkpoint, after an unclean stop (6.4)
    recovery_file_limit: int | None  # D24: files that recovery looks at for its start; None: all (6.3, 6.4)
    logics_timestamp_at_flush: bool  # logicsMsgTimestamp waits for a thorough flush of the queues (5.2)
    wrong_size_fatal: bool  # D11: else the file and all later ones are ignored
    load_order: Literal["path", "name"]  # 1.2
    directories_skipped: (
        bool  # sub-directories next to mapped files; else they are files of a wrong size (1.2)
    )
    empty_last_file_deleted: bool  # 1.2
    multi_path_commitlog: bool  # 1.3
    commitlog_below_root: bool  # the default of storePathCommitLog follows the root (1.1)
    index_load_fatal: bool  # 1.4: a sub-directory in index/ keeps the broker from starting
    record_bounds_checked: bool  # totalSize is checked against the file (2.15)
    inner_batch_checked: bool  # INNER_NUM and INNER_BASE must parse (2.15)
    min_offset_by_search: bool  # a queue's minimum by binary search; else by a scan of its first file (3.5)
    skips_units_below_current: bool  # a put below the queue's end is skipped (3.4)
    queue_truncation: Literal["abnormal", "if ahead", "after dispatch"]  # of units after the cut (6.3, 6.4)
    empty_log_destroys_queues: Literal["abnormal", "always"]  # without a commitlog file (6.3, 6.4)
    compaction_load_tolerant: bool  # a compacted log of a wrong length is passed over (1.9)
    timer_queue_bounded: bool  # the place in the timer topic is moved into its queue's bounds (1.8)
    timer_snapshots: bool  # `timerWheelSnapshotFlush` exists (1.8)
    half_record_recovered: bool  # abnormal recovery takes a record of a wrong length for a good one (6.2)
    overflow_to_min: bool  # who asks beyond the end of a queue that begins at 0 is sent back to 0 (7.3)


# Each trait: its value in 4.0.0, then what it becomes and since when, a later row over an earlier one.
_HISTORY: dict[str, tuple[Any, *tuple[tuple[Any, tuple[str, ...]], ...]]] = {
    "ipv6_hosts": (False, (True, ("4.6.0",))),
    "v2_allowed": (False, (True, ("5.1.0",))),
    "trailing_separator": (True, (False, ("4.9.1", "5.0.0-ALPHA")), (True, ("5.2.0",))),
    "property_parser": ("split", ("scan", ("4.9.1", "5.0.0-ALPHA"))),
    "null_property_as_text": (True, (False, ("4.7.1",))),
    "broker_writes_properties": (False, (True, ("4.9.0",))),
    "property_map_capacity": (16, (128, ("5.1.0",))),
    "property_crc": (False, (True, ("5.2.0",))),
    "property_crc_zero_valid": (False, (True, ("5.3.2",))),
    "stale_blank_filler": (True, (False, ("4.9.1", "5.0.0-ALPHA"))),
    "compression_types": (False, (True, ("4.9.4", "5.0.0"))),
    "counts_entries_in_hash_slot_count": (True, (False, ("4.7.1",))),
    "checkpoint_fields": (
        _CHECKPOINT_FIELDS[:3],
        (_CHECKPOINT_FIELDS[:4], ("5.0.0",)),
        (_CHECKPOINT_FIELDS[:5], ("5.1.1",)),
        (_CHECKPOINT_FIELDS, ("5.5.0",)),
    ),
    "abort_has_pid": (False, (True, ("5.0.0",))),
    "unique_key_has_low_pid": (True, (False, ("4.6.0",)), (True, ("4.7.0",))),
    "half_topic": (False, (True, ("4.3.0",))),
    "legacy_batch": (False, (True, ("4.1.0",))),
    "batch_queues": (False, (True, ("5.0.0-ALPHA",))),
    "consumequeue_ext": (False, (True, ("4.1.0",))),
    "multi_dispatch": (False, (True, ("4.9.3", "5.0.0-ALPHA"))),
    "dledger": (False, (True, ("4.5.1",))),
    "dledger_dispatches": (False, (True, ("5.2.0",))),
    "timer_wheel": (False, (True, ("5.0.0",))),
    "compaction": (False, (True, ("5.1.0",))),
    "rocksdb_consumequeue": (False, (True, ("5.2.0",))),
    "tag_entries": (False, (True, ("5.4.0",))),
    "message_database": (False, (True, ("5.4.0",))),
    "epoch_file": (False, (True, ("5.0.0",))),
    "lock_file": (False, (True, ("4.2.0",))),
    "config_has_state_version": (False, (True, ("5.0.0",))),
    "config_is_utf8": (False, (True, ("5.0.0",))),
    "config_written_in_place": (False, (True, ("5.1.0",))),
    "record_limit_spares_properties": (False, (True, ("4.9.4", "5.0.0"))),
    "max_physic_offset_is_end": (False, (True, ("4.5.1",))),
    "dispatch_restart": (
        "commitlog end",
        ("consumequeue end", ("4.5.1",)),
        ("commitlog end", ("5.0.0",)),
        ("recovery", ("5.3.2",)),
    ),
    "clean_scan_start": ("third last file", ("consumequeue", ("5.3.2",)), ("first record", ("5.3.4",))),
    "recovery_mark": ("timestamp", ("offset", ("5.5.0",))),
    "recovery_file_limit": (None, (10, ("5.4.0",))),
    "logics_timestamp_at_flush": (False, (True, ("5.5.0",))),
    "wrong_size_fatal": (False, (True, ("4.5.1",)), (False, ("4.9.2",)), (True, ("4.9.3",))),
    "load_order": ("path", ("name", ("4.9.2", "5.0.0-ALPHA"))),
    "directories_skipped": (False, (True, ("5.1.0",))),
    "empty_last_file_deleted": (False, (True, ("5.1.3",))),
    "multi_path_commitlog": (False, (True, ("4.9.2", "5.0.0-ALPHA"))),
    "commitlog_below_root": (False, (True, ("4.9.4", "5.0.0"))),
    "index_load_fatal": (False, (True, ("5.1.0",))),
    "record_bounds_checked": (False, (True, ("5.3.2",))),
    "inner_batch_checked": (False, (True, ("5.0.0-ALPHA",))),
    "min_offset_by_search": (False, (True, ("5.0.0",))),
    "skips_units_below_current": (False, (True, ("4.2.0",))),
    "queue_truncation": ("abnormal", ("if ahead", ("4.3.2",)), ("after dispatch", ("5.3.4",))),
    "empty_log_destroys_queues": ("abnormal", ("always", ("4.5.1",))),
    "compaction_load_tolerant": (False, (True, ("5.1.1",))),
    "timer_queue_bounded": (False, (True, ("5.3.2",))),
    "timer_snapshots": (False, (True, ("5.3.4",))),
    "half_record_recovered": (True, (False, ("4.3.2",))),
    "overflow_to_min": (True, (False, ("4.9.4", "5.0.0"))),
}


def trait_history(trait: str) -> tuple[tuple[Any, tuple[str, ...]], ...]:
    """How a trait changed: values with the versions they hold since, the first one since 4.0.0."""
    first, *changes = _HISTORY[trait]
    return (first, ("4.0.0",)), *changes


def _value(trait: str, version: Version) -> Any:
    return [value for value, starts in trait_history(trait) if version.since(*starts)][-1]


@cache
def dialect_of(version: Version) -> Dialect:
    """The traits of a version; one that the reference does not know has those of its nearest ancestor."""
    traits = {item.name: _value(item.name, version) for item in fields(Dialect) if item.name != "version"}
    return Dialect(version=version, **traits)


NEWEST_NAME = ".".join(map(str, _NEWEST))
"""The newest version that is described here."""


def is_newer(version: Version) -> bool:
    """Whether a version is newer than all that are described here."""
    return (version.major, version.minor, version.patch) > _NEWEST


def dialect_for(version_text: str) -> Dialect:
    """The traits of the version that this text names; UsageError if it names none."""
    return dialect_of(parse_version(version_text))


def nearest_examined(version: Version) -> Version:
    """The version that the reference describes and that stands for `version`: itself, or an ancestor."""
    return max(known for known in ALL_VERSIONS if version.descends_from(known))


def versions_with(**traits: Any) -> tuple[Version, ...]:
    """Those of ALL_VERSIONS whose dialect has all these trait values, e.g. `v2_allowed=True`."""
    return tuple(
        version
        for version in ALL_VERSIONS
        if all(getattr(dialect_of(version), name) == value for name, value in traits.items())
    )
