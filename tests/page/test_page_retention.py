"""What retention takes in a real browser: the strip has the scale of physical offsets, and says who loses
what."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.page.conftest import Open
from tests.page.documents import columns, store_page

pytestmark = pytest.mark.browser

PARTS = "#retention .retention-chart rect"


def test_files_that_go_are_as_wide_as_they_are(open_page: Open) -> None:
    """Four files: the first two go at one time, the third later, the last stays."""
    opened = open_page(store_page())
    page = opened.page
    opened.settle()
    boxes = [
        (part.get_attribute("fill"), float(part.get_attribute("width") or 0))
        for part in page.locator(PARTS).all()
    ]
    width = float(page.locator(".retention-chart").get_attribute("width") or 0)
    fills = ["url(#kind-cut)", "url(#kind-hidden)", "url(#kind-kept)"]
    assert [fill for fill, _ in boxes] == fills
    assert [size for _, size in boxes] == pytest.approx([width / 2, width / 4, width / 4], abs=0.5)
    text = page.locator("#retention").inner_text()
    assert "Next go 2 files (2 MiB) at 2021-11-08 04:00:00Z: all in front of physical offset 2097152." in text
    assert "for 72 hours (fileReservedTime), consumed or not, from 04:00 on" in text
    rows = page.locator("#retention .listing").first.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("late")
    expect(page.locator("#retention")).to_contain_text("1 more row is left out: groups that lose later.")
    opened.check()


def test_after_the_plan_nothing_is_foreseen(open_page: Open) -> None:
    opened = open_page(store_page())
    expect(opened.page.locator("#retention")).to_be_visible()
    opened.page.get_by_label("After the plan", exact=True).check()
    expect(opened.page.locator("#retention")).to_have_count(0)
    opened.check()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"problem": "no groups: config"}, "What groups lose is not known: no groups: config."),
        (
            {"unconsumed": columns(["group", "topic", "message_count", "delete_timestamp"], [])},
            "No group with a committed offset loses a message by it that it has not consumed.",
        ),
        ({"delete_hours": []}, "deleteWhen names no hour of the day"),
        ({"growth_per_day": None}, "physical offset 2097152."),
    ],
)
def test_what_is_not_known_is_said(open_page: Open, change: dict[str, Any], said: str) -> None:
    document = store_page()
    document["retention"] |= change
    opened = open_page(document)
    expect(opened.page.locator("#retention")).to_contain_text(said)
    opened.check()


def test_without_committed_offsets_nobody_is_said_to_lose_nothing(open_page: Open) -> None:
    document = store_page()
    document["retention"]["unconsumed"] = {name: [] for name in document["retention"]["unconsumed"]}
    document["position_counts"] = {"count": 0, "kept_count": 0}
    opened = open_page(document)
    expect(opened.page.locator("#retention")).to_contain_text("No group has a committed offset in this store")
    opened.check()


def test_a_page_without_it_says_why(open_page: Open) -> None:
    document = store_page()
    document["retention"] = None
    document["left_out"] = [{"what": "retention", "reason": "the store has too many queues"}]
    opened = open_page(document)
    expect(opened.page.locator("#retention")).to_contain_text(
        "Not in this page: the store has too many queues."
    )
    opened.check()
