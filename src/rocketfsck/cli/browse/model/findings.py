"""The findings of a report, in their places: which of them are about some bytes, and where each leads.

A finding names bytes of a file, a physical offset, an entry, a slot or a queue offset; what it names becomes
bytes of a file once. One that names only a file, or the whole store, is listed with that file.

A check of the store in a process of its own: the screen stays free, and stopping it stops all of it.

The process is `rocketfsck check --format json` with the store's own options; what it says of its progress are
the lines of `--progress json`. A report from elsewhere is read instead where the user has one.

The verdict on top of the browser: the first line that `check` prints of a store, and what to run next.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

from rocketfsck.cli.browse.model.files import MARKS, FilePlace, Shelf
from rocketfsck.cli.pages.reading import refuse_other_store, verdict_in
from rocketfsck.cli.show.report import NOUNS
from rocketfsck.cli.show.text import count_of, sentence, visible
from rocketfsck.cli.show.verdict import START_IT, Tone, headline_of, tone_of_state
from rocketfsck.errors import EXIT_OPERATIONAL, EXIT_PROBLEMS, CancelledError, StoreError
from rocketfsck.formats.consumequeue import UNIT_SIZE
from rocketfsck.formats.indexfile import ENTRY_SIZE, SLOT_SIZE, entry_pos, slot_pos
from rocketfsck.repair.verdict import Verdict
from rocketfsck.store.model import Store
from rocketfsck.store.places.urls import NO_OPTIONS, option_words
from rocketfsck.store.reading import read_document
from rocketfsck.verify.diagnoses import stated_words
from rocketfsck.verify.finding import Finding, Level, Severity
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import RULES, describe


def headline(report: Report, verdict: Verdict | None) -> str:
    """The first line of `check`, printable; of a report without a verdict how much was found."""
    if verdict is not None:
        return headline_of(verdict)
    return f"The report has no verdict. Found: {_counted(report) or 'nothing'}."


def _counted(report: Report) -> str:
    counts = report.severity_counts
    return ", ".join(count_of(counts[severity], noun) for severity, noun in NOUNS.items() if counts[severity])


def next_step(report: Report, verdict: Verdict | None) -> str:
    """The command line to run next, printable; "" for none."""
    if verdict is None:
        command = next(iter(report.next_commands), None)
    elif verdict.next_command is None and verdict.state == "unclean":
        return START_IT
    else:
        command = verdict.next_command
    return "" if command is None else sentence(command)


def tone_of(report: Report, verdict: Verdict | None) -> Tone:
    """How bad it is, for a colour; the headline says the same in words."""
    if verdict is not None:
        return tone_of_state(verdict.state)
    worst = report.worst
    return "error" if worst == Severity.ERROR else "warning" if worst == Severity.WARNING else "good"


@dataclass(frozen=True, slots=True)
class Placed:
    """A finding with the bytes it is about; `end` is `start` for one that is about the file as a whole.

    `name` is the file's on the shelf, "" for one that is not there (or the store as a whole). `severity` is
    the report's, which a policy may have changed.
    """

    finding: Finding
    name: str
    start: int
    end: int
    severity: Severity

    @property
    def mark(self) -> str:
        """One character for the severity."""
        return MARKS[self.severity]

    @property
    def place(self) -> FilePlace | None:
        """Where to look; None for what is in no file."""
        return FilePlace(self.name, self.start) if self.name else None

    @property
    def title(self) -> str:
        """The finding in one printable line."""
        return f"{self.finding.rule} {self.text}"

    @property
    def text(self) -> str:
        """What was found, printable, without the rule."""
        return sentence(describe(self.finding))

    @property
    def where(self) -> str:
        """The file and the position, printable."""
        file = visible(self.finding.where.file) or "the store"
        return file if self.end == self.start else f"{file} at byte {self.start}"


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """The findings of a rule. `count` is exact, as `check` says it; `items` are those that the report lists,
    each of which may stand for several."""

    rule: str
    severity: Severity
    count: int
    items: tuple[Placed, ...]

    @property
    def title(self) -> str:
        """The rule and how many findings it has, in a printable line; of a single one also what it says."""
        said = f"{self.rule} {RULES[self.rule].slug} ({self.count:,})"
        return f"{said}: {self.items[0].text}" if self.is_single else said

    @property
    def is_single(self) -> bool:
        """Whether there is one finding, which needs no list."""
        return len(self.items) == 1 and not self.left_count

    @property
    def left_count(self) -> int:
        """Findings that the report counts and does not list."""
        return max(self.count - sum(item.finding.count for item in self.items), 0)


class Findings:
    """The findings of a report by place, and the verdict, where there is one. Immutable; made in a worker
    thread."""

    def __init__(self, shelf: Shelf, report: Report, verdict: Verdict | None = None) -> None:
        self.report, self.verdict = report, verdict
        self._is_here = report.store.root == str(shelf.store.root)
        self.all = tuple(
            _placed(shelf, finding, report.severity_of(finding.rule)) for finding in report.findings
        )
        self.groups = tuple(_grouped(report, self.all))
        self._cut = frozenset(group.rule for group in self.groups if group.left_count)
        self._by_file: dict[str, list[Placed]] = {}
        for item in self.all:
            self._by_file.setdefault(item.name, []).append(item)
        self._starts: dict[str, list[int]] = {}
        self._furthest: dict[str, list[int]] = {}
        for name, items in self._by_file.items():
            items.sort(key=lambda item: (item.start, item.end))
            self._starts[name] = [item.start for item in items]
            self._furthest[name] = [*accumulate((item.end for item in items), max)]

    @property
    def about(self) -> str:
        """How many findings each severity has, in a line."""
        return f"Findings at level {self.report.level}: {_counted(self.report) or 'none'}"

    @property
    def headline(self) -> str:
        """What `check` says first, and of which directory, where that is not the browsed one."""
        said = headline(self.report, self.verdict)
        return said if self._is_here else f"{said} (A report on {visible(self.report.store.root)}.)"

    @property
    def next_step(self) -> str:
        """The command line to run next; "" for none."""
        return next_step(self.report, self.verdict)

    @property
    def tone(self) -> Tone:
        """How bad it is."""
        return tone_of(self.report, self.verdict)

    def of_file(self, name: str) -> list[Placed]:
        """The findings of a file, by position."""
        return self._by_file.get(name, [])

    def at(self, name: str, start: int, end: int) -> list[Placed]:
        """The findings that are about any of the bytes `start:end` of a file."""
        items = self._by_file.get(name)
        if not items:
            return []
        number = bisect_left(self._starts[name], end)
        furthest = self._furthest[name]
        found = []
        while number > 0 and furthest[number - 1] > start:
            number -= 1
            if items[number].end > start:
                found.append(items[number])
        return found[::-1]

    def worst(self, name: str, start: int, end: int) -> Severity | None:
        """The worst severity of what is about these bytes."""
        return max((item.severity for item in self.at(name, start, end)), default=None)

    def next(self, name: str, pos: int, *, backward: bool = False) -> Placed | None:
        """The nearest finding of a file that begins behind `pos`, or before it."""
        items = [item for item in self.of_file(name) if item.end > item.start]
        if backward:
            return max((i for i in items if i.start < pos), key=lambda i: i.start, default=None)
        return min((i for i in items if i.start > pos), key=lambda i: i.start, default=None)

    def counts(self, name: str) -> FindingCounts:
        """How many findings of each severity a file has, by what the report lists."""
        return self._counts.get(name, NO_COUNTS)

    @cached_property
    def _counts(self) -> dict[str, FindingCounts]:
        return {name: self._counted(items) for name, items in self._by_file.items()}

    def _counted(self, items: Sequence[Placed]) -> FindingCounts:
        more = frozenset(item.severity for item in items if item.finding.rule in self._cut)
        return FindingCounts(count_severities(items), more)


def count_severities(items: Iterable[Placed]) -> dict[Severity, int]:
    """How many findings each severity has, the worst first; one that stands for several counts as several."""
    found = dict.fromkeys(sorted(MARKS, reverse=True), 0)
    for item in items:
        found[item.severity] += item.finding.count
    return {severity: count for severity, count in found.items() if count}


@dataclass(frozen=True, slots=True)
class FindingCounts:
    """How many findings of each severity a report lists; of those in `more` it counts further ones."""

    counts: Mapping[Severity, int]
    more: frozenset[Severity] = frozenset()

    def __add__(self, other: FindingCounts) -> FindingCounts:
        return FindingCounts(Counter(self.counts) + Counter(other.counts), self.more | other.more)

    @property
    def worst(self) -> Severity | None:
        """The worst severity; None without findings."""
        return max(self.counts, default=None)

    @property
    def said(self) -> str:
        """Each number with the mark of its severity, the worst first; a + where there may be more."""
        worst_first = sorted(self.counts, reverse=True)
        return " ".join(f"{self.counts[s]}{MARKS[s]}{'+' if s in self.more else ''}" for s in worst_first)


NO_COUNTS = FindingCounts({})


def _grouped(report: Report, items: Iterable[Placed]) -> list[RuleGroup]:
    """The rules that something was found of, the worst first, else in the order of the report."""
    listed: dict[str, list[Placed]] = {}
    for item in items:
        listed.setdefault(item.finding.rule, []).append(item)
    rules = dict.fromkeys([*listed, *(rule for rule, count in report.counts.items() if count)])
    groups = []
    for rule in rules:
        found = tuple(listed.get(rule, ()))
        count = report.counts.get(rule, sum(item.finding.count for item in found))
        groups.append(RuleGroup(rule, report.severity_of(rule), count, found))
    return sorted(groups, key=lambda group: -group.severity)


def _placed(shelf: Shelf, finding: Finding, severity: Severity) -> Placed:
    where = finding.where
    name, start, end = where.file, where.start, where.end
    geometry = shelf.store.geometry
    if start is None and where.entry is not None and shelf.row(name) is not None:
        start = entry_pos(where.entry, geometry.slot_count)
        end = start + ENTRY_SIZE
    elif start is None and where.slot is not None and shelf.row(name) is not None:
        start = slot_pos(where.slot)
        end = start + SLOT_SIZE
    elif start is None and where.physical_offset is not None:
        place = shelf.log_place(where.physical_offset)
        if place is not None:
            name, start, end = place.name, place.pos, place.pos + 1
    elif start is None and where.queue_offset is not None and where.topic is not None:
        place = shelf.at("consumequeue", where.queue_offset * UNIT_SIZE, where.topic, where.queue_id)
        if place is not None:
            name, start, end = place.name, place.pos, place.pos + UNIT_SIZE
    if shelf.row(name) is None:
        return Placed(finding, "", 0, 0, severity)
    begin = max(start or 0, 0)
    behind = begin + 1 if end is None and start is not None else end or 0
    return Placed(finding, name, begin, max(begin, behind), severity)


LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class CheckProgress:
    """How far a check is: `phase` in words; `done` of `total`, None where nobody knows it."""

    phase: str
    done: int
    total: int | None


def load_findings(shelf: Shelf, path: Path) -> Findings:
    """The findings of a saved report. Raises UsageError if the file has none, or those of another store,
    StoreError if it cannot be read."""
    findings = _findings(shelf, read_document(path, "report"))
    refuse_other_store(findings.report, shelf.store, "leave out --report, and press c to check")
    return findings


def _findings(shelf: Shelf, document: Any) -> Findings:
    """The findings and the verdict that `check --format json` gave."""
    return Findings(shelf, Report.from_json(document), verdict_in(document))


def check_command(store: Store, level: Level, output: Path) -> list[str]:
    """The command line of the check. Values of storage options are on it, as they were on that of browse."""
    words = [sys.executable, "-m", "rocketfsck", "check", "--no-config", "--level", level]
    words += ["--format", "json", "--output", str(output), "--progress", "json"]
    if store.delay_levels_source == "given" and store.stated.delay_levels is not None:
        words += ["--delay-levels", store.stated.delay_levels]
    for word in option_words(store.stated.storage_options):
        words += ["--storage-option", word]
    return [*words, *stated_words(replace(store.stated, storage_options=NO_OPTIONS)), "--", str(store.root)]


def run_check(
    shelf: Shelf, level: Level, stop: threading.Event, stated: Callable[[CheckProgress], None]
) -> Findings:
    """Check the store and place the findings; `stated` hears how far it is, on the calling thread.

    Raises CancelledError once `stop` is set, StoreError where the check itself failed.
    """
    with tempfile.TemporaryDirectory(prefix="rocketfsck-") as directory:
        output = Path(directory) / "report.json"
        command, nothing = check_command(shelf.store, level, output), subprocess.DEVNULL
        process = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=subprocess.PIPE)
        ended = threading.Event()
        guard = threading.Thread(target=_end_when, args=(process, stop, ended), daemon=True)
        guard.start()
        try:
            said = _follow(process, stated)
            code = process.wait()
        finally:
            ended.set()
            guard.join()
            if process.stderr is not None:
                process.stderr.close()
        if stop.is_set():
            raise CancelledError("the check was stopped")
        if code & ~(EXIT_PROBLEMS | EXIT_OPERATIONAL) or not output.is_file():
            raise StoreError(f"the check ended with status {code}{f': {said}' if said else ''}")
        return _findings(shelf, read_document(output, "report"))


def _end_when(process: subprocess.Popen[bytes], stop: threading.Event, ended: threading.Event) -> None:
    while not ended.wait(LOOK_SECONDS):
        if stop.is_set() and process.poll() is None:
            process.kill()


def _follow(process: subprocess.Popen[bytes], stated: Callable[[CheckProgress], None]) -> str:
    """Pass on what the process says of its progress; the last line that is something else is returned."""
    said = ""
    assert process.stderr is not None
    for line in process.stderr:
        try:
            document = json.loads(line)
            stated(CheckProgress(str(document["phase"]), int(document["done"]), document.get("total")))
        except (ValueError, KeyError, TypeError):
            said = line.decode("utf-8", "replace").strip() or said
    return said
