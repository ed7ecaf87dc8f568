"""`rocketfsck damage STORE --into DIR --fault NAME`: break a copy of a store, tell what a check must find.

`rocketfsck learn DIR`: damaged copies of a small store to practise on, and which are solved.

`rocketfsck write`: a store as a broker writes it, from messages or from a seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from rocketfsck.cli.adapter import Formats, SkipPause, WritingCommand, command_of, pause_before_danger
from rocketfsck.cli.lang import say_line
from rocketfsck.cli.output import SCHEMA_VERSION, Destination
from rocketfsck.cli.show.text import Palette, aligned, byte_size, count_of, text_columns, visible, wrapped
from rocketfsck.commands import learn as commands_learn
from rocketfsck.commands.learn import DamageCommand, LearnAnswer, LearnCommand, WriteCommand
from rocketfsck.commands.shared import refuse_inside
from rocketfsck.common.documents import plain, to_document
from rocketfsck.common.options import Option, PutAfter
from rocketfsck.errors import EXIT_CLEAN

if TYPE_CHECKING:
    from rocketfsck.writer.damage import Act, DamageReport
    from rocketfsck.writer.writing import MadeStore


@command_of(WriteCommand)
def write_command(line: WriteCommand) -> int:
    """Write a store into a new directory, byte for byte as a broker would.

    The messages come from INPUT (JSON lines, Parquet or Arrow; - for JSON lines on standard input), or
    --synth synthesises them. After an error or an interruption, no part of the store is left.
    """
    _tell(commands_learn.write(line), line.into)
    return EXIT_CLEAN


def _tell(made: MadeStore, into: Path) -> None:
    store = made.store
    topics = len({queue.topic for queue in store.queues})
    say_line(
        f"{visible(str(into))}: {count_of(store.message_count, 'message')}, "
        f"{count_of(store.record_count, 'record')}, {byte_size(store.max_offset - store.min_offset)} of "
        f"commit log; {count_of(topics, 'topic')}, {count_of(len(store.queues), 'queue')}, "
        f"{count_of(len(store.index_files), 'index file')}; as {store.version}"
    )
    for path in (made.manifest, made.messages):
        if path is not None:
            say_line(f"  {visible(str(path))}")
    say_line(f"Next: rocketfsck check {visible(str(into))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnLine(LearnCommand):
    """Where exercises are, and where the answer goes."""

    answer: Annotated[Destination, Formats(("text", "json"))]


@command_of(LearnLine)
def learn_command(line: LearnLine) -> int:
    """Make a small store in DIR, and five damaged copies of it as exercises.

    DIR/tasks.txt says what to do in each. Repair the copies with the commands that repair real stores; a copy
    that went wrong comes back with `undo`. No broker and no network take part.

    --verify says which exercises are solved, and what is left in the others; the exit status is 4 while one
    is open.
    """
    found = commands_learn.learn(line)
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
    yield f"The same, with hints, is in {directory}/{commands_learn.TASKS}."
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


_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageLine(DamageCommand):
    """What is damaged, or the list of faults, and where the answer goes."""

    answer: Annotated[Destination, Formats(("text", "json"))]
    list_faults: Annotated[
        bool,
        PutAfter("in_place"),
        Option("List the faults, with the needs and effects of each.", names=("--list",)),
    ] = False
    yes: SkipPause = False


IN_PLACE = {"in_place": "the store itself is damaged, not a copy: there is no way back"}


@command_of(DamageLine, cls=WritingCommand, dangers=IN_PLACE)
def damage_command(line: DamageLine) -> None:
    """Damage a copy of STORE with named faults, at places that the seed chooses.

    damage prints what it changed and what a check must find, and writes both to DIR.damage.json. STORE itself
    changes only with --in-place.
    """
    if line.list_faults:
        line.answer.say(_json_of_faults, _lines_of_faults)
        return
    context, into = click.get_current_context(), line.into
    if line.path is None:
        raise click.UsageError("Missing argument 'STORE'.", context)
    if (into is None) != line.in_place:
        raise click.UsageError("Give --into DIR, or --in-place.", context)
    refuse_inside(line.answer.path, [line.path, *([into] if into is not None else [])])
    pause_before_danger(line.yes)
    report = commands_learn.damage(line)
    line.answer.say(report.to_json, lambda _: _lines(report), [line.path])


def _lines(report: DamageReport) -> Iterator[str]:
    from rocketfsck.writer.damage import truth_path

    for act in report.acts:
        yield visible(f"{act.fault}: {act.note}")
        yield from (f"  {visible(line)}" for line in _lines_of(act))
    yield f"The list of changes and expected findings is in {visible(str(truth_path(report.target)))}."
    places = (visible(f"{report.target}/{path}") for path in report.commitlog_paths)
    paths = "".join(f" --commitlog-path {place}" for place in places)
    yield f"Next: rocketfsck check {visible(report.target)}{paths}"


def _lines_of(act: Act) -> Iterator[str]:
    for change in act.changes[:_SHOWN]:
        extent = change.before or change.after
        place = "" if extent is None else f" bytes {extent.start} to {extent.end}"
        to = "" if change.renamed_to is None else f" to {change.renamed_to}"
        yield f"{change.action} {change.file}{place}{to}"
    if len(act.changes) > _SHOWN:
        yield f"... and {len(act.changes) - _SHOWN} more changes"
    for promise in act.must_find[:_SHOWN]:
        facts = ", ".join(f"{name} {value}" for name, value in promise.where.facts().items())
        yield f"must be found: {' or '.join(promise.rules)}{f' at {facts}' if facts else ''}"
    if len(act.must_find) > _SHOWN:
        yield f"... and {len(act.must_find) - _SHOWN} more"
    if act.unseen:
        yield f"no check can find this: {act.unseen}"


def _lines_of_faults(_: Palette) -> Iterator[str]:
    from rocketfsck.writer.damage import DAMAGES

    rows = [
        (damage.name, damage.fault_class or "-", damage.summary, f"needs {damage.needs}")
        for damage in DAMAGES.values()
    ]
    yield from aligned([("FAULT", "CLASS", "WHAT", ""), *rows])


def _json_of_faults() -> dict[str, Any]:
    from rocketfsck.writer.damage import DAMAGES

    faults = plain(list(DAMAGES.values()))
    return {"schema_version": SCHEMA_VERSION, "kind": "rocketfsck.damage.faults", "faults": faults}
