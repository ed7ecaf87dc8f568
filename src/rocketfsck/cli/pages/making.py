"""From a check, or from its saved report, to the document of a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rocketfsck.cli.dump.item import layout_spans
from rocketfsck.cli.dump.recordspans import record_spans
from rocketfsck.cli.dump.source import DumpSource
from rocketfsck.cli.dump.targets import Target, store_targets
from rocketfsck.cli.show.hexview import Span
from rocketfsck.cli.show.report import amounts_lines
from rocketfsck.cli.show.start import verdict_text, versions_text
from rocketfsck.cli.show.text import Palette
from rocketfsck.cli.show.verdict import verdict_lines
from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats.checkpoint import CHECKPOINT
from rocketfsck.formats.consumequeue import BATCH_UNIT, UNIT
from rocketfsck.formats.indexfile import ENTRY, ENTRY_SIZE, HEADER, INDEX_HEADER_SIZE, SLOT, entry_pos
from rocketfsck.formats.names import shown_name, shown_unit_name
from rocketfsck.page.model import ByteWindow, FieldSaid
from rocketfsck.page.table import shown
from rocketfsck.store.reading import FileReader

if TYPE_CHECKING:
    from rocketfsck.cli.pages.trying import CheckRequest
    from rocketfsck.engine import Engine
    from rocketfsck.formats.layout import Layout
    from rocketfsck.page.limits import Limits
    from rocketfsck.page.model import Page
    from rocketfsck.query.start.verdict import Prediction, StartVerdict
    from rocketfsck.repair.plan.model import Plan
    from rocketfsck.repair.verdict import Verdict
    from rocketfsck.store.model import Store
    from rocketfsck.verify.finding import Finding
    from rocketfsck.verify.report import Report
    from rocketfsck.verify.tasks.facts import Fact

# Some bytes around each finding, with the names of the fields that they are, for a page.
#
# The fields are those that `dump --hex` shows. Bodies of messages are left out.

BEFORE = 32
_NAME_LIMIT = 80
_TEXT_LIMIT = 120
_UNITS: dict[str, Layout] = {"consumequeue": UNIT, "batchconsumequeue": BATCH_UNIT}
_SMALL: dict[str, Layout] = {"checkpoint": CHECKPOINT}


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
        source = DumpSource(
            reader, target.name, target.start_offset, target.topic, target.queue_id, self._store
        )
        wanted = (first, last, start, reader.size if end is None else min(end, reader.size))
        spans = [span for span in _spans(source, target, *wanted) if span.start < last and span.end > first]
        data = bytearray(reader.read(first, last - first))
        text = [f"{byte:02x}" for byte in data]
        for span in spans:
            if span.hidden:
                inside = range(max(span.start, first) - first, min(span.end, last) - first)
                for at in inside:
                    text[at] = ".."
        fields = tuple(
            FieldSaid(
                shown(span.name, _NAME_LIMIT),
                span.start,
                span.end,
                "not shown" if span.hidden else shown(span.text, _TEXT_LIMIT),
            )
            for span in spans
        )
        return ByteWindow(file, first, last, "".join(text), fields)


def _spans(source: DumpSource, target: Target, first: int, last: int, start: int, end: int) -> Iterable[Span]:
    """The fields of what is in `first:last`, as far as they are known; the finding is at `start:end`."""
    if target.kind == "commitlog":
        return _hidden_before(record_spans(source, start, max(end, start), "none"), first, start, last, end)
    if target.kind in _UNITS:
        layout = _UNITS[target.kind]
        return _array(source, layout, 0, first, last, unit=True)
    if target.kind in _SMALL:
        layout = _SMALL[target.kind]
        return _named(layout_spans(layout, 0, layout.parse(source.read(0, layout.size))))
    return _index(source, first, last) if target.kind == "index" else ()


def _hidden_before(spans: list[Span], first: int, start: int, last: int, end: int) -> list[Span]:
    """The fields of a record; what is in front of it and after it may be bodies of others, and is hidden."""
    found = [Span(shown_name(span.name), span.start, span.end, span.text, span.hidden) for span in spans]
    known = found[-1].end if found else start
    if first < start:
        found.insert(0, Span("before", first, start, hidden=True))
    if known < end:
        found.append(Span("rest", known, end, hidden=known - start >= 20))
    if end < last:
        found.append(Span("after", end, last, hidden=True))
    return found


def _array(
    source: DumpSource, layout: Layout, base: int, first: int, last: int, *, unit: bool = False
) -> Iterator[Span]:
    """The structures of an array from `base` on that are in `first:last`."""
    size = layout.size
    pos = base + max(first - base, 0) // size * size
    name = shown_unit_name if unit else shown_name
    while pos < last and pos + size <= source.size:
        for span in layout_spans(layout, pos, layout.parse(source.read(pos, size))):
            yield Span(name(span.name), span.start, span.end, span.text)
        pos += size


def _named(spans: Iterable[Span]) -> list[Span]:
    return [Span(shown_name(span.name), span.start, span.end, span.text) for span in spans]


def _index(source: DumpSource, first: int, last: int) -> Iterator[Span]:
    """Header, slots and entries."""
    if first < INDEX_HEADER_SIZE <= source.size:
        yield from _named(layout_spans(HEADER, 0, HEADER.parse(source.read(0, HEADER.size))))
    slots = source.store.geometry.slot_count if source.store is not None else 0
    entries = entry_pos(0, slots)
    yield from _array(source, SLOT, INDEX_HEADER_SIZE, max(first, INDEX_HEADER_SIZE), min(last, entries))
    if last > entries and ENTRY_SIZE:
        yield from _array(source, ENTRY, entries, max(first, entries), last)


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
    from rocketfsck.cli.pages.trying import asked_for, further_facts, tried_plan
    from rocketfsck.page.collect import Material, collect
    from rocketfsck.page.limits import DEFAULT
    from rocketfsck.page.surveying import survey_store

    said = () if verdict is None else verdict_lines(verdict, report.store, Palette(False), COLUMNS)
    lines = () if verdict is None else (*said, *amounts_lines(report, COLUMNS, is_timed=False))
    window_of = _no_window if store is None else Windows(store, DEFAULT).of
    known = [*facts, *(() if store is None else further_facts(store, facts))]
    survey = None if store is None else survey_store(store, engine)
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
