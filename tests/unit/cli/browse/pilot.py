"""The browser without a terminal: keys are pressed, and what is on the screen is text."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from textual.message_pump import MessagePump
from textual.pilot import Pilot

from rocketfsck.cli.browse.model.files import Shelf
from rocketfsck.cli.browse.views.app import BrowseApp
from rocketfsck.cli.browse.views.base import BrowseRequest, Session
from rocketfsck.store import open_store

Size = tuple[int, int]
QUIET = 3
"""So often in a row nothing may be left to do before the screen counts as finished."""


class Driver:
    """A running browser. `press` waits until all that follows from the keys is on the screen."""

    def __init__(self, app: BrowseApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    async def settle(self) -> None:
        """Wait for all workers, messages, layouts and drawings, those that others begin, too.

        What is left to do is counted, so that it makes no difference how busy the machine is.
        """
        quiet = 0
        while quiet < QUIET:
            await self.pilot.pause()
            quiet = 0 if self._is_busy() else quiet + 1
            await asyncio.sleep(0 if quiet else 0.002)

    def _is_busy(self) -> bool:
        screens = self.app.screen_stack
        pumps: list[MessagePump] = [self.app]
        pumps += [node for screen in screens for node in screen.walk_children(with_self=True)]
        front = self.app.screen
        return (
            any(not worker.is_finished for worker in self.app.workers)
            or any(pump.message_queue_size or pump._next_callbacks for pump in pumps)
            or bool(front._callbacks or front._dirty_widgets or front._layout_required)
        )

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


@contextmanager
def no_idling() -> Iterator[None]:
    """Textual's pilot waits until the process is idle, by the clock: here `settle` knows better."""

    async def yield_once(*_: float) -> None:
        await asyncio.sleep(0)

    with patch("textual.app.wait_for_idle", yield_once), patch("textual.pilot.wait_for_idle", yield_once):
        yield


def drive(
    root: Path | str,
    script: Callable[[Driver], Awaitable[None]],
    *,
    size: Size = (80, 24),
    asked: BrowseRequest | None = None,
) -> None:
    """Run the browser on a store, and do what the script does."""
    drive_app(
        BrowseApp(Session(Shelf(open_store(root)), "store", asked or BrowseRequest())), script, size=size
    )


def drive_app(app: BrowseApp, script: Callable[[Driver], Awaitable[None]], *, size: Size = (80, 24)) -> None:
    """Run a browser, and do what the script does."""

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            driver = Driver(app, pilot)
            await driver.settle()
            await script(driver)

    with no_idling():
        asyncio.run(run())
