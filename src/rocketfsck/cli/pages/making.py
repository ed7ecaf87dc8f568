"""From a check, or from its saved report, to the document of a page.

What the plan of a page makes of the store: tried on a view, and looked at as the store itself is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rocketfsck.cli.dump.item import DumpSource, Span, layout_spans
from rocketfsck.cli.dump.records import record_spans
from rocketfsck.cli.dump.targets import Target, store_targets
from rocketfsck.cli.show.report import amounts_lines
from rocketfsck.cli.show.start import verdict_text, versions_text
from rocketfsck.cli.show.text import Palette
from rocketfsck.cli.show.verdict import verdict_lines
from rocketfsck.common.wording import count_of
from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.engine.passes import give_back_memory
from rocketfsck.errors import FormatError, RocketfsckError, StoreError
from rocketfsck.formats import checkpoint, consumequeue, indexfile
from rocketfsck.formats.layout import Layout, shown_name, shown_unit_name
from rocketfsck.page.after import Tried
from rocketfsck.page.findings import left_report
from rocketfsck.page.model import ByteWindow, FieldSaid
from rocketfsck.page.surveying import Earlier, Survey, survey_store
from rocketfsck.page.tables import DEFAULT, shown
from rocketfsck.query.info.store import queue_info
from rocketfsck.query.start.verdict import Prediction
from rocketfsck.repair.plan.model import Plan
from rocketfsck.repair.plan.tried import TriedStore, predict_tried, trying, untried_reason
from rocketfsck.store.model import ConsumeQueue, Store
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import Facts
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.run import check_store
from rocketfsck.verify.stopping import Policy, RulePolicy, report_by
from rocketfsck.verify.tasks.task import Fact, QueueFacts

if TYPE_CHECKING:
    from rocketfsck.page.model import Page
    from rocketfsck.page.tables import Limits
    from rocketfsck.query.start.verdict import StartVerdict
    from rocketfsck.repair.verdict import Verdict
    from rocketfsck.verify.finding import Finding


CHECKED_SIZE = 64 << 30
"""Bytes of log and index that one machine checks where several machines did before."""


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """What the check of a store was asked for, as the check of the store after the plan is to be.

    `reason` says why what comes of another check cannot be compared with it; "" where it can.
    """

    options: CheckOptions
    policy: Policy = field(default_factory=dict)
    reason: str = ""


def asked_again(options: CheckOptions, policy: Policy) -> CheckRequest:
    """What a check with these options and this policy was asked for."""
    parts = (options.subset, options.max_duration, options.stop_after)
    reason = "the check was asked for a part of the store" if any(part is not None for part in parts) else ""
    return CheckRequest(replace(options, resume=None, since=None, scrub=None), policy, reason)


def asked_for(report: Report) -> CheckRequest:
    """What the check behind a report was asked for."""
    policy = {rule: RulePolicy(severity=name) for rule, name in report.severities.items()}
    ignored = tuple(rule for rule in report.unasked_rules if rule in RULES)
    reason = "" if report.coverage.complete else "the report does not cover all of the store"
    return CheckRequest(CheckOptions(level=report.level, ignore=ignored), policy, reason)


def tried_plan(
    store: Store,
    report: Report,
    survey: Survey,
    plan: Plan,
    facts: Sequence[Fact],
    predictions: Sequence[Prediction],
    asked: CheckRequest,
    engine: Engine,
) -> tuple[Tried | None, str]:
    """What a plan makes of a store; else why nobody tried.

    What is known of the store (`survey`, `facts`) holds for what the plan leaves alone. `report` is that of
    the check that was `asked` for it, on an engine.
    """
    if reason := untried_reason(plan, store):
        return None, reason
    try:
        with trying(plan, store) as view:
            then = view.reopen()
            # layers of files are known to this process alone
            found = survey_store(then, LocalEngine(), earlier=Earlier(store, survey, view.is_lent))
            unchecked = asked.reason or _beyond_one(then, engine)
            known: list[Fact] = []
            if unchecked:
                known += _unchanged(facts, store, then, view)
                after = left_report(report, plan.answered)
            else:
                options = replace(asked.options, now_timestamp=report.started_timestamp)
                give_back_memory()
                found_then = check_store(then, options, seen=known.extend)
                after = report_by(_as_named(found_then, view), asked.policy)
            queues = [fact for fact in known if isinstance(fact, QueueFacts)]
            queues += further_facts(then, queues)
            starts = predict_tried(then, predictions)
            return Tried(then, after, found, queues, starts, view.shown, unchecked), ""
    except (RocketfsckError, OSError) as error:
        return None, f"trying the plan failed: {error}"


def _beyond_one(store: Store, engine: Engine) -> str:
    """Why one machine does not check what an engine has checked; "" where it does."""
    size = sum(file.allocated_size for file in (*store.commitlog.files, *store.indexes))
    if isinstance(engine, LocalEngine) or size <= CHECKED_SIZE:
        return ""
    return f"a cluster checked the store, of which one machine checks up to {count_of(CHECKED_SIZE, 'byte')}"


def _as_named(report: Report, view: TriedStore) -> Report:
    """The report on a view with the names that things have in the store."""
    findings = []
    for finding in report.findings:
        where = replace(finding.where, file=view.name_of(finding.where.file))
        found, expected = _shown(finding.found, view), _shown(finding.expected, view)
        findings.append(replace(finding, where=where, found=found, expected=expected))
    return replace(report, findings=tuple(findings))


def _shown(facts: Facts, view: TriedStore) -> Facts:
    return {name: view.shown(value) if isinstance(value, str) else value for name, value in facts.items()}


def further_facts(store: Store, facts: Sequence[Fact]) -> Iterator[QueueFacts]:
    """The bounds of the queues that `facts` do not have, as `info` finds them."""
    seen = {(fact.topic, fact.queue_id) for fact in facts if isinstance(fact, QueueFacts)}
    for queue in store.queues:
        if (queue.topic, queue.queue_id) in seen:
            continue
        found = queue_info(queue)
        low, high, end = found.min_offset, found.max_offset, found.physical_end_offset
        if not queue.files:
            low = high = 0
        if low is not None and high is not None:
            bounds = (low, high, None, -1 if end is None else end)
            yield QueueFacts(queue.topic, queue.queue_id, queue.kind, *bounds, high - low)


def _unchanged(facts: Sequence[Fact], before: Store, after: Store, view: TriedStore) -> Iterator[QueueFacts]:
    """The facts of queues of which every file is as it was."""
    queues = {(queue.topic, queue.queue_id): queue for queue in before.queues}
    same = {
        name
        for queue in after.queues
        if (was := queues.get(name := (queue.topic, queue.queue_id))) is not None
        and _names(was) == _names(queue)
        and all(map(view.is_lent, queue.files))
    }
    for fact in facts:
        if isinstance(fact, QueueFacts) and (fact.topic, fact.queue_id) in same:
            yield fact


def _names(queue: ConsumeQueue) -> list[str]:
    return [file.relative for file in queue.files]


# Some bytes around each finding, with the names of the fields that they are, for a page.
#
# The fields are those that `dump --hex` shows. Bodies of messages are left out.

BEFORE = 32
_NAME_LIMIT = 80
_TEXT_LIMIT = 120
_UNITS: dict[str, Layout] = {"consumequeue": consumequeue.UNIT, "batchconsumequeue": consumequeue.BATCH_UNIT}


class Windows:
    """Makes windows of the files of one store; a file that cannot be read has none."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store = store
        self._size = limits.window_size
        self._targets: dict[str, Target] | None = None

    def of(self, finding: Finding, file: int) -> ByteWindow | None:
        """The window around a finding in the file of that row; None where there is nothing to show."""
        start = finding.where.start
        target = self._target(finding.where.file)
        if start is None or target is None:
            return None
        try:
            with FileReader(target.path) as reader:
                return self._window(reader, target, start, finding.where.end, file)
        except (StoreError, FormatError):
            return None

    def _target(self, name: str) -> Target | None:
        if self._targets is None:
            self._targets = {target.name: target for target in store_targets(self._store)}
        return self._targets.get(name)

    def _window(
        self, reader: FileReader, target: Target, start: int, end: int | None, file: int
    ) -> ByteWindow | None:
        first = max(start - BEFORE, 0) // 16 * 16
        last = min(first + self._size, reader.size)
        if not first < last:
            return None
        source = target.source(reader)
        wanted = (first, last, start, reader.size if end is None else min(end, reader.size))
        spans = [span for span in _spans(source, target, *wanted) if span.start < last and span.end > first]
        text = [f"{byte:02x}" for byte in reader.read(first, last - first)]
        for span in spans:
            if span.hidden:
                low, high = max(span.start, first) - first, min(span.end, last) - first
                text[low:high] = [".."] * (high - low)
        fields = tuple(map(_field, spans))
        return ByteWindow(file, first, last, "".join(text), fields)


def _field(span: Span) -> FieldSaid:
    text = "not shown" if span.hidden else shown(span.text, _TEXT_LIMIT)
    return FieldSaid(shown(span.name, _NAME_LIMIT), span.start, span.end, text)


def _spans(source: DumpSource, target: Target, first: int, last: int, start: int, end: int) -> Iterable[Span]:
    """The fields of what is in `first:last`, as far as they are known; the finding is at `start:end`."""
    if target.kind == "commitlog":
        return _hidden_before(record_spans(source, start, max(end, start), "none"), first, start, last, end)
    if target.kind in _UNITS:
        return _array(source, _UNITS[target.kind], 0, first, last, shown_unit_name)
    if target.kind == "checkpoint":
        return _structure(source, checkpoint.CHECKPOINT, 0)
    return _index(source, first, last) if target.kind == "index" else ()


def _hidden_before(spans: list[Span], first: int, start: int, last: int, end: int) -> list[Span]:
    """The fields of a record; what is in front of it and after it may be bodies of others, and is hidden."""
    found = [replace(span, name=shown_name(span.name)) for span in spans]
    known = found[-1].end if found else start
    if first < start:
        found.insert(0, Span("before", first, start, hidden=True))
    if known < end:
        found.append(Span("rest", known, end, hidden=known - start >= 20))
    if end < last:
        found.append(Span("after", end, last, hidden=True))
    return found


def _array(
    source: DumpSource, layout: Layout, base: int, first: int, last: int, name: Name = shown_name
) -> Iterator[Span]:
    """The structures of an array from `base` on that are in `first:last`."""
    start = base + max(first - base, 0) // layout.size * layout.size
    for pos in range(start, min(last, source.size - layout.size + 1), layout.size):
        yield from _structure(source, layout, pos, name)


Name = Callable[[str], str]
"""How a field is called that RocketMQ calls so."""


def _structure(source: DumpSource, layout: Layout, pos: int, name: Name = shown_name) -> Iterator[Span]:
    for span in layout_spans(layout, pos, layout.parse(source.read(pos, layout.size))):
        yield replace(span, name=name(span.name))


def _index(source: DumpSource, first: int, last: int) -> Iterator[Span]:
    """Header, slots and entries."""
    if first < indexfile.INDEX_HEADER_SIZE <= source.size:
        yield from _structure(source, indexfile.HEADER, 0)
    slots = source.store.geometry.slot_count if source.store is not None else 0
    begin, entries = indexfile.INDEX_HEADER_SIZE, indexfile.entry_pos(0, slots)
    yield from _array(source, indexfile.SLOT, begin, max(first, begin), min(last, entries))
    if last > entries:
        yield from _array(source, indexfile.ENTRY, entries, max(first, entries), last)


COLUMNS = 100
"""How wide the lines of the verdict are."""


def page_of(
    report: Report,
    verdict: Verdict | None,
    engine: Engine,
    *,
    store: Store | None = None,
    facts: Sequence[Fact] = (),
    predictions: Sequence[Prediction] = (),
    plan: Plan | None = None,
    asked: CheckRequest | None = None,
) -> Page:
    """The page of a report; `store` is the one that was checked, with all else that is known of it. `asked`
    is what its check was asked for, where the report does not say all of that."""
    from rocketfsck.page.collect import Material, collect

    said = () if verdict is None else verdict_lines(verdict, report.store, Palette(False), COLUMNS)
    lines = () if verdict is None else (*said, *amounts_lines(report, COLUMNS, is_timed=False))
    window_of = _no_window if store is None else Windows(store, DEFAULT).of
    known = [*facts, *(() if store is None else further_facts(store, facts))]
    survey = None if store is None else survey_store(store, engine, now_timestamp=report.started_timestamp)
    tried, untried = None, ""
    if store is not None and survey is not None and plan is not None and plan.actions:
        tried, untried = tried_plan(
            store, report, survey, plan, known, predictions, asked or asked_for(report), engine
        )
    material = Material(
        report, verdict, lines, _start_text, window_of, store, known, predictions, plan, tried, untried
    )
    return collect(material, survey)


def _start_text(verdict: StartVerdict) -> tuple[str, str]:
    return versions_text([verdict]), verdict_text(verdict)


def _no_window(_finding: Finding, _file: int) -> ByteWindow | None:
    return None
