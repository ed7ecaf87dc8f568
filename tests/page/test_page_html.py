"""The file itself: what is in it, its policy, and that its script is what the sources make."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.page.html import json_text, policy, render

from tests.page.documents import HOSTILE, fleet_page, store_page

ROOT = Path(__file__).parent.parent.parent
SOURCES = ROOT / "page"
ASSETS = files("rocketfsck.page") / "assets"


class _Parts(html.parser.HTMLParser):
    """All elements and what is in scripts and style sheets."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] in self.inside and data.strip():
            self.inside[self.elements[-1][0]].append(data)


def _hashes(texts: list[str]) -> set[str]:
    return {f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in texts}


@pytest.mark.parametrize("document", [store_page(texts=HOSTILE), fleet_page(texts=HOSTILE)])
def test_no_text_is_markup(document: dict[str, Any]) -> None:
    plain = _Parts(render(store_page() if document["kind"] == "rocketfsck.page" else fleet_page()))
    hostile = _Parts(render(document))
    names = [tag for tag, _ in hostile.elements]
    assert names == [tag for tag, _ in plain.elements]
    assert {"img", "svg", "iframe", "link"}.isdisjoint(names)
    assert not any(name.startswith("on") for _, given in hostile.elements for name in given)
    assert json.loads(hostile.inside["script"][0]) == document


def test_the_policy_names_what_is_in_the_page() -> None:
    parts = _Parts(render(store_page()))
    given = next(attrs for tag, attrs in parts.elements if attrs.get("http-equiv"))["content"] or ""
    rules = {rule.split()[0]: set(rule.split()[1:]) for rule in given.split("; ")}
    assert rules["default-src"] == {"'none'"}
    assert rules["script-src"] == _hashes(parts.inside["script"][2:])
    assert rules["style-src"] == _hashes(parts.inside["style"])
    assert rules["base-uri"] == rules["form-action"] == rules["trusted-types"] == {"'none'"}
    assert "unsafe" not in given
    assert "http" not in given
    assert policy("a", "b") != policy("b", "a")


def test_a_page_can_be_written_whatever_is_in_it() -> None:
    text = render(store_page(texts=["\ud800", "\udfff\x00"]))
    assert "\x00" not in text
    text.encode("utf-8")
    assert json_text({"a": "<\u2028&>"}) == '{"a":"\\u003c\\u2028\\u0026\\u003e"}'
    with pytest.raises(ValueError, match="JSON"):
        json_text({"a": float("nan")})


def test_without_scripts_the_verdict_is_there() -> None:
    text = render(store_page())
    inside = text[text.index("<noscript>") : text.index("</noscript>")]
    assert "its start loses nothing" in inside
    assert "rocketfsck fix /data/store" in inside


def test_assets_were_made_of_these_sources() -> None:
    known = json.loads((ASSETS / "sources.json").read_text("utf-8"))
    present = [*(SOURCES / "source").iterdir(), SOURCES / "build.mjs", SOURCES / "package-lock.json"]
    assert len(present) > 10
    assert known == {
        path.relative_to(SOURCES).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in present
    }, "run `make page`"


def test_assets_are_built_to_the_same_bytes() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the script of the page was not built from its sources")
    if not (SOURCES / "node_modules" / "esbuild").is_dir():
        pytest.skip("esbuild is not installed: run `npm ci` in page")
    done = subprocess.run(
        [node, str(SOURCES / "build.mjs"), "--check"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_lock_file_names_no_host() -> None:
    assert "://" not in re.sub(r'"url": "[^"]*"', "", (SOURCES / "package-lock.json").read_text())


def test_licences_of_all_that_is_bundled() -> None:
    text = (ASSETS / "licences.txt").read_text("utf-8")
    assert "@observablehq/plot" in text
    assert "d3-scale" in text
    assert text.count("ISC") >= 1 or "Permission to use, copy, modify" in text
    assert "GPL" not in text


def test_no_source_makes_markup_of_text() -> None:
    """The policy forbids it too; the sources do not try."""
    for path in (SOURCES / "source").glob("*.js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", path.read_text()
        ), path
