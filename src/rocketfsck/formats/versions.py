"""The table of broker versions: what each writes, keeps, answers and does on a start. Reference 0.3, 0.4.

The columns are the traits: each with its value in 4.0.0 and what it says, after its number in reference 0.4.
The rows are the versions: what a version does otherwise than the one that it was developed from.

    "5.1.1": {"time_search": "boundary", "kept_files": ("brokerIdentity",)}

A value replaces that of the ancestor; a tuple adds to the ancestor's. 4.9.1 … 4.9.8 and 5.0.0-ALPHA … are two
lines that part at 4.9.0, and 5.0.0-PREVIEW is a third: what came to several lines is in a row of each. A row
without changes says that the version has been examined. Where no bytes and no recorded answer tell versions
apart, the released source code does: the first release that has a change is named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

RecoveryMark = Literal["timestamp", "offset"]


@dataclass(frozen=True, slots=True)
class StartTraits:
    """The traits that a predicted start depends on, of the bytes and of the start itself."""

    # What the bytes can be.
    ipv6_hosts: Annotated[bool, "D1: hosts of 20 bytes (IPv6), sysFlag 0x10 and 0x20"] = False
    v2_allowed: Annotated[bool, "D2: V2 records: topic length of 2 bytes, magic `DAA320AB`"] = False
    property_parser: Annotated[
        Literal["split", "scan"], "D4: property parser ([properties](properties.md#two-parsers))"
    ] = "split"
    property_crc: Annotated[bool, "D5: last property `__CRC32#`, with `enabledAppendPropCRC=true`"] = False
    property_crc_zero_valid: Annotated[bool, "a property CRC of 0 passes (2.7)"] = False
    checkpoint_fields: Annotated[tuple[str, ...], "D12: fields of `checkpoint`"] = (
        "physicMsgTimestamp",
        "logicsMsgTimestamp",
        "indexMsgTimestamp",
    )
    batch_queues: Annotated[bool, "D16: batch consume queues, inner batches, sysFlag 0x40 and 0x80"] = False
    timer_wheel: Annotated[bool, "D17: timer wheel"] = False
    compaction: Annotated[bool, "D18: compaction store"] = False
    rocksdb_consumequeue: Annotated[bool, "D19: consume queues in RocksDB, `storeType=defaultRocksDB`"] = (
        False
    )
    separate_queue_database: Annotated[
        bool, "consume queues in `consumequeue_rocksdb/`; dispatch begins where `rocksdbstore/` says"
    ] = False
    tag_entries: Annotated[bool, "D21: index entry for a record's tags, after those of its keys (4.5)"] = (
        False
    )
    message_database: Annotated[bool, "D22: `rocksdbstore/` exists, even if nothing is in it (1.1)"] = False
    pop_database: Annotated[bool, "`kvStore/` keeps messages in flight (POP)"] = False
    tiered_store: Annotated[bool, "tiered store"] = False
    multi_dispatch: Annotated[bool, "light queues (LMQ), multi-dispatch (2.13)"] = False
    dledger: Annotated[bool, "DLedger (2.14)"] = False
    # What a start does.
    max_physic_offset_is_end: Annotated[
        bool, "D8: a consume queue's `maxPhysicOffset` is the end of its last record, else the start"
    ] = False
    dispatch_restart: Annotated[
        Literal["commitlog end", "consumequeue end", "recovery"],
        "D9: where dispatch begins after a clean stop; `recovery` dispatches itself",
    ] = "commitlog end"
    clean_scan_start: Annotated[
        Literal["third last file", "consumequeue", "first record"],
        "D10: what decides which commit log file a clean start scans first",
    ] = "third last file"
    wrong_size_fatal: Annotated[
        bool,
        "D11: file of a wrong size in a commit log or consume queue directory: fatal, else ignored, "
        "**and all after it**",
    ] = False
    recovery_mark: Annotated[
        RecoveryMark,
        "D23: what of the checkpoint decides where recovery after an unclean stop begins: `minTimestamp`, or "
        "`logicsPhysicalOffset` (`logicsMsgTimestamp` where that is 0) (6.4)",
    ] = "timestamp"
    recovery_file_limit: Annotated[
        int | None, "D24: files that recovery looks at for its start, none: all; `commitLogRecoverMaxNum`"
    ] = None
    accelerated_recovery: Annotated[bool, "`enableAcceleratedRecovery` exists"] = False
    dledger_dispatches: Annotated[bool, "DLedger's recovery after an unclean stop dispatches (2.14)"] = False
    load_order: Annotated[Literal["path", "name"], "order of the files of a queue (1.2)"] = "path"
    directories_skipped: Annotated[
        bool, "sub-directories next to mapped files are skipped, else files of a wrong size (1.2)"
    ] = False
    empty_last_file_deleted: Annotated[bool, "an empty last file is deleted (1.2)"] = False
    index_load_fatal: Annotated[bool, "a directory in `index/` keeps the broker from starting (1.4)"] = False
    record_bounds_checked: Annotated[bool, "`totalSize` is checked against the file (2.15)"] = False
    inner_batch_checked: Annotated[bool, "`INNER_NUM` and `INNER_BASE` must parse (2.15)"] = False
    min_offset_by_search: Annotated[
        bool, "a queue's minimum by binary search, else by a scan of its first file (3.5)"
    ] = False
    skips_units_below_current: Annotated[bool, "a put below the queue's end is skipped (3.4)"] = False
    queue_truncation: Annotated[
        Literal["abnormal", "if ahead", "after dispatch"], "when units after the cut go (6.3, 6.4)"
    ] = "abnormal"
    empty_log_destroys_queues: Annotated[
        Literal["abnormal", "always"], "when a start without a commit log file deletes queues (6.3, 6.4)"
    ] = "abnormal"
    half_record_recovered: Annotated[
        bool, "abnormal recovery takes a record of a wrong length for a good one (6.2)"
    ] = True
    compaction_load_tolerant: Annotated[bool, "compacted logs of a wrong length are passed over (1.9)"] = (
        False
    )
    timer_queue_bounded: Annotated[
        bool, "the place in the timer topic is moved into its queue's bounds (1.8)"
    ] = False
    timer_snapshots: Annotated[bool, "`timerWheelSnapshotFlush` exists (1.8)"] = False
    topics_need_names: Annotated[
        bool, "a topic in topics.json without its `topicName` keeps the broker from starting (1.6)"
    ] = False


@dataclass(frozen=True, slots=True)
class BrokerTraits(StartTraits):
    """All traits: besides those of a start, what a broker writes, keeps and answers."""

    # What a broker writes.
    trailing_separator: Annotated[bool, "D3: 0x02 after the last property †"] = True
    null_property_as_text: Annotated[bool, "a property without a value is written as `null` (2.5)"] = True
    broker_writes_properties: Annotated[bool, "the broker serialises the properties again (2.5)"] = False
    property_map_capacity: Annotated[int, "buckets of the HashMap whose order the properties have (2.5)"] = 16
    record_limit_spares_properties: Annotated[
        bool, "`maxMessageSize` limits the body, the record may have 64 KiB more (2.9)"
    ] = False
    stale_blank_filler: Annotated[
        bool, "D6: bytes after the 8 bytes of a BLANK may be remains of older messages, else normally zero †"
    ] = True
    counts_entries_in_hash_slot_count: Annotated[
        bool, "D7: `hashSlotCount` of an index file counts entries, else used slots"
    ] = True
    abort_has_pid: Annotated[
        bool, "D13: `abort` has the process id as text, and an empty `abort.bak` stays; else it is empty †"
    ] = False
    unique_key_has_low_pid: Annotated[
        bool, "D14: process id in a unique message id: its low 16 bits, else its high ones (usually `0000`)"
    ] = True
    half_topic: Annotated[
        bool, "D15: prepared transaction messages in a topic of their own, else in the real topic"
    ] = False
    half_has_transaction_id: Annotated[bool, "prepared messages get `__transactionId__`"] = False
    op_offsets_end_in_comma: Annotated[
        bool, "a comma after each queue offset in a transaction's op message (2.10)"
    ] = False
    legacy_batch: Annotated[bool, "batches that are unpacked (2.12)"] = False
    batch_shares_properties: Annotated[
        bool, "each record of a batch gets the batch's own properties (2.12)"
    ] = False
    batch_joins_properties: Annotated[bool, "0x02 between the properties of a record and of its batch"] = (
        False
    )
    light_queues_only: Annotated[bool, "multi-dispatch goes to `%LMQ%` queues only (2.13)"] = False
    lmq_alone_dispatches: Annotated[bool, "`enableLmq` needs no `enableMultiDispatch`"] = False
    compression_types: Annotated[
        bool, "D20: compression type in sysFlag 0x700, else always zlib and the bits 0"
    ] = False
    logics_timestamp_at_flush: Annotated[
        bool, "`logicsMsgTimestamp` waits for a thorough flush of the queues (5.2)"
    ] = False
    # What a broker keeps, and where.
    consumequeue_ext: Annotated[bool, "`consumequeue_ext/` (3.6)"] = False
    multi_path_commitlog: Annotated[bool, "commit log in several directories (1.3)"] = False
    commitlog_below_root: Annotated[bool, "default `storePathCommitLog` follows the root (1.1)"] = False
    epoch_file: Annotated[bool, "epoch file (1.7)"] = False
    lock_file: Annotated[bool, "`lock` (5.4)"] = False
    kept_files: Annotated[tuple[str, ...], "further files and databases (1.1, 1.6)"] = ()
    rocksdb_syncs_bytes: Annotated[bool, "databases of queues have `bytes_per_sync` set (3.9)"] = False
    config_has_state_version: Annotated[bool, "`dataVersion.stateVersion` in configs (1.6)"] = False
    config_is_utf8: Annotated[bool, "configs in UTF-8, else the JVM's default charset (1.6)"] = False
    config_written_in_place: Annotated[bool, "configs are written in place, else by rename (1.6.2)"] = False
    # What a broker answers.
    overflow_to_min: Annotated[
        bool, "who asks beyond the end of a queue that begins at 0 is sent back to 0 (7.3)"
    ] = True
    pull_limit: Annotated[
        Literal["bytes", "units"], "a pull's limit in bytes of units is held against bytes or their number"
    ] = "bytes"
    pull_limit_inclusive: Annotated[bool, "a pull stops at that limit, else one unit beyond it"] = True
    pull_skips_first: Annotated[
        bool, "units of a file that has gone are passed over before a pull is found to be full"
    ] = True
    time_search: Annotated[
        Literal["nearest", "boundary"],
        "search by time: the file by its mtime and the unit of the nearest time, or the records' times (7.3)",
    ] = "nearest"
    upper_boundary: Annotated[bool, "consumers can ask for the upper answer of a search by time"] = False
    time_clamped: Annotated[bool, "an answer to a time stays between the ends of the queue"] = False
    keeps_unreadable: Annotated[
        bool, "a query by key returns the first offset found even without a message there (4.7)"
    ] = False


VERSIONS: dict[str, dict[str, Any]] = {
    "4.0.0": {},
    "4.1.0": {"legacy_batch": True, "consumequeue_ext": True, "kept_files": ("config/consumerFilter.json",)},
    "4.2.0": {"lock_file": True, "skips_units_below_current": True},
    "4.3.0": {"half_topic": True},
    "4.3.1": {},
    "4.3.2": {"queue_truncation": "if ahead", "half_record_recovered": False},
    "4.4.0": {},
    "4.5.1": {
        "dledger": True, "dispatch_restart": "consumequeue end", "max_physic_offset_is_end": True,
        "wrong_size_fatal": True, "empty_log_destroys_queues": "always",
    },
    "4.5.2": {},
    "4.6.0": {"ipv6_hosts": True, "unique_key_has_low_pid": False},
    "4.6.1": {},
    "4.7.0": {"unique_key_has_low_pid": True},
    "4.7.1": {"null_property_as_text": False, "counts_entries_in_hash_slot_count": False},
    "4.8.0": {"batch_shares_properties": True},
    "4.9.0": {"broker_writes_properties": True},
    "4.9.1": {
        "trailing_separator": False, "property_parser": "scan", "stale_blank_filler": False,
        "batch_joins_properties": True,
    },
    "4.9.2": {"wrong_size_fatal": False, "load_order": "name", "multi_path_commitlog": True},
    "4.9.3": {"wrong_size_fatal": True, "multi_dispatch": True},
    "4.9.4": {
        "compression_types": True, "record_limit_spares_properties": True, "commitlog_below_root": True,
        "overflow_to_min": False,
    },
    "4.9.5": {},
    "4.9.6": {},
    "4.9.7": {},
    "4.9.8": {},
    "5.0.0-PREVIEW": {"kept_files": ("config/consumerOrderInfo.json", "config/messageRequestMode.json")},
    "5.0.0-ALPHA": {
        "trailing_separator": False, "property_parser": "scan", "stale_blank_filler": False,
        "batch_joins_properties": True, "load_order": "name", "multi_path_commitlog": True,
        "multi_dispatch": True, "batch_queues": True, "inner_batch_checked": True, "time_clamped": True,
        "pull_limit": "units", "pull_limit_inclusive": False, "pull_skips_first": False,
        "kept_files": (
            "config/consumerOrderInfo.json", "config/messageRequestMode.json",
            "config/topicQueueMapping.json",
        ),
    },
    "5.0.0": {
        "compression_types": True, "record_limit_spares_properties": True, "commitlog_below_root": True,
        "overflow_to_min": False, "checkpoint_fields": ("masterFlushedOffset",), "abort_has_pid": True,
        "timer_wheel": True, "epoch_file": True, "config_has_state_version": True, "config_is_utf8": True,
        "dispatch_restart": "commitlog end", "min_offset_by_search": True,
    },
    "5.1.0": {
        "v2_allowed": True, "property_map_capacity": 128, "half_has_transaction_id": True,
        "op_offsets_end_in_comma": True, "compaction": True, "tiered_store": True,
        "config_written_in_place": True, "directories_skipped": True, "index_load_fatal": True,
        "pull_limit": "bytes",
    },
    "5.1.1": {
        "checkpoint_fields": ("confirmPhyOffset",), "compaction_load_tolerant": True,
        "time_search": "boundary", "kept_files": ("brokerIdentity",),
    },
    "5.1.2": {},
    "5.1.3": {"empty_last_file_deleted": True},
    "5.1.4": {"upper_boundary": True, "topics_need_names": True, "kept_files": ("config/topics",)},
    "5.2.0": {
        "trailing_separator": True, "property_crc": True, "dledger_dispatches": True,
        "rocksdb_consumequeue": True, "kept_files": ("config/transactionMetrics",),
    },
    "5.3.0": {"kept_files": ("config/users",)},
    "5.3.1": {},
    "5.3.2": {
        "property_crc_zero_valid": True, "dispatch_restart": "recovery", "clean_scan_start": "consumequeue",
        "record_bounds_checked": True, "timer_queue_bounded": True, "rocksdb_syncs_bytes": True,
        "pop_database": True, "light_queues_only": True, "lmq_alone_dispatches": True,
        "kept_files": ("config/rdb",),
    },
    "5.3.3": {"pull_limit_inclusive": True},
    "5.3.4": {
        "clean_scan_start": "first record", "queue_truncation": "after dispatch", "timer_snapshots": True,
        "batch_shares_properties": False,
    },
    "5.4.0": {
        "tag_entries": True, "message_database": True, "recovery_file_limit": 10, "keeps_unreadable": True,
    },
    "5.5.0": {
        "checkpoint_fields": ("logicsPhysicalOffset",), "logics_timestamp_at_flush": True,
        "recovery_mark": "offset", "accelerated_recovery": True, "separate_queue_database": True,
    },
    "5.5.1": {},
}  # fmt: skip
"""By name, each after those that it was developed from."""
