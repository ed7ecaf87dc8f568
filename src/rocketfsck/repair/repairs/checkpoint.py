"""Repairs of checkpoint, abort and timer progress.

`abort` is taken away only when what an abnormal recovery would do has been done: no damage of the log is
left, the queues and the index have what the log has, the checkpoint is that of the end of the log. Then the
broker starts as after an orderly stop and deletes no index file. Fault catalogue K1 to K4, H5, I1;
reference 4.8, 5, 6.4.

Repair of the epoch files of a broker under a controller: what fits the log is kept.

Reference 1.7; fault catalogue H3.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats import javatext, smallfiles, timer
from rocketfsck.formats.checkpoint import CHECKPOINT, CHECKPOINT_SIZE, Checkpoint, encode_checkpoint
from rocketfsck.reader.configs import BACKUP, EPOCH_LIMIT, epoch_files
from rocketfsck.reader.heads import begins_record
from rocketfsck.reader.index import readable_headers
from rocketfsck.repair.build.files import build_checkpoint, read_checkpoint
from rocketfsck.repair.log import read_log_end
from rocketfsck.repair.plan import arguments as plan_arguments
from rocketfsck.repair.plan.model import Action, Extent, Loss
from rocketfsck.repair.plan.table import ActScene, PlanScene, Repair, Row
from rocketfsck.repair.repairs import answers
from rocketfsck.repair.repairs.misnamed import is_unsettled, lacks_its_log, stands_right
from rocketfsck.repair.repairs.reasons import stays_wrong
from rocketfsck.store.model import Store
from rocketfsck.store.reading import read_whole
from rocketfsck.verify.finding import LEVELS, Finding, Severity
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.watched import unknown_areas


def plan_epochs(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Epoch files with the entries that fit the log; one without any is set aside."""
    if is_unsettled(scene):
        return
    for name, found in answers.by_file(answers.one_by_one(findings)).items():
        try:
            entries, dropped = sound_epochs(scene.store, name)
        except StoreError:
            continue
        note = (
            f"keep the {count_of(len(entries), 'epoch')} that {'fits' if len(entries) == 1 else 'fit'} the "
            "log"
            if entries
            else "move the file aside: no epoch in it fits the log"
        )
        yield answers.answer(
            "rewrite-epochs",
            name,
            note,
            found,
            arguments=plan_arguments.Epochs(tuple(entries)),
            preconditions=answers.whole_file(scene, name),
            losses=[Loss("entry", dropped, kept_in="set aside")] if dropped else [],
            notices=[answers.notice("epochs-dropped", dropped), answers.notice("settings-older", 1)],
        )


def sound_epochs(store: Store, name: str) -> tuple[list[smallfiles.EpochEntry], int]:
    """The epochs of a file (else of its .bak) that ascend, start in the log and on a record; how many of the
    file's are left out. Raises StoreError where the file cannot be read."""
    data = read_whole(store.root / name, EPOCH_LIMIT)
    candidates = _lines(data)
    try:
        smallfiles.decode_epochs(data)
    except FormatError:
        candidates = _backup(store, name) or candidates
    end = read_log_end(store)
    limit = end.end_offset if end is not None else 0
    log_start = store.commitlog.start_offset or 0
    kept: list[smallfiles.EpochEntry] = []
    for entry in candidates:
        follows = not kept or (entry.epoch > kept[-1].epoch and entry.start_offset >= kept[-1].start_offset)
        fits = entry.start_offset <= limit and (
            not log_start <= entry.start_offset < limit or begins_record(store.commitlog, entry.start_offset)
        )
        if follows and fits and entry.start_offset >= 0:
            kept.append(entry)
    return kept, max(len(_lines(data)) - len(kept), 0)


def _lines(data: bytes) -> list[smallfiles.EpochEntry]:
    """Every line that reads as an epoch, whatever the CRC says."""
    found = []
    for line in data.splitlines()[2:]:
        parts = line.decode("ascii", "replace").strip().split("-")
        epoch, start = javatext.parse_int32(parts[0]), javatext.parse_int64(parts[-1])
        if len(parts) == 2 and epoch is not None and start is not None:
            found.append(smallfiles.EpochEntry(epoch, start))
    return found


def _backup(store: Store, name: str) -> list[smallfiles.EpochEntry]:
    for file in epoch_files(store).values():
        if file.relative == f"{name}{BACKUP}":
            try:
                return list(smallfiles.decode_epochs(read_whole(file.path, EPOCH_LIMIT)).entries)
            except StoreError:
                return []
    return []


def act_epochs(scene: ActScene, action: Action, arguments: plan_arguments.Epochs) -> None:
    """Set the old file aside and write the new one."""
    scene.tree.set_aside(action.target)
    if arguments.epochs:
        data = smallfiles.encode_epochs(arguments.epochs)
        scene.tree.create(action.target, len(data))
        scene.tree.write(action.target, 0, data)


EPOCH_ROWS: tuple[Row, ...] = (
    Repair(
        "rewrite-epochs",
        500,
        "keep the epochs that fit the log",
        plan_epochs,
        act_epochs,
        plan_arguments.Epochs,
    ),
)


CHECKPOINT_NAME = "checkpoint"
_BROKEN = frozenset(
    {
        RuleName.COMMITLOG_MISSING,
        RuleName.QUEUES_OF_ANOTHER_LOG,
        RuleName.SEGMENT_OVERLAP,
        RuleName.RECORD_END_OF_FILE,
        RuleName.BLANK_TOO_EARLY,
    }
)
"""Findings after which nobody can say where the log ends, besides those of bodies that no repair answers."""
_SOUND_BUT_LOST = frozenset({RuleName.RECORD_BODY_CRC, RuleName.RECORD_PROPERTY_CRC, RuleName.RECORD_TOPIC})
"""Records that no repair answers, and that a recovery cuts off, or makes a queue for that none here does."""
_DONE_BEFORE = (
    "rename-segment", "move-zero-twin", "move-copied-segment", "split-segment", "set-physical-offset",
    "resize-segment", "trim-segment", "fence-gap", "zero-stale-tail", "cut-log", "salvage-log", "write-blank",
    "cut-queue",
    "zero-stale-units", "rebuild-queue", "rebuild-index", "relink-index", "rewrite-index-header",
)  # fmt: skip
"""Repairs of what a start after a crash goes through: without them it is not recovered."""


def can_finish(scene: PlanScene) -> bool:
    """Whether what an abnormal recovery would do can be done here: the log was gone through, and whatever is
    wrong with it is answered by a repair."""
    if LEVELS.index(scene.report.level) < LEVELS.index("cross") or is_unsettled(scene):
        return False
    if unknown_areas(scene.findings) or stays_wrong(scene):  # then queues or index lack what the log has
        return False
    for finding in scene.findings:
        rule = RULES[finding.rule]
        if finding.rule in _BROKEN:
            return False
        if rule.severity is Severity.ERROR and rule.family == "CL" and rule.repair is None:
            return False
        if finding.rule in _SOUND_BUT_LOST:
            return False
        if finding.rule == RuleName.RECORD_PHYSICAL_OFFSET and not (
            finding.count == 1 and stands_right(scene, finding)
        ):
            return False
    return scene.store.live.locked is not True and bool(scene.store.commitlog.files)


def plan_checkpoint(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """The checkpoint of the store as it is, or as the actions before leave it."""
    if findings and not is_unsettled(scene) and not lacks_its_log(scene):
        yield write_checkpoint(scene)


def write_checkpoint(scene: PlanScene) -> Action:
    """The one action that writes the checkpoint. The same whoever asks for it."""
    why = [finding for finding in scene.findings if RULES[finding.rule].repair == "write-checkpoint"]
    return answers.answer(
        "write-checkpoint",
        CHECKPOINT_NAME,
        "write a checkpoint that matches the ends of the log, the queues and the index",
        why,
        arguments=plan_arguments.CheckpointTail(
            any(finding.rule == RuleName.CHECKPOINT_TAIL for finding in why)
        ),
        preconditions=answers.whole_file(scene, CHECKPOINT_NAME)
        if scene.store.checkpoint is not None
        else (),
        write_byte_count=CHECKPOINT_SIZE,
    )


def act_checkpoint(scene: ActScene, _action: Action, arguments: plan_arguments.CheckpointTail) -> None:
    """Write all fields from what the tree holds now.

    While `abort` is there, the index is kept as a whole: the next start would delete the newest file, and the
    later times let it read too little of the log to make the file again.
    """
    store = scene.reopen()
    checkpoint = build_checkpoint(store, zero_tail=arguments.zero_tail)
    if store.abort is not None:
        newest = max(checkpoint.index_msg_timestamp, newest_index_timestamp(store))
        checkpoint = replace(checkpoint, index_msg_timestamp=newest)
    put_checkpoint(scene, checkpoint, zero_tail=arguments.zero_tail)


def newest_index_timestamp(store: Store) -> int:
    """The latest time (ms) at which an index file ends; 0 without any."""
    return max((header.end_timestamp for _, header in readable_headers(store.indexes)), default=0)


def keep_index(scene: ActScene) -> None:
    """Let the next start keep index files that were made again: after a crash it deletes those that end after
    indexMsgTimestamp."""
    store = scene.reopen()
    if store.abort is None or store.checkpoint is None:
        return
    before, newest = read_checkpoint(store), newest_index_timestamp(store)
    if before.index_msg_timestamp < newest:
        put_checkpoint(scene, replace(before, index_msg_timestamp=newest))


def checkpoint_of_crash(scene: PlanScene) -> tuple[Extent, ...]:
    """The precondition of what `keep_index` changes."""
    store = scene.store
    return (
        () if store.abort is None or store.checkpoint is None else answers.whole_file(scene, CHECKPOINT_NAME)
    )


def put_checkpoint(scene: ActScene, checkpoint: Checkpoint, *, zero_tail: bool = False) -> None:
    """Make the file one page with these fields. The time of the file stays.

    What is behind the fields may be a newer broker's: it stays, too, unless it is known to be damage.
    """
    data = encode_checkpoint(checkpoint)[: None if zero_tail else CHECKPOINT.size]
    if scene.tree.exists(CHECKPOINT_NAME) and not os.path.isfile(scene.tree.place(CHECKPOINT_NAME)):  # noqa: PTH113
        scene.tree.set_aside(CHECKPOINT_NAME)  # a directory, a FIFO: no broker reads it
    if not scene.tree.exists(CHECKPOINT_NAME):
        scene.tree.create(CHECKPOINT_NAME, CHECKPOINT_SIZE)
    elif scene.tree.size(CHECKPOINT_NAME) != CHECKPOINT_SIZE:
        scene.tree.resize(CHECKPOINT_NAME, CHECKPOINT_SIZE)
    scene.tree.write(CHECKPOINT_NAME, 0, data)


def plan_finish(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Take `abort` away, once everything else is done, and write the checkpoint of an orderly stop."""
    del findings
    abort = scene.store.abort
    if abort is None or not can_finish(scene):
        return
    why = [
        finding
        for finding in scene.findings
        if finding.rule in (RuleName.ABORT_PRESENT, RuleName.INDEX_FILE_DOOMED, RuleName.RECOVERY_SCANS_ALL)
    ]
    yield answers.answer(
        "finish-recovery",
        abort.relative,
        "move `abort` aside and write a checkpoint, so the next start is a normal one",
        why,
        preconditions=answers.whole_file(scene, abort.relative),
        write_byte_count=CHECKPOINT_SIZE,
        notices=[answers.notice("recovery-skipped", 1)],
    )


def act_finish(scene: ActScene, action: Action, _arguments: plan_arguments.Arguments) -> None:
    """Write the checkpoint, set `abort` aside."""
    put_checkpoint(scene, build_checkpoint(scene.reopen()))
    scene.tree.set_aside(action.target)


def plan_save_index(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Keep the next start from deleting index files."""
    if can_finish(scene):
        yield from plan_finish(scene, findings)
        return
    if is_unsettled(scene):
        return
    files = {finding.where.file for finding in answers.one_by_one(findings)}
    headers = readable_headers(file for file in scene.store.indexes if file.relative in files)
    ends = [header.end_timestamp for _, header in headers]
    there = scene.store.checkpoint is not None
    written = any(RULES[finding.rule].repair == "write-checkpoint" for finding in scene.findings)
    if ends and (there or written):
        yield answers.answer(
            "save-index",
            CHECKPOINT_NAME,
            "set indexMsgTimestamp to the end of the newest index file, so the next start keeps that file",
            findings,
            arguments=plan_arguments.IndexTime(max(ends)),
            preconditions=answers.whole_file(scene, CHECKPOINT_NAME) if there else (),
            write_byte_count=8,
        )


def act_save_index(scene: ActScene, _action: Action, arguments: plan_arguments.IndexTime) -> None:
    """Raise indexMsgTimestamp."""
    before = read_checkpoint(scene.reopen())
    wanted = max(arguments.index_msg_timestamp, before.index_msg_timestamp)
    put_checkpoint(scene, replace(before, index_msg_timestamp=wanted))


def plan_timer(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """timercheck of a page's length, its fields at most what the store holds."""
    if is_unsettled(scene):
        return
    for name, found in answers.by_file(answers.one_by_one(findings)).items():
        values = _timer_values(scene.store, found)
        yield answers.answer(
            "reset-timer",
            name,
            "set the length of timercheck, and limit its fields to what the store holds",
            found,
            arguments=plan_arguments.TimerValues(values),
            preconditions=answers.whole_file(scene, name),
            write_byte_count=timer.TIMER_CHECK_SIZE,
            notices=[answers.notice("timer-moved", max(len(values), 1))],
        )


def _timer_values(store: Store, findings: Iterable[Finding]) -> tuple[plan_arguments.TimerValue, ...]:
    values: dict[str, int] = {}
    for finding in findings:
        field = finding.found.get("field")
        if finding.rule == RuleName.TIMER_CHECK_RANGE and isinstance(field, str):
            values[field] = answers.number(finding.expected, "limit")
    if "lastReadTimeMs" in values:
        end = read_log_end(store)
        values["lastReadTimeMs"] = end.store_timestamp if end is not None else 0
    return tuple(
        plan_arguments.TimerValue(field, values[field])
        for field in plan_arguments.TIMER_FIELDS
        if field in values
    )


def act_timer(scene: ActScene, action: Action, arguments: plan_arguments.TimerValues) -> None:
    """Set the length, write the fields."""
    if scene.tree.size(action.target) != timer.TIMER_CHECK_SIZE:
        scene.tree.resize(action.target, timer.TIMER_CHECK_SIZE)
    for item in arguments.fields:
        data = item.value.to_bytes(8, "big", signed=True)
        scene.tree.write(action.target, timer.TIMER_CHECK.offset(item.field), data)


ROWS: tuple[Row, ...] = (
    Repair(
        "reset-timer",
        510,
        "limit the timer's progress to the store",
        plan_timer,
        act_timer,
        plan_arguments.TimerValues,
    ),
    Repair(
        "write-checkpoint",
        520,
        "write a checkpoint that matches the store",
        plan_checkpoint,
        act_checkpoint,
        plan_arguments.CheckpointTail,
        traits=("checkpoint_fields",),
        needs=("rebuild-index",),  # whose newest time is one of its fields
    ),
    Repair(
        "save-index",
        530,
        "keep the next start from deleting index files",
        plan_save_index,
        act_save_index,
        plan_arguments.IndexTime,
        needs=("write-checkpoint",),
    ),
    Repair(
        "finish-recovery",
        800,
        "move `abort` aside after a full recovery",
        plan_finish,
        act_finish,
        plan_arguments.Arguments,
        areas=("abort", "checkpoint"),
        traits=("checkpoint_fields",),
        answers=(RuleName.INDEX_FILE_DOOMED, RuleName.RECOVERY_SCANS_ALL),
        needs=_DONE_BEFORE,
    ),
)
