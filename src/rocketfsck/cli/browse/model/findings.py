"""The findings of a report, in their places: which of them are about some bytes, and where each leads.

A finding names bytes of a file, a physical offset, an entry, a slot or a queue offset; what it names becomes
bytes of a file once. One that names only a file, or the whole store, is listed with that file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from rocketfsck.cli.browse.model.files import MARKS, FilePlace, Shelf
from rocketfsck.cli.show.text import count_of, visible
from rocketfsck.cli.show.verdict import headline_of
from rocketfsck.formats.consumequeue import UNIT_SIZE
from rocketfsck.formats.indexfile import ENTRY_SIZE, SLOT_SIZE, entry_pos, slot_pos
from rocketfsck.repair.verdict import Verdict
from rocketfsck.verify.finding import Finding, Severity
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import RULES, describe

NOUNS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


@dataclass(frozen=True, slots=True)
class Placed:
    """A finding with the bytes it is about; `end` is `start` for one that is about the file as a whole.

    `name` is the file's on the shelf, "" for one that is not there (or the store as a whole).
    """

    finding: Finding
    name: str
    start: int
    end: int

    @property
    def severity(self) -> Severity:
        return RULES[self.finding.rule].severity

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
        return f"{self.finding.rule} {visible(describe(self.finding), keep_backslash=True)}"

    @property
    def where(self) -> str:
        """The file and the position, printable."""
        file = visible(self.finding.where.file) or "the store"
        return file if self.end == self.start else f"{file} at byte {self.start}"


class Findings:
    """The findings of a report by place, and the verdict, where there is one. Immutable; made in a worker
    thread."""

    def __init__(self, shelf: Shelf, report: Report, verdict: Verdict | None = None) -> None:
        self.report, self.verdict = report, verdict
        self.all = tuple(_placed(shelf, finding) for finding in report.findings)
        self._by_file: dict[str, list[Placed]] = {}
        for item in self.all:
            self._by_file.setdefault(item.name, []).append(item)
        self._starts: dict[str, list[int]] = {}
        self._furthest: dict[str, list[int]] = {}
        for name, items in self._by_file.items():
            items.sort(key=lambda item: (item.start, item.end))
            self._starts[name] = [item.start for item in items]
            ends, most = [], 0
            for item in items:
                most = max(most, item.end)
                ends.append(most)
            self._furthest[name] = ends

    @property
    def about(self) -> str:
        """What was found, in a line: the verdict, and how many findings each severity has."""
        counts = self.report.severity_counts
        said = [count_of(counts[severity], noun) for severity, noun in NOUNS.items() if counts[severity]]
        found = f"Findings at level {self.report.level}: {', '.join(said) or 'none'}"
        return found if self.verdict is None else f"{found}. {headline_of(self.verdict)}"

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

    def counts(self, name: str) -> dict[Severity, int]:
        """How many findings of each severity a file has."""
        return count_severities(self.of_file(name))


def count_severities(items: Iterable[Placed]) -> dict[Severity, int]:
    """How many findings each severity has, the worst first; one that stands for several counts as several."""
    found = dict.fromkeys(sorted(MARKS, reverse=True), 0)
    for item in items:
        found[item.severity] += item.finding.count
    return {severity: count for severity, count in found.items() if count}


def _placed(shelf: Shelf, finding: Finding) -> Placed:
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
        place = shelf.at("commitlog", where.physical_offset) or shelf.at(
            "dledger-data", where.physical_offset
        )
        if place is not None:
            name, start, end = place.name, place.pos, place.pos + 1
    elif start is None and where.queue_offset is not None and where.topic is not None:
        place = shelf.at("consumequeue", where.queue_offset * UNIT_SIZE, where.topic, where.queue_id)
        if place is not None:
            name, start, end = place.name, place.pos, place.pos + UNIT_SIZE
    if shelf.row(name) is None:
        return Placed(finding, "", 0, 0)
    begin = max(start or 0, 0)
    return Placed(
        finding, name, begin, max(begin, begin + 1 if end is None and start is not None else end or 0)
    )
