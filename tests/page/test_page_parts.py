"""The other parts of the page in a real browser: findings, tables, timeline, queues, index, a fleet."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.page.conftest import Open
from tests.page.documents import fleet_page, store_page

pytestmark = pytest.mark.browser

SAMPLES = Path(__file__).parent.parent / "data" / "page"


def test_the_verdict_is_on_top_as_check_prints_it(open_page: Open) -> None:
    opened = open_page(store_page())
    page = opened.page
    section = page.locator("main > section").first
    assert section.get_attribute("id") == "verdict"
    assert "A broker may be started: its start loses nothing more." in section.locator("h2").inner_text()
    terms = section.locator("dl.lines dt").all_inner_texts()
    assert terms == ["Store", "Lost", "Repair"]
    assert section.locator(".next").inner_text() == "Next: rocketfsck fix /data/store"
    repair = section.locator("dl.lines dd").nth(2).inner_text().splitlines()
    assert repair == [
        "2 actions correct 5 findings; 1 is safe, 1 needs your judgement",
        "1 committed consumer offset is beyond the new end of its queue",
    ]
    assert page.title() == "Store report: /data/store Orders"
    opened.check()


def test_findings_unfold_and_are_filtered(open_page: Open) -> None:
    opened = open_page(store_page(findings=120))
    page = opened.page
    expect(page.locator("#findings tr")).to_have_count(0)  # nothing is unfolded at first
    page.get_by_text("CL002 log-torn-tail").click()
    expect(page.locator("#findings tbody tr")).to_have_count(25)
    expect(page.locator("#findings .listing .tally")).to_have_text("40 rows, 1 to 25 shown")
    page.locator("#findings .listing").get_by_role("button", name="Next").click()
    expect(page.locator("#findings tbody tr")).to_have_count(15)
    expect(page.locator("#findings")).to_contain_text("349,960 more: run check with --all to list them.")
    tools = page.get_by_role("group", name="Filter findings")
    tools.get_by_label("Severity").select_option("warning")
    expect(page.locator("#findings details.group")).to_have_count(1)
    tools.get_by_label("Severity").select_option("")
    tools.get_by_label("Filter").fill("finding 31:")
    expect(page.locator("#findings details.group")).to_have_count(1)
    page.get_by_text("XR010 unit-of-damaged-record").click()
    expect(page.locator("#findings tbody tr")).to_have_count(1)
    opened.check()


def test_queues_are_filtered_and_sorted(open_page: Open) -> None:
    opened = open_page(store_page(queues=300, texts=["Orders", "Bills"]))
    page = opened.page
    listing = page.locator("#queues .listing").nth(1)
    rows = listing.locator("tbody tr")
    expect(rows).to_have_count(50)
    listing.get_by_role("searchbox").fill("bills")
    expect(listing.locator(".tally")).to_have_text("150 queues of 300, 1 to 50 shown")
    listing.get_by_role("searchbox").fill("")
    listing.get_by_label("Show").select_option(label="queues with gaps")
    expect(listing.locator(".tally")).to_contain_text("100 queues of 300")
    listing.get_by_label("Show").select_option(label="all")
    listing.get_by_role("button", name="Largest lag").click()
    opened.settle()
    assert rows.first.locator("td").last.inner_text() == "490"
    assert listing.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    listing.get_by_role("button", name="Largest lag").click()
    opened.settle()
    assert rows.first.locator("td").last.inner_text() == "486"
    listing.get_by_role("button", name="Last", exact=True).click()
    expect(listing.locator(".pager")).to_contain_text("Page 6 of 6")
    assert rows.first.locator("td").last.inner_text() == "", "queues without a group come last"
    opened.check()


def test_timeline(open_page: Open) -> None:
    opened = open_page(store_page())
    page = opened.page
    section = page.locator("#timeline")
    expect(section).to_contain_text("1,295 messages, 13 events, damage at 1 time.")
    section.locator("svg .bars").first.wait_for()
    assert section.locator("svg .bars rect, svg rect.bars").count() > 90
    damage = section.locator("svg [fill='url(#kind-damaged)']")
    expect(damage).to_have_count(2)  # of all messages, and by topic
    section.get_by_text("Events as a table").click()
    section.get_by_label("Kind").select_option("gap")
    expect(section.locator("details[open] tbody tr")).to_have_count(2)
    section.locator("details[open] a.place").first.click()
    expect(page.locator("#map-where")).to_contain_text("commitlog/00000000000000000000, bytes 8128 to 8384")
    opened.check()


def test_index(open_page: Open) -> None:
    opened = open_page(store_page())
    section = opened.page.locator("#index")
    expect(section).to_contain_text("1 index file; 18.8 % of the slots and 10.5 % of the entries are in use.")
    expect(section).to_contain_text("No query finds 1 entry.")
    section.get_by_text("Chain lengths as a table").click()
    opened.settle()
    table = section.locator("table.small tbody tr").all_inner_texts()
    assert [row.split("\t") for row in table] == [["1", "12"], ["2", "5"], ["3 to 4", "2"]]
    section.get_by_role("link", name=re.compile("20261120090445904")).click()
    expect(opened.page.locator("#map-where")).to_contain_text("index/20261120090445904")
    opened.check()


def test_parts_that_are_not_there_say_why(open_page: Open) -> None:
    document = store_page()
    document |= {"timeline": None, "indexes": None, "positions": None, "plan": None, "starts": []}
    document["left_out"] = [
        {"what": what, "reason": f"there is no {what}"} for what in ("timeline", "indexes", "positions")
    ]
    opened = open_page(document)
    for section, what in (("timeline", "timeline"), ("index", "indexes"), ("queues", "positions")):
        expect(opened.page.locator(f"#{section}")).to_contain_text(f"Not in this page: there is no {what}.")
    expect(opened.page.locator("#plan, #starts, .what-if")).to_have_count(0)
    opened.check()


def test_a_store_without_files(open_page: Open) -> None:
    document = store_page(log_files=1, queues=0, findings=0, events=0)
    for name in ("files", "spans", "damage"):
        document["map"][name] = {key: [] for key in document["map"][name]}
    document["findings"] |= {"rules": [], "count": 0, "kept_count": 0}
    for name in ("crowds", "by_file"):
        document["findings"][name] = {key: [] for key in document["findings"][name]}
    document |= {"windows": [], "plan": None, "indexes": None, "timeline": None}
    opened = open_page(document)
    expect(opened.page.locator("#findings")).to_contain_text("The check has no finding.")
    expect(opened.page.locator("#map")).to_have_count(0)
    opened.check()


@pytest.mark.parametrize("name", ["clean", "damaged"])
def test_pages_of_real_stores(open_page: Open, name: str) -> None:
    """What `rocketfsck` wrote of stores of brokers is drawn whole: every part has its rows."""
    document = json.loads((SAMPLES / f"{name}.json").read_text("utf-8"))
    opened = open_page(document)
    page = opened.page
    expect(page.locator("#verdict h2")).to_contain_text(document["headline"])
    expect(page.locator("#map-stage svg").first).to_be_visible()
    opened.unfold()
    kept = sum(rule["kept_count"] > 0 for rule in document["findings"]["rules"])
    expect(page.locator("#findings .group table")).to_have_count(kept)
    expect(page.locator("#findings .group")).to_have_count(len(document["findings"]["rules"]))
    assert page.locator("#files tbody tr").count() == min(40, len(document["map"]["files"]["size"]))
    assert page.locator("#queues .listing").nth(1).locator("tbody tr").count() > 0
    assert page.locator("#timeline svg .bars rect, #timeline svg rect.bars").count() > 0
    assert page.locator("#index .listing tbody tr").count() == len(document["indexes"]["file"])
    page.locator("#map-stage").focus()
    for _ in range(document["findings"]["kept_count"] + 1):
        page.keyboard.press("n")
    opened.check()


def test_the_page_of_a_real_fleet(open_page: Open) -> None:
    document = json.loads((SAMPLES / "fleet.json").read_text("utf-8"))
    opened = open_page(document)
    expect(opened.page.locator("#stores tbody tr")).to_have_count(len(document["stores"]["root"]))
    expect(opened.page.locator("#stores thead").get_by_text("New")).to_have_count(1)
    opened.check()


def test_a_fleet_worst_first(open_page: Open) -> None:
    opened = open_page(fleet_page())
    page = opened.page
    expect(page.locator("#verdict h2")).to_have_text("35 of 42 stores are not healthy.")
    listing = page.locator("#stores .listing")
    states = listing.locator("tbody tr td:nth-child(3)").all_inner_texts()
    assert states[0] == "refused"
    expect(listing.locator("thead").get_by_text("New")).to_have_count(0)  # nothing was compared
    assert states[-1] == "healthy"
    assert len(states) == 40
    listing.get_by_label("State").select_option("damaged")
    expect(listing.locator(".tally")).to_have_text("5 stores of 40")
    listing.get_by_role("searchbox").fill("/data/17/")
    expect(listing.locator("tbody tr")).to_have_count(1)
    expect(page.locator("#rules tbody tr").first).to_contain_text("CL002")
    assert listing.locator("svg").count() >= 3
    opened.check()


def test_all_sections_are_in_the_contents(open_page: Open) -> None:
    opened = open_page(store_page())
    page = opened.page
    names = page.locator("nav.contents a").all_inner_texts()
    assert names == ["Verdict", "What a start does", "Map", "Findings", "Plan", "Damage", "Files",
                     "What retention takes", "Timeline", "Topics and queues", "Index"]  # fmt: skip
    for link in page.locator("nav.contents a").all():
        expect(page.locator(link.get_attribute("href") or "none")).to_have_count(1)
    opened.check()
