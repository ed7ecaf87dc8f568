"""The table of rules holds together, and a finding becomes one safe line."""

from __future__ import annotations

import json
import re
import string
from dataclasses import fields
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from rocketfsck.common.documents import printable
from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import UsageError
from rocketfsck.verify.finding import Finding, Severity, Where
from rocketfsck.verify.logged.areas import AREAS
from rocketfsck.verify.logged.areas import FAMILIES as FAMILIES_OF_LINES
from rocketfsck.verify.rules.catalog import (
    FAMILIES,
    FAULT_CLASSES,
    LEVELS,
    RULES,
    build_catalog,
    describe,
    find_rule,
    severity_of,
)
from rocketfsck.verify.tasks.task import aggregate

from tests.architecture.source import TABLES

SAMPLE = RULES["ST001"]


def test_a_rule_says_all_that_a_reader_needs() -> None:
    for name, rule in RULES.items():
        assert rule.family in FAMILIES, name
        assert rule.level in LEVELS, name
        assert rule.template == rule.template.strip(), name
        assert "\n" not in rule.template, name
        assert len(rule.why) > 20, name
        assert rule.why.endswith((".", "!")), name
        assert re.match(r"\d+(\.\d+)*\b", rule.reference), name
        assert rule.fault_class is None or rule.fault_class in FAULT_CLASSES, name
        assert rule.repair is None or re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.repair), name
        places = {place for _, place, _, _ in string.Formatter().parse(rule.meaning) if place is not None}
        assert all(re.fullmatch(r"((expected|found|where)\.)?[a-z_0-9]+", place) for place in places), name


def test_ids_and_slugs_are_unique_and_well_formed() -> None:
    with pytest.raises(ValueError, match="used twice"):
        build_catalog([SAMPLE, SAMPLE])
    for name in RuleName:
        assert re.fullmatch(r"(ST|CL|CQ|IX|CP|CF|KV|TM|XR|RK|TS)\d{3}", name.value)
        assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", name.slug)
    assert len({name.slug for name in RuleName}) == len(RuleName)


def test_every_name_has_a_rule() -> None:
    assert set(RULES) == set(RuleName)


def _members_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({name for name, _ in pairs}) == len(pairs), pairs
    return dict(pairs)


def _is(value: object, kind: Any) -> bool:
    """Whether a value of JSON is what a member is declared as."""
    if get_origin(kind) is UnionType:
        return any(_is(value, one) for one in get_args(kind))
    if get_origin(kind) is tuple:
        return isinstance(value, tuple)
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    return type(value) is kind


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_a_table_has_each_row_and_each_member_once(path: Path) -> None:
    rows = json.loads(path.read_text("utf-8"), object_pairs_hook=_members_once)
    assert rows


@pytest.mark.parametrize(
    "row",
    [*RULES.values(), *FAULT_CLASSES.values(), *FAMILIES_OF_LINES.values(), *AREAS],
    ids=lambda row: getattr(row, "id", None) or getattr(row, "name", None),
)
def test_members_are_of_the_types_that_are_declared(row: Any) -> None:
    declared = get_type_hints(type(row))
    wrong = [item.name for item in fields(row) if not _is(getattr(row, item.name), declared[item.name])]
    assert wrong == []


def test_rules_are_found_by_id_in_any_case_and_by_slug() -> None:
    assert find_rule("st001") is SAMPLE
    assert find_rule("Segment-Length") is SAMPLE
    with pytest.raises(UsageError, match=r"no rule is called '[^\x1b]+'"):
        find_rule("nothing\x1b")


def test_levels_include_the_lower_ones() -> None:
    assert [SAMPLE.applies_at(level) for level in LEVELS] == [True, True, True]
    assert [RULES["CL004"].applies_at(level) for level in LEVELS] == [False, False, True]


def test_describe_fills_found_expected_and_where() -> None:
    finding = Finding("ST001", Where(file="commitlog/x"), {"size": 5, "effect": "stops"}, {"size": 9})
    assert describe(finding) == "commitlog/x has 5 bytes, not 9: a broker stops"
    assert severity_of(finding) is Severity.ERROR


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1_700_000_159_163, "1700000159163 (2023-11-14 22:15:59Z)"),
        (0, "0"),
        (-5, "-5"),
        (1 << 62, str(1 << 62)),
        (253_402_300_799_999, "253402300799999 (9999-12-31 23:59:59Z)"),
        ("text", "text"),
    ],
)
def test_describe_shows_times_as_such(value: int | str, shown: str) -> None:
    found = {"entry_count": 3, "end_timestamp": value}
    finding = Finding("CP003", Where(file="index/1"), found, {"index_msg_timestamp": 0})
    assert f"index/1 ends at {shown}, the checkpoint's indexMsgTimestamp is 0" in describe(finding)


def test_describe_shows_what_is_missing_and_runs() -> None:
    finding = Finding("ST001", Where(file="x"), {}, {}, count=3)
    assert describe(finding) == "x has ? bytes, not ?: a broker ? (3 in a row)"


def test_describe_counts_the_further_ones() -> None:
    assert describe(aggregate("ST001", "", 7)) == "7 more findings of segment-length in the store"
    assert describe(aggregate("ST001", "a\tb", 7)) == "7 more findings of segment-length in a\\tb"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("主题-Ω", "主题-Ω"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\udcff", "\\udcff"),
        ("\u202e", "\\u202e"),
        ("a\nb", "a\\nb"),
        ("%n{file}", "%n{file}"),
    ],
)
def test_hostile_text_is_shown_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
    finding = Finding("ST041", Where(file=text), {"reason": text})
    assert describe(finding) == f"{shown} is not part of a store ({shown})"


def test_where_prefix_reaches_the_place_behind_a_fact_of_the_same_name() -> None:
    assert SAMPLE.family == "ST"
    finding = Finding("CP008", Where(file="f", start=40), {"start": 1})
    assert describe(finding) == "f is not zero after its fields, first at byte 1"
