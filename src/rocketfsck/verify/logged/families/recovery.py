"""Lines of load and recovery: what a start finds, cuts and deletes."""

from __future__ import annotations

from rocketfsck.common.rulenames import RuleName
from rocketfsck.verify.logged.areas import Family, Issue

FAMILIES = (
    Family(
        "last-shutdown",
        "notice",
        "The broker says whether its last stop was an orderly one: `abnormally` means that the file `abort`"
        " was there, so the start recovers the log from the checkpoint on instead of the last files only.",
        "After a crash this line is expected. See what the start will cut before you start the next broker.",
        begins=("last shutdown {",),
        normal_if=(("lastExitOK", "normally"), ("lastExitOK", "true")),
        command="simulate STORE",
        rules=(RuleName.ABORT_PRESENT,),
        classes=("K4",),
    ),
    Family(
        "abort-kept",
        "damage",
        "The broker stopped while the store was not writable, or while records of the log had no units yet."
        " The broker keeps the file `abort`, so the next start is an abnormal recovery, which may delete "
        "the newest index file.",
        "Look for a full disk or for a line about dispatch before this one; then see what the next start "
        "does.",
        begins=("the store may be wrong, so shutdown abnormally",),
        command="simulate STORE",
        rules=(RuleName.ABORT_PRESENT, RuleName.INDEX_FILE_DOOMED),
        classes=("K4", "Q1", "C9"),
        issues=(Issue(467),),
    ),
    Family(
        "load-exception",
        "damage",
        "Loading or recovering the store threw an exception, and the broker does not start. The stack trace"
        " below this line says where.",
        "Explain the whole trace: give all its lines to `rocketfsck explain -`. Check the store before you "
        "delete anything.",
        begins=("load exception",),
        command="check STORE",
        issues=(Issue(10108),),
    ),
    Family(
        "queue-last-file-empty",
        "damage",
        "The start looks for the smallest queue offset in the last file of a consume queue, and that file "
        "holds no whole unit (20 bytes): an unflushed file after a crash. The broker reads before the "
        "beginning of the file, throws, and does not start.",
        "Check names the queue. Move that empty last file away, or let `fix` do so, or start with a version"
        " that has the correction.",
        begins=("Exception thrown when correctMinOffset",),
        frames=("ConsumeQueue.correctMinOffset", "BatchConsumeQueue.correctMinOffset"),
        rules=(RuleName.QUEUE_LAST_FILE_EMPTY, RuleName.UNIT_PARTIAL),
        classes=("Q6",),
        issues=(Issue(10108, "5.5.0"), Issue(9728, "5.5.0"), Issue(10211)),
    ),
    Family(
        "segment-length",
        "damage",
        "A file has another length than the setting says (mappedFileSizeCommitLog, "
        "mappedFileSizeConsumeQueue and the like). The broker stops loading here and exits, and deletes "
        "nothing.",
        "Check says which files are odd and which size the others have. Correct the setting if all files "
        "have another size; move the one file away if it is empty or foreign.",
        begins=("{file} {length} length not matched message store config value",),
        rules=(RuleName.SEGMENT_LENGTH, RuleName.EMPTY_LAST_SEGMENT, RuleName.FOREIGN_FILE),
        classes=("C6",),
        issues=(Issue(6904), Issue(3257), Issue(1560), Issue(6747)),
    ),
    Family(
        "empty-file-deleted",
        "notice",
        "The last file of a queue has 0 bytes: the broker died between creating the file and giving it its "
        "size. The start deletes the file.",
        "Nothing is lost with the file. An older version stops at such a file.",
        begins=("{file} size is 0, auto delete",),
        rules=(RuleName.EMPTY_LAST_SEGMENT,),
        classes=("C6",),
        issues=(Issue(6904, "5.1.4 at the latest"),),
    ),
    Family(
        "load-file-failed",
        "damage",
        "A file could not be mapped into memory (permission, address space, the limit vm.max_map_count, or "
        "a disk error). The broker does not start.",
        "Read the exception below. Check tells whether the bytes are sound.",
        begins=("load file {file} error", "Failed to map file", "map file {fileName} Failed"),
        rules=(RuleName.SEGMENT_LENGTH,),
        classes=("C6", "C9"),
        issues=(Issue(486), Issue(1790)),
    ),
    Family(
        "commitlog-gone",
        "damage",
        "The commit log has no file, so the broker deletes all consume queues. In a store that was empty "
        "this is normal: the first start of a new broker logs the same line.",
        "If there should be messages, stop the broker: the commit log's disk may not be mounted, or "
        "storePathCommitLog names another directory. Restore the log before the next start.",
        begins=("The commitlog files are deleted, and delete the consume queue files",),
        command="check STORE",
        rules=(RuleName.COMMITLOG_MISSING, RuleName.QUEUE_DELETED),
        classes=("C8",),
        issues=(Issue(8041), Issue(1231)),
    ),
    Family(
        "illegal-magic",
        "damage",
        "Where the broker expected a record, the four bytes of its magic are others. 0x0 is the unused rest"
        " of a file, the end of the log: normal in a recovery. Any other value is part of something else: "
        "the reader lost the boundary of records. A recovery cuts the log there and deletes all later "
        "files; a running master skips the rest of that file, a slave stops dispatching.",
        "For a value other than 0x0, do not start the broker again. Check finds the range and the sound "
        "records after it; `fix` saves them.",
        begins=("found a illegal magic code 0x{",),
        normal_if=(("toHexString", "0"),),
        rules=(RuleName.LOG_BOUNDARY_LOST, RuleName.LOG_TORN_TAIL, RuleName.RECORD_MAGIC_UNKNOWN),
        classes=("C2", "C1"),
        issues=(Issue(289), Issue(6767)),
    ),
    Family(
        "half-message",
        "damage",
        "Recovery met a record that is not whole: a write that the crash interrupted, or damage. The broker"
        " cuts the log there, and deletes what follows, also later files.",
        "At the end of the log one half-written message is normal after a power cut. Simulate the start to "
        "see whether sound records follow.",
        begins=("found a half message at {",),
        command="simulate STORE",
        rules=(RuleName.LOG_TORN_TAIL, RuleName.LOG_BOUNDARY_LOST),
        classes=("C1", "C2"),
        issues=(Issue(467, "4.4.0"), Issue(7437)),
    ),
    Family(
        "stale-record-cut",
        "damage",
        "Recovery met a record whose own physicalOffset differs from its place: old bytes of a file that "
        "was used before. The broker cuts the log there.",
        "Such bytes after the end of the log are harmless. Check says whether records of this life of the "
        "log come after it.",
        begins=("found illegal commitlog offset {",),
        rules=(RuleName.RECORD_PHYSICAL_OFFSET, RuleName.STALE_TAIL),
        classes=("C3",),
        issues=(Issue(10017, "5.5.0"),),
    ),
    Family(
        "record-lengths",
        "damage",
        "The parts of a record do not add up to its totalSize. The record's head was damaged, or a write "
        "was "
        "interrupted.",
        "Check the store: if sound records follow, a start would delete them.",
        begins=("[BUG]read total count not equals msg total size. totalSize",),
        rules=(RuleName.RECORD_MALFORMED, RuleName.LOG_BOUNDARY_LOST),
        classes=("C10", "C2"),
    ),
    Family(
        "body-crc",
        "damage",
        "The body of a record does not fit its checksum: bits were changed after the write, or the write "
        "was interrupted. A recovery with checkCRCOnRecover cuts the log at this record.",
        "Check says which record this is and whether one flipped bit explains it; `fix` can flip it back.",
        begins=("CRC check failed. bodyCRC={",),
        command="check --level full STORE",
        rules=(RuleName.RECORD_BODY_CRC,),
        classes=("C4",),
        issues=(Issue(9121),),
    ),
    Family(
        "property-crc",
        "damage",
        "The checksum over a whole record (property __CRC32#) is missing or does not fit. With "
        "forceVerifyPropCRC the broker refuses the record and cuts the log there. Records of the time "
        "before enabledAppendPropCRC have no such property.",
        "If the setting is new, turn forceVerifyPropCRC off. Else check the store.",
        begins=("CommitLog#checkAndDispatchMessage: failed to check message CRC",),
        command="check --level full STORE",
        rules=(RuleName.RECORD_PROPERTY_CRC, RuleName.RECORD_PROPERTY_CRC_PLACE),
        classes=("C4",),
        issues=(Issue(9852, "5.5.0"), Issue(7437, "5.2.0")),
    ),
    Family(
        "dup-info",
        "damage",
        "duplicationEnable is on, and a record has no DupInfo property, so the check fails for each "
        "message: the recovery cuts the log, and the consume queues with it.",
        "Stop the broker and turn duplicationEnable off before the next start.",
        begins=("DupInfo in properties check failed",),
        command="simulate STORE",
        issues=(Issue(8032),),
    ),
    Family(
        "queues-cut",
        "notice",
        "The consume queues lead beyond the recovered end of the log, so the broker cuts the queues. The "
        "messages of these units are not in the log: they were not flushed, or the log was cut before its "
        "true end.",
        "After a killed broker with asynchronous flush this is normal. Otherwise see whether the log is "
        "whole.",
        begins=("maxPhyOffsetOfConsumeQueue({", "[TruncateCQ]", "dledger maxPhyOffsetOfConsumeQueue({"),
        rules=(RuleName.UNIT_BEYOND_LOG,),
        classes=("Q2",),
        issues=(Issue(495), Issue(7355)),
    ),
    Family(
        "recovery-steps",
        "normal",
        "A step of an orderly recovery: files that are walked, and where the log or a queue ends.",
        "Nothing to do.",
        begins=(
            "recover ",
            "dledger recover ",
            "dledger find check",
            "find check",
            "load over, and the max phy",
            "load {path} OK",
            "load {cqType} all over",
            "load logics queue all over",
            "message store recover",
            "Recover end total",
            "MessageStoreState transition",
            "Start to recover consume queue",
            "recoverNormally maxRecoverNum",
            "Begin to recover timer",
            "Timer recover ok",
            "Recover timer",
            "load index file OK",
            "DLedgerCommitLog isMmapFile",
            "CommitLog isMmapFile",
            "[SetReputOffset]",
            "Try to finish doing reput",
            "truncate dirty files to",
            "no need to truncate files",
            "oldReputFromOffset is",
        ),
        command="simulate STORE",
    ),
    Family(
        "confirm-offset",
        "notice",
        "The confirmOffset of the checkpoint is outside the log that recovery found, so the broker corrects"
        " it. Above the log: confirmed messages are no longer there, which asynchronous flush allows.",
        "Compare this store with its replicas before it becomes master.",
        begins=("confirmOffset {",),
        command="compare STORE OTHER_STORE",
        rules=(RuleName.CONFIRM_OFFSET, RuleName.CONFIRM_OFFSET_AHEAD),
        classes=("K3",),
        issues=(Issue(6703), Issue(6665)),
    ),
    Family(
        "reput-too-small",
        "notice",
        "The consume queues lead to places before the first file of the log: they were removed, or they are"
        " older than the log. The broker dispatches the whole log again from its first record on.",
        "Expected after queues were deleted on purpose or a log was copied in. Otherwise check the store.",
        begins=("[TooSmallCqOffset]", "The reputFromOffset={reputFromOffset} is smaller than minPyOffset"),
        rules=(RuleName.QUEUE_MISSING, RuleName.RECORD_WITHOUT_UNIT, RuleName.QUEUES_OLDER),
        classes=("Q7", "Q5"),
    ),
    Family(
        "checkpoint-read",
        "normal",
        "The broker read its checkpoint: times up to which the log, the queues and the index were flushed. "
        "A time of 0 makes an abnormal start walk all files.",
        "Nothing to do, unless a time is 0 or far in the past and starts take long: `rebuild checkpoint` "
        "makes a new one.",
        begins=("store checkpoint file",),
        command="dump STORE/checkpoint",
        rules=(
            RuleName.CHECKPOINT_MISSING,
            RuleName.CHECKPOINT_ZERO,
            RuleName.RECOVERY_START,
            RuleName.RECOVERY_SCANS_ALL,
        ),
        classes=("K1",),
        issues=(Issue(7233), Issue(1153)),
    ),
    Family(
        "lock-held",
        "damage",
        "Another process holds the lock of this store, so this broker does not start: a second broker on "
        "the same directory, or one that did not end.",
        "End the other process first. Never delete the file `lock` while it runs: two brokers on one store "
        "destroy it.",
        begins=("RuntimeException: Lock failed",),
        errors=("Lock failed",),
        command="info STORE",
        rules=(RuleName.BROKER_ALIVE,),
        classes=("K4",),
        issues=(Issue(7576), Issue(6593)),
    ),
    Family(
        "recover-queues-concurrently",
        "damage",
        "Recovering a consume queue in a thread of its own threw an exception, so this queue is not "
        "recovered.",
        "The line, or the trace below it, names the queue. Check it before the next start.",
        begins=("Exception occurs while recover consume queue concurrently",),
        rules=(RuleName.UNIT_PARTIAL, RuleName.QUEUE_LAST_FILE_EMPTY, RuleName.SEGMENT_LENGTH),
        classes=("Q6", "C6"),
    ),
    Family(
        "recovery-unknown-magic",
        "damage",
        "The start walks the log after the last unit to correct the next queue offsets, and met bytes that "
        "begin no record. The exception ends the start.",
        "Check the store; the log is damaged or its end is not where the broker believes.",
        begins=("RuntimeException: Unknown magicCode",),
        rules=(RuleName.LOG_BOUNDARY_LOST, RuleName.LOG_TORN_TAIL),
        classes=("C2", "C1"),
    ),
    Family(
        "accelerated-recovery",
        "damage",
        "enableAcceleratedRecovery is on, but the checkpoint has no usable logicsPhysicalOffset: an older "
        "version wrote it. The start fails.",
        "Turn the setting off for the next start.",
        begins=("RuntimeException: Accelerated recovery is enabled",),
        command="dump STORE/checkpoint",
        rules=(RuleName.LOGICS_OFFSET, RuleName.LOGICS_OFFSET_AHEAD),
        classes=("K1",),
    ),
    Family(
        "truncate-refused",
        "damage",
        "A replica was asked to cut its log at an offset that begins no record, and refused.",
        "The logs of the replicas differ there. Compare them, and heal or copy the one that is behind.",
        begins=("offset {offsetToTruncate} is not align", "Offset {} not align", "resetWriteOffset error"),
        command="compare STORE OTHER_STORE",
        rules=(RuleName.EPOCH_BOUNDARY,),
        classes=("H3",),
    ),
    Family(
        "checkpoint-write",
        "damage",
        "The checkpoint could not be written or closed. The next start may recover from an older time, "
        "which takes "
        "longer.",
        "Look for a full or failing disk.",
        begins=("Failed to flush", "Failed to properly close the channel", "Failed to close file channel"),
        owners=("StoreCheckpoint",),
        rules=(RuleName.CHECKPOINT_BEHIND,),
        classes=("K1", "C9"),
    ),
    Family(
        "start-failed",
        "damage",
        "The store could not be opened, so the broker did not start.",
        "Read the exception below, and the earlier lines of store.log.",
        begins=(
            "BrokerController#initialize: unexpected error occurs",
            "Failed to initialize",
            "shutdown Exception,",
        ),
    ),
)
