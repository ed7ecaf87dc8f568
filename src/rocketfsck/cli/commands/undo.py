"""`rocketfsck undo STORE`: takes the last repair of a store back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from rocketfsck.cli.adapter import Formats, SkipPause, WritingCommand, command_of, pause_before, say_notes
from rocketfsck.cli.output import Destination
from rocketfsck.commands.apply import UndoCommand, undo


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoLine(UndoCommand):
    """An undo, with a pause before what is dangerous, and where its answer goes."""

    yes: SkipPause = False
    answer: Annotated[Destination, Formats(("text", "json"))]


@command_of(
    UndoLine,
    cls=WritingCommand,
    advisory=("outside",),
    dangers={"force": "what was written since the repair leaves the store, and is kept next to it"},
)
def command(line: UndoLine) -> None:
    """Take back the last repair of STORE, finished or interrupted: its bytes, names and times.

    After an interruption, run the same command again to finish. Messages written after the repair would leave
    the store: that needs --force.
    """
    from rocketfsck.cli.show.repair import undo_lines

    answer = undo(line, partial(pause_before, line.answer.path, line.yes))
    say_notes(answer.notes)
    line.answer.say(answer.report.to_json, lambda palette: undo_lines(answer.report, palette), answer.stores)
