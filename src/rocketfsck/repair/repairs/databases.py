"""RocksDB databases that are made again from the log: those of consume queues, and that of messages.

    consumequeue/, consumequeue_rocksdb/   rows of all records, and what only the former one knew
                                           (`repair.build.queuerows`)                   rebuild-queue-database
    rocksdbstore/                          the index; timers and transactions are copied
                                           (`repair.build.databases`)                 rebuild-message-database

A database is one unit: it is built elsewhere, read as a whole, and takes the place of the former one file by
file; queues in files next to it stay. Configs and POP records are in no log: their databases are not made.
Reference 3.9, 11.3, 11.4.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.errors import StoreError
from rocketfsck.formats.timer import SCHEDULE_TOPIC
from rocketfsck.reader.configs import loaded_topics, may_lack_topics
from rocketfsck.repair.build import databases, queuerows
from rocketfsck.repair.plan.arguments import DatabaseToBuild, EndsSource, MessageRowsToBuild, Name
from rocketfsck.repair.plan.model import Action, Extent
from rocketfsck.repair.plan.table import ActScene, PlanScene, Repair, Row
from rocketfsck.repair.repairs.answers import answer, notice, number, one_by_one, queue_of, whole_file
from rocketfsck.repair.repairs.groupoffsets import committed_behind
from rocketfsck.repair.repairs.misnamed import is_unsettled, lacks_its_log
from rocketfsck.repair.repairs.queues import log_beginnings
from rocketfsck.repair.repairs.reasons import in_the_way
from rocketfsck.store.elsewhere import QUEUE_DATABASES, lost_queue_database
from rocketfsck.store.model import Other
from rocketfsck.store.rocks.families import CURRENT, DEFAULT, MESSAGE_DATABASE, database_at
from rocketfsck.store.rocks.lifting import lifted
from rocketfsck.store.rocks.reading import RocksError, has_index_rows, read_rows, why_not_readable
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.tasks.task import is_aggregate

QUEUES, MESSAGES = "rebuild-queue-database", "rebuild-message-database"
_DESTROYED = frozenset({RuleName.UNIT_OF_DAMAGED_RECORD.slug, RuleName.UNIT_IN_MISSING_SEGMENT.slug})
"""What a row says whose record was destroyed with the log: such a row alone asks for nothing."""
_COUNTED = "unit_count"
_WITHOUT_ROW = (RuleName.RECORD_WITHOUT_ROW, RuleName.ROWS_NOT_FLUSHED)


def plan_databases(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """One action for each database that is wrong."""
    if is_unsettled(scene) or lacks_its_log(scene):
        return
    by_database: dict[str, list[Finding]] = {}
    odd = [finding for finding in scene.findings if finding.rule == RuleName.DATABASE_ROW_ODD]
    for finding in (*findings, *odd):
        by_database.setdefault(str(finding.found.get("database", finding.where.file)), []).append(finding)
    for path, found in sorted(by_database.items()):
        other = database_at(scene.store, path) or lost_queue_database(scene.store)
        if other is None or other.relative != path or why_not_readable(other) is not None:
            continue
        if any(in_the_way(scene.store, finding) for finding in found):
            continue
        if path in QUEUE_DATABASES:
            answered = [finding for finding in found if not _is_copied(finding, databases.QUEUE_FAMILIES)]
            if not all(map(_asks_nothing, answered)):
                yield _queue_database(scene, other, answered)
        elif path == MESSAGE_DATABASE:
            answered = [finding for finding in found if not _is_copied(finding, (DEFAULT,))]
            if not all(map(_asks_nothing, answered)):
                yield _message_database(scene, other, answered)


def _is_copied(finding: Finding, made: Collection[str]) -> bool:
    """Whether a finding names an odd row that is copied: only rows of the families `made` are made."""
    return finding.rule == RuleName.DATABASE_ROW_ODD and finding.found.get("family") not in made


def _asks_nothing(finding: Finding) -> bool:
    """Whether a database stays for all that a finding says: for an odd row, which may be a newer broker's,
    and a row whose record was destroyed with the log."""
    destroyed = finding.rule == RuleName.ROW_WITHOUT_RECORD and finding.found.get("problem") in _DESTROYED
    return destroyed or finding.rule == RuleName.DATABASE_ROW_ODD


def _queue_database(scene: PlanScene, other: Other, found: Sequence[Finding]) -> Action:
    """The action that makes a database of queues again."""
    former = queuerows.former_ends(other)
    log_ends = scene.once(_in_log).ends
    without_row = [finding for finding in found if finding.rule == RuleName.RECORD_WITHOUT_ROW]
    restored: tuple[Name, ...] | None = None
    source: EndsSource = "log"
    if former is not None and not any(map(is_aggregate, without_row)):
        source, restored = "database", tuple(sorted({name for name in map(queue_of, without_row) if name}))
    elif scene.once(_knows_topics):
        source = "topics"
    count = sum(number(finding.found, "record_count") for finding in found if finding.rule in _WITHOUT_ROW)
    dangling = [finding for finding in found if finding.rule == RuleName.ROW_WITHOUT_RECORD]
    moved = _moved_ends(former, log_ends)
    return answer(
        QUEUES,
        other.relative,
        _note(other, former),
        found,
        arguments=DatabaseToBuild(restored, source, _shows_no_delays(former, log_ends, found)),
        preconditions=_as_it_was(scene, other),
        gains={"record": count} if count else {},
        write_byte_count=max(_size(other), 64 * _record_count(scene)),
        notices=[
            notice("consumable-again", count),
            notice("evidence-removed", sum(number(finding.found, _COUNTED) for finding in dangling)),
            notice("queue-end-moved", len(moved)),
            notice("committed-beyond", committed_behind(scene, moved)),
            notice("renumbered", sum(map(_renumbered, found))),
        ],
    )


def _shows_no_delays(
    former: queuerows.FormerEnds | None, log_ends: Mapping[queuerows.RawName, int], found: Iterable[Finding]
) -> bool:
    """Whether rows of delay levels will be made though no sound row shows the delays."""
    levels = {name for name in log_ends if name[0] == SCHEDULE_TOPIC.encode()}
    differ = any(
        finding.where.topic == SCHEDULE_TOPIC or (is_aggregate(finding) and finding.where.topic is None)
        for finding in found
        if finding.rule == RuleName.ROW_DIFFERS
    )
    shown = () if former is None else former.greatest.keys()
    unread = any(finding.rule == RuleName.DATABASE_UNREADABLE for finding in found)
    return bool(levels) and (unread or differ or not levels <= {*shown})


def _moved_ends(
    former: queuerows.FormerEnds | None, log_ends: Mapping[queuerows.RawName, int]
) -> dict[Name, int]:
    """Where queues will end before the queue offset that the database says, by queue."""
    if former is None:
        return {}
    return {
        (os.fsdecode(topic), queue_id): end
        for (topic, queue_id), (greatest, _) in former.greatest.items()
        if (end := log_ends.get((topic, queue_id), greatest + 1)) <= greatest
    }


def _note(other: Other, former: queuerows.FormerEnds | None) -> str:
    if former is None:
        return f"build the database {other.relative} again from the log"
    kept = (
        f" and {count_of(len(former.families), 'further family', 'further families')}"
        if former.families
        else ""
    )
    return (
        f"build the database {other.relative} again from the log; the ends of expired queues{kept} are kept"
    )


def _in_log(scene: PlanScene) -> queuerows.LogQueues:
    """What the log shows of queues."""
    return queuerows.queues_in_log(scene.store)


def _knows_topics(scene: PlanScene) -> bool:
    """Whether the broker's topics can be read, in files or in databases, and are all of them."""
    if may_lack_topics(scene.store):
        return False
    with lifted(scene.store) as lifting:
        return bool(loaded_topics(lifting.store))


def _record_count(scene: PlanScene) -> int:
    return sum(total.record_count for totals in scene.report.regions.values() for total in totals)


def _size(other: Other) -> int:
    return sum(file.size for file in other.files)


def _renumbered(finding: Finding) -> int:
    """Records whose rows are at other queue offsets than they will be."""
    if finding.rule != RuleName.ROW_DIFFERS or finding.found.get("problem") != RuleName.UNIT_SHIFTED.slug:
        return 0
    return number(finding.found, "last_queue_offset") - number(finding.found, "first_queue_offset") + 1


def _as_it_was(scene: PlanScene, other: Other) -> list[Extent]:
    """The preconditions that database and log are those that were looked at."""
    files = [extent for file in other.files for extent in whole_file(scene, file.relative)]
    if not other.files:
        files.append(Extent(f"{other.relative}/{CURRENT}", 0, None, None))
    return [*files, *log_beginnings(scene)]


def _message_database(scene: PlanScene, other: Other, found: Sequence[Finding]) -> Action:
    """The action that makes the database of messages again."""
    lost = [family for family in databases.MESSAGE_FAMILIES[1:] if not _is_whole(scene, other, family)]
    topics = {topic.decode("utf-8", "replace") for topic, _ in scene.once(_in_log).ends} if lost else set()
    lost = [family for family in lost if databases.TOPICS[family] in topics]
    missing = [finding for finding in found if finding.rule == RuleName.INDEX_ROW_MISSING]
    return answer(
        MESSAGES,
        other.relative,
        f"build the index of {other.relative} again from the log; timers and transactions are copied",
        found,
        arguments=MessageRowsToBuild(_has_index(scene)),
        preconditions=_as_it_was(scene, other),
        write_byte_count=max(_size(other), 512 * _record_count(scene)),
        notices=[
            notice("found-by-key-again", len(missing)),
            notice("message-rows-lost", len(lost)),
        ],
    )


def _is_whole(scene: PlanScene, other: Other, family: str) -> bool:
    """Whether all rows of a family can be copied. Those of a lost or damaged log of the database cannot."""
    for finding in one_by_one(scene.findings):
        broken = finding.rule in (RuleName.DATABASE_FILE_MISSING, RuleName.DATABASE_FILE_DAMAGED)
        name = str(finding.found.get("name"))
        if broken and finding.found.get("database") == other.relative and name.endswith(".log"):
            return False
    try:
        for _ in read_rows(other, [family]):
            pass
    except RocksError:
        return False
    return True


def _has_index(scene: PlanScene) -> bool:
    """Whether the database has an index: it has rows of one, or the broker was to keep one there."""
    settings = scene.store.settings
    if settings.get("indexRocksDBEnable") is not None:
        return settings.flag("indexRocksDBEnable", False)
    try:
        return has_index_rows(scene.store)
    except RocksError:
        return not scene.store.indexes


def act_queues(scene: ActScene, action: Action, arguments: DatabaseToBuild) -> None:
    """Build the database in a scratch directory and let it take the place of the one that is there."""
    made = scene.tree.scratch() / "made"
    restored = arguments.restored
    queuerows.build_queue_rows(
        scene.reopen(),
        action.target,
        made,
        None
        if restored is None
        else [(topic.encode("utf-8", "surrogateescape"), queue_id) for topic, queue_id in restored],
    )
    _exchange(scene, action.target, made.iterdir())


def act_messages(scene: ActScene, action: Action, arguments: MessageRowsToBuild) -> None:
    """Build the database in a scratch directory and let it take the place of the one that is there."""
    scratch = scene.tree.scratch()
    databases.build_message_rows(scene.reopen(), scratch, index=arguments.index)
    _exchange(scene, action.target, (scratch / MESSAGE_DATABASE).iterdir())


def _exchange(scene: ActScene, path: str, made: Iterable[Path]) -> None:
    """Let the files of a database be those that were made, and read all of them."""
    former = database_at(scene.reopen(), path)
    for kept in () if former is None else former.files:
        scene.tree.set_aside(kept.relative)
    for file in sorted(made):
        scene.tree.adopt(file, f"{path}/{file.name}")
    other = database_at(scene.reopen(), path)
    if other is None:
        raise StoreError("the database that was made is not there", path=path)
    queuerows.verify_rows(other)


def _places(action: Action) -> tuple[str, str]:
    return action.target, f"{action.target}/CURRENT"


ROWS: tuple[Row, ...] = (
    Repair(
        QUEUES,
        340,
        "build a database of consume queues again from the log",
        plan_databases,
        act_queues,
        DatabaseToBuild,
        areas=("consumequeue", "consumequeue_rocksdb", "commitlog"),
        writes_by=("delay_levels", "removed_topics", "queue_ends"),
        answers=(RuleName.DATABASE_ROW_ODD,),
        # out of a damaged log it would have other rows than out of the repaired one
        needs=("salvage-log",),
        places=_places,
    ),
    Repair(
        MESSAGES,
        345,
        "build the index of the database of messages again from the log",
        lambda _s, _f: (),
        act_messages,
        MessageRowsToBuild,
        areas=(MESSAGE_DATABASE, "commitlog"),
        answers=(
            RuleName.DATABASE_FILE_MISSING,
            RuleName.DATABASE_FILE_DAMAGED,
            RuleName.DATABASE_UNREADABLE,
            RuleName.DATABASE_ROW_ODD,
            RuleName.INDEX_ROW_DANGLING,
            RuleName.INDEX_ROW_MISSING,
        ),
        needs=("salvage-log",),
        places=_places,
    ),
)
