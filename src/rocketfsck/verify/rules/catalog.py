"""The table of all rules, and the words for a finding.

Ids are a family's two letters and three digits, never reused: `ST` store and names, `CL` commit log,
`CQ` consume queue, `IX` index, `CP` checkpoint and abort, `CF` config, `KV` compaction, `TM` timer, `XR`
cross-reference, `RK` RocksDB databases, `TS` tiered storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType

from rocketfsck.common.documents import printable
from rocketfsck.common.wording import count_of, duration, fill_template
from rocketfsck.errors import UsageError
from rocketfsck.verify.finding import FAMILIES, LEVELS, Finding, Level, Rule, Scalar, Severity, Strictness
from rocketfsck.verify.rules import (
    checkpoint,
    commitlog,
    config,
    consumequeue,
    cross,
    features,
    index,
    rocksdb,
    store,
)

__all__ = [
    "FAMILIES",
    "FURTHER",
    "LEVELS",
    "RULES",
    "UNKNOWN_RULES",
    "Level",
    "Rule",
    "Strictness",
    "build_catalog",
    "describe",
    "find_rule",
    "severity_of",
]

FURTHER = "further_count"
"""Name of the only fact of a finding that stands for those of a rule and file that were not kept."""

_LAST_TIMESTAMP = 253_402_300_800_000
"""The beginning of the year 10000, in ms."""


def build_catalog(rules: Iterable[Rule]) -> Mapping[str, Rule]:
    """Rules by id, in order of id; raises ValueError where two have one name."""
    table: dict[str, Rule] = {}
    for rule in sorted(rules, key=lambda rule: rule.id):
        if rule.id in table:
            raise ValueError(f"rule used twice: {rule.id} {rule.slug}")
        table[rule.id] = rule
    return MappingProxyType(table)


RULES: Mapping[str, Rule] = build_catalog(
    [
        *store.RULES,
        *commitlog.RULES,
        *consumequeue.RULES,
        *index.RULES,
        *checkpoint.RULES,
        *config.RULES,
        *cross.RULES,
        *cross.DLEDGER_RULES,
        *features.RULES,
        *features.COMPACTION_RULES,
        *features.TIERED_RULES,
        *rocksdb.RULES,
    ]
)

UNKNOWN_RULES: frozenset[str] = frozenset(rule.id for rule in RULES.values() if rule.unknown)
"""The rules whose findings are something regular that this version does not know (ADR 0011)."""

_BY_SLUG: Mapping[str, Rule] = MappingProxyType({rule.slug: rule for rule in RULES.values()})


def find_rule(name: str) -> Rule:
    """The rule with this id (any case) or slug; raises UsageError where there is none."""
    rule = RULES.get(name.upper()) or _BY_SLUG.get(name.lower())
    if rule is None:
        raise UsageError(f"no rule is called {printable(name)!r}")
    return rule


def severity_of(finding: Finding) -> Severity:
    """The severity of the finding's rule."""
    return RULES[finding.rule].severity


def describe(finding: Finding) -> str:
    """One printable line about a finding: its rule's template with the finding's values in it.

    A value that the finding does not have is shown as `?`. Control characters, and bytes that are not
    UTF-8, come out escaped.
    """
    rule = RULES[finding.rule]
    if set(finding.found) == {FURTHER}:
        further = finding.found[FURTHER]
        more = count_of(further, "more finding") if isinstance(further, int) else f"{further} more findings"
        return f"{more} of {rule.slug} in {printable(finding.where.file) or 'the store'}"
    text = fill_template(rule.template, partial(_value, finding), _shown)
    return text if finding.count == 1 else f"{text} ({finding.count:,} in a row)"


def _value(finding: Finding, name: str) -> Scalar:
    group, _, inner = name.partition(".")
    if inner:
        values = {"expected": finding.expected, "found": finding.found}.get(group)
        return getattr(finding.where, inner, None) if values is None else values.get(inner)
    return finding.found[name] if name in finding.found else getattr(finding.where, name, None)


def _shown(name: str, value: Scalar) -> str:
    if value is None:
        return "?"
    if isinstance(value, str):
        return printable(value)
    if name.endswith("_duration"):
        return duration(value / 1000)
    return f"{value}{_as_time(value)}" if name.endswith("_timestamp") else str(value)


def _as_time(timestamp: int) -> str:
    """Milliseconds since 1970 as a time in UTC, in brackets; nothing for 0 and where no calendar goes."""
    if not 0 < timestamp < _LAST_TIMESTAMP:
        return ""
    time = datetime.fromtimestamp(timestamp / 1000, UTC)
    return f" ({time:%Y-%m-%d %H:%M:%S}Z)"
