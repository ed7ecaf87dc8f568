"""The pages of specs/: generated parts are fresh, links lead somewhere, the code's citations are answered."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from rocketfsck.common.wording import PLACE
from rocketfsck.formats.layout import registry
from rocketfsck.verify.rules.catalog import RULES

from specs import build, imhex

ROOT = Path(build.__file__).parents[1]
PAGES = sorted(build.SPECS.rglob("*.md"))
LINKS = build.section_links((build.SPECS / "README.md").read_text("utf-8"))

_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_CITATION = re.compile(r"\breferences? ((?:\d+(?:\.\d+)*(?:, | and | to )?)+)", re.IGNORECASE)


def anchor(heading: str) -> str:
    """A heading's anchor as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {anchor(heading) for heading in _HEADING.findall(page.read_text("utf-8"))}


def test_generated_parts_are_fresh() -> None:
    assert [path.name for path in build.stale()] == [], "run python specs/build.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(build.SPECS).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(_FENCE.sub("", page.read_text("utf-8"))):
        if target.startswith("https://"):
            continue
        file, _, heading = target.partition("#")
        found = page.parent / file if file else page
        assert found.exists(), target
        if heading:
            assert heading in anchors(found), target


def test_citations_in_the_code_are_answered() -> None:
    cited = set()
    for path in (ROOT / "src").rglob("*.py"):
        for match in _CITATION.finditer(path.read_text("utf-8")):
            cited |= {(path.name, number) for number in re.findall(r"\d+(?:\.\d+)*", match[1])}
    assert len(cited) > 20
    assert sorted((name, number) for name, number in cited if number not in LINKS) == []


def test_sections_of_layouts_and_rules_are_answered() -> None:
    assert {layout.section for layout in registry().values()} <= set(LINKS)
    for rule in RULES.values():
        assert "](" in build.linked_reference(rule.reference, LINKS), rule.id


def test_every_spec_is_named_by_a_page() -> None:
    text = "".join(page.read_text("utf-8") for page in build.SPECS.glob("*.md"))
    specs = sorted((build.SPECS / "ksy").glob("*.ksy"))
    assert len(specs) >= 20
    for spec in specs:
        assert f"ksy/{spec.name}" in text, spec.name


@pytest.mark.parametrize("name", sorted(registry()))
def test_layout_diagram(name: str) -> None:
    """Every byte of a field with a place has four characters, in order; the others have a row each."""
    layout = registry()[name]
    rows = build.layout_diagram(layout).splitlines()[2:-1]
    fixed = [field for field in layout.fields if field.offset is not None and field.size is not None]
    placed = [row for row in rows if "…" not in row[:6]]
    assert len(rows) - len(placed) == len(layout.fields) - len(fixed)
    assert {len(row) for row in rows if "…" in row[:6]} <= {6 + build.ROW * build.WIDE + 1}
    drawn = "".join(row[6:-1] for row in placed)
    assert len(drawn) == sum(field.size or 0 for field in fixed) * build.WIDE
    at = 0
    for field in fixed:
        part = drawn[at : at + (field.size or 0) * build.WIDE].replace("|", "").strip()
        assert part and field.name.startswith(part[: len(field.name)]), (field.name, part)
        at += (field.size or 0) * build.WIDE


def test_layout_table() -> None:
    table = build.layout_table(registry()["consumequeue_unit"]).splitlines()
    assert table[2].startswith("| 0 | i64 | offset | bytes |")
    assert table[-1] == "20 bytes."
    variable = build.layout_table(registry()["record"])
    assert "| … | i16 | propertiesLength |" in variable
    assert not variable.endswith("bytes.\n")
    assert r"i8\|i16" in variable


def test_filled_replaces_what_stands_between_the_marks() -> None:
    page = "a\n<!-- table: blank -->\nold\n<!-- end -->\nb\n"
    once = build.filled(page, registry())
    assert "old" not in once
    assert "magicCode" in once
    assert build.filled(once, registry()) == once
    assert build.table_names(page) == ["blank"]
    with pytest.raises(KeyError):
        build.filled(page.replace("blank", "nothing"), registry())


def copied(tmp_path: Path) -> Path:
    for page in build.SPECS.glob("*.md"):
        shutil.copy(page, tmp_path)
    shutil.copytree(build.SPECS / imhex.FOLDER, tmp_path / imhex.FOLDER)
    return tmp_path


def test_stale_pages_are_named(tmp_path: Path) -> None:
    root = copied(tmp_path)
    page = root / "checkpoint.md"
    page.write_text(page.read_text("utf-8").replace("| 0 | i64 |", "| 0 | i32 |"), "utf-8")
    (root / build.RULES_PAGE).unlink()
    assert {path.name for path in build.stale(root)} == {"checkpoint.md", build.RULES_PAGE}


def test_a_layout_without_a_table_is_an_error(tmp_path: Path) -> None:
    page = copied(tmp_path) / "checkpoint.md"
    page.write_text(page.read_text("utf-8").replace("<!-- table: checkpoint -->", ""), "utf-8")
    with pytest.raises(ValueError, match="layout checkpoint: 0 tables"):
        build.wanted(tmp_path)


def test_every_rule_is_on_the_page() -> None:
    text = build.rules_page(RULES.values(), LINKS, build.read_examples())
    headings = _HEADING.findall(text)
    for rule in RULES.values():
        assert f"{rule.id} {rule.slug}" in headings
        assert f"`{rule.meaning}`" in text
        assert rule.why in text


def test_every_rule_has_an_example_of_its_own_words() -> None:
    """`pytest -p tests.ruleexamples tests/unit/verify tests/cases` writes them anew."""
    examples = build.read_examples()
    assert list(examples) == sorted(RULES)
    for rule, (_, text) in examples.items():
        fixed = PLACE.split(RULES[rule].template)[0]
        assert text.startswith(fixed), rule


def test_command_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build, "stale", lambda: [build.SPECS / "rules.md"])
    assert build.main(["--check"]) == 1
    assert "stale: specs/rules.md" in capsys.readouterr().err
    monkeypatch.setattr(build, "stale", list)
    assert build.main(["--check"]) == 0
    monkeypatch.setattr(build, "wanted", lambda: {tmp_path / "page.md": "text"})
    assert build.main([]) == 0
    assert (tmp_path / "page.md").read_text("utf-8") == "text"
