"""Pictures of the report page for the guide: `make pictures` writes them, from pages of stores in tests/data.

    docs/pictures/page-verdict.png      the verdict of a damaged store
    docs/pictures/page-map.png          the map, from the store down to a finding
    docs/pictures/page-bytes.png        the bytes of the finding with the names of their fields

No test compares them: letters look different on each machine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page, sync_playwright

from rocketfsck.page.html import render

from tests.page.conftest import arguments_of, path_of_chromium

ROOT = Path(__file__).parent.parent.parent
GUIDE = ROOT / "docs" / "pictures"
DOCUMENT = ROOT / "tests" / "data" / "page" / "damaged.json"
WIDTH = 960

_SHOTS = (
    ("page-verdict", "", ()),
    ("page-map", "#map-stage", ()),
    ("page-bytes", "#map-stage", ("n", "n", "n", "b")),
)
"""A picture, the part of the page that it shows (none: the top), the keys pressed on the map before."""


def shots(page: Page) -> Iterator[tuple[str, bytes]]:
    """The names and the PNG of all pictures of a page that is open."""
    for name, part, keys in _SHOTS:
        page.locator("#map-stage").focus()
        for key in keys:
            page.keyboard.press(key)
        page.wait_for_timeout(300)
        page.evaluate("document.activeElement.blur()")
        if part:
            yield name, page.locator(part).screenshot()
        else:
            page.evaluate("window.scrollTo({top: 0, behavior: 'instant'})")
            yield name, page.screenshot(clip={"x": 0, "y": 0, "width": WIDTH, "height": 620})


def main() -> None:
    """Writes the pictures; says so where no Chromium is installed."""
    path = path_of_chromium()
    if path is None:
        print("no Chromium is installed: the pictures of the report page stay as they are", file=sys.stderr)
        return
    with TemporaryDirectory() as directory, sync_playwright() as playwright:
        file = Path(directory) / "page.html"
        file.write_text(render(json.loads(DOCUMENT.read_text("utf-8"))), "utf-8")
        browser = playwright.chromium.launch(executable_path=path, args=arguments_of())
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]")
        for name, data in shots(page):
            (GUIDE / f"{name}.png").write_bytes(data)
        browser.close()


if __name__ == "__main__":
    main()
