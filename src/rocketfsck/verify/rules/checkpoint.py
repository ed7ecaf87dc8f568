"""Rules CP: checkpoint, abort, lock and epoch file (reference 1.7, 5, 9.5)."""

from __future__ import annotations

from rocketfsck.common.rulenames import RuleName
from rocketfsck.verify.finding import Rule, Severity

RULES: tuple[Rule, ...] = (
    Rule(
        id=RuleName.ABORT_PRESENT,
        severity=Severity.WARNING,
        template=(
            "`abort` exists: the broker did not stop cleanly, and the next start runs an abnormal recovery"
        ),
        why=(
            "A broker creates the marker at the end of a start and removes it in a clean stop, unless the "
            "disk was full or records were not yet dispatched. The abnormal recovery scans the log from "
            "where the checkpoint says, dispatches records again, and deletes index files."
        ),
        strictness="dialect",
        level="quick",
        repair="finish-recovery",
        reference="5.3",
        fault_class="K4",
    ),
    Rule(
        id=RuleName.ABORT_OF_RUNNING_BROKER,
        severity=Severity.INFO,
        template="`abort` exists because a broker is running",
        why="A running broker always keeps this file.",
        strictness="strict",
        level="quick",
        reference="5.3",
    ),
    Rule(
        id=RuleName.INDEX_FILE_DOOMED,
        severity=Severity.WARNING,
        template=(
            "the next start deletes {file} with {entry_count:entry}: {file} ends at {end_timestamp}, the "
            "checkpoint's indexMsgTimestamp is {expected.index_msg_timestamp}"
        ),
        why=(
            "After an unclean stop a broker deletes every index file that is newer than the checkpoint. The "
            "checkpoint's time advances only when a file is full, so the newest file always goes. Queries by "
            "key miss the records that the recovery does not dispatch again."
        ),
        strictness="strict",
        level="quick",
        repair="save-index",
        reference="4.8",
        fault_class="I1",
    ),
    Rule(
        id=RuleName.RECOVERY_START,
        severity=Severity.INFO,
        template=(
            "the abnormal recovery would start with {file} and scan {scan_count:,} of {file_count:commit log "
            "file}"
        ),
        why=(
            "The recovery goes back from the last file to one whose first record is at least 3 s older than "
            "the checkpoint (from 5.5.0 on: not beyond logicsPhysicalOffset, if that is set), and dispatches "
            "everything from there. From 5.4.0 on it looks at ten files at most."
        ),
        strictness="dialect",
        level="quick",
        reference="6.4",
    ),
    Rule(
        id=RuleName.RECOVERY_SCANS_ALL,
        severity=Severity.WARNING,
        template=(
            "the abnormal recovery would scan the whole log ({file_count:commit log file}): the checkpoint "
            "(physic {physic_msg_timestamp}, logics {logics_msg_timestamp}) is older than every file"
        ),
        why=(
            "With a zero or old checkpoint no file qualifies, so the recovery starts with the first file. On "
            "a large store that takes minutes to hours."
        ),
        strictness="dialect",
        level="quick",
        repair="write-checkpoint",
        reference="6.4",
        fault_class="K1",
    ),
    Rule(
        id=RuleName.CHECKPOINT_MISSING,
        severity=Severity.WARNING,
        template="there is a commit log but no checkpoint",
        why=(
            "Brokers write a checkpoint from their first start on. Without a checkpoint all its times are 0: "
            "after an unclean stop the recovery starts with the first file, and the broker deletes every "
            "index file."
        ),
        strictness="strict",
        level="quick",
        repair="write-checkpoint",
        reference="5.1",
        fault_class="K1",
    ),
    Rule(
        id=RuleName.CHECKPOINT_LENGTH,
        severity=Severity.WARNING,
        template="{file} has {size:byte}, not {expected.size:,}",
        why="The file is one page. A broker maps a shorter file at full size: missing fields read as 0.",
        strictness="strict",
        level="quick",
        repair="write-checkpoint",
        reference="5.1",
        fault_class="K1",
    ),
    Rule(
        id=RuleName.CHECKPOINT_TAIL,
        severity=Severity.WARNING,
        template="{file} is not zero after its fields, first at byte {start}",
        why=(
            "The bytes are not fields of a newer broker either: their values are neither an offset nor a "
            "time of the log, nor another number such as programs write. The file is not a checkpoint, or is "
            "damaged."
        ),
        strictness="strict",
        level="quick",
        repair="write-checkpoint",
        reference="5.1",
        fault_class="K1",
    ),
    Rule(
        id=RuleName.CHECKPOINT_NEGATIVE,
        severity=Severity.WARNING,
        template="the checkpoint's {field} is {value}",
        why=(
            "Times and offsets are never negative, so the file is damaged. A negative time makes the "
            "recovery start with the first file."
        ),
        strictness="strict",
        level="quick",
        repair="write-checkpoint",
        reference="5.1",
        fault_class="K1",
    ),
    Rule(
        id=RuleName.CHECKPOINT_FUTURE,
        severity=Severity.WARNING,
        template="the checkpoint's {field} {value} is later than now ({expected.now_timestamp})",
        why=(
            "After an unclean stop the recovery would start with the last file, and the broker would not "
            "rebuild index files. Consumers would lose the records that were not yet dispatched."
        ),
        strictness="heuristic",
        level="quick",
        repair="write-checkpoint",
        reference="5.1",
        fault_class="K2",
    ),
    Rule(
        id=RuleName.CHECKPOINT_AHEAD,
        severity=Severity.WARNING,
        template=(
            "the checkpoint's {field} {value} is later than the newest record in the commit log "
            "({expected.newest_timestamp})"
        ),
        why=(
            "The checkpoint names a record that no longer exists: the log lost its end, or the checkpoint "
            "belongs to another log. A recovery that trusts the checkpoint starts too late."
        ),
        strictness="heuristic",
        level="cross",
        repair="write-checkpoint",
        reference="5.1",
        fault_class="K2",
    ),
    Rule(
        id=RuleName.CHECKPOINT_BEHIND,
        severity=Severity.INFO,
        template=(
            "the checkpoint's {field} {value} is older than the oldest record "
            "({expected.oldest_timestamp}): after a "
            "crash a broker would scan the whole log"
        ),
        why="Slaves, and SYNC_FLUSH brokers with waitStoreMsgOK=false, never advance this time.",
        strictness="heuristic",
        level="cross",
        repair="write-checkpoint",
        reference="5.1",
    ),
    Rule(
        id=RuleName.CHECKPOINT_INDEX_TIME,
        severity=Severity.INFO,
        template=(
            "the checkpoint's indexMsgTimestamp is {value}; the last full index file ends at {expected.value}"
        ),
        why=(
            "A broker sets this time in the background when an index file is full. While the time lags, a "
            "start after a crash deletes that file as well."
        ),
        strictness="heuristic",
        level="quick",
        repair="write-checkpoint",
        reference="5.1",
    ),
    Rule(
        id=RuleName.CONFIRM_OFFSET,
        severity=Severity.WARNING,
        template=(
            "the checkpoint's confirmPhyOffset {value} is neither the start of a record nor the end of the "
            "log"
        ),
        why=(
            "The field is the start of the last record at the last recovery or, in controller mode, the "
            "offset that the replicas confirmed. With a wrong value a broker dispatches too few or too many "
            "records."
        ),
        strictness="dialect",
        level="quick",
        repair="write-checkpoint",
        reference="5.1",
        fault_class="K3",
    ),
    Rule(
        id=RuleName.CONFIRM_OFFSET_AHEAD,
        severity=Severity.WARNING,
        template=(
            "the checkpoint's confirmPhyOffset {value} is beyond the end of the commit log "
            "({expected.end_offset})"
        ),
        why="The log lost its end after the offset was confirmed.",
        strictness="dialect",
        level="quick",
        repair="write-checkpoint",
        reference="5.1",
        fault_class="K3",
    ),
    Rule(
        id=RuleName.LOCK_CONTENT,
        severity=Severity.INFO,
        template="{file} does not hold the four bytes `lock`",
        why="The content does not matter; only the record lock on the first byte does.",
        strictness="strict",
        level="quick",
        reference="5.4",
    ),
    Rule(
        id=RuleName.CHECKPOINT_ZERO,
        severity=Severity.WARNING,
        template="the checkpoint's times are 0 although the commit log has records",
        why=(
            "A clean stop writes both times. With zeros, the next start after an unclean stop scans the "
            "whole log and deletes every index file."
        ),
        strictness="heuristic",
        level="quick",
        repair="write-checkpoint",
        reference="5.1",
        fault_class="K1",
    ),
    Rule(
        id=RuleName.EPOCH_DAMAGED,
        severity=Severity.WARNING,
        template="{file} cannot be read: {reason}",
        why=(
            "A broker in controller mode falls back to the .bak file. Without one it has no epochs and "
            "cannot tell where its log diverges from its master's."
        ),
        strictness="strict",
        level="quick",
        repair="rewrite-epochs",
        reference="1.7",
        fault_class="H3",
    ),
    Rule(
        id=RuleName.EPOCH_ORDER,
        severity=Severity.WARNING,
        template=(
            "{file} line {line}: epoch {epoch} at {start_offset} follows epoch {previous_epoch} at "
            "{previous_physical_offset}"
        ),
        why="Epochs and their start offsets ascend: each epoch ends where the next begins.",
        strictness="strict",
        level="quick",
        repair="rewrite-epochs",
        reference="1.7",
        fault_class="H3",
    ),
    Rule(
        id=RuleName.EPOCH_RANGE,
        severity=Severity.WARNING,
        template=(
            "{file} line {line}: epoch {epoch} starts at {start_offset}, beyond the end of the log "
            "({expected.end_offset})"
        ),
        why="The log lost its end, or the file comes from another replica.",
        strictness="strict",
        level="quick",
        repair="rewrite-epochs",
        reference="1.7",
        fault_class="H3",
    ),
    Rule(
        id=RuleName.EPOCH_BOUNDARY,
        severity=Severity.WARNING,
        template="{file} line {line}: epoch {epoch} starts at {start_offset}, where no record begins",
        why="An epoch begins with a record. A slave that is cut here loses its place in the stream.",
        strictness="strict",
        level="quick",
        repair="rewrite-epochs",
        reference="1.7",
        fault_class="H3",
    ),
    Rule(
        id=RuleName.IDENTITY_DAMAGED,
        severity=Severity.WARNING,
        template="{file} cannot be read: {reason}",
        why=(
            "A broker in controller mode that cannot read its identity asks the controller for a new "
            "brokerId. The broker joins as one more replica, and the old one stays in the controller's list."
        ),
        strictness="strict",
        level="quick",
        reference="1.7",
        fault_class="H3",
    ),
    Rule(
        id=RuleName.IDENTITY_DIFFERS,
        severity=Severity.WARNING,
        template="{file} says that {name} is {value}, but broker.conf says {expected.value}",
        why="A broker in controller mode is not registered if its names differ from those in this file.",
        strictness="strict",
        level="quick",
        reference="1.7",
        fault_class="H3",
    ),
    Rule(
        id=RuleName.MASTER_FLUSHED_AHEAD,
        severity=Severity.INFO,
        template=(
            "the checkpoint's masterFlushedOffset {value} is beyond the end of the commit log "
            "({expected.end_offset})"
        ),
        why=(
            "A slave records how far its master has flushed. A slave that stops while it catches up has less "
            "than that. A master, or a slave that had caught up, has lost the end of its log."
        ),
        strictness="heuristic",
        level="quick",
        reference="5.1",
    ),
    Rule(
        id=RuleName.CHECKPOINT_FIELD_UNKNOWN,
        severity=Severity.INFO,
        template=(
            "the checkpoint holds {value} at byte {start}, where the version assumed for the store has no "
            "field; its kind is {kind}"
        ),
        why=(
            "A newer broker has a field there and may start its recovery from it. Repairs keep these bytes, "
            "and do not write the checkpoint unless you force them by name."
        ),
        strictness="heuristic",
        level="quick",
        reference="5.1",
        unknown=True,
    ),
    Rule(
        id=RuleName.LOGICS_OFFSET,
        severity=Severity.WARNING,
        template="the checkpoint's logicsPhysicalOffset {value} is not the start of a record",
        why=(
            "The record at this offset is the last one in the flushed consume queues. With "
            "enableAcceleratedRecovery, a recovery after an unclean stop begins to read there: bytes that "
            "are not a record end the recovery at once, and the broker cuts off everything after them."
        ),
        strictness="dialect",
        level="quick",
        repair="write-checkpoint",
        reference="5.1, 6.4",
        fault_class="K3",
    ),
    Rule(
        id=RuleName.LOGICS_OFFSET_AHEAD,
        severity=Severity.WARNING,
        template=(
            "the checkpoint's logicsPhysicalOffset {value} is not below the end of the commit log "
            "({expected.end_offset})"
        ),
        why=(
            "The log lost its end after the offset was written, or the checkpoint belongs to another store. "
            "After an unclean stop the recovery begins with the last file, even if the consume queues lack "
            "records of earlier files."
        ),
        strictness="dialect",
        level="quick",
        repair="write-checkpoint",
        reference="5.1, 6.4",
        fault_class="K2",
    ),
)
