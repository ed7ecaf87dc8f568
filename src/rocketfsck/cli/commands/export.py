"""`rocketfsck export STORE… --into DIR`: stores as Parquet files, or as a Delta or Iceberg table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import click

from rocketfsck.cli.adapter import Formats, command_of
from rocketfsck.cli.lang import say_line
from rocketfsck.cli.output import Destination, plain_values, to_json
from rocketfsck.cli.paramtypes import ROWS_SIZE, Jobs, max_memory
from rocketfsck.cli.show.text import byte_size, count_of, sentence, visible
from rocketfsck.commands.export import ExportCommand, export
from rocketfsck.common.options import PutAfter

if TYPE_CHECKING:
    from rocketfsck.pipeline.export.model import ExportOptions, ExportResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportLine(ExportCommand):
    """An export, and the form of its answer."""

    answer: Annotated[Destination, Formats(("text", "json"), output=None)]
    jobs: Annotated[Jobs, PutAfter("table_name")] = None
    max_memory: Annotated[int | None, max_memory("export")] = None


@command_of(ExportLine, timing="export")
def export_command(line: ExportLine) -> int:
    """Write what is in STOREs as Parquet files that every tool reads, as a Delta or an Iceberg table.

    A STORE may also be a directory of stores; --into may be a URL, like s3://bucket/tables. Columns name the
    broker of each row and the place of its bytes.
    export only reads the STOREs. Of several, one that cannot be opened or read, or whose log was cut, is
    named, and the others are exported. Exit status 4 means that a store is damaged, 8 that one is left out.
    """
    if line.max_memory is not None and line.memory is None:
        line = replace(line, memory=ROWS_SIZE)
    answer = export(line)
    result, options = answer.result, answer.options
    for name, error in result.failed:
        say_line(f"Error: {visible(name)}: {sentence(error)}", err=True)
    if line.answer.form == "json":
        click.echo(to_json(export_json(result, options), indent=2))
    else:
        for text in export_lines(result, options):
            say_line(text)
    return answer.exit_code


def export_json(result: ExportResult, options: ExportOptions) -> dict[str, Any]:
    """The result as one object; the files are in the manifest."""
    return {
        "schema_version": 1,
        "kind": "rocketfsck.export",
        **plain_values({"into": result.path, "manifest": _manifest_of(result)}),
        "view": options.view,
        "format": options.table_format,
        "row_count": result.row_count,
        "file_count": len(result.files),
        "size": result.size,
        "damage_count": result.damage.count if result.damage_told else None,
        "damaged_byte_count": result.damage.byte_count if result.damage_told else None,
        "corrupt_count": result.damage.corrupt_count,
        "appended": result.appended,
        "mended": result.mended,
        "gaps": [asdict(gap) for gap in result.gaps],
        "leftovers": list(result.leftovers),
        "failed": [{"broker": broker, "error": error} for broker, error in result.failed],
    }


def _manifest_of(result: ExportResult) -> str:
    from rocketfsck.pipeline.export.model import MANIFEST

    return "/".join((result.path, *([result.run] if result.run else []), MANIFEST))


def export_lines(result: ExportResult, options: ExportOptions) -> Iterator[str]:
    """The result for people."""
    from rocketfsck.pipeline.export.model import ASIDE

    partitions = len({file.values for file in result.files})
    verb = "Appended" if result.appended else "Exported"
    yield (
        f"{verb} {count_of(result.row_count, 'row')} of the view {options.view} to "
        f"{count_of(len(result.files), 'file')} in {count_of(partitions, 'partition')}"
    )
    yield f"  {options.table_format}: {visible(result.path)}"
    dropped = options.wanted.mode == "DROPMALFORMED"
    damage = result.damage
    if damage.count:
        if options.view == "messages":
            what = f"{count_of(damage.count, 'range')} of the commit log, {byte_size(damage.byte_count)}"
        else:
            what = count_of(damage.count, "row")
        is_kept = result.files or not result.appended
        listed = f"listed in {_folder_of(result, ASIDE)}" if is_kept else "not listed: nothing is new"
        where = listed if options.view == "messages" else "marked in _corrupt_record"
        yield f"  damage: {what}, {'dropped' if dropped else where}"
    if damage.corrupt_count:
        where = "dropped" if dropped else "exported, and marked in _corrupt_record"
        yield f"  wrong checksums: {count_of(damage.corrupt_count, 'message')}, {where}"
    for gap in result.gaps:
        yield (
            f"  gap: {visible(gap.broker)} deleted offsets {gap.start} to {gap.end} before they were appended"
        )
    for name in result.leftovers:
        yield f"  removed {visible(name)}, which a killed run left"
    if result.mended:
        yield "  mended: filters on columns of text found nothing in this table of a former version"
    if not result.damage_told:
        yield "  not checked for damage: damage has no topic, queue, key or time to select by"


def _folder_of(result: ExportResult, name: str) -> str:
    """A directory of this run, below the table's."""
    return f"{result.run}/{name}" if result.run else name
