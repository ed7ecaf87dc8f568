"""The top of the page: tiles of messages, and strips whose ink is in proportion to bytes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from rocketfsck.common.documents import to_document

from tests.conftest import Directory
from tests.page.conftest import Open
from tests.page.damages import DAMAGES, STORE
from tests.page.documents import KINDS, columns, store_page
from tests.pagesamples import checked_page

pytestmark = pytest.mark.browser

FILE = 1 << 20
_INK = """
(tone) => [...document.querySelectorAll(".strip-part")].map((part) => {
    const path = part.querySelector(`path.solid.tone-${tone}`);
    const svg = part.querySelector("svg");
    let area = 0;
    const drawn = path?.getAttribute("d") ?? "";
    for (const [, high] of drawn.matchAll(/h1v([0-9.]+)h-1z/g)) area += Number(high);
    return area / (svg.clientWidth * 24);
})
"""
"""The share of each strip that a tone covers."""


def fates(**counts: int) -> dict[str, int]:
    names = ("served", "unreached", "damaged", "lost", "perhaps_lost", "replaced", "removed")
    return {f"{name}_count": counts.get(name, 0) for name in names}


def verdict(**more: Any) -> dict[str, Any]:
    """Of a verdict what the tiles show."""
    start = {"version": "5.3.3", "alike": ["5.3.2", "5.3.3"], "messages": fates(served=80, lost=40)}
    other = {"version": "5.3.4", "alike": ["5.3.4"], "messages": fates(served=100, lost=20)}
    messages = {
        "now": fates(served=90, damaged=10, unreached=15, lost=5),
        "after_starts": [other, start],
        "after_plan": fates(served=115, replaced=5),
    }
    return {"starts": [], "messages": messages | more}


def strip_page(spans: list[tuple[int, str]], *, bases: tuple[int, ...] = (0, FILE)) -> dict[str, Any]:
    """A page with log files of 1 MiB at `bases`, of which the first has these spans: (start, kind)."""
    page = store_page(log_files=len(bases), queues=2, findings=0)
    table = page["map"]["files"]
    rows: list[tuple[Any, ...]] = []
    first: list[int] = []
    for row, size in enumerate(table["size"]):
        first.append(len(rows))
        if row < len(bases):
            table["start_offset"][row] = bases[row]
        listed = spans if row == 0 else [(0, "records" if row < len(bases) else "units")]
        rows += [(start, KINDS.index(kind), 0, 1, 0) for start, kind in listed if start < size]
    table["first_span"] = first
    page["map"]["spans"] = columns(["start", "kind", "record_count", "region_count", "bad_byte_count"], rows)
    return page


def _ink(page: Page, tone: str) -> list[float]:
    page.wait_for_selector(".strip-chart")
    found: list[float] = page.evaluate(_INK, tone)
    return found


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("bad", [700, 30_000, 400_000])
def test_ink_is_in_proportion_to_damaged_bytes(open_page: Open, width: int, bad: int) -> None:
    spans = [(0, "records"), (300_000, "damaged"), (300_000 + bad, "records")]
    opened = open_page(strip_page(spans), width=width)
    opened.settle()
    assert _ink(opened.page, "bad")[0] == pytest.approx(bad / (2 * FILE), rel=0.1)
    inks = [_ink(opened.page, tone)[0] for tone in ("bad", "data", "none", "worn")]
    assert sum(inks) == pytest.approx(1, abs=0.01)
    opened.check()


def test_ink_of_many_small_damages(open_page: Open) -> None:
    """A thousand pieces of 20 bytes: no piece is as wide as a pixel, and together they are 1 %."""
    spans = [place for at in range(0, 1000 * 1040, 1040) for place in ((at, "damaged"), (at + 20, "records"))]
    opened = open_page(strip_page(spans))
    opened.settle()
    assert _ink(opened.page, "bad")[0] == pytest.approx(20_000 / (2 * FILE), rel=0.1)
    opened.check()


def test_missing_files_are_holes_on_the_axis_of_physical_offsets(open_page: Open) -> None:
    opened = open_page(strip_page([(0, "records")], bases=(0, 3 * FILE)))
    opened.settle()
    assert _ink(opened.page, "hole")[0] == pytest.approx(0.5, abs=0.01)
    expect(opened.page.locator(".strip-title").first).to_contain_text("2 MiB missing")
    opened.check()


def test_tiles_have_the_worst_start(open_page: Open) -> None:
    opened = open_page(store_page() | {"verdict": verdict()})
    tiles = opened.page.locator(".tile")
    expect(tiles.nth(0)).to_contain_text("100 of 120 messages")
    expect(tiles.nth(0)).to_contain_text("15 cannot be consumed")
    expect(tiles.nth(1)).to_contain_text("After a start of 5.3.2 to 5.3.3")
    expect(tiles.nth(1)).to_contain_text("80 of 120 messages")
    expect(tiles.nth(2)).to_contain_text("5 replaced by a repair")
    opened.check()


def test_tiles_say_what_is_not_known(open_page: Open) -> None:
    found = verdict(after_starts=[], after_plan=None)
    found["starts"] = [{"covered": True, "loads": False}]
    opened = open_page(store_page() | {"verdict": found})
    expect(opened.page.locator(".tile").nth(1)).to_contain_text("a broker does not start")
    expect(opened.page.locator(".tile").nth(2)).to_contain_text("no repair is planned")
    opened.check()


def test_a_mark_leads_to_the_text_of_its_finding(open_page: Open) -> None:
    opened = open_page(store_page())
    page = opened.page
    page.locator(".strip-chart a").first.click()
    expect(page).to_have_url(re.compile("#finding-"))
    opened.check()


def test_a_click_on_a_strip_shows_the_place_on_the_map(open_page: Open) -> None:
    opened = open_page(store_page())
    page = opened.page
    page.locator(".strip-chart").first.click(position={"x": 200, "y": 25})
    expect(page.locator("#map-where")).to_contain_text("commitlog/")
    expect(page.locator("#map-stage")).to_be_focused()
    opened.check()


def test_the_picture_is_on_the_first_screen(open_page: Open) -> None:
    opened = open_page(store_page() | {"verdict": verdict()}, width=1280)
    page = opened.page
    for part in (".next", ".tiles", ".strips", ".diagnoses"):
        box = page.locator(part).first.bounding_box()
        assert box and box["y"] + box["height"] <= 900
    opened.check()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("1048700", "commitlog/00000000000001048576, bytes 0 to 252"),
        ("00000000000001048576", "commitlog/00000000000001048576 (1 MiB)"),
        ("commitlog/00000000000001048576:500000", "commitlog/00000000000001048576, bytes 499872 to 500128"),
    ],
)
def test_go_to_a_place(open_page: Open, text: str, place: str) -> None:
    opened = open_page(store_page())
    page = opened.page
    page.locator("#map-stage").focus()
    page.keyboard.press("g")
    field = page.get_by_label("Go to")
    expect(field).to_be_focused()
    field.fill(text)
    field.press("Enter")
    expect(page.locator("#map-where")).to_contain_text(place)
    for wrong in ("99999999999", "nowhere:5", "00000000000001048576:99999999", ""):
        field.fill(wrong)
        field.press("Enter")
    opened.settle()
    expect(page.locator("#map-where")).to_contain_text(place)
    opened.check()


def test_the_next_worst_finding_is_an_error(open_page: Open) -> None:
    opened = open_page(store_page(findings=12))
    page = opened.page
    page.locator("#map-stage").focus()
    page.keyboard.press("w")
    expect(page.locator("#announced")).to_contain_text("CL")
    first = page.locator("#announced").inner_text()
    severity = page.locator("#map .found a[aria-current]").inner_text()
    assert severity.startswith("error")
    page.keyboard.press("w")
    expect(page.locator("#announced")).not_to_have_text(first)
    opened.check()


def test_rows_are_cards_on_a_phone(open_page: Open) -> None:
    opened = open_page(store_page(queues=40), width=390)
    page = opened.page
    row = page.locator("#files tbody tr").first
    box, cell = row.bounding_box(), row.locator("td").last.bounding_box()
    assert box and cell and cell["x"] - box["x"] < 20
    assert page.locator("#files tbody tr").count() == 8
    titles = row.locator("td").evaluate_all("cells => cells.map((cell) => cell.dataset.title)")
    assert titles[:2] == ["Content", "Size"]
    opened.check()


def test_print_unfolds_what_is_folded(open_page: Open) -> None:
    opened = open_page(store_page())
    page = opened.page
    folded = page.locator("main details:not([open]):not(.keys)")
    assert folded.count() > 0
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    expect(folded).to_have_count(0)
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert folded.count() > 0
    opened.check()


@pytest.mark.parametrize("name", DAMAGES)
def test_ink_of_damages(open_page: Open, store_dir: Directory, tmp_path: Path, name: str) -> None:
    """Six damages as people and disks make them: red and holes are in proportion to bytes that were hit."""
    root = Path(shutil.copytree(store_dir(STORE), tmp_path / "store"))
    expected = DAMAGES[name](root)
    opened = open_page(to_document(checked_page(root)))
    opened.settle()
    logs = [log for log in (root / "commitlog").iterdir() if len(log.name) == 20]
    first = min(int(log.name) for log in logs)
    extent = max(int(log.name) + log.stat().st_size for log in logs) - first
    assert _ink(opened.page, "bad")[0] == pytest.approx(expected.bad_size / extent, rel=0.1, abs=1e-6)
    assert _ink(opened.page, "hole")[0] == pytest.approx(expected.hole_size / extent, rel=0.1, abs=1e-6)
    opened.check()


def test_a_healthy_store_has_no_red(open_page: Open, store_dir: Directory) -> None:
    opened = open_page(to_document(checked_page(store_dir(STORE))))
    opened.settle()
    for tone in ("bad", "hole"):
        assert sum(_ink(opened.page, tone)) < 1e-6
    expect(opened.page.locator(".tile").nth(1)).to_contain_text("as now: a start loses nothing")
    opened.check()
