"""`rocketfsck undo STORE`: takes the last repair of a store back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rocketfsck.cli.adapter import Formats, command_of
from rocketfsck.cli.danger import SkipPause, WritingCommand, pause_before_danger, say_notes
from rocketfsck.cli.params import Destination
from rocketfsck.commands.apply import UndoCommand, undo
from rocketfsck.commands.places import refuse_inside


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

    def pause(stores: list[Path]) -> None:
        if line.answer.path is not None:
            refuse_inside(line.answer.path, stores)
        pause_before_danger(line.yes)

    answer = undo(line, pause)
    say_notes(answer.notes)
    line.answer.say(answer.report.to_json, lambda palette: undo_lines(answer.report, palette), answer.stores)
