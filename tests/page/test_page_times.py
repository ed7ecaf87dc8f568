"""Messages over time by topic in a real browser: columns are as high as messages are many."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.page.conftest import Open, Opened
from tests.page.documents import store_page

pytestmark = pytest.mark.browser

DAMAGED = Path(__file__).parent.parent / "data" / "page" / "damaged.json"
LANES = ".topic-times .canvas svg"


def lanes_of(opened: Opened) -> dict[str, list[tuple[float, int]]]:
    """The columns of each lane: their heights in pixels, and the messages that their titles name."""
    opened.settle()
    found: dict[str, list[tuple[float, int]]] = {}
    for bar in opened.page.locator(f"{LANES} .bars rect").all():
        title = bar.locator("title").text_content() or ""
        named = re.fullmatch(r"(.*), \d{4}-.*: ([\d,]+) messages?", title)
        assert named, title
        height = float(bar.get_attribute("height") or 0)
        found.setdefault(named[1], []).append((height, int(named[2].replace(",", ""))))
    return found


def test_each_topic_has_a_lane_on_one_scale(open_page: Open) -> None:
    """Heights are to the messages, in all lanes alike: the sums are those of the topics of the store."""
    document = json.loads(DAMAGED.read_text("utf-8"))
    opened = open_page(document)
    lanes = lanes_of(opened)
    topics = document["topics"]
    sums = {topic: sum(number for _, number in bars) for topic, bars in lanes.items()}
    counts = zip(topics["topic"], topics["message_count"], strict=True)
    assert sums == {topic: number for topic, number in counts if number > 0}
    most = max(number for bars in lanes.values() for _, number in bars)
    for bars in lanes.values():
        for height, number in bars:
            assert height == pytest.approx(max(1, 28 * number / most), abs=0.1)
    expect(opened.page.locator(".topic-times")).to_contain_text("Hatched: the commit log is damaged there")
    opened.check()


def test_what_is_not_counted_is_said(open_page: Open) -> None:
    document = store_page()
    document["timeline"]["topics"] |= {"mixed_count": 9, "undated_count": 2, "unread_file_count": 1}
    opened = open_page(document)
    lanes = lanes_of(opened)
    assert list(lanes) == ["Orders", "all other topics"]
    text = opened.page.locator(".topic-times").inner_text()
    assert "1 commit log file could not be read: the messages there are not counted." in text
    assert "2 messages with a time that is not a date: in no lane." in text
    assert "Of these topics, 9 messages at most are in the lane of all others." in text
    assert "Hatched" in text
    opened.check()


def test_a_missing_file_is_a_hatched_time(open_page: Open) -> None:
    """A file in the middle is gone: the time between the messages around the hole is hatched."""
    document = store_page()
    document["timeline"]["lost"] = {name: [] for name in document["timeline"]["lost"]}
    files = document["map"]["files"]
    sound = open_page(document)
    assert sound.page.locator(f"{LANES} .gone rect").count() == 0
    assert "Hatched" not in sound.page.locator(".topic-times").inner_text()
    for row in (1, 2, 3):  # the log has four files: the second is not there
        files["start_offset"][row] += 1 << 20
        files["first_timestamp"][row] = 1_636_265_060_000 + row
        files["last_timestamp"][row] = 1_636_265_080_000 + row
    files["first_timestamp"][0], files["last_timestamp"][0] = 1_636_265_000_000, 1_636_265_030_000
    opened = open_page(document)
    opened.settle()
    box = opened.page.locator(f"{LANES} .gone rect, {LANES} rect.gone")
    assert box.count() == 1
    width = float(opened.page.locator(LANES).first.get_attribute("width") or 0) - 70
    assert float(box.get_attribute("width") or 0) == pytest.approx(width * 30_001 / 104_000, rel=0.02)
    opened.check()


def test_without_a_time_no_chart(open_page: Open) -> None:
    document = store_page()
    document["timeline"]["topics"]["rows"] = {"topic": [], "bucket": [], "message_count": []}
    opened = open_page(document)
    expect(opened.page.locator("#timeline")).to_be_visible()
    expect(opened.page.locator(".topic-times")).to_have_count(0)
    opened.check()
