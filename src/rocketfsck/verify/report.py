"""The report of a check: data, of which text, JSON and tables are renderings.

It says what was checked and what was not and why, what was found, what that means, and what to run next.
In JSON every object is plain; text whose bytes are not UTF-8 (a topic's directory name) is under its name
with `_b64` appended, as base64 of the bytes.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from rocketfsck.errors import EXIT_CLEAN, EXIT_OPERATIONAL, EXIT_PROBLEMS, UsageError
from rocketfsck.verify.finding import Finding, Severity, Where
from rocketfsck.verify.rules.catalog import RULES, describe
from rocketfsck.verify.rules.rule import Level
from rocketfsck.verify.tasks.facts import RegionTotal
from rocketfsck.verify.tasks.task import Checked

SCHEMA_VERSION = 1

_BYTES, _UNITS = "_b64", "_utf16"


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """Which store it was and how its bytes were read.

    `geometry` holds sizes in bytes and counts, `geometry_sources` for each "given", "inferred" or "default".
    `known_from` are pairs (what, why) that the dialect was told by. `live` is None where it is not known
    whether a broker holds the store. Offsets are physical, half-open; None without commitlog files.
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


@dataclass(frozen=True, slots=True)
class NotChecked:
    """Something that was left out: a file ("" for a whole kind of check) and why.

    `operational`: it should have been checked and could not be; that is exit status 8.
    """

    what: str
    reason: str
    operational: bool = False


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the data files the check went through, in tasks and in their bytes."""

    task_count: int
    done_count: int
    byte_count: int
    done_byte_count: int

    @property
    def complete(self) -> bool:
        return self.done_count == self.task_count

    @property
    def statement(self) -> str:
        """One sentence."""
        share = 100 * self.done_byte_count / self.byte_count if self.byte_count else 100.0
        files = f"{self.done_count} of {self.task_count} tasks"
        amount = f"{self.done_byte_count} of {self.byte_count} bytes ({share:.1f}%)"
        return f"checked {files}, {amount}" + ("" if self.complete else "; what is left out may hold damage")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A class of the fault catalogue, made out of findings: what happened, what follows, what to run.

    `rules` are the ids it was made from, `files` where (at most a handful), `count` how many findings.
    """

    fault_class: str
    title: str
    text: str
    severity: Severity
    rules: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    count: int = 0
    next_command: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """All that a check has to say. `counts` is exact for each rule id, whatever `findings` leaves out.

    `suppressed` counts findings that a baseline knows. `checked` is by family of files ("commitlog",
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
    schema_version: int = SCHEMA_VERSION

    @property
    def severity_counts(self) -> dict[Severity, int]:
        """Exact number of findings of each severity, worst first."""
        totals = dict.fromkeys(sorted(Severity, reverse=True), 0)
        for rule, count in self.counts.items():
            totals[RULES[rule].severity] += count
        return totals

    @property
    def worst(self) -> Severity | None:
        """The highest severity found; None without findings."""
        return max((RULES[rule].severity for rule, count in self.counts.items() if count), default=None)

    @property
    def exit_code(self) -> int:
        """4 with any finding above info, plus 8 where something could not be read; else 0."""
        problems = EXIT_PROBLEMS if (self.worst or Severity.INFO) > Severity.INFO else EXIT_CLEAN
        failed = EXIT_OPERATIONAL if any(item.operational for item in self.not_checked) else EXIT_CLEAN
        return problems | failed

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values; `from_json` gives an equal report back."""
        plain = {
            item.name: _plain(getattr(self, item.name)) for item in fields(self) if item.name not in _OWN
        }
        return {
            "schema_version": self.schema_version,
            "kind": "rocketfsck.check",
            **plain,
            "exit_code": self.exit_code,
            "coverage": {**_plain(self.coverage), "statement": self.coverage.statement},
            "findings": [finding_to_json(finding) for finding in self.findings],
        }

    @classmethod
    def from_json(cls, document: Any) -> Report:
        """The report that `to_json` wrote; raises UsageError for anything else."""
        try:
            if document["kind"] != "rocketfsck.check" or document["schema_version"] != SCHEMA_VERSION:
                raise UsageError(f"not a check report of schema version {SCHEMA_VERSION}")
            store = dict(document["store"])
            store["versions"] = tuple(store["versions"])
            store["known_from"] = tuple((what, why) for what, why in store["known_from"])
            coverage = {name: document["coverage"][name] for name in Coverage.__slots__}
            return cls(
                store=StoreFacts(**_with_text(store)),
                level=document["level"],
                tool_version=document["tool_version"],
                started_timestamp=document["started_timestamp"],
                seconds=document["seconds"],
                checked={name: Checked(**value) for name, value in document["checked"].items()},
                coverage=Coverage(**coverage),
                not_checked=tuple(NotChecked(**_with_text(item)) for item in document["not_checked"]),
                findings=tuple(finding_from_json(item) for item in document["findings"]),
                counts={str(name): int(count) for name, count in document["counts"].items()},
                suppressed=document["suppressed"],
                diagnoses=tuple(_diagnosis(item) for item in document["diagnoses"]),
                regions={
                    name: tuple(RegionTotal(**item) for item in totals)
                    for name, totals in document["regions"].items()
                },
                next_commands=tuple(document["next_commands"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(f"not a check report: {error!r}") from error


_OWN = frozenset({"findings", "schema_version", "coverage"})


def finding_to_json(finding: Finding) -> dict[str, Any]:
    """A finding as JSON values, with its rule's slug and severity and its line of text beside the data."""
    rule = RULES[finding.rule]
    where = {name: getattr(finding.where, name) for name in Where.__slots__}
    return {
        "schema_version": SCHEMA_VERSION,
        "rule": rule.id,
        "slug": rule.slug,
        "severity": rule.severity.name.lower(),
        "message": describe(finding),
        "where": _text_members({name: value for name, value in where.items() if value is not None}),
        "found": _text_members(finding.found),
        "expected": _text_members(finding.expected),
        "count": finding.count,
        "fingerprint": finding.fingerprint,
        "fault_class": rule.fault_class,
        "repair": rule.repair,
    }


_KINDS: Mapping[str, tuple[type, ...]] = {name: (int, type(None)) for name in Where.__slots__} | {
    "file": (str,),
    "topic": (str, type(None)),
}


def finding_from_json(document: Mapping[str, Any]) -> Finding:
    """The finding that `finding_to_json` wrote; raises KeyError, TypeError or ValueError for others."""
    if document["rule"] not in RULES:
        raise ValueError(f"no rule {document['rule']}")
    where = Where(**_with_text(document["where"]))
    for name in Where.__slots__:
        value = getattr(where, name)
        if not isinstance(value, _KINDS[name]) or isinstance(value, bool):
            raise TypeError(f"where.{name} is {value!r}")
    return Finding(
        document["rule"],
        where,
        _with_text(document["found"]),
        _with_text(document["expected"]),
        int(document["count"]),
    )


def _diagnosis(document: Mapping[str, Any]) -> Diagnosis:
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in _with_text(document).items()
    }
    return Diagnosis(**{**values, "severity": Severity[str(values["severity"]).upper()]})


def _plain(value: Any) -> Any:
    if isinstance(value, Severity):
        return value.name.lower()
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return _text_members({item.name: _plain(getattr(value, item.name)) for item in fields(value)})
    return value


def _text_members(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same members; text with bytes that are not UTF-8 moves to `<name>_b64`.

    Text with other lone surrogates, which only an escape in a JSON file can have put there, moves to
    `<name>_utf16`: base64 of its UTF-16BE.
    """
    members: dict[str, Any] = {}
    for name, value in values.items():
        if not isinstance(value, str) or _is_utf8(value):
            members[name] = value
        elif (raw := _escaped_bytes(value)) is not None:
            members[name + _BYTES] = base64.b64encode(raw).decode("ascii")
        else:
            units = value.encode("utf-16-be", "surrogatepass")
            members[name + _UNITS] = base64.b64encode(units).decode("ascii")
    return members


def _with_text(members: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in members.items():
        if name.endswith(_BYTES):
            values[name.removesuffix(_BYTES)] = os.fsdecode(base64.b64decode(value, validate=True))
        elif name.endswith(_UNITS):
            units = base64.b64decode(value, validate=True)
            values[name.removesuffix(_UNITS)] = units.decode("utf-16-be", "surrogatepass")
        else:
            values[name] = value
    return values


def _escaped_bytes(text: str) -> bytes | None:
    """The bytes that `os.fsdecode` made this text of; None if it did not."""
    try:
        raw = os.fsencode(text)
    except UnicodeEncodeError:
        return None
    return raw if os.fsdecode(raw) == text else None


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
