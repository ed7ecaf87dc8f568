"""From findings to diagnoses: one a fault class, worst first, each with what to look at next.

A finding belongs to the class that its rule names. A class whose findings are all consequences of another
class in the same report (a removed segment leaves its units dangling) is reported as that other's
consequence: its diagnosis stays, below its cause.

What to run next, as command lines that can be pasted: the same store, opened with the same options.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rocketfsck.common.rulenames import RuleName
from rocketfsck.store.model import StatedOptions, Store
from rocketfsck.store.places.urls import is_remote
from rocketfsck.verify.finding import Finding, Level, Severity
from rocketfsck.verify.options import CheckOptions, Subset
from rocketfsck.verify.report import Coverage, Diagnosis, Reopening, look_at
from rocketfsck.verify.rules.catalog import FAULT_CLASSES, MEANINGS_OF_ONE_RULE, RULES, severity_of


def store_command(words: Sequence[str], stated: StatedOptions, root: Path | str) -> str:
    """`rocketfsck WORDS… STORE` for a shell, with the options that open the store as it was opened."""
    return shlex.join(["rocketfsck", *words, *stated_words(stated), str(root)])


def plan_command(store: Store, options: CheckOptions) -> str | None:
    """The command line that plans a repair of what this check found; it changes nothing.

    None for a store that is not on this machine: a repair works on a directory.
    """
    if is_remote(store.root):
        return None
    words = ["plan"] if options.level == "full" else ["plan", "--level", options.level]
    return store_command([*words, *_delay_levels(store)], store.stated, store.root)


def fix_command(store: Store, level: Level) -> str:
    """The command line that repairs a store that was checked at this level, after a question."""
    words = ["fix"] if level == "full" else ["fix", "--level", level]
    return store_command([*words, *_delay_levels(store)], store.stated, store.root)


def _delay_levels(store: Store) -> list[str]:
    levels = store.stated.delay_levels
    return [] if levels is None else ["--delay-levels", levels]


def stated_words(stated: StatedOptions) -> tuple[str, ...]:
    """The options shared by all commands that read a store: settings, version, commit log paths."""
    words = [] if stated.broker_conf is None else ["--broker-conf", str(stated.broker_conf)]
    words += [] if stated.version is None else ["--broker-version", stated.version]
    for path in stated.commitlog_paths:
        words += ["--commitlog-path", str(path)]
    return (*words, *_storage_words(stated))


def _storage_words(stated: StatedOptions) -> list[str]:
    """The options of a remote file system, without their values: they may be secrets."""
    return [word for name in stated.storage_options.names for word in ("--storage-option", f"{name}=VALUE")]


def continue_command(store: Store, options: CheckOptions, coverage: Coverage) -> str | None:
    """The command line that checks what was left out, as this check did; None if nothing was."""
    if coverage.complete:
        return None
    return store_command(["check", *_choices(options), *_delay_levels(store)], store.stated, store.root)


def _choices(options: CheckOptions) -> Iterator[str]:
    if options.level != "full":
        yield from ("--level", options.level)
    for name, rules in (("--select", options.select), ("--ignore", options.ignore)):
        if rules:
            yield from (name, ",".join(rules))
    if options.baseline is not None:
        yield from ("--baseline", str(options.baseline))
    rest = _rest(options.subset)
    if rest is not None:
        yield from ("--subset", rest)
    if options.max_duration is not None and options.resume is not None:
        yield from ("--max-duration", f"{options.max_duration:g}")  # without a file it would get no further
    if options.resume is not None:
        yield from ("--resume", str(options.resume))
    if options.jobs:
        yield from ("--jobs", str(options.jobs))


def _rest(subset: Subset | None) -> str | None:
    """The part after this one; None for all, which is what is left after the last and after a share."""
    if subset is None or subset.number >= subset.total:
        return None
    return f"{subset.number + 1}/{subset.total}"


FILE_LIMIT = 5
COMMAND_LIMIT = 3

CAUSES: Mapping[str, tuple[str, ...]] = {
    "C2": ("O2", "O3"),
    "Q1": ("Q7", "C5", "O2", "O3"),
    "Q2": ("C5", "C8", "O2", "O3", "C1", "C3"),
    "Q3": ("C2", "C4", "C10", "C5", "O3"),
    "Q4": ("O3",),
    "Q7": ("O2", "O3"),
    "I1": ("K4", "I2", "O2", "O3"),
    "I2": ("O2", "O3", "C3", "C1", "C5"),
    "I12": ("C5", "O2", "O3", "C3", "C1", "C2"),
    "I3": ("I10",),
    "I6": ("I10", "I3", "O3"),
    "K2": ("O2", "C1", "C5", "C8"),
    "K6": ("Q7", "Q1", "C5", "C2", "O2", "O3"),
}
"""Which classes may be the cause of a class, nearest first."""

ORIGINS = ("O2", "O3")
"""The classes that say where damaged files come from: notes, but the first thing to know of damage."""

BOUNDARY = "C2"
"""The class of damage that sound records follow."""

FOLLOWERS = frozenset({RuleName.UNIT_OF_DAMAGED_RECORD, RuleName.ENTRY_OF_DAMAGED_RECORD})
"""Rules that only tell what refers to damaged bytes: they count for the class that the damage itself has."""


def diagnose(
    findings: Iterable[Finding],
    store: str,
    stated: StatedOptions | None = None,
    version: str | None = None,
    inner_files: Collection[str] = (),
) -> tuple[Diagnosis, ...]:
    """Diagnoses of all findings above info, causes before consequences, worst first.

    `inner_files` are commit log files that others with records follow: a record that is incomplete there is
    not the last one of the log.
    `store` is the path to name in the commands that a diagnosis suggests, `stated` what it was opened with,
    `version` that of the broker whose start is worth a prediction.
    """
    judged = [
        finding
        for finding in findings
        if RULES[finding.rule].fault_class is not None
        and (severity_of(finding) > Severity.INFO or RULES[finding.rule].fault_class in ORIGINS)
    ]

    def class_of(finding: Finding) -> str:
        inner = finding.rule == RuleName.LOG_TORN_TAIL and finding.where.file in inner_files
        return BOUNDARY if inner else RULES[finding.rule].fault_class or ""

    damage = {
        finding.where.physical_offset: class_of(finding)
        for finding in judged
        if RULES[finding.rule].family == "CL"
    }
    groups: dict[str, list[Finding]] = {}
    for finding in judged:
        name = class_of(finding)
        if finding.rule in FOLLOWERS:
            name = damage.get(_first_offset(finding)) or name
        groups.setdefault(name, []).append(finding)
    order = sorted(
        groups, key=lambda name: (name not in ORIGINS, _depth(name, groups), -_worst(groups[name]), name)
    )
    place = Reopening(store, stated_words(stated or StatedOptions()), version)
    return tuple(_diagnosis(name, groups, place) for name in order)


def next_commands(
    diagnoses: Iterable[Diagnosis], findings: Iterable[Finding], plan: str | None = None
) -> tuple[str, ...]:
    """The few commands to run first, most telling first, none twice; empty for a sound store.

    `plan` is the command that plans a repair, named where a repair answers one of the findings.
    """
    commands = [item.next_command for item in diagnoses if item.next_command is not None]
    commands = list(dict.fromkeys(commands))[:COMMAND_LIMIT]
    worst = sorted(
        {finding.rule for finding in findings if severity_of(finding) > Severity.INFO},
        key=lambda rule: (-RULES[rule].severity, rule),
    )
    commands += [f"rocketfsck explain {rule}" for rule in worst[:1]]
    if plan is not None and any(RULES[rule].repair is not None for rule in worst):
        commands.append(plan)
    return tuple(commands)


def _first_offset(finding: Finding) -> int | None:
    """Where the damaged bytes begin that a follower refers to."""
    stated = finding.found.get("first_physical_offset", finding.where.physical_offset)
    return stated if isinstance(stated, int) else None


def _depth(name: str, groups: Mapping[str, list[Finding]]) -> int:
    cause = _cause(name, groups)
    return 0 if cause is None else 1 + (_cause(cause, groups) is not None)


def _cause(name: str, groups: Mapping[str, list[Finding]]) -> str | None:
    return next((cause for cause in CAUSES.get(name, ()) if cause in groups), None)


def _worst(findings: list[Finding]) -> Severity:
    return max(severity_of(finding) for finding in findings)


def _diagnosis(name: str, groups: Mapping[str, list[Finding]], place: Reopening) -> Diagnosis:
    findings = groups[name]
    known = FAULT_CLASSES[name]
    cause = _cause(name, groups)
    rules = sorted({finding.rule for finding in findings})
    meaning = MEANINGS_OF_ONE_RULE.get(rules[0], known.meaning) if len(rules) == 1 else known.meaning
    because = (
        "" if cause is None else f" Most likely a consequence of {cause} ({FAULT_CLASSES[cause].title})."
    )
    return Diagnosis(
        fault_class=name,
        title=known.title,
        text=f"{meaning}{because} {known.advice}",
        severity=_worst(findings).word,
        rules=tuple(rules),
        files=tuple(dict.fromkeys(finding.where.file for finding in findings if finding.where.file))[
            :FILE_LIMIT
        ],
        count=sum(finding.count for finding in findings),
        next_command=_look_at(findings, place),
    )


def _look_at(findings: list[Finding], of: Reopening) -> str | None:
    """The command line that shows the first place that the worst finding names; None where none does."""
    for finding in sorted(findings, key=lambda finding: -severity_of(finding)):
        words = look_at(finding, of, Path.exists)
        if words is not None:
            return shlex.join(words)
    return None
