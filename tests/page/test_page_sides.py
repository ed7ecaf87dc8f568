"""The switch between the store as it is and after the plan, in a browser."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from playwright.sync_api import expect

from rocketfsck.common.documents import from_document, to_document
from rocketfsck.page.model import Page

from tests.page.conftest import Open, Opened
from tests.page.test_page_looks import faults_by_axe
from tests.pagesafter import page_after
from tests.pagesamples import SAMPLES

pytestmark = pytest.mark.browser

BEFORE, AFTER = "The store as it is", "After the plan"


@pytest.fixture(scope="module")
def sample() -> dict[str, Any]:
    """The page of a damaged store: part of the log and of a queue, a whole queue, the index."""
    document: dict[str, Any] = json.loads((SAMPLES / "damaged.json").read_text("utf-8"))
    return document


def test_every_part_is_as_the_plan_leaves_it(open_page: Open, sample: dict[str, Any]) -> None:
    opened = open_page(sample)
    page = opened.page
    starts, damage = page.locator("#starts"), page.locator("#damage")
    expect(starts).to_contain_text("uses 429 queue offsets twice")
    expect(damage).to_have_count(1)
    queue = page.locator("#queues .listing").nth(1).locator("tbody tr").filter(has_text="Seg2").nth(1)
    expect(queue).to_contain_text("none")
    page.get_by_label(AFTER, exact=True).check()
    expect(page.locator("#starts h2")).to_have_text("What a start does after the plan")
    expect(starts).to_contain_text("starts and loses nothing")
    expect(damage).to_have_count(0)
    expect(queue).not_to_contain_text("none")
    expect(page.locator("#timeline")).to_contain_text("damage at 0 times")
    expect(page.locator("#findings .badge.error")).to_have_count(0)
    expect(page.get_by_role("navigation", name="Sections").get_by_text("Damage")).to_have_count(0)
    page.get_by_label(BEFORE).check()
    expect(starts).to_contain_text("uses 429 queue offsets twice")
    expect(damage).to_have_count(1)
    expect(page.get_by_role("navigation", name="Sections").get_by_text("Damage")).to_have_count(1)
    opened.check()


def numbers(opened: Any) -> dict[str, Any]:
    """What the sections say."""
    page = opened.page
    texts = {
        name: page.locator(f"#{name}").inner_text()
        for name in ("queues", "timeline", "index", "starts", "findings")
    }
    page.locator("#files .strip").first.wait_for()
    texts["files"] = sorted(page.locator("#files tbody tr").all_inner_texts())
    return texts


def test_the_side_after_is_the_page_of_the_store_after(open_page: Open, sample: dict[str, Any]) -> None:
    """The script puts together what the same document, put together elsewhere, shows."""
    first = open_page(sample)
    first.page.get_by_label(AFTER, exact=True).check()
    first.settle()
    whole = page_after(from_document(Page, sample, "page"))
    other = deepcopy(to_document(whole))
    other["plan"] = None
    second = open_page(other)
    one, two = numbers(first), numbers(second)
    two["starts"] = two["starts"].replace("What a start does", "What a start does after the plan")
    assert one == two
    first.check()
    second.check()


def test_by_keys_alone(open_page: Open, sample: dict[str, Any]) -> None:
    """The focus stays on the switch; the map stays at its place."""
    opened = open_page(sample)
    page = opened.page
    page.locator("#map-stage").focus()
    for key in ("n", "n"):
        page.keyboard.press(key)
    opened.settle()
    where = page.locator("#map-where")
    place = where.inner_text()
    page.get_by_label(BEFORE).focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_label(AFTER, exact=True)).to_be_focused()
    expect(page.get_by_label(AFTER, exact=True)).to_be_checked()
    expect(page.locator("#announced")).to_contain_text("After the plan")
    expect(where).to_have_text(place)
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_label(BEFORE)).to_be_focused()
    expect(where).to_have_text(place)
    opened.check()


def test_a_link_to_a_finding_that_is_gone_leads_back(open_page: Open, sample: dict[str, Any]) -> None:
    answered = next(at for at, row in enumerate(sample["findings"]["rows"]["actions"]) if row)
    opened = open_page(sample)
    page = opened.page
    page.get_by_label(AFTER, exact=True).check()
    page.evaluate(f"window.location.hash = 'finding-{answered}'")
    expect(page.get_by_label(BEFORE)).to_be_checked()
    expect(page.locator(f"#finding-{answered}")).to_be_focused()
    opened.check()


def test_findings_that_the_plan_brings_are_new(open_page: Open, sample: dict[str, Any]) -> None:
    """They have a mark, and no place on the other side: a link to one leads to its side."""
    after = sample["plan"]["tried"]["findings"]
    first = len(sample["findings"]["rows"]["message"])
    opened = open_page(sample, fragment=f"#finding-{first}")
    page = opened.page
    new = page.locator("#findings").get_by_text("new", exact=True)
    row = page.locator(f"#finding-{first}")
    expect(page.get_by_label(AFTER, exact=True)).to_be_checked()
    expect(row).to_be_focused()
    expect(row).to_contain_text(after["rows"]["message"][0])
    expect(row.get_by_text("new", exact=True)).to_be_visible()
    page.locator("#rule-XR015 summary").click()
    expect(page.locator("#rule-XR015").get_by_text("new", exact=True)).to_have_count(4)
    page.get_by_label(BEFORE).check()
    expect(row).to_have_count(0)
    expect(new).to_have_count(0)
    opened.check()


def _turn_to_note(opened: Opened, text: str) -> None:
    """Turn the page to the side after the plan, which alone has a note."""
    note = opened.page.get_by_text(text)
    expect(note).to_be_hidden()
    opened.page.get_by_label(AFTER, exact=True).check()
    expect(note).to_be_visible()


def test_without_a_check_the_page_says_why(open_page: Open, sample: dict[str, Any]) -> None:
    document = deepcopy(sample)
    document["plan"]["tried"]["findings"]["unchecked"] = "the check was asked for a part of the store"
    opened = open_page(document)
    _turn_to_note(opened, "those that no action answers: the check was asked for a part of the store")
    expect(opened.page.locator("#starts")).to_have_count(1)
    opened.check()


@pytest.mark.parametrize("width", [320, 2560])
def test_the_switch_stays_in_sight(open_page: Open, sample: dict[str, Any], width: int) -> None:
    opened = open_page(sample, width=width)
    page = opened.page
    page.get_by_label(AFTER, exact=True).check()
    page.locator("#index").scroll_into_view_if_needed()
    expect(page.get_by_label(BEFORE)).to_be_in_viewport()
    opened.settle()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    opened.check()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_has_nothing_to_say(open_page: Open, sample: dict[str, Any], scheme: Any) -> None:
    opened = open_page(sample, color_scheme=scheme)
    opened.page.get_by_label(AFTER, exact=True).check()
    opened.settle()
    assert faults_by_axe(opened.page) == []


def test_without_a_trial_the_page_says_why(open_page: Open, sample: dict[str, Any]) -> None:
    document = deepcopy(sample)
    document["plan"] |= {"tried": None, "untried": "a broker is running on the store"}
    opened = open_page(document)
    _turn_to_note(opened, "a broker is running on the store")
    expect(opened.page.locator("#starts")).to_have_count(0)
    expect(opened.page.locator("#damage")).to_have_count(1)
    opened.check()
