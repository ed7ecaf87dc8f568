"""`rocketfsck learn DIR`: damaged copies of a small store to practise on, and which are solved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from rocketfsck.cli.adapter import Formats, command_of
from rocketfsck.cli.output import Destination
from rocketfsck.cli.show.text import Palette, text_columns, visible, wrapped
from rocketfsck.commands.learn import TASKS, LearnAnswer, LearnCommand, learn
from rocketfsck.common.documents import to_document


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnLine(LearnCommand):
    """Where exercises are, and where the answer goes."""

    answer: Annotated[Destination, Formats(("text", "json"))]


@command_of(LearnLine)
def command(line: LearnLine) -> int:
    """Make a small store in DIR, and five damaged copies of it as exercises.

    DIR/tasks.txt says what to do in each. Repair the copies with the commands that repair real stores; a copy
    that went wrong comes back with `undo`. No broker and no network take part.

    --verify says which exercises are solved, and what is left in the others; the exit status is 4 while one
    is open.
    """
    found = learn(line)
    lines = _verified if line.verify else _made
    line.answer.say(lambda: to_document(found), lambda palette: lines(found, palette), [line.directory])
    return found.exit_code


def _made(found: LearnAnswer, palette: Palette) -> Iterator[str]:
    directory, columns = visible(found.directory), text_columns()
    for one in found.exercises:
        yield palette.bold(f"{one.name}: {one.title}")
        yield from wrapped(one.text, columns, "  ")
        yield f"  {visible(one.store)}"
        yield ""
    yield f"The same, with hints, is in {directory}/{TASKS}."
    yield f"Next: rocketfsck check {visible(found.exercises[0].store)}"
    yield f"To see what is solved: rocketfsck learn {directory} --verify"


def _verified(found: LearnAnswer, palette: Palette) -> Iterator[str]:
    for one in found.exercises:
        said = "solved" if one.problem is None else f"open: {one.problem}"
        yield f"{palette.bold(one.name)}  {said}"
    yield f"{found.solved_count} of {len(found.exercises)} exercises are solved."
    left = next((one for one in found.exercises if one.problem is not None), None)
    if left is not None:
        yield f"Next: rocketfsck check {visible(left.store)}"
