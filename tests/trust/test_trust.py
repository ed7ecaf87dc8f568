"""The page of trust says what the documents say; each document has its shape, each unseen bit a reason."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest

from rocketfsck.errors import UsageError
from rocketfsck.formats.layout import registry
from rocketfsck.verify.rules.catalog import RULES

from tests.hostile.fuzz.cases import Case
from tests.hostile.fuzz.laws import LAWS, Violation
from tests.hostile.fuzz.seen import CHECKED
from tests.hostile.fuzz.summary import Summary
from tests.hostile.fuzz.workers import Outcome
from tests.oracle.conftest import version_of
from tests.trust import census, documents, fuzz, kills, oracle, page
from tests.trust.censuspage import STORES, STRUCTURES, size_of
from tests.trust.documents import (
    KINDS,
    ROOT,
    Answered,
    Census,
    Flips,
    Fuzz,
    Kills,
    Mutation,
    Oracle,
    Said,
    read,
)
from tests.trust.reasons import OWN, REASONS, reason

CENSUS: Census = read("census")


def test_the_page_is_fresh() -> None:
    assert page.PAGE.read_text("utf-8") == page.trust_page(), "run make trust-page"


@pytest.mark.parametrize("part", KINDS)
def test_a_document_has_its_shape(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = read(part)
    monkeypatch.setattr(documents, "FOLDER", tmp_path)
    path = documents.write(part, figures)
    assert path.read_bytes() == (ROOT / "docs" / "trust" / path.name).read_bytes()
    path.write_text(path.read_text("ascii").replace('"commit"', '"comet"'), "ascii")
    with pytest.raises(UsageError, match="commit"):
        read(part)


@pytest.mark.parametrize("flips", CENSUS.fields, ids=lambda one: f"{one.store}-{one.layout}-{one.field}")
def test_what_the_census_says_of_a_field_adds_up(flips: Flips) -> None:
    assert size_of(flips.unseen) == flips.unseen_count <= flips.bit_count
    assert set(flips.rules) <= set(RULES)
    assert all(0 < size_of(bits) <= flips.bit_count for bits in flips.rules.values())
    assert max(map(size_of, flips.rules.values()), default=0) <= flips.bit_count - flips.unseen_count
    if flips.unseen_count:
        assert reason(flips)
        assert f"{flips.layout}.{flips.field}" not in CHECKED, "the fuzzer says that any other value is found"


def test_the_census_has_each_field_of_each_structure() -> None:
    assert CENSUS.check_count == sum(one.bit_count for one in CENSUS.fields)
    assert set(CENSUS.stores) == set(STORES) == {place.store for place in census.PLACES}
    assert {one.layout for one in CENSUS.fields} == set(STRUCTURES)
    for layout in STRUCTURES:
        names = {field.name for field in registry()[layout].fields}
        assert {one.field for one in CENSUS.fields if one.layout == layout} >= names


def test_each_reason_is_needed() -> None:
    unseen = {(one.store, f"{one.layout}.{one.field}") for one in CENSUS.fields if one.unseen_count}
    assert set(OWN) <= unseen
    assert set(REASONS) == {name for _, name in unseen - set(OWN)}


def test_the_census_is_that_of_this_source() -> None:
    place = census.Place("plain-5.3.3", "index_slot")
    found = census.measure(places=[place]).fields
    assert found == tuple(one for one in CENSUS.fields if (one.store, one.layout) == place[:2])


@pytest.mark.parametrize(("numbers", "text"), [([], ""), ([3], "3"), ([0, 1, 2, 5, 7, 8], "0-2,5,7-8")])
def test_ranges(numbers: list[int], text: str) -> None:
    assert census.ranges(numbers) == text
    assert size_of(text) == len(numbers)


def _tests_in(pattern: str) -> set[str]:
    return {
        node.name
        for path in ROOT.glob(pattern)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_each_question_to_a_broker_has_words() -> None:
    asked = _tests_in("tests/oracle/test_oracle_*.py")
    assert asked - oracle.NO_QUESTION == set(oracle.QUESTIONS)


def test_each_kill_has_words() -> None:
    there = {name for file in kills.FILES for name in _tests_in(file)}
    assert set(page.KILLED_IN) <= there
    assert {one.name for one in read("kills").tests} <= set(page.KILLED_IN)
    assert {name.partition("[")[0] for name in kills.OPERATIONS} <= there


REPORT = """\
<testsuites><testsuite>
<testcase name="test_all_answers[4.9.8]"><properties><property name="version" value="4.9.8"/></properties>
</testcase>
<testcase name="test_all_answers[5.5.0]"><properties><property name="version" value="5.5.0"/></properties>
<skipped type="pytest.skip" message="no java"/></testcase>
<testcase name="test_what_we_write_is_clean[a]">
<properties><property name="version" value="5.5.0"/></properties><failure message="wrong"/></testcase>
<testcase name="test_table_of_confusion"><properties><property name="version" value=""/>
<property name="confusion" value='{"a": ["takes", "takes"], "b": ["takes", "takes"]}'/>
</properties></testcase>
</testsuite></testsuites>
"""


def test_a_report_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "commit", lambda: "c")
    path = tmp_path / "report.xml"
    path.write_text(REPORT)
    assert oracle.figures(path) == Oracle(
        "c",
        (
            Answered("test_all_answers", "4.9.8", 1, 1, (), {}),
            Answered("test_all_answers", "5.5.0", 1, 0, (), {"no java": 1}),
            Answered("test_what_we_write_is_clean", "5.5.0", 1, 0, ("a",), {}),
        ),
        (Said("takes", "takes", 2),),
    )
    path.write_text(REPORT.replace("test_all_answers", "test_nobody_knows"))
    with pytest.raises(ValueError, match="test_nobody_knows"):
        oracle.figures(path)
    path.write_text("<testsuites></testsuites>")
    with pytest.raises(ValueError, match="could be run"):
        oracle.figures(path)


def test_a_run_of_the_fuzzer_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "commit", lambda: "c")
    summary = Summary()
    case = Case(1, "plain-5.3.3", (), ())
    known = Violation("refused", "apply", "exit status 4")
    for violations in ((), (Violation("crash", "check", "x"), known), (known,)):
        summary.add(Outcome(case, violations, {"check": 2}, 0.5, 1.0, 3 << 20))
    found = fuzz.figures(summary)
    assert (found.mutant_count, found.commands, found.cpu_milliseconds) == (3, {"check": 6}, 1500)
    assert (found.broken, sum(found.known.values()), found.peak_mebibytes) == ({"crash": 1}, 2, 3)


def test_the_figures_of_the_fuzzer_name_its_laws() -> None:
    figures: Fuzz = read("fuzz")
    assert set(figures.broken) <= set(LAWS)
    assert figures.mutant_count >= 1000


def test_what_is_said_to_have_passed_has_passed() -> None:
    """Kills that fail are corrected, not published; a mutant that cannot be run is not a figure."""
    killed: Kills = read("kills")
    assert [one.name for one in killed.tests if one.passed_count < one.case_count] == []
    mutated: Mutation = read("mutation")
    assert [row.package for row in mutated.packages if row.verdicts["broken"]] == []


@pytest.mark.parametrize(
    ("params", "version"),
    [
        ({"version": "4.9.8"}, "4.9.8"),
        ({"run": ("4.9.8-multiseg", "5.1.4")}, "5.1.4"),
        ({"case": SimpleNamespace(version="5.3.3")}, "5.3.3"),
        ({"name": "5.5.0-rocksdb-cq"}, "5.5.0"),
        ({"window": True, "name": "5.1.3-expired", "version": "5.1.4"}, "5.1.4"),
        ({}, ""),
    ],
)
def test_a_case_names_the_version_whose_code_is_asked(params: dict[str, object], version: str) -> None:
    assert version_of(SimpleNamespace(params=params)) == version
    assert version_of(None) == ""
