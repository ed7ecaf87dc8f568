"""The browser without a terminal: keys are pressed, and what is on the screen is text."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from textual.pilot import Pilot

from rocketfsck.cli.browse.model.files import Shelf
from rocketfsck.cli.browse.views.app import BrowseApp
from rocketfsck.cli.browse.views.session import Asked, Session
from rocketfsck.store import open_store

Size = tuple[int, int]
STILL = 4
"""So often the screen is looked at, and is the same, before it counts as finished."""


class Driver:
    """A running browser. `press` waits until all that follows from the keys is on the screen."""

    def __init__(self, app: BrowseApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    async def settle(self) -> None:
        """Wait for all workers, those that others begin, too, and until the screen stays the same."""
        seen: list[list[str]] = []
        while len(seen) < STILL:
            await self.pilot.pause()
            lines = self.lines
            is_busy = any(not worker.is_finished for worker in self.app.workers)
            seen = [] if is_busy or (seen and seen[-1] != lines) else [*seen, lines]
            await asyncio.sleep(0.01)

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
            await self.settle()

    async def type(self, text: str) -> None:
        """Type into an input, and submit."""
        await self.pilot.press(*text, "enter")
        await self.settle()

    @property
    def lines(self) -> list[str]:
        """What is on the screen."""
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def cursor(self) -> str:
        """The line that the cursor is on."""
        return next((line for line in self.lines if line.startswith("> ")), "")


def drive(
    root: Path | str,
    script: Callable[[Driver], Awaitable[None]],
    *,
    size: Size = (80, 24),
    asked: Asked | None = None,
) -> None:
    """Run the browser on a store, and do what the script does."""
    app = BrowseApp(Session(Shelf(open_store(root)), "store", asked or Asked()))

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            driver = Driver(app, pilot)
            await driver.settle()
            await script(driver)

    asyncio.run(run())
