"""The map in a real browser: zoom from the store to a byte, links both ways, all of it by keyboard."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.page.conftest import Open
from tests.page.documents import store_page

pytestmark = pytest.mark.browser

WHERE = "#map-where"


def _bars(page: Page) -> int:
    return page.locator("#map-stage svg rect").count()


def _bytes_in_view(page: Page) -> tuple[int, int]:
    found = re.search(r"bytes (\d+) to (\d+)", page.locator(WHERE).inner_text())
    assert found, page.locator(WHERE).inner_text()
    return int(found[1]), int(found[2])


def test_the_map_is_true_to_scale(open_page: Open) -> None:
    """Four files of 1 MiB are a quarter of the commit log each; queues and index have scales of their own."""
    opened = open_page(store_page())
    page = opened.page
    files = page.locator("#map-stage svg .boxes rect, #map-stage svg rect.boxes")
    widths = [files.nth(at).bounding_box() for at in range(4)]
    charts = page.locator("#map-stage svg")
    line = charts.first.bounding_box()
    assert line
    assert charts.count() == 4, "commit log, queues, index, config"
    for box in widths:
        assert box
        assert box["width"] == pytest.approx((line["width"] - 20) / 4, rel=0.01)
    for at in range(4):
        frames = charts.nth(at).locator(".parts rect, rect.parts")
        boxes = [frames.nth(number).bounding_box() for number in range(frames.count())]
        right = max(box["x"] + box["width"] for box in boxes if box)
        assert right == pytest.approx(line["x"] + line["width"] - 10, abs=1), "each fills its scale"
    shares = page.locator("#map table tbody tr").all_inner_texts()
    assert any(text.startswith("damaged") and "39.6 %" in text for text in shares)
    opened.check()


def test_zoom_from_the_store_to_a_byte_by_keyboard(open_page: Open) -> None:
    opened = open_page(store_page())
    page = opened.page
    page.locator("#map-stage").focus()
    page.keyboard.press("n")
    expect(page.locator(WHERE)).to_contain_text("bytes 3840 to 4608")
    page.keyboard.press("b")
    expect(page.locator(WHERE)).to_contain_text("bytes 4096 to 4112 (16 bytes)")
    opened.settle()
    text = page.locator("#map-stage .canvas").inner_html()
    for byte in ("00", "07", "0f"):
        assert f">{byte}<" in text
    assert "totalSize" in text
    page.keyboard.press("-")
    expect(page.locator(WHERE)).to_contain_text("(32 bytes)")
    page.keyboard.press("ArrowRight")
    expect(page.locator(WHERE)).to_contain_text("bytes 4091 to 4123 (32 bytes)")
    page.keyboard.press("0")
    expect(page.locator(WHERE)).to_contain_text(
        "the store: commitlog/00000000000000000000 to config/topics.json"
    )
    opened.check()


def test_files_by_keyboard(open_page: Open) -> None:
    opened = open_page(store_page())
    page = opened.page
    page.locator("#map-stage").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(WHERE)).to_have_text("commitlog/00000000000000000000 (1 MiB)")
    page.keyboard.press("ArrowDown")
    expect(page.locator(WHERE)).to_have_text("commitlog/00000000000001048576 (1 MiB)")
    page.keyboard.press("ArrowUp")
    expect(page.locator(WHERE)).to_have_text("commitlog/00000000000000000000 (1 MiB)")
    opened.settle()
    trail = page.get_by_role("navigation", name="Place on the map").get_by_role("button")
    assert trail.all_inner_texts() == ["Store", "commit log", "commitlog/00000000000000000000"]
    trail.nth(1).click()
    expect(page.locator(WHERE)).to_contain_text("commit log: ")
    opened.check()


def test_a_finding_leads_to_the_map_and_back(open_page: Open) -> None:
    opened = open_page(store_page())
    page = opened.page
    page.get_by_text("CL002 log-torn-tail").click()
    page.locator("#finding-3 a.place").click()
    expect(page.locator("#map-stage")).to_be_focused()
    expect(page.locator(WHERE)).to_contain_text("commitlog/00000000000003145728, bytes 5376 to 6144")
    expect(page.locator("#map .found a[aria-current=true]")).to_have_text(re.compile("CL002 finding 3: "))
    expect(page.locator("#map-stage svg .chosen line, #map-stage svg line.chosen")).to_have_count(2)
    page.keyboard.press("n")
    page.keyboard.press("Enter")
    expect(page.locator("tr.chosen, #findings :focus").first).to_be_visible()
    page.locator("#map .found a").first.click()
    opened.settle()
    assert page.evaluate("document.activeElement.closest('tr').id").startswith("finding-")
    opened.check()


def test_a_finding_leads_to_its_repair_and_a_repair_to_the_map(open_page: Open) -> None:
    opened = open_page(store_page())
    page = opened.page
    page.get_by_text("CL002 log-torn-tail").click()
    page.locator("#finding-0 a[data-action='0']").click()
    expect(page.locator("#action-0")).to_be_focused()
    page.locator("#action-0 a.place").click()
    expect(page.locator(WHERE)).to_contain_text("commitlog/00000000000003145728, bytes 899984 to 900272")
    expect(page.locator("#map-stage svg rect[fill='url(#kind-repaired)']")).to_have_count(1)
    opened.check()


def test_a_link_opens_the_page_at_a_finding(open_page: Open) -> None:
    opened = open_page(store_page(), fragment="#finding-4")
    expect(opened.page.locator("#finding-4")).to_be_visible()
    opened.settle()
    assert opened.page.evaluate("document.activeElement.closest('tr').id") == "finding-4"
    opened.check()


def test_bytes_have_names(open_page: Open) -> None:
    opened = open_page(store_page())
    page = opened.page
    page.locator("#map-stage").focus()
    page.keyboard.press("n")
    expect(page.locator("#hex")).to_be_visible()
    opened.settle()
    assert page.locator(".hex tbody tr").first.inner_text().split()[:3] == ["4096", "00", "01"]
    assert "··" in page.locator(".hex tbody tr").last.inner_text()
    page.get_by_role("button", name="magicCode").click()
    opened.settle()
    assert page.locator(".hex .lit").all_inner_texts() == ["04", "05", "06", "07"]
    expect(page.locator(WHERE)).to_contain_text("bytes 4094 to 4110")
    opened.check()


def test_what_starts_keep_and_cut(open_page: Open) -> None:
    opened = open_page(store_page())
    page = opened.page
    lanes = page.locator("#map-stage .canvas").inner_html()
    assert "A start of 4.9.4 to 4.9.8" in lanes
    assert "A start of 5.0.0" not in lanes, "a broker that refuses keeps and cuts nothing"
    assert page.locator("#map-stage svg rect[fill='url(#kind-cut)']").count() >= 1
    page.get_by_text("Cut: 7 messages").click()
    page.get_by_role("button", name="3994304 to 4094304").click()
    expect(page.locator(WHERE)).to_have_text(
        "commitlog/00000000000003145728, bytes 848576 to 948576 (97.7 KiB)"
    )
    opened.check()


def test_what_if(open_page: Open) -> None:
    """After the plan answered findings are gone from the map, and the places of the plan are marked."""
    opened = open_page(store_page())
    page = opened.page
    before = page.locator("#map-stage svg .finding path, #map-stage svg path.finding").count()
    page.get_by_label("After the plan", exact=True).check()
    stage = page.locator("#map-stage .canvas")
    expect(stage).to_contain_text("Content after the plan")
    expect(stage).to_contain_text("Findings that the plan leaves")
    opened.settle()
    assert page.locator("#map-stage svg .finding path, #map-stage svg path.finding").count() < before
    assert page.locator("th.now").all_inner_texts() == ["After the plan"]
    page.get_by_label("The store as it is").check()
    expect(stage).not_to_contain_text("Content after the plan")
    page.get_by_label("Only what the plan leaves").check()
    expect(page.locator("#findings > .tally")).to_contain_text("3 rules")
    page.get_by_text("CL002 log-torn-tail").click()
    expect(page.locator("[id^=finding-]")).to_have_count(2)  # findings 6 and 9 have no repair
    opened.check()


def test_zoom_by_pointer(open_page: Open) -> None:
    opened = open_page(store_page())
    page = opened.page
    canvas = page.locator("#map-stage .canvas")
    canvas.scroll_into_view_if_needed()
    whole = page.locator(WHERE).inner_text()
    for _ in range(3):
        canvas.dblclick(position={"x": 100, "y": 40})
        expect(page.locator(WHERE)).not_to_have_text(whole)
        opened.settle()
        whole = page.locator(WHERE).inner_text()
    start, _ = _bytes_in_view(page)
    box = canvas.bounding_box()
    assert box
    page.mouse.move(box["x"] + 300, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 40, steps=4)
    page.mouse.up()
    expect(page.locator(WHERE)).not_to_have_text(whole)
    opened.settle()
    assert _bytes_in_view(page)[0] > start, "what is dragged to the left shows what is on the right"
    opened.check()


def test_strips_are_one_stop_of_tab(open_page: Open) -> None:
    opened = open_page(store_page())
    page = opened.page
    strips = page.locator("#files button.strip")
    assert strips.count() == 12, "all files that have bytes"
    expect(page.locator("#files button.strip[tabindex='0']")).to_have_count(1)
    strips.first.focus()
    page.keyboard.press("ArrowDown")
    expect(strips.nth(1)).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.press("ArrowUp")
    expect(strips.nth(10)).to_be_focused()
    assert "header" in (strips.nth(10).get_attribute("aria-label") or "")
    page.keyboard.press("Enter")
    expect(page.locator(WHERE)).to_contain_text("index/20261120090445904")
    opened.settle()
    assert _bars(page) > 3
    opened.check()


def test_zooming_goes_from_the_store_to_a_part_and_back(open_page: Open) -> None:
    """A small part is found as easily as a large one: a double click on its lanes shows it alone."""
    opened = open_page(store_page())
    page = opened.page
    charts = page.locator("#map-stage svg")
    page.locator("#map-stage").focus()
    page.keyboard.press("+")
    expect(page.locator(WHERE)).to_contain_text("commit log: ")
    expect(charts).to_have_count(1)
    page.keyboard.press("-")
    expect(charts).to_have_count(4)
    box = charts.nth(2).bounding_box()
    assert box
    charts.nth(2).dblclick(position={"x": box["width"] / 2, "y": box["height"] / 2})
    expect(charts).to_have_count(1)
    expect(page.locator(WHERE)).to_contain_text("index/")
    page.keyboard.press("0")
    expect(charts).to_have_count(4)
    opened.check()
