"""The rows of one file: a window of items that grows as the cursor comes near its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from textual.binding import BindingType
from textual.message import Message

from rocketfsck.cli.browse.model.cells import Table
from rocketfsck.cli.browse.views.lines import Lines
from rocketfsck.cli.dump.item import Item

NEAR = 100
"""So near to an end of the window, more is asked for."""
PAGE = 200
"""Rows that are fetched at once."""
MOST = 4 * PAGE
"""Rows that are kept."""

Direction = Literal["forward", "backward", "first", "last"]


class Rows(Lines):
    """Items in a window. `Needed` asks for more of them; `take` and `extend` give them."""

    BINDINGS: ClassVar[list[BindingType]] = []
    DEFAULT_CSS = "Rows { scrollbar-size-vertical: 0; }"

    class Needed(Message):
        """More rows are wanted in a direction."""

        def __init__(self, direction: Direction) -> None:
            super().__init__()
            self.direction = direction

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self.items: list[Item] = []
        self.is_first = self.is_last = True
        self.is_waiting = False
        self.table_title = ""

    @property
    def item(self) -> Item | None:
        """The item that the cursor is on."""
        return self.items[self.cursor] if 0 <= self.cursor < len(self.items) else None

    def take(
        self, items: Sequence[Item], table: Table, cursor: int, *, first: bool, last: bool, jump: bool
    ) -> None:
        """Show another window; `first` and `last` say whether it begins or ends where the file does.

        Unless it is a `jump`, the cursor's line stays where it is on the screen.
        """
        self.items = list(items)
        self.is_first, self.is_last, self.is_waiting = first, last, False
        self.table_title = table.title
        above = None if jump else self.cursor - int(self.scroll_offset.y)
        self.show(
            len(self.items), lambda low, high: table.lines[low:high], ready=True, cursor=cursor, above=above
        )

    def move_to(self, number: int) -> None:
        super().move_to(number)
        if number < NEAR and not self.is_first:
            self._need("backward")
        elif number >= self.count - NEAR and not self.is_last:
            self._need("forward")

    def action_to(self, number: int) -> None:
        """Go to the first or the last row of the file, wherever that is."""
        if number < 0 and not self.is_last:
            self._need("last")
        elif number == 0 and not self.is_first:
            self._need("first")
        else:
            super().action_to(number)

    def _need(self, direction: Direction) -> None:
        if not self.is_waiting:
            self.is_waiting = True
            self.post_message(self.Needed(direction))
