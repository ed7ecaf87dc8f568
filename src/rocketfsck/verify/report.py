"""The report of a check: data, of which text, JSON and tables are renderings.

The report says what was checked and what was not and why, what was found, what that means, and what to run
next. In JSON, text whose bytes are not UTF-8 (a topic's directory name) has a form of its own: see
`common.documents`.

What to run next about a finding, as argument vectors: `["rocketfsck", "dump", "--hex", …]`.

A vector needs no shell and no quoting; `shlex.join` makes a command line of it. The options that opened the
store come from the report (`StoreFacts.open_options`), so that a report read back suggests the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocketfsck.common.documents import from_document, named, plain, printable, to_document
from rocketfsck.common.rows import Column, arrow_batch, arrow_schema, html_of
from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.errors import EXIT_CLEAN, EXIT_OPERATIONAL, EXIT_PROBLEMS, UsageError, outcome_of
from rocketfsck.store.places.locations import path_of
from rocketfsck.verify.finding import Finding, Level, MessageAccount, Severity, SeverityName
from rocketfsck.verify.rules.catalog import RULES, describe
from rocketfsck.verify.tasks.task import Checked, RegionTotal

if TYPE_CHECKING:
    import pyarrow as pa


Words = tuple[str, ...]

START_RULES: Set[RuleName] = {
    RuleName.ABORT_PRESENT,
    RuleName.INDEX_FILE_DOOMED,
    RuleName.RECOVERY_SCANS_ALL,
    RuleName.CHECKPOINT_ZERO,
    RuleName.SEGMENT_LENGTH,
    RuleName.FOREIGN_FILE,
    RuleName.COMMITLOG_MISSING,
}
"""Rules that say what a start would do: for them the prediction is the place to look at."""

_LOG_OPTION = "--commitlog-path"
_VERSION_OPTION = "--broker-version"


@dataclass(frozen=True, slots=True)
class Reopening:
    """How a command opens the store again: its root, the options (pairs of name and value), and `version`,
    that of the broker whose start is worth a prediction."""

    root: str
    options: Words = ()
    version: str | None = None

    @property
    def file_options(self) -> Words:
        """The options that matter to a file on its own: not where the commit log is."""
        return self._without(_LOG_OPTION)

    def _without(self, name: str) -> Words:
        pairs = zip(self.options[::2], self.options[1::2], strict=True)
        return tuple(word for pair in pairs if pair[0] != name for word in pair)

    def store_words(self, *words: str) -> Words:
        """`rocketfsck WORDS… STORE`."""
        return ("rocketfsck", *words, *self.options, self.root)

    def file_words(self, file: Path, *words: str) -> Words:
        """`rocketfsck WORDS… FILE`."""
        return ("rocketfsck", *words, *self.file_options, str(file))

    def simulate_words(self) -> Words:
        """`rocketfsck simulate`: what a broker of the version does when it starts on the store."""
        pairs = dict(zip(self.options[::2], self.options[1::2], strict=True))
        version = pairs.get(_VERSION_OPTION) or self.version or ""
        rest = self._without(_VERSION_OPTION)
        return ("rocketfsck", "simulate", "--as-broker", version, *rest, self.root)


def look_at(finding: Finding, of: Reopening, exists: Callable[[Path], bool]) -> Words | None:
    """What shows the place that a finding names by bytes or by entry; None where it names no file.

    `exists` says whether a file is there: where the file itself is missing, what there is instead.
    """
    where = finding.where
    if finding.rule in START_RULES and of.version is not None:
        return of.simulate_words()
    if not where.file or not where.file.isprintable():
        return None
    place = path_of(of.root) / where.file
    if where.file.startswith("commitlog/") and where.physical_offset is not None:
        at = f"{where.physical_offset}:"
        return of.file_words(place, "dump", "--hex", "--physical-offset", at, "--limit", "1")
    if where.slot is not None:
        return of.file_words(place, "dump", "--slot", str(where.slot))
    if where.start is not None and where.end != where.start:
        span = f"{where.start}:{'' if where.end is None else where.end}"
        return of.file_words(place, "dump", "--hex", "--pos", span, "--limit", "20")
    if where.topic is not None and where.queue_id is not None:  # the file may be what is missing
        queue = ("--topic", where.topic, "--queue", str(where.queue_id))
        return of.store_words("dump", *queue, "--limit", "20")
    if not exists(place):
        return of.store_words("info")
    return of.file_words(place, "dump", "--limit", "20")


def suggestions(finding: Finding, of: Reopening) -> tuple[Words, ...]:
    """What to run about one finding: what shows it, what explains its rule, what plans its repair.

    Nothing is read for them. A repair is planned only where the rule has one.
    """
    shown = look_at(finding, of, _nothing)
    explained: Words = ("rocketfsck", "explain", finding.rule)
    found: Sequence[Words] = [explained] if shown is None else [shown, explained]
    if RULES[finding.rule].repair is not None and "://" not in of.root:
        return (*found, of.store_words("plan"))
    return tuple(found)


def _nothing(_: Path) -> bool:
    return False


SCHEMA_VERSION = 1

KIND = "rocketfsck.check"
FINDINGS_KIND = "rocketfsck.check.findings"

FINDING_COLUMNS = (
    Column("rule", "text"),
    Column("slug", "text"),
    Column("severity", "text"),
    Column("message", "text"),
    Column("file", "name"),
    Column("start", "int"),
    Column("end", "int"),
    Column("physical_offset", "int"),
    Column("topic", "name"),
    Column("queue_id", "int"),
    Column("queue_offset", "int"),
    Column("slot", "int"),
    Column("entry", "int"),
    Column("found", "json"),
    Column("expected", "json"),
    Column("count", "int"),
    Column("fingerprint", "text"),
    Column("fault_class", "text"),
    Column("repair", "text"),
    Column("suggest", "json"),
)
"""The columns of findings as a table, wherever one is made: `check --format` csv, arrow, parquet, Python."""


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """Which store it was and how its bytes were read.

    `geometry` holds sizes in bytes and counts, `geometry_sources` for each "given", "inferred" or "default".
    `known_from` are pairs (what, why) that the dialect is known from. `live` is None where it is not known
    whether a broker holds the store. `open_options` are the options that the store was opened with. Offsets
    are physical, half-open; None without commitlog files.
    """

    root: str
    dialect: str
    versions: tuple[str, ...]
    dialect_given: bool
    known_from: tuple[tuple[str, str], ...]
    geometry: Mapping[str, int]
    geometry_sources: Mapping[str, str]
    live: bool | None
    live_known_from: str
    file_count: int
    byte_count: int
    start_offset: int | None
    end_offset: int | None
    open_options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotChecked:
    """Something that was left out: a file ("" for a whole kind of check) and why.

    `operational`: it should have been checked and could not be; that is exit status 8.
    """

    what: str
    reason: str
    operational: bool = False


Items = Iterator[Finding | NotChecked]
"""What a check gives that may leave something out."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the data files the check went through, in tasks and in their bytes.

    `stopped_after` is the number of findings after which it stopped early, None where it went on to its end.
    `taken_over_byte_count` of the bytes that are done were read by an earlier check (`verify.since`).
    """

    task_count: int
    done_count: int
    byte_count: int
    done_byte_count: int
    stopped_after: int | None = None
    taken_over_byte_count: int = 0

    @property
    def complete(self) -> bool:
        return self.done_count == self.task_count and self.stopped_after is None

    @property
    def statement(self) -> str:
        """One sentence."""
        share = 100 * self.done_byte_count / self.byte_count if self.byte_count else 100.0
        files = f"{self.done_count:,} of {count_of(self.task_count, 'task')}"
        amount = f"{self.done_byte_count:,} of {count_of(self.byte_count, 'byte')} ({share:.1f}%)"
        stopped = (
            "" if self.stopped_after is None else f"; stopped after {count_of(self.stopped_after, 'finding')}"
        )
        rest = "" if self.complete else "; the rest may hold damage"
        taken = self.taken_over_byte_count
        over = f"; {count_of(taken, 'byte')} taken over from an earlier check" if taken else ""
        return f"checked {files}, {amount}{over}{stopped}{rest}"

    @property
    def read_byte_count(self) -> int:
        """What this check read itself."""
        return self.done_byte_count - self.taken_over_byte_count


@dataclass(frozen=True, slots=True)
class SinceFacts:
    """What a check that continues from an earlier one did not read again.

    `kept_file_count` files of the commit log, with `kept_byte_count` bytes, are what they were then.
    `previous_timestamp` is the earlier check's start (ms), None where there is none to continue from;
    `reason` then says why, "" for the first check. Every part was read as a whole at `oldest_read_timestamp`
    or later.
    """

    previous_timestamp: int | None
    oldest_read_timestamp: int
    kept_file_count: int = 0
    kept_byte_count: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A class of the fault catalogue, made out of findings: what happened, what follows, what to run.

    `rules` are the ids it was made from, `files` where (at most a handful), `count` how many findings.
    """

    fault_class: str
    title: str
    text: str
    severity: SeverityName
    rules: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    count: int = 0
    next_command: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """All that a check has to say. `counts` is exact for each rule id, whatever `findings` leaves out.

    `suppressed` counts findings that a baseline knows, `withheld` those that a policy leaves out of
    `findings`; `severities` has the rules for which it wants another severity, `unasked_rules` are those that
    the check was not asked for. `account` is that of the messages, None where they were not counted (level
    `quick`, a running broker, a check that stopped early). `checked` is by family of files ("commitlog",
    "consumequeue", "index", "checkpoint", "config"); `regions` by commitlog file.
    """

    store: StoreFacts
    level: Level
    tool_version: str
    started_timestamp: int
    seconds: float
    checked: Mapping[str, Checked]
    coverage: Coverage
    not_checked: tuple[NotChecked, ...]
    findings: tuple[Finding, ...]
    counts: Mapping[str, int]
    suppressed: int = 0
    diagnoses: tuple[Diagnosis, ...] = ()
    regions: Mapping[str, tuple[RegionTotal, ...]] = field(default_factory=dict)
    next_commands: tuple[str, ...] = ()
    severities: Mapping[str, SeverityName] = field(default_factory=dict)
    withheld: int = 0
    since: SinceFacts | None = None
    unasked_rules: tuple[str, ...] = ()
    account: MessageAccount | None = None
    schema_version: int = SCHEMA_VERSION

    def __repr__(self) -> str:
        counts = ", ".join(f"{severity.word} {count:,}" for severity, count in self.severity_counts.items())
        return f"<rocketfsck report on {self.store.root!r}: {counts}; level {self.level}>"

    def _repr_html_(self) -> str:
        facts = [("store", self.store.root), ("level", self.level)]
        facts += [(severity.word, str(count)) for severity, count in self.severity_counts.items()]
        first = {finding.rule: finding for finding in reversed(self.findings)}
        worst = sorted(self.counts, key=lambda rule: (-self.severity_of(rule), rule))
        shown = (rule for rule in worst if rule in first)
        rows = [
            (rule, self.severity_of(rule).word, self.counts[rule], describe(first[rule])) for rule in shown
        ]
        return html_of("Report of a check", facts, ("rule", "severity", "count", "first"), rows)

    def severity_of(self, rule: str) -> Severity:
        """How bad findings of a rule are in this report."""
        wanted = self.severities.get(rule)
        return RULES[rule].severity if wanted is None else Severity[wanted.upper()]

    @property
    def severity_counts(self) -> dict[Severity, int]:
        """Exact number of findings of each severity, worst first."""
        totals = dict.fromkeys(sorted(Severity, reverse=True), 0)
        for rule, count in self.counts.items():
            totals[self.severity_of(rule)] += count
        return totals

    @property
    def worst(self) -> Severity | None:
        """The highest severity found; None without findings."""
        return max((self.severity_of(rule) for rule, count in self.counts.items() if count), default=None)

    @property
    def exit_code(self) -> int:
        """4 with any finding above info, plus 8 where something could not be read; else 0."""
        problems = EXIT_PROBLEMS if (self.worst or Severity.INFO) > Severity.INFO else EXIT_CLEAN
        failed = EXIT_OPERATIONAL if any(item.operational for item in self.not_checked) else EXIT_CLEAN
        return problems | failed

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values; `from_json` gives an equal report back."""
        members = to_document(replace(self, findings=()))
        return {
            "schema_version": members.pop("schema_version"),
            "kind": KIND,
            **{name: members[name] for name in members if name not in ("coverage", "findings")},
            "exit_code": self.exit_code,
            "outcome": outcome_of(self.exit_code),
            "coverage": {**members["coverage"], "statement": self.coverage.statement},
            "findings": list(self.finding_documents()),
        }

    def finding_documents(self) -> Iterator[dict[str, Any]]:
        """Each finding as JSON values, with `suggest`: what to run next, as argument vectors."""
        for finding in self.findings:
            words = [list(vector) for vector in suggestions(finding, self.opened)]
            severity = self.severity_of(finding.rule).word
            yield {**finding_to_json(finding), "severity": severity, "suggest": plain(words)}

    def finding_rows(self) -> Iterator[dict[str, Any]]:
        """Each finding as values of `FINDING_COLUMNS`."""
        for finding in self.findings:
            severity = self.severity_of(finding.rule).word
            words = [list(vector) for vector in suggestions(finding, self.opened)]
            yield {**finding_row(finding), "severity": severity, "suggest": words}

    @property
    def opened(self) -> Reopening:
        """How a suggested command opens the store again."""
        return Reopening(self.store.root, self.store.open_options, self.store.dialect)

    def to_arrow(self) -> pa.Table:
        """The findings as a table, one row a finding, in the columns of `check --format arrow`.

        `start` and `end` are positions in `file`; `found` and `expected` are JSON texts. A name whose bytes
        are not UTF-8 is in `file_b64` or `topic_b64`, as base64, and null in `file` or `topic`.
        """
        import pyarrow as pa

        schema = arrow_schema(FINDING_COLUMNS, {"kind": FINDINGS_KIND, "store": self.store.root})
        rows = list(self.finding_rows())
        return pa.Table.from_batches([arrow_batch(rows, FINDING_COLUMNS, schema)] if rows else [], schema)

    @classmethod
    def from_json(cls, document: Any) -> Report:
        """The report that `to_json` wrote; raises UsageError for anything else."""
        if not isinstance(document, dict) or document.get("kind") != KIND:
            raise UsageError("not a check report")
        if document.get("schema_version") != SCHEMA_VERSION:
            raise UsageError(f"not a check report of schema version {SCHEMA_VERSION}")
        report = from_document(cls, document, "check report", exact=False)
        named_rules = {*report.counts, *report.severities, *(finding.rule for finding in report.findings)}
        unknown = sorted(named_rules - set(RULES))
        if unknown:
            raise UsageError(f"check report: there is no rule {printable(unknown[0])!r}")
        return report


def finding_to_json(finding: Finding) -> dict[str, Any]:
    """A finding as JSON values, with its rule's slug and severity and its line of text next to the data."""
    rule = RULES[finding.rule]
    return {
        "schema_version": SCHEMA_VERSION,
        "rule": rule.id,
        "slug": rule.slug,
        "severity": rule.severity.word,
        "message": describe(finding),
        "where": {name: value for name, value in to_document(finding.where).items() if value is not None},
        "found": named(finding.found),
        "expected": named(finding.expected),
        "count": finding.count,
        "fingerprint": finding.fingerprint,
        "fault_class": rule.fault_class,
        "repair": rule.repair,
    }


def finding_row(finding: Finding) -> dict[str, Any]:
    """A finding as values of `FINDING_COLUMNS`."""
    where = {name: getattr(finding.where, name) for name in type(finding.where).__slots__}
    return (
        finding_to_json(finding) | where | {"found": dict(finding.found), "expected": dict(finding.expected)}
    )


def finding_from_json(document: Any) -> Finding:
    """The finding that `finding_to_json` wrote; raises UsageError for others."""
    return from_document(Finding, document, "finding", exact=False)
