"""A real browser for tests of the report page: the Chromium of the distribution, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from rocketfsck.page.html import render

NAMES = ("chromium", "chromium-browser", "google-chrome")
"""What distributions call it."""

_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
    window.violations.push(event.violatedDirective);
});
"""

LATE = int(os.environ.get("ROCKETFSCK_LATE_FRAMES", "0"))
"""Milliseconds by which each frame comes late: a test that reads before the page has drawn fails then."""

_LATE_FRAMES = """
const drawn = window.requestAnimationFrame.bind(window);
window.requestAnimationFrame = (work) => setTimeout(() => drawn(work), %d);
"""

_DRAWN = """
async () => {
    for (let frame = 0; frame < 5; frame += 1) await new Promise((done) => requestAnimationFrame(done));
}
"""
"""A size seen, asked to be drawn, drawn, and said: each comes a frame after the other."""

expect.set_options(timeout=15_000)


@dataclass
class Opened:
    """A page in the browser, with all that went wrong on it and all that it asked for."""

    page: Page
    address: str
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def settle(self) -> None:
        """Waits until the page has drawn what was asked of it: what is read at once is read after this."""
        self.page.evaluate(_DRAWN)

    def unfold(self) -> None:
        """Opens all that can be unfolded."""
        self.page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        self.settle()

    def check(self) -> None:
        """Nothing is wrong: no error, no warning, no violation of the policy, no request but for the page."""
        self.settle()
        assert self.errors == []
        assert self.page.evaluate("window.violations") == []
        assert set(self.requests) == {self.address}


Open = Callable[..., Opened]


def path_of_chromium() -> str | None:
    """Where the browser is, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def arguments_of() -> list[str]:
    """Root has no sandbox."""
    return ["--no-sandbox"] if os.geteuid() == 0 else []


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for a module, not for a session: while Playwright runs, no other event loop can."""
    path = path_of_chromium()
    if path is None:
        pytest.skip("no Chromium is installed: the report page was not tried in a browser")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=arguments_of())
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens the page of a document, or one that is there, as a file, in a context of its own."""
    contexts: list[BrowserContext] = []

    def open_one(
        document: Mapping[str, Any] | None = None,
        *,
        path: Path | None = None,
        width: int = 1280,
        fragment: str = "",
        **options: Any,
    ) -> Opened:
        if document is not None:
            path = tmp_path / f"page{len(contexts)}.html"
            path.write_text(render(document), "utf-8")
        assert path
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        context.add_init_script(_VIOLATIONS)
        if LATE:
            context.add_init_script(_LATE_FRAMES % LATE)
        page = context.new_page()
        page.set_default_timeout(15_000)
        opened = Opened(page, path.as_uri())
        page.on("console", lambda message: opened.errors.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: opened.errors.append(str(error)))
        page.on("dialog", lambda dialog: opened.errors.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: opened.requests.append(request.url.partition("#")[0]))
        page.on("requestfailed", lambda request: opened.failed.append(request.url))
        page.goto(opened.address + fragment)
        page.wait_for_selector("html[data-ready]")
        opened.settle()
        return opened

    yield open_one
    for context in contexts:
        context.close()
