"""What a check leaves out, and why: what this version does not read, other parts, higher levels, a stop."""

from __future__ import annotations

from collections.abc import Iterator

from rocketfsck.common.wording import count_of
from rocketfsck.store.elsewhere import has_log_elsewhere
from rocketfsck.store.model import OtherKind, StrayReason
from rocketfsck.store.rocks.families import is_known
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.report import Coverage, NotChecked
from rocketfsck.verify.tasks.execute import Executed, after_stop
from rocketfsck.verify.tasks.task import Context

_READ_OTHERS = frozenset(
    {
        OtherKind.BROKER_IDENTITY,
        OtherKind.EPOCH,
        OtherKind.TIMER_CHECK,
        OtherKind.TIMER_LOG,
        OtherKind.TIMER_WHEEL,
        OtherKind.ABORT_BACKUP,
        OtherKind.SETTINGS,
        OtherKind.COMPACTION_LOG,
        OtherKind.COMPACTION_CQ,
        OtherKind.COMPACTION_CHECKPOINT,
        OtherKind.DLEDGER_DATA,
        OtherKind.DLEDGER_INDEX,
        OtherKind.DLEDGER,
        OtherKind.TIERED_LOG,
        OtherKind.TIERED_QUEUE,
        OtherKind.TIERED_SEGMENT_INDEX,
        OtherKind.TIERED_INDEX,
    }
)
_NOT_READ = "listed, but this version does not check the content"
_HALF_READ = (
    "the check compares entries with their index, but does not check the records in them: "
    "nothing says whether these files are the store's commit log"
)


def parts_unread(context: Context, read: frozenset[str]) -> Iterator[NotChecked]:
    """Parts of the store that nothing here reads, or not at this level."""
    store = context.store
    if store.log_only:
        yield NotChecked(
            "", "the check was given a directory of commit log files: queues and index are not compared"
        )
    for stray in store.strays:
        if stray.reason is StrayReason.UNREADABLE:
            yield NotChecked(stray.relative, stray.detail or "cannot be read", operational=True)
    for other in store.others:
        if other.kind is OtherKind.ROCKSDB and (other.relative in read or is_known(other.relative)):
            continue
        if other.kind not in _READ_OTHERS:
            yield NotChecked(other.relative, f"{other.kind}: {_NOT_READ}")
        elif other.kind is OtherKind.DLEDGER_DATA and has_log_elsewhere(store) and context.level != "quick":
            yield NotChecked(other.relative, f"{other.kind}: {_HALF_READ}")


def parts_apart(options: CheckOptions, ran: Executed) -> Iterator[NotChecked]:
    """What the parts of a check do not find, each on its own, however many there are."""
    if ran.coverage.complete or ran.stopped or options.level == "quick":
        return
    reason = "this part does not judge what needs the files of other parts: queues and index files "
    if options.resume is None:
        advice = "give every part the same --resume FILE, and the last part reports on the whole"
    else:
        advice = f"when {options.resume} holds every part, the report covers the whole"
    yield NotChecked("", f"{reason}against the log, one segment against the next; {advice}")


def levels_above(options: CheckOptions) -> Iterator[NotChecked]:
    above = len(options.selected_rules()) - len(options.wanted_rules())
    if above:
        yield NotChecked(
            "", f"{count_of(above, 'rule belongs', 'rules belong')} to a higher level than {options.level}"
        )


def parts_after_stop(coverage: Coverage) -> Iterator[NotChecked]:
    """What a check that stopped early did not come to, besides the files that `execute` names."""
    if coverage.stopped_after is not None:
        yield NotChecked(
            "",
            f"{after_stop(coverage.stopped_after)}: the rest of that file, comparisons between several "
            "files, and later small files and databases are not checked",
        )
