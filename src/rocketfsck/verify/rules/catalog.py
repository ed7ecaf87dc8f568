"""The table of all rules and that of the fault classes, and the words for a finding.

Both are JSON next to this module: `checkpoint.json` has the rules CP, an object for each, by slug, with what
`Rule` has; `faultclasses.json` the fault classes: what breaks in stores in real life, and what to do about
it. A rule names the class that a breach of it belongs to; `verify.diagnoses` makes one diagnosis a class from
the findings. Classes are never renumbered: `C` commit log, `Q` consume queue, `I` index, `K` checkpoint,
abort and config, `H` replicas and side files, `O` other.

Ids of rules are a family's two letters and three digits, never reused: `ST` store and names, `CL` commit
log, `CQ` consume queue, `IX` index, `CP` checkpoint and abort, `CF` config, `KV` compaction, `TM` timer, `XR`
cross-reference, `RK` RocksDB databases, `TS` tiered storage.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any

from rocketfsck.common.documents import packaged_text, printable
from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of, duration, fill_template
from rocketfsck.errors import UsageError
from rocketfsck.verify.finding import FAMILIES, LEVELS, Finding, Level, Rule, Scalar, Severity, Strictness

__all__ = [
    "FAMILIES",
    "FAULT_CLASSES",
    "FURTHER",
    "LEVELS",
    "MEANINGS_OF_ONE_RULE",
    "RULES",
    "UNKNOWN_RULES",
    "FaultClass",
    "Level",
    "Rule",
    "Strictness",
    "build_catalog",
    "describe",
    "find_rule",
    "severity_of",
]

_TABLES = (
    "store", "commitlog", "consumequeue", "index", "checkpoint", "config", "crossreference", "dledger",
    "timer", "compaction", "tiered", "rocksdb",
)  # fmt: skip

FURTHER = "further_count"
"""Name of the only fact of a finding that stands for those of a rule and file that were not kept."""

_LAST_TIMESTAMP = 253_402_300_800_000
"""The beginning of the year 10000, in ms."""


@dataclass(frozen=True, slots=True)
class FaultClass:
    """One class: `meaning` says what happened and what follows, `advice` what to do before anything else.

    `found_by` is the command that finds it where no rule does, because one store does not show it.
    """

    id: str
    title: str
    meaning: str
    advice: str
    found_by: str = ""


def _rows(table: str) -> dict[str, Any]:
    rows: dict[str, Any] = json.loads(packaged_text(__name__, f"{table}.json"))
    return rows


def _rule(slug: str, row: Mapping[str, Any]) -> Rule:
    return Rule(**{**row, "id": RuleName.of_slug(slug), "severity": Severity[row["severity"].upper()]})


def build_catalog(rules: Iterable[Rule]) -> Mapping[str, Rule]:
    """Rules by id, in order of id; raises ValueError where two have one name."""
    table: dict[str, Rule] = {}
    for rule in sorted(rules, key=lambda rule: rule.id):
        if rule.id in table:
            raise ValueError(f"rule used twice: {rule.id} {rule.slug}")
        table[rule.id] = rule
    return MappingProxyType(table)


RULES: Mapping[str, Rule] = build_catalog(
    _rule(slug, row) for table in _TABLES for slug, row in _rows(table).items()
)

FAULT_CLASSES: Mapping[str, FaultClass] = MappingProxyType(
    {name: FaultClass(name, **row) for name, row in _rows("faultclasses").items()}
)

MEANINGS_OF_ONE_RULE: Mapping[str, str] = MappingProxyType(
    {RuleName.of_slug(slug): meaning for slug, meaning in _rows("meanings").items()}
)
"""What a class means where all of its findings belong to this rule: less than the class may mean."""

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
