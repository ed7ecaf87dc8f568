"""Lines by themselves: the cursor is on the screen, whenever lines come, and whatever the screen's height."""

from __future__ import annotations

import asyncio

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from rocketfsck.cli.browse.views.lines import Lines


class Shown(App[None]):
    """A thousand lines, which come before any layout."""

    def __init__(self, cursor: int) -> None:
        super().__init__()
        self.at = cursor

    def compose(self) -> ComposeResult:
        lines = Lines()
        yield lines
        lines.show(
            1000,
            lambda low, high: [f"line {number}" for number in range(low, high)],
            ready=True,
            cursor=self.at,
        )

    @property
    def is_cursor_seen(self) -> bool:
        lines = self.query_one(Lines)
        top = int(lines.scroll_offset.y)
        return lines.cursor == self.at and top <= self.at < top + lines.size.height


@pytest.mark.parametrize("cursor", [0, 137, 999])
def test_the_cursor_is_on_the_screen(cursor: int) -> None:
    async def run() -> None:
        app = Shown(cursor)
        async with app.run_test(size=(80, 24)) as pilot:
            for height in (24, 5, 40, 9):
                await resized(pilot, height)
                assert app.is_cursor_seen

    asyncio.run(run())


async def resized(pilot: Pilot[None], height: int) -> None:
    await pilot.resize_terminal(80, height)
    for _ in range(3):
        await pilot.pause()
