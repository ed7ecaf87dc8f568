"""Runs a check from a store to a report.

    plan units -> execute -> merge what needs several files -> store, checkpoint, config checks -> Report

The report is the same for any number of jobs: results are put in store order before anything is made of
them. Nothing in the store is ever opened for writing.

What a check leaves out, and why: what this version does not read, other parts, higher levels, a stop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from rocketfsck._version import __version__
from rocketfsck.common.budget import core_count, within
from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.engine.passes import Passes, measured
from rocketfsck.errors import StoreError
from rocketfsck.progress import phase
from rocketfsck.store.elsewhere import has_log_elsewhere, has_queues_elsewhere
from rocketfsck.store.inuse import without_parts
from rocketfsck.store.model import OtherKind, Store, StrayReason
from rocketfsck.store.rocks.families import is_known
from rocketfsck.verify.account import Gatherer
from rocketfsck.verify.databases.run import Databases, check_databases
from rocketfsck.verify.diagnoses import continue_command, diagnose, next_commands, plan_command, stated_words
from rocketfsck.verify.finding import Finding, Findings, MessageAccount, Where
from rocketfsck.verify.log.result import merge_log_files
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.origins import check_origins, compare_parts
from rocketfsck.verify.queues.crossqueues import merge_queues
from rocketfsck.verify.regular import InFlight, settle_regular
from rocketfsck.verify.report import Coverage, Items, NotChecked, Report, StoreFacts
from rocketfsck.verify.rules.catalog import RULES, UNKNOWN_RULES, describe
from rocketfsck.verify.stopping import Sift, WantedFindings
from rocketfsck.verify.store import misnamed as store_misnamed
from rocketfsck.verify.store.checkpoint import check_checkpoint
from rocketfsck.verify.store.compaction import check_compaction
from rocketfsck.verify.store.config import check_config
from rocketfsck.verify.store.dledger import check_dledger
from rocketfsck.verify.store.layout import check_layout
from rocketfsck.verify.tasks import task
from rocketfsck.verify.tasks.execute import Executed, after_stop, execute, plan_units
from rocketfsck.verify.tasks.resume import read_baseline
from rocketfsck.verify.tiered.check import Tiered, check_tiered
from rocketfsck.verify.timers import check_timers

if TYPE_CHECKING:
    from rocketfsck.verify.since.proving import Begun


_READ_OTHERS: Set[OtherKind] = {
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
_NOT_READ = "listed, but this version does not check the content"
_HALF_READ = (
    "the check compares entries with their index, but does not check the records in them: "
    "nothing says whether these files are the store's commit log"
)


def parts_unread(context: task.Context, read: frozenset[str]) -> Iterator[NotChecked]:
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


_KINDS = (("commitlog", task.LogFileTask), ("consumequeue", task.QueuesTask), ("index", task.IndexFileTask))
LARGE_SIZE = 64 << 20
"""A file with so much on the disk keeps a core busy for a while."""


def check_store(
    store: Store,
    options: CheckOptions | None = None,
    *,
    engine: Engine | None = None,
    passes: Passes | None = None,
    seen: Callable[[tuple[task.Fact, ...]], None] | None = None,
    begun: Begun | None = None,
) -> Report:
    """Check a store. What is wrong with it is in the report; what could not be read is, too.

    `passes` takes the time of each pass, `seen` what was learned of each file and queue. `begun` is what a
    check with `options.since` begins with, where that was found out before (`verify.since.proving`).

    Raises UsageError for rules, a baseline or a resume file that do not fit, and StoreError if the resume
    file cannot be written.
    """
    options = options or CheckOptions()
    started = time.monotonic()
    now = options.now_timestamp if options.now_timestamp is not None else int(time.time() * 1000)
    selected = options.selected_rules()
    accepted = read_baseline(options.baseline) if options.baseline is not None else frozenset()
    engine = engine or LocalEngine(options.jobs)
    context = task.Context(
        without_parts(store),
        options.level,
        now,
        options.detail_limit,
        data_size=sum(file.allocated_size for file in (*store.commitlog.files, *store.indexes)),
        keeps=options.since is not None,
    )
    units = plan_units(context) if _needs_data(selected) else ()
    wanted = WantedFindings(selected, accepted, options.stop_after)
    sift = Sift(wanted, options.detail_limit)
    going_on = None
    with _shared_cores(store, engine):
        if options.since is not None and units:
            from rocketfsck.verify.since.run import execute_since

            going_on = execute_since(context, options, units, engine, wanted, passes=passes, begun=begun)
            ran = going_on.executed
        else:
            ran = execute(context, options, units, engine, wanted=wanted, passes=passes)
    lasting = InFlight(store).lasting if store.live.locked else iter
    for result in ran.results:
        sift.take(() if result is None else lasting(result.findings))
    facts = tuple(fact for result in ran.results if result is not None for fact in result.facts)
    if seen is not None:
        seen(facts)
    known = task.gather(
        facts,
        [file.relative for file in store.commitlog.files],
        bool(units) and ran.coverage.complete,
        log_elsewhere=has_log_elsewhere(store),
        queues_elsewhere=has_queues_elsewhere(store),
    )
    left_out = list(ran.not_checked)
    gatherer = Gatherer()
    databases, tiered = Databases(), Tiered()
    if not sift.is_full():
        with phase("checking the databases"), measured(passes, "databases"):
            databases = check_databases(
                context, options, known, gatherer, local=isinstance(engine, LocalEngine)
            )
        with phase("checking the tiered storage"), measured(passes, "tiered storage"):
            tiered = check_tiered(context)
        with phase("comparing the files with each other"), measured(passes, "across files, small files"):
            for item in chain(_judge(context, known, ran, databases, gatherer), tiered.items):
                if isinstance(item, NotChecked):
                    left_out.append(item)
                elif not sift.is_full():
                    sift.take(lasting((item,)))
                if sift.is_full():
                    break
    if not sift.is_full():
        logs = _results(ran, task.LogFileTask)
        store_misnamed.settle_doubled(sift.kept, known)
        settle_regular(store, sift, ran.results, logs, gatherer, context.shared.asked)
    if going_on is not None:
        going_on.save()
    coverage = replace(ran.coverage, stopped_after=options.stop_after) if sift.is_full() else ran.coverage
    findings = tuple(sorted(sift.kept.findings, key=_report_order))
    version = str(store.dialect.version)
    diagnoses = diagnose(findings, str(store.root), store.stated, version, _inner_files(known))
    commands = next_commands(diagnoses, findings, plan_command(store, options))
    rest = continue_command(store, options, coverage)
    left_out += [*parts_unread(context, databases.read), *parts_after_stop(coverage)]
    left_out += [
        NotChecked(finding.where.file, f"not understood: {describe(finding)}")
        for finding in findings
        if finding.rule in UNKNOWN_RULES and finding.where.file not in databases.read
    ]
    return Report(
        store=store_facts(store),
        level=options.level,
        tool_version=__version__,
        started_timestamp=now,
        seconds=round(time.monotonic() - started, 3),
        checked=_checked(store, ran, databases, tiered),
        coverage=coverage,
        not_checked=tuple(dict.fromkeys([*left_out, *parts_apart(options, ran), *levels_above(options)])),
        findings=findings,
        counts=sift.kept.counts,
        suppressed=sift.suppressed,
        diagnoses=diagnoses,
        regions={log.file: log.regions for log in known.logs if log is not None},
        next_commands=commands if rest is None else (*commands, rest),
        since=None if going_on is None else going_on.facts,
        unasked_rules=tuple(sorted(RULES.keys() - selected)),
        account=None if sift.is_full() else _account(context, ran, gatherer, left_out),
    )


def _inner_files(known: task.Known) -> frozenset[str]:
    """The commit log files that others with live records follow."""
    files = [log.file for log in known.logs if log is not None]
    last = max((at for at, log in enumerate(filter(None, known.logs)) if log.record_count), default=0)
    return frozenset(files[:last])


def _shared_cores(store: Store, engine: Engine) -> AbstractContextManager[None]:
    """The cores of this machine for the tasks: a second one for a file where fewer files than cores have
    content. Elsewhere a task has the one core that it was given."""
    if not isinstance(engine, LocalEngine):
        return within(file_threads=1, reads_ahead=False)
    jobs, files = engine.job_count, store.commitlog.files
    large = sum(file.allocated_size >= LARGE_SIZE for file in files)
    threads = max(core_count() // max(min(jobs, large), 1), 1)
    return within(file_threads=threads, reads_ahead=min(jobs, len(files)) < core_count())


def store_facts(store: Store) -> StoreFacts:
    """Which store it is, and how its bytes are read."""
    evidence, geometry = store.dialect_evidence, store.geometry
    names = [name for name in type(geometry).__slots__ if isinstance(getattr(geometry, name), int)]
    files = list(store.all_files())
    return StoreFacts(
        root=str(store.root),
        dialect=str(evidence.dialect.version),
        versions=tuple(str(version) for version in evidence.versions),
        dialect_given=evidence.given,
        known_from=tuple((item.what, item.why) for item in evidence.known_from),
        geometry={name: getattr(geometry, name) for name in names},
        geometry_sources={name: geometry.source(name) for name in names},
        open_options=stated_words(store.stated),
        live=store.live.locked,
        live_known_from=store.live.how,
        file_count=len(files),
        byte_count=sum(file.size for file in files),
        start_offset=store.commitlog.start_offset,
        end_offset=store.commitlog.end_offset,
    )


def _needs_data(selected: frozenset[str]) -> bool:
    """Whether any rule asked for needs the data files gone through."""
    return any(
        RULES[name].family in ("CL", "CQ", "IX", "XR") or RULES[name].level != "quick" for name in selected
    )


def _account(
    context: task.Context, ran: Executed, gatherer: Gatherer, left_out: Iterable[NotChecked]
) -> MessageAccount | None:
    """The account of the messages; None where the log was not gone through, or a broker still writes."""
    if context.level == "quick" or context.store.live.locked or not ran.units:
        return None
    gatherer.keep((queue.topic, queue.queue_id) for queue in context.store.queues)
    for result in _results(ran, task.LogFileTask):
        if result is not None:
            gatherer.damaged(result.counts, result.findings)
    whole = ran.coverage.complete and not any(item.operational for item in left_out)
    return gatherer.account(is_complete=whole, bodies_checked=context.level == "full")


def _judge(
    context: task.Context, known: task.Known, ran: Executed, databases: Databases, gatherer: Gatherer
) -> Items:
    """What is judged in the driver: what needs several files, and the small files."""
    by_kind = {name: _results(ran, kind) for name, kind in _KINDS}
    logs, queues, indexes = by_kind["commitlog"], by_kind["consumequeue"], by_kind["index"]
    if ran.units:
        from rocketfsck.verify.index.file import merge_index_files

        yield from _guarded("commitlog", merge_log_files(context, logs))
        suspects = _suspects(logs, context.store)
        misnamed = store_misnamed.misnamed_files(context.store, suspects)
        parts = compare_parts(context, logs, indexes)
        copies = store_misnamed.copied_files(context.store, suspects)
        yield from store_misnamed.check_misnamed(misnamed)
        yield from _guarded("commitlog", _check_copied(context, known, copies))
        appended = _appended(context)
        yield from store_misnamed.check_appended(appended)
        yield from _guarded("", check_origins(context, known, logs, indexes, parts))
        doubled = store_misnamed.doubled_files(appended)
        items = merge_queues(context, queues, logs, gatherer, misnamed, copies, parts.foreign, doubled)
        yield from _guarded("consumequeue", items)
        yield from _guarded("index", merge_index_files(context, indexes, logs, gatherer, misnamed))
    yield from _guarded("dledger", check_dledger(context))
    yield from _guarded("compaction", check_compaction(context, known))
    yield from _guarded("timerlog", check_timers(context, known.max_store_timestamp))
    yield from _guarded("", check_layout(context, known))
    yield from _guarded("checkpoint", gatherer.seen(check_checkpoint(context, known)))
    yield from databases.items
    if databases.configs is None:
        yield from _guarded("config", gatherer.seen(check_config(context, known)))
    else:
        yield from gatherer.seen(databases.configs)


def _check_copied(context: task.Context, known: task.Known, copies: Collection[str]) -> Findings:
    counts = {log.file: log.record_count for log in known.logs if log is not None}
    yield from store_misnamed.check_copied(store_misnamed.exact_copies(context.store, copies), counts)


def _appended(context: task.Context) -> tuple[store_misnamed.Appended, ...]:
    """The files with others appended; none where one cannot be read, which its own check says."""
    if context.level == "quick":
        return ()
    try:
        return store_misnamed.appended_files(context.store)
    except StoreError:
        return ()


def _suspects(logs: task.Results, store: Store) -> set[str]:
    """Commit log files with records that say they belong elsewhere."""
    rule = RuleName.RECORD_PHYSICAL_OFFSET
    checked = zip(store.commitlog.files, logs, strict=True)
    return {file.relative for file, log in checked if log is not None and log.counts.get(rule)}


def _results(ran: Executed, kind: type) -> list[task.TaskResult | None]:
    return [
        result for unit, result in zip(ran.units, ran.results, strict=True) if isinstance(unit.task, kind)
    ]


def _guarded(what: str, items: Items | Findings) -> Items:
    try:
        yield from items
    except StoreError as error:
        yield NotChecked(error.path or what, str(error), operational=True)


def _checked(store: Store, ran: Executed, databases: Databases, tiered: Tiered) -> Mapping[str, task.Checked]:
    totals = {
        name: sum((result.checked for result in _results(ran, kind) if result is not None), task.Checked())
        for name, kind in _KINDS
    }
    small = [file for file in (store.checkpoint, store.abort, store.lock) if file is not None]
    totals["checkpoint"] = task.Checked(len(small), sum(file.size for file in small))
    totals["config"] = task.Checked(len(store.configs), sum(file.size for file in store.configs))
    if databases.read:
        totals["databases"] = databases.checked
    if tiered.present:
        totals["tiered"] = tiered.checked
    return totals


def _report_order(finding: Finding) -> tuple[int, str, str, int, int, str]:
    """Worst first, then by file and place."""
    where: Where = finding.where
    place = next((n for n in (where.start, where.entry, where.slot, where.queue_offset) if n is not None), -1)
    queue_id = -1 if where.queue_id is None else where.queue_id
    return -RULES[finding.rule].severity, where.file, finding.rule, place, queue_id, where.topic or ""
