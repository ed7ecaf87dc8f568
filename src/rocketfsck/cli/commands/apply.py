"""`rocketfsck apply PLAN`: does what a plan says, next to the store, and puts the result in its place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from rocketfsck.cli.adapter import Formats, SkipPause, WritingCommand, command_of, pause_before, say_notes
from rocketfsck.cli.output import Destination
from rocketfsck.cli.show.text import text_columns
from rocketfsck.commands.apply import ApplyCommand, apply


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyLine(ApplyCommand):
    """An apply, with a pause before what is dangerous, and where its answer goes."""

    yes: SkipPause = False
    answer: Annotated[Destination, Formats(("text", "json"))]


@command_of(
    ApplyLine,
    cls=WritingCommand,
    advisory=("in_place", "assume", "broker_conf", "outside"),
    dangers={"no_undo": "the store of before is deleted in the end: this repair cannot be taken back"},
)
def command(line: ApplyLine) -> int:
    """Carry out the plan in the file PLAN, or the last plan of STORE that was made without a file.

    apply builds the result next to the store, checks it, and only then puts it in the store's place; the
    former store is kept for `rocketfsck undo`. After an interruption, run the same command again to finish.
    If the plan assumes values that the bytes do not show, confirm them by --assume or by the settings in
    --broker-conf. Exit status 1: corrected; 4: problems are left, or the result was not as planned and
    nothing was changed; 16: an assumption is not confirmed.
    """
    from rocketfsck.cli.show.repair import apply_lines

    answer = apply(line, partial(pause_before, line.answer.path, line.yes))
    say_notes(answer.notes)
    report, columns = answer.report, text_columns()
    line.answer.say(report.to_json, lambda palette: apply_lines(report, palette, columns), answer.stores)
    return answer.exit_code
