"""How the page looks and whom it serves: all widths, light and dark, print, no colours, axe."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.page.conftest import Open
from tests.page.documents import HOSTILE, fleet_page, store_page

pytestmark = pytest.mark.browser

AXE = Path(__file__).parent.parent.parent / "page" / "node_modules" / "axe-core" / "axe.min.js"
_TOGETHER = (
    ("records", "blank", "zero", "torn", "damaged", "stale"),
    ("units", "filler", "zero"),
    ("header", "slots", "entries"),
    ("kept", "cut", "hidden", "repaired"),
)
"""Kinds of bytes that are in one file, or in one lane."""

DOCUMENTS: dict[str, Callable[..., dict[str, Any]]] = {"store": store_page, "fleet": fleet_page}


@pytest.mark.parametrize("width", [320, 768, 1280, 2560])
@pytest.mark.parametrize("kind", DOCUMENTS)
def test_nothing_is_wider_than_the_window(open_page: Open, kind: str, width: int) -> None:
    opened = open_page(DOCUMENTS[kind](texts=["A" * 300, *HOSTILE]), width=width)
    opened.unfold()
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    charts = opened.page.locator(".canvas svg")
    assert charts.count() >= 1
    for at in range(charts.count()):
        box = charts.nth(at).bounding_box()
        assert box and box["x"] >= 0 and box["x"] + box["width"] <= width
        assert box["width"] > width * 0.2
    opened.check()


def test_charts_follow_the_width_of_the_window(open_page: Open) -> None:
    opened = open_page(store_page(), width=1280)
    page = opened.page
    page.set_viewport_size({"width": 400, "height": 800})
    stage = page.locator("#map-stage svg").first
    expect(stage).to_have_attribute("width", re.compile(r"^3\d\d$"))
    opened.check()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(open_page: Open, scheme: Any) -> None:
    opened = open_page(store_page(), color_scheme=scheme)
    colors = opened.page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )
    ground, ink = (sum(int(part) for part in color[4:-1].split(",")) for color in colors)
    assert (ground > ink) == (scheme == "light")
    pattern = opened.page.evaluate("getComputedStyle(document.querySelector('#kind-damaged rect')).fill")
    assert pattern == {"light": "rgb(242, 184, 176)", "dark": "rgb(107, 29, 22)"}[scheme]
    opened.check()


def test_no_colour_is_needed(open_page: Open) -> None:
    """Kinds of one file differ in their patterns, whatever their colours; forced colours keep the lines."""
    opened = open_page(store_page(), forced_colors="active")
    page = opened.page
    tiles = page.evaluate(
        """Object.fromEntries([...document.querySelectorAll('pattern')].map((one) =>
            [one.id, [...one.querySelectorAll('path')].map((path) => path.getAttribute('d')).join()]))"""
    )
    for kinds in _TOGETHER:
        looks = [tiles[f"kind-{kind}"] for kind in kinds if kind not in ("records", "blank")]
        assert len(set(looks)) == len(looks)
        assert all(looks) or "kept" in kinds
    stroke = page.evaluate("getComputedStyle(document.querySelector('#kind-damaged path')).stroke")
    ink = page.evaluate("getComputedStyle(document.body).color")
    assert stroke == ink
    assert page.locator(".legend li").first.inner_text().strip() != ""
    opened.check()


def test_print(open_page: Open) -> None:
    opened = open_page(store_page())
    page = opened.page
    page.emulate_media(media="print")
    expect(page.locator("#verdict")).to_be_visible()
    expect(page.locator("#map-stage svg").first).to_be_visible()
    for hidden in (".tools", "nav.contents", ".skip", ".trail"):
        expect(page.locator(hidden).first).to_be_hidden()
    assert len(page.pdf(format="A4")) > 10_000
    opened.check()


def test_dark_paper_is_not_printed(open_page: Open) -> None:
    opened = open_page(store_page(), color_scheme="dark")
    opened.page.emulate_media(media="print", color_scheme="dark")
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_reduced_motion(open_page: Open) -> None:
    opened = open_page(store_page(), reduced_motion="reduce")
    assert opened.page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
    opened.check()


def test_the_keyboard_reaches_everything(open_page: Open) -> None:
    """Tab goes from the skip link through all parts; what has the focus is marked, and nothing traps it."""
    opened = open_page(store_page())
    page = opened.page
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the verdict")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    seen: list[str] = []
    for _ in range(160):
        page.keyboard.press("Tab")
        place = page.evaluate(
            """(() => {
                const now = document.activeElement;
                const part = now.closest('section, footer')?.id ?? '';
                return [now === document.body, part, getComputedStyle(now).outlineStyle];
            })()"""
        )
        if place[0]:
            break
        assert place[2] != "none"
        seen.append(place[1])
    assert place[0], "Tab leaves the page at its end"
    parts = list(dict.fromkeys(part for part in seen if part))
    assert parts == [
        "verdict",
        "starts",
        "map",
        "findings",
        "plan",
        "damage",
        "files",
        "retention",
        "timeline",
        "queues",
        "index",
        "foot",
    ]
    opened.check()


def faults_by_axe(page: Page) -> list[tuple[str, str, list[str]]]:
    """What axe has against a page, from moderate on: rule, impact, some elements."""
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: run `make browser`")
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations', 'incomplete']})")
    assert len(found["passes"]) > 15
    return [
        (one["id"], one["impact"], [node["html"][:200] for node in one["nodes"][:3]])
        for one in found["violations"]
        if one["impact"] in ("serious", "critical", "moderate")
    ]


@pytest.mark.parametrize(
    ("kind", "width", "scheme"),
    [("store", 1280, "light"), ("store", 320, "dark"), ("fleet", 1280, "dark"), ("fleet", 320, "light")],
)
def test_accessibility_by_axe(open_page: Open, kind: str, width: int, scheme: Any) -> None:
    opened = open_page(DOCUMENTS[kind](), width=width, color_scheme=scheme)
    page = opened.page
    opened.unfold()
    if kind == "store":
        page.locator("#map-stage").focus()
        page.keyboard.press("n")
        expect(page.locator("#hex")).to_be_visible()
    assert faults_by_axe(page) == []
