"""The document of a report page: data only, bounded, ready to be drawn.

    page := store, verdict, starts, map, findings, windows, timeline, topics, queues, groups, indexes, plan
    plan := actions, and what is different in the other parts once they are done

Tables with many rows are columns: a dataclass of lists of equal length, a row is what is at one place of all
of them. Numbers of rows lead from one table to another (`file` is a row of `map.files`, `rule` of
`findings.rules`), -1 leads to no row. Every text is printable: control characters, separators and bytes that
are not UTF-8 are escapes, as `check` prints them. Sizes are in bytes, times in ms since 1970, ranges are
half-open.

`collect` fills the document; the limits of `tables` bound it, so that its size does not grow with the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rocketfsck.page import tables
from rocketfsck.query.start.model import LostRange
from rocketfsck.repair.verdict import Verdict
from rocketfsck.verify.finding import Level, SeverityName
from rocketfsck.verify.report import Diagnosis, StoreFacts

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part of the page that is not there, by its name in the document, and why."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class FileFate:
    """A file that a start deletes, creates, resizes or passes over, and why."""

    file: str
    change: Literal["deleted", "created", "resized", "ignored"]
    why: str


@dataclass(frozen=True, slots=True)
class StartSaid:
    """What brokers of some versions do when they start.

    `versions` and `text` are as `check` prints them. With `loads` the broker keeps the physical offsets
    `min_offset:cut_offset` (None: nobody can say) and everything behind `cut_offset` goes. `cut` are the
    messages that go there, `hidden` those that lose their unit or have none, `unreadable` ranges that units
    lead to and no file holds. The counts are exact; ranges are the first few hundred. None: nobody looked for
    them.
    """

    versions: str
    text: str
    covered: bool
    loads: bool
    min_offset: int | None
    cut_offset: int | None
    cut_count: int | None
    hidden_count: int | None
    unreadable_count: int | None
    queues_destroyed: bool
    cut: tuple[LostRange, ...]
    hidden: tuple[LostRange, ...]
    unreadable: tuple[LostRange, ...]
    files: tuple[FileFate, ...]
    file_count: int


@dataclass(frozen=True, slots=True)
class RuleSaid:
    """A rule that has findings: `count` is exact, `kept_count` of them are in `findings.rows`."""

    rule: str
    slug: str
    severity: SeverityName
    count: int
    kept_count: int
    why: str
    advice: str
    reference: str
    fault_class: str | None
    repair: str | None


@dataclass(frozen=True, slots=True)
class FindingRows:
    """Findings that are kept exactly, worst first. `file` is a row of `map.files`, -1 for the store as a
    whole.

    `start` and `end` are positions in the file, None without. `count` is above 1 where one finding stands for
    equal neighbours. `window` is a row of `windows`, `actions` are rows of `plan.actions` that answer the
    finding, -1 for one that is not listed; `timestamp` is when the record was stored, where that is known.
    """

    rule: tuple[int, ...]
    file: tuple[int, ...]
    start: tuple[int | None, ...]
    end: tuple[int | None, ...]
    physical_offset: tuple[int | None, ...]
    queue: tuple[int, ...]
    queue_offset: tuple[int | None, ...]
    slot: tuple[int | None, ...]
    entry: tuple[int | None, ...]
    count: tuple[int, ...]
    message: tuple[str, ...]
    fingerprint: tuple[str, ...]
    window: tuple[int, ...]
    actions: tuple[tuple[int, ...], ...]
    timestamp: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class RuleFiles:
    """Listed findings counted by rule and file."""

    rule: tuple[int, ...]
    file: tuple[int, ...]
    count: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Crowds:
    """Listed findings that are not in `rows`, counted by file and part of it: `start:end` are positions in
    the file, `severity` is the worst of them. A `file` of -1 has those of all other places together."""

    file: tuple[int, ...]
    start: tuple[int, ...]
    end: tuple[int, ...]
    severity: tuple[SeverityName, ...]
    count: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found. `count` findings in all; the check lists `listed_count` of them one by one, the page
    `kept_count`. Of the others the rules, the files and the crowds have the numbers."""

    count: int
    listed_count: int
    kept_count: int
    rules: tuple[RuleSaid, ...]
    by_file: RuleFiles
    crowds: Crowds
    rows: FindingRows


@dataclass(frozen=True, slots=True)
class FieldSaid:
    """A field in a window: its bytes are `start:end` of the file, `text` is its value."""

    name: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class ByteWindow:
    """Some bytes around a finding. `data` are two characters for each byte: hex digits, or `..` for a byte of
    a message body, which the page does not show. `fields` name all or part of the bytes, in order."""

    file: int
    start: int
    end: int
    data: str
    fields: tuple[FieldSaid, ...]


@dataclass(frozen=True, slots=True)
class ActionSaid:
    """An action of the plan. `file` is a row of `map.files` (-1: the store). `extents` are the first places
    that it changes or relies on, as (row of `map.files`, start, end); an end of None is that of the file.
    `finding_count` findings are answered; `gains` and `losses` count records, units, entries or bytes."""

    action: str
    file: int
    note: str
    is_safe: bool
    extents: tuple[tuple[int, int, int | None], ...]
    finding_count: int
    gains: Mapping[str, int]
    losses: Mapping[str, int]
    write_byte_count: int


@dataclass(frozen=True, slots=True)
class UnansweredSaid:
    """Findings that no action answers: how many of a rule, and why."""

    rule: str
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class Summary:
    """The store in a few numbers, as it is or as a plan leaves it; None: not known.

    `record_count` messages are in the log, consumers get `readable_count` of them after a start: views of
    the account of the messages.
    """

    record_count: int | None
    readable_count: int | None
    error_count: int | None
    warning_count: int | None
    damaged_byte_count: int | None


ChangedTable = Literal["map.files", "topics", "queues"]
"""A table of the page of which a plan changes cells."""


@dataclass(frozen=True, slots=True)
class Cells:
    """What a plan changes in one column of a table, or adds to it: `values` are those of the rows in `runs`,
    which are half-open ranges of rows. Rows beyond the end of the table are new."""

    table: ChangedTable
    column: str
    runs: tuple[tuple[int, int], ...]
    values: tuple[int | str | None, ...]


@dataclass(frozen=True, slots=True)
class FindingsAfter:
    """What a check of the store after the plan finds, as differences from `Page.findings`.

    `rules` are those that have findings only then: they follow the rows of `findings.rules`, and `counts` are
    exact for all of them. The rows of `findings.rows` in the half-open runs `gone` are not found any more,
    `rows` follow them: first `new_count` findings that the store as it is does not have, then those that the
    page did not list before, or of which nobody can say, as the check only counted some of the rule in that
    file. `by_file` and `crowds` count as those of `findings` do.

    `unchecked` says why nobody checked the store after the plan: then these are the findings that no action
    answers. "" where they were found.
    """

    unchecked: str
    rules: tuple[RuleSaid, ...]
    counts: tuple[int, ...]
    gone: tuple[tuple[int, int], ...]
    rows: FindingRows
    new_count: int
    by_file: RuleFiles
    crowds: Crowds


@dataclass(frozen=True, slots=True)
class After:
    """The store as the plan would leave it, as differences from the page: the plan was tried on a view of the
    store, and what the page shows was read off the view.

    A row of `map.files` that gets a `file_count` of 0 is gone. The strips of the files in `strip_files` are
    in `spans`, from the place in `strip_first_spans` on up to that of the next; those of other files stay.
    `timeline`, `positions` with `groups`, and `tables` are None where they stay.
    `uncounted_file_count` files are new and not in `cells`.
    """

    starts: tuple[StartSaid, ...]
    directories: tuple[str, ...]
    cells: tuple[Cells, ...]
    strip_files: tuple[int, ...]
    strip_first_spans: tuple[int, ...]
    spans: tables.Spans
    damage: tables.DamageColumns
    damage_counts: tables.Counts
    findings: FindingsAfter
    timeline: tables.Timeline | None
    groups: tuple[str, ...] | None
    positions: tables.Groups | None
    position_counts: tables.Counts | None
    indexes: tables.Indexes | None
    uncounted_file_count: int


@dataclass(frozen=True, slots=True)
class PlanSaid:
    """What-if: the first actions of the plan, and the store before and after. `notices` are sentences
    about what brokers and consumers notice. Where the plan was not tried, `tried` is None and `untried` says
    why."""

    actions: tuple[ActionSaid, ...]
    action_counts: tables.Counts
    unanswered: tuple[UnansweredSaid, ...]
    notices: tuple[str, ...]
    before: Summary
    after: Summary
    obstacle: str
    tried: After | None = None
    untried: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """The whole page of one store. A part that is None is named in `left_out`, with the reason."""

    kind: Literal["rocketfsck.page"]
    tool_version: str
    started_timestamp: int
    seconds: float
    level: Level
    store: StoreFacts
    state: str
    headline: str
    lines: tuple[str, ...]
    verdict: Verdict | None
    coverage: str
    not_checked: tuple[LeftOut, ...]
    not_checked_counts: tables.Counts
    diagnoses: tuple[Diagnosis, ...]
    starts: tuple[StartSaid, ...]
    map: tables.Map
    findings: Findings
    windows: tuple[ByteWindow, ...]
    timeline: tables.Timeline | None
    retention: tables.RetentionSaid | None
    topics: tables.Topics
    queues: tables.QueueColumns
    groups: tuple[str, ...]
    positions: tables.Groups | None
    position_counts: tables.Counts
    indexes: tables.Indexes | None
    plan: PlanSaid | None
    left_out: tuple[LeftOut, ...]
    schema_version: int = SCHEMA_VERSION
