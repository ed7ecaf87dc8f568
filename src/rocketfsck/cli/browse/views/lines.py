"""A list of lines of any length: only those on the screen are ever made, and none is a widget.

Lines that must be read come from `fetch`, which runs in a worker thread; until they are there, their place is
empty. No line is markup: what a store says is printable text when it comes here, and is drawn as it is.

What work in a worker thread is stopped by: the worker that Textual cancels, or the user.

Work that can be stopped: every read asks whether its work is still wanted (`rocketfsck.progress`).

with stoppable(stop):       the work of this thread raises CancelledError once `stop` is set
    reader.read(pos, size)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.worker import Worker, get_current_worker

from rocketfsck import progress
from rocketfsck.errors import CancelledError, RocketfsckError


@contextmanager
def stoppable(stop: threading.Event) -> Iterator[None]:
    """Run work of this thread that ends with CancelledError at the next read once `stop` is set."""

    def ask() -> None:
        if stop.is_set():
            raise CancelledError("cancelled")

    with progress.stoppable(ask):
        yield


class Stop(threading.Event):
    """Set by whoever gives up the work, and as soon as the worker that it follows is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self._worker: Worker[Any] | None = None

    def follow(self, worker: Worker[Any]) -> None:
        """Count as set once this worker is cancelled."""
        self._worker = worker

    def is_set(self) -> bool:
        return super().is_set() or (self._worker is not None and self._worker.is_cancelled)


AHEAD = 100
"""Lines that are fetched before and after those on the screen."""
CURSOR, NO_CURSOR = "> ", "  "

Fetch = Callable[[int, int], list[str]]
"""`fetch(first, end)` gives the lines of these numbers; it may read files, and raise RocketfsckError."""


class Lines(ScrollView, can_focus=True):
    """Lines with a cursor. `Chosen` follows Enter or a double click, `Moved` a cursor that moved."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown,space", "page(1)", "Page down", show=False),
        Binding("home", "to(0)", "First", show=False),
        Binding("end,G", "to(-1)", "Last", show=False),
        Binding("left", "aside(-8)", "Left", show=False),
        Binding("right", "aside(8)", "Right", show=False),
        Binding("enter", "choose", "Follow", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"lines--cursor", "lines--error", "lines--warning"}
    DEFAULT_CSS = """
    Lines { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }
    Lines > .lines--cursor { text-style: reverse; }
    Lines > .lines--error { color: $text-error; text-style: bold; }
    Lines > .lines--warning { color: $text-warning; }
    """

    class Chosen(Message):
        """A line was chosen."""

        def __init__(self, lines: Lines, number: int) -> None:
            super().__init__()
            self.lines = lines
            self.number = number

        @property
        def control(self) -> Lines:
            return self.lines

    class Moved(Chosen):
        """The cursor is on another line."""

    class Shifted(Message):
        """The lines moved to the side."""

        def __init__(self, lines: Lines) -> None:
            super().__init__()
            self.lines = lines

    def __init__(self, *, id: str | None = None, cursor: bool = True) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self.count = 0
        self.cursor = 0
        self.has_cursor = cursor
        self.shift = 0
        self._fetch: Fetch | None = None
        self._ready = True
        self._first = 0
        self._lines: list[str] = []
        self._above: int | None = None

    def show(
        self, count: int, fetch: Fetch, *, ready: bool, cursor: int = 0, above: int | None = None
    ) -> None:
        """Show `count` lines. `ready`: `fetch` reads nothing and is asked on the screen's own thread.

        The cursor's line comes `above` lines below the upper edge, or else into the middle.
        """
        self.workers.cancel_node(self)
        self.count, self._fetch, self._ready = count, fetch, ready
        self._first, self._lines = 0, []
        self.cursor = max(min(cursor, count - 1), 0)
        self.virtual_size = Size(self.size.width, count)
        self._above = above
        self._scroll_to_cursor()
        self.call_after_refresh(self._scroll_to_cursor)
        self._want()
        self.refresh()

    def show_all(self, lines: Sequence[str], cursor: int = 0, above: int | None = None) -> None:
        """Show lines that are there."""
        self.show(len(lines), lambda low, high: [*lines[low:high]], ready=True, cursor=cursor, above=above)

    def _scroll_to_cursor(self) -> None:
        height, above = self.size.height, self._above
        lines = above if above is not None and above < height else height // 2
        # By force: without it nothing is scrolled until a layout has seen that there is more than fits.
        self.scroll_to(0, max(self.cursor - lines, 0), animate=False, immediate=True, force=True)

    def again(self) -> None:
        """Make the lines again, where what they say has changed."""
        self._first, self._lines = 0, []
        self._want()
        self.refresh()

    def on_resize(self) -> None:
        self.virtual_size = Size(self.size.width, self.count)
        if self.has_cursor:  # the lines may have come before the height did
            self._scroll_to_cursor()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._want()

    def _want(self) -> None:
        """See that the lines on the screen are there, or on their way."""
        top = int(self.scroll_offset.y)
        end = min(top + max(self.size.height, 1), self.count)
        if self._fetch is None or (self._first <= top and end <= self._first + len(self._lines)):
            return
        first, last = max(top - AHEAD, 0), min(end + AHEAD, self.count)
        if self._ready:
            self._first, self._lines = first, self._fetch(first, last)
            return
        read = partial(self._read, self._fetch, first, last, Stop())
        self.run_worker(read, thread=True, exclusive=True, group="lines")

    def _read(self, fetch: Fetch, first: int, last: int, stop: Stop) -> None:
        """Fetch lines, in a worker thread."""
        worker = get_current_worker()
        stop.follow(worker)
        try:
            with stoppable(stop):
                lines = fetch(first, last)
        except CancelledError:
            return
        except RocketfsckError as error:
            lines = [f"cannot be read: {error}"] * (last - first)
        if not worker.is_cancelled:
            self.app.call_from_thread(self._take, fetch, first, lines)

    def _take(self, fetch: Fetch, first: int, lines: list[str]) -> None:
        if fetch is self._fetch:
            self._first, self._lines = first, lines
            self._want()
            self.refresh()

    def text_of(self, number: int) -> str:
        """A line, "" where it is not there yet."""
        at = number - self._first
        return self._lines[at] if 0 <= at < len(self._lines) else ""

    def render_line(self, y: int) -> Strip:
        number = int(self.scroll_offset.y) + y
        return self.drawn(number if number < self.count else -1, self.text_of(number))

    def drawn(self, number: int, text: str) -> Strip:
        """A line as it is drawn; an empty one for number -1."""
        columns = self.size.width
        is_cursor = self.has_cursor and number == self.cursor and number >= 0
        style = self.rich_style + self._style_of(text)
        if is_cursor and self.has_focus:
            style += self.get_component_rich_style("lines--cursor", partial=True)
        before = (CURSOR if is_cursor else NO_CURSOR) if self.has_cursor else ""
        strip = Strip([Segment(text, style)]).crop(self.shift)
        return Strip([Segment(before, style), *strip]).crop_extend(0, columns, style)

    def _style_of(self, text: str) -> Style:
        if text.startswith("E "):
            return self.get_component_rich_style("lines--error", partial=True)
        if text.startswith(("! ", "-- ")):
            return self.get_component_rich_style("lines--warning", partial=True)
        return Style.null()

    def action_move(self, step: int) -> None:
        """Move the cursor, or scroll where there is none."""
        if not self.has_cursor:
            self.scroll_relative(y=step, animate=False, immediate=True)
            return
        self.move_to(self.cursor + step)

    def action_page(self, step: int) -> None:
        """Move by a screen."""
        self.action_move(step * max(self.size.height - 1, 1))

    def action_to(self, number: int) -> None:
        """Go to a line; -1 is the last."""
        if not self.has_cursor:
            self.scroll_to(0, self.count if number < 0 else number, animate=False, immediate=True)
            return
        self.move_to(self.count - 1 if number < 0 else number)

    def action_aside(self, step: int) -> None:
        """Move the lines to the side, as far as one of those on the screen goes."""
        top = int(self.scroll_offset.y)
        seen = (self.text_of(number) for number in range(top, top + self.size.height))
        room = self.size.width - (len(CURSOR) if self.has_cursor else 0)
        self.shift = max(min(self.shift + step, max(map(cell_len, seen), default=0) - room), 0)
        self.post_message(self.Shifted(self))
        self.refresh()

    def action_choose(self) -> None:
        if self.count:
            self.post_message(self.Chosen(self, self.cursor))

    def move_to(self, number: int) -> None:
        """Put the cursor on a line, and the line on the screen."""
        number = max(min(number, self.count - 1), 0)
        moved, self.cursor, self._above = number != self.cursor, number, None
        self.scroll_to_region(Region(0, number, 1, 1), animate=False, immediate=True, force=True)
        self.refresh()
        if moved:
            self.post_message(self.Moved(self, number))

    def on_click(self, event: events.Click) -> None:
        number = int(self.scroll_offset.y) + event.y
        if self.has_cursor and 0 <= number < self.count:
            self.move_to(number)
            if event.chain > 1:
                self.action_choose()
