"""`rocketfsck damage STORE --into DIR --fault NAME`: break a copy of a store, tell what a check must find."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketfsck.cli.danger import WritingCommand, pause_before_danger, pause_option
from rocketfsck.cli.options import into_option, seed_option
from rocketfsck.cli.output import SCHEMA_VERSION, refuse_inside
from rocketfsck.cli.params import Destination, broker_conf_option, broker_version_option, output_options
from rocketfsck.cli.paramtypes import StorePath
from rocketfsck.cli.settings import common_options
from rocketfsck.common.documents import plain

if TYPE_CHECKING:
    from rocketfsck.cli.show.text import Palette
    from rocketfsck.writer.damage import Act, DamageReport

_SHOWN = 12


@click.command(
    cls=WritingCommand,
    dangers={"in_place": "the store itself is damaged, not a copy: there is no way back"},
)
@click.argument("path", metavar="STORE", required=False, type=StorePath("a copy to damage"))
@into_option()
@click.option(
    "--fault", "faults", multiple=True, metavar="NAME[:OPTION=VALUE,...]", help="Fault to cause; repeatable."
)
@seed_option
@click.option("--in-place", is_flag=True, help="Damage STORE itself, not a copy. Nothing can undo this.")
@click.option(
    "--list", "list_faults", is_flag=True, help="List the faults, with the needs and effects of each."
)
@pause_option
@broker_version_option()
@broker_conf_option
@output_options("text", "json")
@click.pass_context
@common_options
def command(
    context: click.Context,
    /,
    path: Path | None,
    into: Path | None,
    faults: tuple[str, ...],
    seed: int | None,
    in_place: bool,
    list_faults: bool,
    broker_version: str | None,
    broker_conf: Path | None,
    yes: bool,
    answer: Destination,
) -> None:
    """Damage a copy of STORE with named faults, at places that the seed chooses.

    damage prints what it changed and what a check must find, and writes both to DIR.damage.json. STORE itself
    changes only with --in-place.
    """
    from rocketfsck.writer.damage import damage_store

    if list_faults:
        answer.say(_json_of_faults, _lines_of_faults)
        return
    if path is None:
        raise click.UsageError("Missing argument 'STORE'.", context)
    if (into is None) != in_place:
        raise click.UsageError("Give --into DIR, or --in-place.", context)
    if answer.path is not None:
        refuse_inside(answer.path, [path, *([into] if into is not None else [])])
    pause_before_danger(yes)
    report = damage_store(
        path, into, faults, seed or 0, version=broker_version, broker_conf=broker_conf, in_place=in_place
    )
    answer.say(report.to_json, lambda _: _lines(report), [path])


def _lines(report: DamageReport) -> Iterator[str]:
    from rocketfsck.cli.show.text import visible
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
    from rocketfsck.cli.show.table import aligned
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
