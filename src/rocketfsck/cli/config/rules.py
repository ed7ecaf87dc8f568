"""`[rules.CL007]` of a config file: what is done about a rule's findings.

    severity = "info"      how its findings are reported: info, warning or error
    preen = false          plan --preen and fix --preen leave out what answers it
    max_count = 10         so many of its findings are shown; all are counted
    ignore = true          check leaves it out, as with --ignore

A rule is named by its id or its slug. What `apply` asks of a plan is the same, whatever is set here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, get_args

from rocketfsck.cli.config.files import ConfigFile
from rocketfsck.cli.config.options import RULES_TABLE
from rocketfsck.cli.show.text import visible
from rocketfsck.errors import UsageError
from rocketfsck.verify.finding import SeverityName
from rocketfsck.verify.policy import Policy, RulePolicy
from rocketfsck.verify.rules.catalog import RULES

_KINDS: dict[str, tuple[type, str]] = {
    "severity": (str, f"one of {', '.join(get_args(SeverityName))}"),
    "preen": (bool, "true or false"),
    "max_count": (int, "a number, 0 or more"),
    "ignore": (bool, "true or false"),
}


def read_policy(files: Sequence[ConfigFile]) -> tuple[Policy, dict[str, str]]:
    """The policy for each rule that the files name, and by "RULE.key" the file that sets it.

    Raises UsageError for a rule, a key or a value that there is not.
    """
    values: dict[str, dict[str, Any]] = {}
    origins: dict[str, str] = {}
    for file in reversed(files):
        table = file.content.get(RULES_TABLE, {})
        if not isinstance(table, dict):
            raise UsageError(f"{visible(str(file.path))}: {RULES_TABLE} is not a table")
        for name, given in table.items():
            rule = _rule(file, name)
            if not isinstance(given, dict):
                raise UsageError(f"{visible(str(file.path))}: [{RULES_TABLE}] {visible(name)} is not a table")
            for key, value in given.items():
                place = f"{visible(str(file.path))}: [{RULES_TABLE}.{visible(name)}] {visible(key)}"
                _refuse_odd(place, key, value)
                values.setdefault(rule, {})[key] = value
                origins[f"{rule}.{key}"] = str(file.path)
    return {rule: RulePolicy(**given) for rule, given in values.items()}, origins


def _rule(file: ConfigFile, name: str) -> str:
    slugs = {rule.slug: rule.id for rule in RULES.values()}
    found = name.upper() if name.upper() in RULES else slugs.get(name.lower())
    if found is None:
        near = get_close_matches(name.upper(), RULES, 1) or get_close_matches(name.lower(), slugs, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        place = f"{visible(str(file.path))}: [{RULES_TABLE}]"
        raise UsageError(f"{place} there is no rule {visible(name)!r}{hint}")
    return found


def _refuse_odd(place: str, key: str, value: Any) -> None:
    assert set(_KINDS) == {item.name for item in fields(RulePolicy)}
    if key not in _KINDS:
        near = get_close_matches(key, _KINDS, 1)
        raise UsageError(f"{place}: there is no such key{f'; did you mean {near[0]!r}?' if near else ''}")
    kind, words = _KINDS[key]
    wrong = type(value) is not kind or (key == "severity" and value not in get_args(SeverityName))
    if wrong or (kind is int and value < 0):
        raise UsageError(f"{place} is not {words}")
