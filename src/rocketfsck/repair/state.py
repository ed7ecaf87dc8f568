"""What a store is, for whoever wants to start a broker on it: a table of states, the first that holds.

report, account, predicted starts --> state                                      ADR 0024

What becomes of the messages of a store: now, after a start of each version, after a repair.

    account of the check  ->  now
    predicted start       ->  after that start
    check of a tried plan ->  after the plan, else what its actions say

Every state has the same messages: what is not in the log any more is lost. Design, section 7; ADR 0024.

The messages that a check found lost, one row a range: which, when stored, and who had not read them.

check --> MessageAccount.lost --> rows, with what neighbours and committed offsets say

Reference 1.6.2, 3.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from rocketfsck.common.rows import Text, columns_of
from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import EXIT_CLEAN, EXIT_PROBLEMS, FormatError, StoreError
from rocketfsck.query.offsets import group_positions
from rocketfsck.query.start.verdict import StartVerdict
from rocketfsck.query.view import QueueView, StoreView
from rocketfsck.reader.index import readable_headers
from rocketfsck.repair.plan.model import Action
from rocketfsck.scan.views.messages import Message
from rocketfsck.store.model import Store
from rocketfsck.verify.finding import Fates, Finding, LostRun, MessageAccount, Severity
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import UNKNOWN_RULES
from rocketfsck.verify.store.configfiles import EMPTY

LOST_KIND = "rocketfsck.check.lost"


@dataclass(frozen=True, slots=True)
class LostMessages:
    """`message_count` lost messages of one queue, from one queue offset to another (half-open).

    Topic, queue and queue offsets are None where only the place in the log is known. The messages were stored
    after the one with the storeTimestamp `after_timestamp` (ms) and before that with `before_timestamp`; None
    where there is no such neighbour. `groups` have committed offsets in the queue and had not consumed all of
    them.
    """

    topic: str | None
    queue_id: int | None
    start_queue_offset: int | None
    end_queue_offset: int | None
    message_count: int
    sure: Text
    why: Text
    first_physical_offset: int | None
    last_physical_offset: int | None
    after_timestamp: int | None
    before_timestamp: int | None
    groups: tuple[str, ...] = ()

    def as_row(self) -> dict[str, Any]:
        """The values of `LOST_COLUMNS`."""
        return {**asdict(self), "groups": list(self.groups)}


LOST_COLUMNS = columns_of(LostMessages)
"""The columns of lost messages, wherever they are listed."""


def lost_messages(store: Store, account: MessageAccount) -> Iterator[LostMessages]:
    """Every range of the account, in its order. Raises StoreError if the log or a queue cannot be read."""
    with StoreView(store) as view:
        committed = _committed(view)
        for run in account.lost:
            yield _row(view, run, committed)


Committed = dict[tuple[str, int], list[tuple[str, int]]]
"""The groups of a queue, each with its offset."""


def _row(view: StoreView, run: LostRun, committed: Committed) -> LostMessages:
    why = (run.message_count, run.sure, run.why, run.first_physical_offset, run.last_physical_offset)
    if not run.topic:
        return LostMessages(None, None, None, None, *why, None, None)
    queue = view.queue(run.topic, run.queue_id)
    times: tuple[int | None, int | None] = (None, None)
    if queue is not None:
        times = (_time_at(queue, run.start_queue_offset - 1), _time_at(queue, run.end_queue_offset))
    groups = committed.get((run.topic, run.queue_id), ())
    return LostMessages(
        run.topic,
        run.queue_id,
        run.start_queue_offset,
        run.end_queue_offset,
        *why,
        *times,
        tuple(sorted(group for group, offset in groups if offset < run.end_queue_offset)),
    )


def _time_at(queue: QueueView, offset: int) -> int | None:
    """The storeTimestamp of the message at a queue offset; None where there is none."""
    with suppress(StoreError):
        unit = queue.unit(offset)
        found = None if unit is None or not queue.leads(unit) else queue.log.record_at(unit.physical_offset)
        return found.store_timestamp if isinstance(found, Message) else None
    return None


def _committed(view: StoreView) -> Committed:
    """The groups of each queue with their offsets; none where the configs cannot be read."""
    found: Committed = {}
    with suppress(FormatError, StoreError):
        for group, topic, queue_id, offset in group_positions(view):
            found.setdefault((topic, queue_id), []).append((group, offset))
    return found


FILLERS = "fillers-delivered"
"""The notice that counts messages with filler records in their place."""


@dataclass(frozen=True, slots=True)
class AfterStart:
    """The messages after the start of a `version`, and of those in `alike`."""

    version: str
    alike: tuple[str, ...]
    messages: Fates


@dataclass(frozen=True, slots=True)
class Outlook:
    """The messages of a store in three states.

    `after_starts` has a row for each class of versions whose start was predicted with its messages.
    `after_plan` is None where there is no plan. `is_tried`: a check of the tried plan found it; otherwise the
    actions of the plan say it.
    """

    now: Fates
    after_starts: tuple[AfterStart, ...] = ()
    after_plan: Fates | None = None
    is_tried: bool = False


def fates_after(now: Fates, found: Fates) -> Fates:
    """The messages that a store has `now`, in the store that it becomes, by what a check of that `found`.

    A message that is found no more, not even as lost, is lost all the same: a repair may remove the evidence.
    """
    known = found.in_log_count + found.replaced_count + found.removed_count
    gone = max(now.total_count - known, 0)
    perhaps = min(now.perhaps_lost_count, gone)
    return replace(found, lost_count=gone - perhaps, perhaps_lost_count=perhaps)


def after_start(now: Fates, start: StartVerdict) -> Fates | None:
    """The messages after a start; None where it is refused, or nobody counted them."""
    if not start.covered or not start.loads or start.reached_count is None:
        return None
    cut = min((start.cut_count or 0) + start.astray_count, now.in_log_count)
    left = now.in_log_count - cut
    # a start fills no hole inside a queue: it brings back what it appends a unit for
    got = min(start.reached_count, left, now.got_count + start.added_count)
    damaged = min(now.damaged_count, got)
    return replace(
        now,
        served_count=got - damaged,
        damaged_count=damaged,
        unreached_count=left - got,
        lost_count=now.lost_count + cut,
    )


def planned_fates(now: Fates, actions: Iterable[Action]) -> Fates:
    """The messages after a plan that was not tried, by what its actions say."""
    listed = list(actions)
    gained = sum(action.gains.get("record", 0) for action in listed)
    taken = sum(
        loss.count for action in listed for loss in action.losses if loss.what == "record" and loss.valid
    )
    fillers = sum(notice.count for action in listed for notice in action.notices if notice.kind == FILLERS)
    again = min(gained, now.unreached_count)
    mended = min(gained - again, now.damaged_count)
    found = replace(
        now,
        served_count=max(now.served_count + gained - taken, 0),
        unreached_count=now.unreached_count - again,
        damaged_count=now.damaged_count - mended,
        replaced_count=now.replaced_count + min(fillers, now.lost_count + now.perhaps_lost_count),
    )
    return fates_after(now, found)


QUICK = "records were not read (level quick)"
State = Literal[
    "interrupted",
    "running",
    "unread",
    "refused",
    "harmful",
    "unknown",
    "lost",
    "unclean",
    "damaged",
    "partial",
    "healthy",
]
"""What a store is, for whoever wants to start a broker on it: the first of these that holds (ADR 0024).

    interrupted   a repair of the store, or its undo, was interrupted: the store is between two states
    running   a broker holds the store
    unread    a part of the store could not be read
    refused   a broker of some version does not start
    harmful   a broker of some version starts, and takes something that is sound
    unknown   the start cannot be predicted
    lost      messages are lost already, and a start takes nothing more
    unclean   all that was found is what a killed broker leaves, and a start puts it in order
    damaged   something else was found, and a start takes nothing
    partial   nothing above info was found in what was checked, which is not all that was asked for
    healthy   nothing above info was found, and a start takes nothing
"""
MAY_START: Mapping[State, bool] = {
    "interrupted": False,
    "refused": False,
    "harmful": False,
    "lost": True,
    "damaged": True,
    "unclean": True,
    "partial": True,
    "healthy": True,
}
"""Whether a broker may be started, for the states that say it."""

LEFT_BY_A_KILL = frozenset(
    {
        RuleName.ABORT_PRESENT,
        RuleName.CONFIG_MISSING,
        RuleName.EMPTY_LAST_SEGMENT,
        RuleName.INDEX_FILE_DOOMED,
        RuleName.RECOVERY_SCANS_ALL,
        RuleName.LOG_TORN_TAIL,
        RuleName.RECORD_WITHOUT_UNIT,
        RuleName.QUEUE_MISSING,
        RuleName.RECORD_UNINDEXED,
        RuleName.INDEX_ENTRY_BEHIND_COUNT,
        RuleName.CHECKPOINT_ZERO,
        RuleName.DATABASE_LOG_CUT,
        RuleName.ROWS_NOT_FLUSHED,
    }
)
"""Rules whose breaches a killed broker leaves, and which its next start mends where it takes nothing."""

_PARTLY_INDEXED = {RuleName.KEY_UNINDEXED, RuleName.TAGS_UNINDEXED}
_WITHOUT_COPY = (RuleName.CONFIG_LOST, RuleName.CONFIG_MISSING)

_FORBIDDING = (RuleName.TOPICS_GONE, RuleName.TOPICS_FOREIGN, RuleName.RECORD_MAGIC_UNKNOWN)
"""Rules whose breaches no start mends: the broker knows less than the store has."""


def state_of(
    store: Store, report: Report, starts: Sequence[StartVerdict], *, is_interrupted: bool = False
) -> State:
    """The first state that holds, in the order of `State`."""
    known = [start for start in starts if start.covered]
    account = report.account
    killed = _is_only_unclean(store, report, known)
    takes = any(start.takes(hidden=not _is_known_sound(report), keys=not killed) for start in known)
    holds: Mapping[State, bool] = {
        "interrupted": is_interrupted,
        "running": bool(store.live.locked),
        "unread": any(item.operational for item in report.not_checked),
        "refused": any(not start.loads for start in known),
        "harmful": takes or bool(lost_configs(report)) or any(map(report.counts.get, _FORBIDDING)),
        "unknown": not known or len(known) < len(starts),
        "lost": account is not None and account.lost_count > 0,
        "unclean": not is_sound(report) and killed,
        "damaged": not is_sound(report),
        "partial": not report.coverage.complete or bool(depth_of(report)),
        "healthy": True,
    }
    return next(state for state, does in holds.items() if does)


def check_status(report: Report, state: State, *, narrowed: bool = False) -> int:
    """The exit status of a check, and of a `fix` that changes nothing.

    A start that is refused, or deletes something, is a problem, too, where no finding says why: its cause
    may be in what the check did not look at, does not understand, or only notes. `narrowed`: the user asked
    for a part of the findings. Severities that the user lowered stay lowered.
    """
    hidden = report.level != "full" or not report.coverage.complete
    hidden = hidden or not UNKNOWN_RULES.isdisjoint(report.counts)
    unexplained = not narrowed and (hidden or (report.exit_code == EXIT_CLEAN and not report.severities))
    harmful = MAY_START.get(state) is False and (state == "interrupted" or unexplained)
    found = report.exit_code & ~EXIT_PROBLEMS if state == "unclean" else report.exit_code
    return found | (EXIT_PROBLEMS if harmful else EXIT_CLEAN)


def gate_status(found: int, state: State) -> int:
    """The exit status of a gate in front of a start, from that which a check has `found`: clean only where a
    start is known to take nothing from the store."""
    return found & ~EXIT_PROBLEMS | (EXIT_CLEAN if MAY_START.get(state) else EXIT_PROBLEMS)


def _is_only_unclean(store: Store, report: Report, starts: Iterable[StartVerdict]) -> bool:
    """Whether every finding is what a killed broker leaves, and every start serves all that the log has."""
    account = report.account
    above_info = {
        rule for rule, count in report.counts.items() if count and report.severity_of(rule) > Severity.INFO
    }
    if above_info & _PARTLY_INDEXED and _ends_between_two_entries(store, report):
        above_info -= _PARTLY_INDEXED
    if store.abort is None or not above_info <= LEFT_BY_A_KILL or report.withheld:
        return False
    if {*depth_of(report)} - {QUICK}:
        return False
    if account is None:
        return report.level == "quick"
    deleted = account.count("removed")
    return all((start.unreached_count or 0) <= deleted for start in starts)


def _ends_between_two_entries(store: Store, report: Report) -> bool:
    """Whether the one record that has only some of its entries in the index is the last one there: a broker
    puts those of keys and then that of tags one by one, and its next start begins with that record."""
    ends = [header.end_physical_offset for _, header in readable_headers(store.indexes)]
    found = [finding.where.physical_offset for finding in report.findings if finding.rule in _PARTLY_INDEXED]
    count = sum(report.counts.get(rule, 0) for rule in _PARTLY_INDEXED)
    return len(found) == count == 1 and found[0] == max(ends, default=-1)


def depth_of(report: Report) -> tuple[str, ...]:
    """What was not looked at, each as a clause."""
    said = {
        QUICK: report.level == "quick",
        "rules were left out": bool(report.unasked_rules),
        "only a part was checked": not report.coverage.complete,
        "findings of a baseline are left out": bool(report.suppressed),
    }
    return tuple(text for text, does in said.items() if does)


def lost_configs(report: Report) -> tuple[str, ...]:
    """Config files without a sound copy: the broker writes default settings in their place.

    Of a file without a byte nothing is lost by that.
    """
    files = (
        finding.where.file
        for finding in report.findings
        if finding.rule in _WITHOUT_COPY and finding.found.get("reason") != EMPTY
        if not finding.found.get("backup_sound")
    )
    return tuple(dict.fromkeys(files))


def unknown_topic_count(report: Report) -> int:
    """How many topics with queues a broker that starts knows nothing of, since there is no topics.json."""
    return _unlisted(report, by_a_file=False)


def unlisted_topic_count(report: Report) -> int:
    """How many topics with queues are not in topics.json: deleted ones, or those that another copy has."""
    return report.counts.get(RuleName.QUEUE_WITHOUT_TOPIC, 0) + _unlisted(report, by_a_file=True)


def _unlisted(report: Report, *, by_a_file: bool) -> int:
    """How many topics no file lists: because there is none, or one that lists none at all."""
    findings = [finding for finding in report.findings if (finding.where.end is not None) == by_a_file]
    return _sum_of(findings, "topic_count", RuleName.TOPICS_GONE, RuleName.TOPICS_ELSEWHERE)


def newer_record_count(report: Report) -> int:
    """How many records of the log are a newer broker's."""
    return _sum_of(report.findings, "record_count", RuleName.RECORD_MAGIC_UNKNOWN)


def newer_byte_count(report: Report) -> int:
    """How many bytes they have: no scan knows them."""
    return _sum_of(report.findings, "byte_count", RuleName.RECORD_MAGIC_UNKNOWN)


def _sum_of(findings: Iterable[Finding], fact: str, *rules: str) -> int:
    """The sum of a fact of all findings of some rules."""
    counts = [finding.found.get(fact) for finding in findings if finding.rule in rules]
    return sum(count for count in counts if isinstance(count, int))


def is_sound(report: Report) -> bool:
    """Whether nothing above info was found in what was checked."""
    return (report.worst or Severity.INFO) is Severity.INFO


def _is_known_sound(report: Report) -> bool:
    """Whether all was looked at, and nothing is wrong: files that a broker passes over are not a loss."""
    return is_sound(report) and report.level == "full" and report.coverage.complete
