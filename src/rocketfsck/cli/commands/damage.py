"""`rocketfsck damage STORE --into DIR --fault NAME`: break a copy of a store, tell what a check must find."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import click

from rocketfsck.cli.adapter import Formats, SkipPause, WritingCommand, command_of, pause_before_danger
from rocketfsck.cli.output import SCHEMA_VERSION, Destination
from rocketfsck.cli.show.text import aligned, visible
from rocketfsck.commands.damage import DamageCommand, damage
from rocketfsck.commands.shared import refuse_inside
from rocketfsck.common.documents import plain
from rocketfsck.common.options import Option, PutAfter

if TYPE_CHECKING:
    from rocketfsck.cli.show.text import Palette
    from rocketfsck.writer.damage import Act, DamageReport

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


@command_of(
    DamageLine,
    cls=WritingCommand,
    dangers={"in_place": "the store itself is damaged, not a copy: there is no way back"},
)
def command(line: DamageLine) -> None:
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
    if line.answer.path is not None:
        refuse_inside(line.answer.path, [line.path, *([into] if into is not None else [])])
    pause_before_danger(line.yes)
    report = damage(line)
    line.answer.say(report.to_json, lambda _: _lines(report), [line.path])


def _lines(report: DamageReport) -> Iterator[str]:
    from rocketfsck.writer.damage import truth_path

    for act in report.acts:
        yield visible(f"{act.fault}: {act.note}")
        yield from (f"  {visible(line)}" for line in _lines_of(act))
    yield f"The list of changes and expected findings is in {visible(str(truth_path(report.target)))}."
    paths = "".join(
        f" --commitlog-path {visible(f'{report.target}/{path}')}" for path in report.commitlog_paths
    )
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

    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "rocketfsck.damage.faults",
        "faults": plain(list(DAMAGES.values())),
    }
