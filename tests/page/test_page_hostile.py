"""Names and bodies that would like to be markup, and documents of large stores."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from rocketfsck.common.documents import to_document
from rocketfsck.page.html import render

from tests.page.conftest import Open
from tests.page.documents import HOSTILE, fleet_page, store_page
from tests.pagesamples import large_page

pytestmark = pytest.mark.browser

_MARKUP = """document.querySelectorAll(
    'main img, main script, main iframe, main object, main [onerror], main [onload]').length"""


@pytest.mark.parametrize("first", [0, 3, 6])
def test_texts_of_a_store_are_never_markup(open_page: Open, first: int) -> None:
    """Each of the texts is the name of a topic; the first one is in the title and in most sentences."""
    texts = HOSTILE[first:] + HOSTILE[:first]
    opened = open_page(store_page(queues=len(texts), texts=texts))
    page = opened.page
    opened.unfold()
    page.locator("#map-stage").focus()
    page.keyboard.press("n")
    expect(page.locator("#hex")).to_be_visible()
    opened.settle()
    assert page.evaluate(_MARKUP) == 0
    expect(page.locator("script")).to_have_count(3)  # the document, the licences and the script of the page
    topics = page.locator("#queues .listing").first.locator("tbody th").all_text_contents()
    assert topics == [_spelled(text) for text in texts]
    whole = page.locator("body").inner_text()
    assert not re.search("[\x00\x1b\u2028\u2029\u202e]", whole), "what cannot be seen is spelled out"
    opened.check()


def _spelled(text: str) -> str:
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in text)


def test_texts_of_a_fleet_are_never_markup(open_page: Open) -> None:
    opened = open_page(fleet_page(texts=HOSTILE))
    assert opened.page.evaluate(_MARKUP) == 0
    expect(opened.page.locator("#stores tbody tr")).to_have_count(40)
    opened.check()


@pytest.mark.parametrize(
    "attack",
    [
        "document.body.append(Object.assign(document.createElement('script'), {text: 'window.hit = 1'}))",
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hit = 1\">')",
        "document.body.setAttribute('onclick', 'window.hit = 1'), document.body.click()",
        "document.body.append(Object.assign(document.createElement('img'), {src: 'https://example.org/x.png'}))",
        "fetch('https://example.org/').catch(() => 0)",
        "new Function('window.hit = 1')()",
        "document.body.append(Object.assign(document.createElement('style'), {textContent: '*{color:red}'}))",
        "document.body.append(Object.assign(document.createElement('iframe'), {src: 'https://example.org/'}))",
    ],
)
def test_the_policy_stops_what_would_get_through(open_page: Open, attack: str) -> None:
    """Even with markup in the page, nothing runs and nothing is fetched."""
    opened = open_page(store_page())
    page = opened.page
    # What a debugger evaluates may do all; what runs later has to keep to the policy.
    page.evaluate(
        f"""() => new Promise((done) => {{
            document.addEventListener("securitypolicyviolation", done, {{once: true}});
            setTimeout(done, 15_000);
            window.hit = 0;
            setTimeout(() => {{ {attack}; }}, 10);
        }})"""
    )
    opened.settle()
    assert page.evaluate("window.violations.length") > 0
    assert page.evaluate("window.hit") == 0
    assert {address for address in opened.requests if address not in opened.failed} == {opened.address}
    assert page.evaluate("getComputedStyle(document.body).color") != "rgb(255, 0, 0)"


def test_a_large_store_is_small_in_the_browser(open_page: Open) -> None:
    """1 TiB, 10,000 queues, a million findings: some thousand elements, whatever is opened."""
    document = to_document(large_page())
    assert len(render(document)) < 5_000_000
    opened = open_page(document)
    page = opened.page
    count = "document.querySelectorAll('*').length"
    assert page.evaluate(count) < 15_000
    page.locator("#map-stage").focus()
    keys = ["n", "n", "b", *6 * ["-"], "ArrowRight", "0", "ArrowDown", "ArrowDown", "0"]
    for key in keys:
        page.keyboard.press(key)
        opened.settle()
    expect(page.locator("#map-where")).to_contain_text("the store")
    expect(page.locator("#map h3")).to_have_text(re.compile(r"^\d\d,\d{3} findings in this view$"))
    opened.unfold()
    rules = sum(rule["kept_count"] > 0 for rule in document["findings"]["rules"])
    expect(page.locator("#findings .group table")).to_have_count(rules)
    assert page.locator("#findings tbody tr").count() <= 25 * rules
    queues = page.locator("#queues .listing").nth(1)
    name = document["topics"]["topic"][document["queues"]["topic"][0]]
    queues.get_by_role("searchbox").fill(name)
    queues.get_by_role("searchbox").fill("")
    queues.get_by_role("button", name="Largest lag").click()
    expect(queues.locator(".tally")).to_have_text("10,000 queues, 1 to 50 shown")
    queues.get_by_role("button", name="Last", exact=True).click()
    expect(queues.locator("tbody tr")).to_have_count(50)
    assert page.evaluate(count) < 18_000
    opened.check()


def test_the_json_in_the_page_is_the_document(open_page: Open) -> None:
    document = store_page(texts=HOSTILE)
    opened = open_page(document)
    assert json.loads(opened.page.locator("#document").text_content() or "") == document
    opened.check()
