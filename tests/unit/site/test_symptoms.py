"""The index by symptom and by log line: fresh, complete, and it says of a line what `explain` says."""

from __future__ import annotations

import re

import pytest

from rocketfsck.verify.logged.answers import explain_text
from rocketfsck.verify.logged.areas import FAMILIES
from rocketfsck.verify.logged.matching import family_of, statements

from docs.site.places import ROOT
from docs.site.symptoms import GUIDE, PAGE, SITUATIONS, parts_of, symptoms_page

_HOLE = re.compile(r"\{\w*\}?")
_LINK = re.compile(r"\]\((guide/\w+\.md|\.\./specs/rules\.md)#([^)]+)\)")


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text("utf-8") == symptoms_page(), "run python -m docs.site symptoms"


def test_each_situation_and_each_recipe_is_a_row() -> None:
    text = PAGE.read_text("utf-8")
    for name in ("situations", "recipes"):
        parts = parts_of(GUIDE / f"{name}.md")
        assert len(parts) > 10
        assert [part.heading for part in parts if text.count(f"](guide/{name}.md#{part.anchor})") < 1] == []


def test_each_link_has_its_anchor() -> None:
    links = _LINK.findall(PAGE.read_text("utf-8"))
    assert len(links) > 100
    known = {
        page: {
            re.sub(r"[^\w\s-]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ (.+)$", (ROOT / "docs" / page).read_text("utf-8"), re.MULTILINE)
        }
        for page in {page for page, _ in links}
    }
    assert [(page, anchor) for page, anchor in links if anchor not in known[page]] == []


def test_each_row_of_lines_is_there_once() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    assert len(rows) == len(FAMILIES)


def test_situations_name_rows_that_are_there_each_once() -> None:
    named = [name for names in SITUATIONS.values() for name in names.split()]
    assert set(named) <= FAMILIES.keys()
    assert len(named) == len(set(named))
    assert max(SITUATIONS) <= len(parts_of(GUIDE / "situations.md"))


@pytest.mark.parametrize("name", [family.name for family in FAMILIES.values() if family.begins])
def test_explain_knows_a_line_of_each_row(name: str) -> None:
    """A line that a broker of some version logs, with numbers in its holes, is explained by the row."""
    mine = [one for one in statements() if (found := family_of(one)) is not None and found.name == name]
    filled = {_HOLE.sub("7", one.template) for one in mine}
    assert FAMILIES[name].meaning in {
        known.meaning for line in filled for known in explain_text(line).answers
    }
