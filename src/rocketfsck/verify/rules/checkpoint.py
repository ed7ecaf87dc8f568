"""Rules CP: checkpoint, abort, lock and epoch file (reference 1.7, 5, 9.5)."""

from __future__ import annotations

from rocketfsck.rulenames import RuleName
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        id=RuleName.ABORT_PRESENT,
        severity=Severity.WARNING,
        template=(
            "abort is there: the broker was not stopped in good order, and the next start recovers abnormally"
        ),
        why=(
            "The marker is made at the end of a start and removed by an orderly stop, unless the disk was "
            "full or records were not dispatched yet. The abnormal recovery scans from where the checkpoint"
            " says, dispatches anew, and deletes index files."
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
        template="abort is there because a broker is running",
        why="A running broker always has it.",
        strictness="strict",
        level="quick",
        reference="5.3",
    ),
    Rule(
        id=RuleName.INDEX_FILE_DOOMED,
        severity=Severity.WARNING,
        template=(
            "the next start deletes {file} with {entry_count} entries: it ends at {end_timestamp}, the "
            "checkpoint's indexMsgTimestamp is {expected.index_msg_timestamp}"
        ),
        why=(
            "After an unclean stop every index file that is newer than the checkpoint is deleted. That time"
            " only advances when a file is full, so the newest file always goes; what recovery does not "
            "dispatch again cannot be found by key any more."
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
            "the abnormal recovery would start with {file} and scan {scan_count} of {file_count} commit log"
            " files"
        ),
        why=(
            "It goes back from the last file to the first whose first record is not newer than the "
            "checkpoint less 3 s (from 5.5.0 on: not behind logicsPhysicalOffset, where that is set), and "
            "dispatches everything from there. From 5.4.0 on it looks at ten files at most."
        ),
        strictness="dialect",
        level="quick",
        reference="6.4",
    ),
    Rule(
        id=RuleName.RECOVERY_SCANS_ALL,
        severity=Severity.WARNING,
        template=(
            "the abnormal recovery would scan all {file_count} commit log files: the checkpoint (physic "
            "{physic}, logics {logics}) is older than all of them"
        ),
        why=(
            "With a zero or old checkpoint no file qualifies and the recovery starts with the first: "
            "minutes to hours on a large store."
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
        template="there is no checkpoint although there is a commit log",
        why=(
            "Brokers write it from their first start on. Without it all times are 0: after an unclean stop "
            "the recovery starts with the first file and every index file is deleted."
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
        template="{file} has {size} bytes, not {expected.size}",
        why="It is one page. A broker maps a shorter one at full size: what is missing reads as 0.",
        strictness="strict",
        level="quick",
        repair="write-checkpoint",
        reference="5.1",
        fault_class="K1",
    ),
    Rule(
        id=RuleName.CHECKPOINT_TAIL,
        severity=Severity.WARNING,
        template="{file} is not zero behind its fields, first at byte {start}",
        why=(
            "The bytes are no fields of a newer broker either: they are neither an offset nor a time of the "
            "log. The file is another one, or damaged."
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
            "Times and offsets are never negative: the file is damaged. A negative time makes the recovery "
            "start with the first file."
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
        template="the checkpoint's {field} {value} is later than now ({expected.now})",
        why=(
            "After an unclean stop the recovery would start with the last file only, and index files would "
            "not be rebuilt: what was not dispatched before is lost to consumers."
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
            "({expected.newest})"
        ),
        why=(
            "It speaks of a record that is not there any more: the log lost its end, or is not the log that"
            " this checkpoint was written for. A recovery that trusts it starts too late."
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
            "the checkpoint's {field} {value} is older than the oldest record ({expected.oldest}): a crash "
            "now would scan the whole log"
        ),
        why="Slaves and SYNC_FLUSH brokers with waitStoreMsgOK=false never advance it.",
        strictness="heuristic",
        level="cross",
        repair="write-checkpoint",
        reference="5.1",
    ),
    Rule(
        id=RuleName.CHECKPOINT_INDEX_TIME,
        severity=Severity.INFO,
        template=(
            "the checkpoint's indexMsgTimestamp is {value}, the last full index file ends at {expected.value}"
        ),
        why=(
            "It is set in the background when an index file is full. If it lags, a crash deletes that "
            "file, too."
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
            "It is the start of the last record at the last recovery, or in controller mode the offset "
            "confirmed by the replicas. Records behind a wrong one are not dispatched, or too many are."
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
            "the checkpoint's confirmPhyOffset {value} is behind the end of the commit log "
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
        why="Its content does not matter; only the record lock on its first byte does.",
        strictness="strict",
        level="quick",
        reference="5.4",
    ),
    Rule(
        id=RuleName.CHECKPOINT_ZERO,
        severity=Severity.WARNING,
        template="the checkpoint's times are 0 although there are records in the commit log",
        why=(
            "An orderly stop writes both. With zeros an unclean stop means that the whole log is scanned "
            "and every index file deleted at the next start."
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
            "A broker in controller mode falls back to the .bak file, and without one it has no epochs: it "
            "cannot tell where its log parts from its master's."
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
            "{previous_offset}"
        ),
        why="Epochs and their start offsets ascend: each ends where the next begins.",
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
            "{file} line {line}: epoch {epoch} starts at {start_offset}, behind the end of the log "
            "({expected.end_offset})"
        ),
        why="The log lost its end, or the file is from another replica.",
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
            "A broker in controller mode that cannot read who it is asks the controller for a new brokerId: "
            "it joins as one more replica, and the old one stays in the controller's list."
        ),
        strictness="strict",
        level="quick",
        reference="1.7",
        fault_class="H3",
    ),
    Rule(
        id=RuleName.IDENTITY_DIFFERS,
        severity=Severity.WARNING,
        template="{file} says that {name} is {value}, and broker.conf says {expected.value}",
        why="A broker in controller mode whose names are not those of this file is not registered.",
        strictness="strict",
        level="quick",
        reference="1.7",
        fault_class="H3",
    ),
    Rule(
        id=RuleName.MASTER_FLUSHED_AHEAD,
        severity=Severity.INFO,
        template=(
            "the checkpoint's masterFlushedOffset {value} is behind the end of the commit log "
            "({expected.end_offset})"
        ),
        why=(
            "A slave keeps what its master had flushed. It stops with less while it catches up; a master, or "
            "a slave that had caught up, has lost the end of its log."
        ),
        strictness="heuristic",
        level="quick",
        reference="5.1",
    ),
    Rule(
        id=RuleName.CHECKPOINT_FIELD_UNKNOWN,
        severity=Severity.INFO,
        template=(
            "the checkpoint holds {value} at byte {start}, where the version that the store is read as has "
            "no field; a record has this {kind}"
        ),
        why=(
            "A newer broker than that has a field there, and may start its recovery from it. Repairs keep "
            "these bytes, and do not write the checkpoint unless they are forced by name."
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
            "The record at this offset is the last one in the consume queues that were flushed. With "
            "enableAcceleratedRecovery, a recovery after an unclean stop begins to read there: bytes that "
            "are no record end it at once, and everything behind is cut off."
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
            "The log lost its end after the offset was written, or the file is another one's. After an "
            "unclean stop the recovery begins with the last file, whatever the consume queues lack of the "
            "files before it."
        ),
        strictness="dialect",
        level="quick",
        repair="write-checkpoint",
        reference="5.1, 6.4",
        fault_class="K2",
    ),
)
