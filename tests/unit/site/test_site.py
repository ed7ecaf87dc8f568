"""The site: each page has its place, the reference is complete, and the audit finds what is broken."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import rocketfsck
from rocketfsck.cli.commands import COMMANDS
from rocketfsck.cli.schema.table import DOCUMENTS
from rocketfsck.formats.dialect import ALL_VERSION_NAMES
from rocketfsck.pipeline.views.table import VIEWS
from rocketfsck.verify.rules.catalog import FAULT_CLASSES
from rocketfsck.writer.damage import DAMAGES

from docs.site import audit, reference, stage
from docs.site.places import MADE, REFERENCE, ROOT, repository_pages, sections

PAGES = reference.reference_pages()


def test_every_page_has_one_place() -> None:
    paths = [path for section in sections() for path in section.paths()]
    assert len(paths) == len(set(paths))
    kept = [
        path
        for folder in ("docs", "docs/guide", "docs/adr", "specs")
        for path in (ROOT / folder).glob("*.md")
    ]
    assert {path.relative_to(ROOT).as_posix() for path in kept} <= set(paths)
    assert {path for path in paths if path.startswith(f"{REFERENCE}/")} == {
        f"{REFERENCE}/{name}.md" for name in MADE
    }


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("commands", [f"rocketfsck {name}" for name in COMMANDS]),
        ("documents", list(DOCUMENTS)),
        ("versions", list(ALL_VERSION_NAMES)),
        ("faults", [f"{known.id}: {known.title}" for known in FAULT_CLASSES.values()]),
        ("spark", [f"The view {name}" for name in VIEWS]),
        ("python", [f"rocketfsck.{name}" for name in rocketfsck.__all__ if not name.startswith("_")]),
    ],
)
def test_pages_made_of_the_code_have_a_heading_for_each(page: str, names: list[str]) -> None:
    headings = [
        line.removeprefix("## ") for line in PAGES[f"{page}.md"].splitlines() if line.startswith("## ")
    ]
    assert [name for name in names if headings.count(name) != 1] == []


def test_each_named_damage_is_an_example_of_its_class() -> None:
    shown = PAGES["faults.md"]
    assert [
        name for name, one in DAMAGES.items() if one.fault_class and f"`--fault {name}`" not in shown
    ] == []


def test_the_same_source_gives_the_same_bytes() -> None:
    program = "from docs.site.reference import reference_pages; print(repr(reference_pages()))"
    made = [
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert made[0] == made[1]
    assert made[0].decode() == f"{PAGES!r}\n"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "pages"
    stage.stage({f"{REFERENCE}/{name}": text for name, text in PAGES.items()}, pages=folder)
    return folder


def test_pages_are_laid_out_with_what_they_link_to(pages: Path) -> None:
    for path in repository_pages():
        assert (pages / path).is_file(), path
    assert (pages / "docs/pictures/page-map.png").read_bytes() == (
        ROOT / "docs/pictures/page-map.png"
    ).read_bytes()
    assert (pages / "specs/ksy/rocketmq_record.ksy").is_file()
    assert "rocketmq_record.ksy" in (pages / "specs/ksy/index.md").read_text("utf-8")
    assert "](ksy/index.md)" in (pages / "specs/README.md").read_text("utf-8")


def test_the_configuration_has_every_page_and_loads_no_fonts(pages: Path, tmp_path: Path) -> None:
    stage.write_config(tmp_path / "zensical.toml", pages, tmp_path / "site")
    project = tomllib.loads((tmp_path / "zensical.toml").read_text("utf-8"))["project"]

    def listed(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        inner = entry.values() if isinstance(entry, dict) else entry
        return [path for one in inner for path in listed(one)]  # type: ignore[attr-defined]

    assert listed(project["nav"])[1:] == [path for section in sections() for path in section.paths()]
    assert project["theme"]["font"] is False
    assert project["extra"]["polyfills"] == ["assets/iframe-worker.js"]


def test_a_page_without_a_heading_is_named(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("```text\n# no heading\n```\n")
    with pytest.raises(ValueError, match=r"page\.md has no heading"):
        stage.title_of(tmp_path / "page.md")


BROKEN = {
    '<a href="b.html#there">x</a><a href="https://elsewhere.org/">x</a><a href="below/">x</a>': None,
    '<a href="nowhere.html">x</a>': "a.html: links to nowhere.html, which is not there",
    '<a href="b.html#nope">x</a>': "a.html: links to b.html#nope, an anchor that is not there",
    '<a href="#nope">x</a>': "a.html: links to #nope, an anchor that is not there",
    '<img src="none.png">': "a.html: loads none.png, which is not there",
    '<img src="data:image/png;base64,AA==">': None,
    '<script src="https://cdn.example.org/x.js"></script>': (
        "a.html: loads https://cdn.example.org/x.js from elsewhere"
    ),
    '<link rel="stylesheet" href="//fonts.example.org/x.css">': (
        "a.html: loads //fonts.example.org/x.css from elsewhere"
    ),
    '<link rel="canonical" href="https://elsewhere.org/">': None,
}


@pytest.mark.parametrize("text", BROKEN)
def test_the_audit_finds_what_is_broken(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(text)
    (tmp_path / "b.html").write_text('<h2 id="there">x</h2>')
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "index.html").write_text("")
    expected = BROKEN[text]
    assert list(audit.faults(tmp_path)) == ([] if expected is None else [expected])


@pytest.mark.parametrize(
    ("style", "place"),
    [
        ('@import "https://fonts.example.org/x.css";', "https://fonts.example.org/x.css"),
        ("a { background: url(//cdn.example.org/x.png) }", "//cdn.example.org/x.png"),
        ("a { background: url('data:image/png;base64,AA==') } b { background: url(x.png) }", None),
    ],
)
def test_the_audit_looks_into_styles(style: str, place: str | None, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("")
    (tmp_path / "a.css").write_text(style)
    expected = [] if place is None else [f"a.css: loads {place} from elsewhere"]
    assert list(audit.faults(tmp_path)) == expected


def test_an_empty_site_is_a_fault(tmp_path: Path) -> None:
    assert list(audit.faults(tmp_path)) == [f"{tmp_path}: no page"]
