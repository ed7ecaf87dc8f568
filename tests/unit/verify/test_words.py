"""The texts of rules and fault classes keep to docs/style.md, as far as a machine can tell."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest

from rocketfsck.common.wording import PLACE, count_of, fill_template, plain_template, plural_of
from rocketfsck.verify.finding import Finding, Rule, Scalar, Where
from rocketfsck.verify.rules.catalog import FAULT_CLASSES, MEANINGS_OF_ONE_RULE, RULES, describe

from tests.words import faults_of, sentence_faults

WHERE = {item.name for item in fields(Where)}
COUNTS = re.compile(r"(.*_)?(count|size)")
BOUNDS = re.compile(r"\{[a-z_.]+\} to \{[a-z_.]+\}")
BOUNDED = frozenset({"CL025", "IX008", "IX028", "KV003", "ST020", "TS010"})
"""Rules that name two ends which are never the same, or bounds that a value is outside of."""

PROSE = {
    **{f"{rule.id} why": rule.why for rule in RULES.values()},
    **{f"{item.id} meaning": item.meaning for item in FAULT_CLASSES.values()},
    **{f"{item.id} advice": item.advice for item in FAULT_CLASSES.values()},
    **{f"{name} meaning": text for name, text in MEANINGS_OF_ONE_RULE.items()},
}


def _sample(rule: Rule, number: int) -> Finding:
    """A finding in which every number that is counted is this one, and everything else has a name."""
    facts: dict[str, dict[str, Scalar]] = {"found": {}, "expected": {}}
    where: dict[str, Any] = {"file": "commitlog/0", "topic": "T"}
    for place in PLACE.finditer(rule.template):
        counted = place["noun"] or place["many"] or place["last"] or COUNTS.fullmatch(place["name"])
        for name in filter(None, (place["name"], place["last"])):
            group, _, inner = name.rpartition(".")
            value: Scalar = number if counted else "X"
            if group == "where" or (not group and inner in WHERE):
                where.setdefault(inner, value)
            elif counted or inner not in facts[group or "found"]:
                facts[group or "found"][inner] = value
    return Finding(rule.id, Where(**where), facts["found"], facts["expected"])


@pytest.mark.parametrize("number", [1, 2, 65_536])
def test_messages_are_plain_for_one_and_for_many(number: int) -> None:
    texts = {name: describe(_sample(rule, number)) for name, rule in RULES.items()}
    unfilled = {name: text for name, text in texts.items() if re.search(r"[?{]|\.$", text)}
    assert unfilled == {}
    assert {name: faults for name, text in texts.items() if (faults := faults_of(text))} == {}


def test_a_rule_is_one_line_with_a_short_name() -> None:
    assert [rule.slug for rule in RULES.values() if len(rule.slug) > 40] == []
    assert {name for name, rule in RULES.items() if BOUNDS.search(rule.template)} == BOUNDED


def test_sentences_are_plain() -> None:
    assert {name: faults for name, text in PROSE.items() if (faults := sentence_faults(text))} == {}


def test_titles_are_names() -> None:
    titles = [item.title for item in FAULT_CLASSES.values()]
    assert {title: faults for title in titles if (faults := faults_of(title))} == {}
    assert [title for title in titles if title.endswith(".")] == []


@pytest.mark.parametrize(
    "text",
    [
        "1 units are empty",
        "lost 1 index entries",
        "1 sound records follow",
        "from queue offset 29 to 29",
        "It is gone",
        "all is well; They are of no use",
        "the bytes that stand there",
        "65536 bytes are zero",
        "2 unit is empty",
        "1 unit are empty",
        "2 messages is lost",
    ],
)
def test_what_is_not_plain_is_seen(text: str) -> None:
    assert faults_of(text) != []


@pytest.mark.parametrize(
    "text",
    [
        "no capital.",
        "No full stop",
        "A file is lost. It was copied.",
        "This is normal.",
        "Fine.  Two blanks.",
    ],
)
def test_sentences_that_are_not_plain_are_seen(text: str) -> None:
    assert sentence_faults(text) != []


VALUES: dict[str, Scalar] = {
    "unit_count": 1,
    "size": 65_536,
    "first": 1_234,
    "last": 1_235,
    "expected.size": 1,
    "text": "x",
    "none": None,
    "flag": True,
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{unit_count:unit} {unit_count?points|point}", "1 unit points"),
        ("{size:index entry} {size?is|are}", "65,536 index entries are"),
        ("{size} {first} {first:,}", "65,536 1234 1,234"),
        ("{expected.size:byte}", "1 byte"),
        ("{first..last:queue offset}", "queue offsets 1234 to 1235"),
        ("{first..first:queue offset}, {first..first}", "queue offset 1234, 1234"),
        ("{first..last}", "1234 to 1235"),
        ("{none:unit} {none} {none:,} {none?is|are}", "? units ? ? are"),
        ("{text:unit} {flag} {flag:,} {flag?is|are}", "x units True True are"),
        ("%LMQ%{} {Not}", "%LMQ%{} {Not}"),
    ],
)
def test_templates_are_filled(template: str, text: str) -> None:
    shown = fill_template(template, VALUES.get, lambda _, value: "?" if value is None else str(value))
    assert shown == text


def test_templates_for_readers_have_the_names() -> None:
    template = "{a..b:queue offset}, {a..b}, {n:entry}, {n:,}, {n?is|are}, {expected.n}"
    shown = "queue offsets {a} to {b}, {a} to {b}, {n} entries, {n}, are, {expected.n}"
    assert plain_template(template) == shown


def test_plurals() -> None:
    assert [plural_of(noun) for noun in ("unit", "index entry", "key", "hash", "index")] == [
        "units",
        "index entries",
        "keys",
        "hashes",
        "indexes",
    ]
    assert count_of(12_345, "copy") == "12,345 copies"
    assert count_of(2, "child", "children") == "2 children"
    assert re.fullmatch(PLACE, "{a.b}")
