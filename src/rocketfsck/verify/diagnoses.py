"""From findings to diagnoses: one a fault class, worst first, each with what to look at next.

A finding belongs to the class that its rule names. A class whose findings are all consequences of another
class in the same report (a removed segment leaves its units dangling) is told as that other's consequence:
its diagnosis stays, below its cause.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from rocketfsck.verify.catalog import RULES, severity_of
from rocketfsck.verify.faultclasses import FAULT_CLASSES
from rocketfsck.verify.finding import Finding, Severity
from rocketfsck.verify.report import Diagnosis

FILE_LIMIT = 5
COMMAND_LIMIT = 3

CAUSES: Mapping[str, tuple[str, ...]] = {
    "Q1": ("Q7", "C5"),
    "Q2": ("C5", "C8", "C1", "C3"),
    "Q3": ("C2", "C4", "C10", "C5"),
    "I1": ("K4", "I2"),
    "I2": ("C3", "C1", "C5"),
    "I12": ("C5", "C3", "C1", "C2"),
    "I3": ("I10",),
    "I6": ("I10", "I3"),
    "K2": ("C1", "C5", "C8"),
    "K6": ("Q7", "Q1", "C5", "C2"),
}
"""Which classes may be the cause of a class, nearest first."""

FOLLOWERS = frozenset({"XR010", "XR029"})
"""Rules that only tell what refers to damaged bytes: they count for the class that the damage itself has."""


def diagnose(findings: Iterable[Finding], store: str) -> tuple[Diagnosis, ...]:
    """Diagnoses of all findings above info, causes before consequences, worst first.

    `store` is the path to name in the commands that a diagnosis suggests.
    """
    judged = [
        finding
        for finding in findings
        if RULES[finding.rule].fault_class is not None and severity_of(finding) > Severity.INFO
    ]
    damage = {
        finding.where.physical_offset: RULES[finding.rule].fault_class
        for finding in judged
        if RULES[finding.rule].family == "CL"
    }
    groups: dict[str, list[Finding]] = {}
    for finding in judged:
        name = RULES[finding.rule].fault_class or ""
        if finding.rule in FOLLOWERS:
            name = damage.get(_first_offset(finding)) or name
        groups.setdefault(name, []).append(finding)
    order = sorted(groups, key=lambda name: (_depth(name, groups), -_worst(groups[name]), name))
    return tuple(_diagnosis(name, groups, store) for name in order)


def next_commands(diagnoses: Iterable[Diagnosis], findings: Iterable[Finding]) -> tuple[str, ...]:
    """The few commands to run first, most telling first, none twice; empty for a sound store."""
    commands = [item.next_command for item in diagnoses if item.next_command is not None][:COMMAND_LIMIT]
    worst = sorted(
        {finding.rule for finding in findings if severity_of(finding) > Severity.INFO},
        key=lambda rule: (-RULES[rule].severity, rule),
    )
    commands += [f"rocketfsck explain {rule}" for rule in worst[:1]]
    return tuple(dict.fromkeys(commands))


def _first_offset(finding: Finding) -> int | None:
    """Where the damaged bytes begin that a follower refers to."""
    stated = finding.found.get("first_offset", finding.where.physical_offset)
    return stated if isinstance(stated, int) else None


def _depth(name: str, groups: Mapping[str, list[Finding]]) -> int:
    cause = _cause(name, groups)
    return 0 if cause is None else 1 + (_cause(cause, groups) is not None)


def _cause(name: str, groups: Mapping[str, list[Finding]]) -> str | None:
    return next((cause for cause in CAUSES.get(name, ()) if cause in groups), None)


def _worst(findings: list[Finding]) -> Severity:
    return max(severity_of(finding) for finding in findings)


def _diagnosis(name: str, groups: Mapping[str, list[Finding]], store: str) -> Diagnosis:
    findings = groups[name]
    known = FAULT_CLASSES[name]
    cause = _cause(name, groups)
    because = (
        "" if cause is None else f" Most likely a consequence of {cause} ({FAULT_CLASSES[cause].title})."
    )
    return Diagnosis(
        fault_class=name,
        title=known.title,
        text=f"{known.meaning}{because} {known.advice}",
        severity=_worst(findings),
        rules=tuple(sorted({finding.rule for finding in findings})),
        files=tuple(dict.fromkeys(finding.where.file for finding in findings if finding.where.file))[
            :FILE_LIMIT
        ],
        count=sum(finding.count for finding in findings),
        next_command=_look_at(findings, store),
    )


def _look_at(findings: list[Finding], store: str) -> str | None:
    """The dump of the first place that a finding names by bytes or by entry; None where none does. Where the
    file itself is missing, what there is instead."""
    for finding in sorted(findings, key=lambda finding: -severity_of(finding)):
        where = finding.where
        if not where.file or not where.file.isprintable():
            continue
        place = Path(store, where.file)
        path = shlex.quote(str(place))
        if where.file.startswith("commitlog/") and where.physical_offset is not None:
            return f"rocketfsck dump --hex --offset-from {where.physical_offset} --limit 1 {path}"
        if where.slot is not None:
            return f"rocketfsck dump --slot {where.slot} {path}"
        if where.start is not None and where.end != where.start:
            end = "" if where.end is None else where.end
            return f"rocketfsck dump --hex --pos {where.start}:{end} --limit 20 {path}"
        if where.topic is not None and where.queue_id is not None:  # the file may be what is missing
            topic = shlex.quote(where.topic)
            return f"rocketfsck dump --topic {topic} --queue {where.queue_id} --limit 20 {shlex.quote(store)}"
        if not place.exists():
            return f"rocketfsck info {shlex.quote(store)}"
        return f"rocketfsck dump --limit 20 {path}"
    return None
