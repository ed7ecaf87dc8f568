"""`rocketfsck export STORE… --into DIR`: stores as Parquet files, or as a Delta or Iceberg table."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketfsck.cli.base import Command
from rocketfsck.cli.engines import chosen_engine, engine_options
from rocketfsck.cli.memory import memory_option
from rocketfsck.cli.options import (
    broker_name_option,
    into_option,
    jobs_option,
    key_option,
    physical_offset_option,
    queue_option,
    tag_option,
    time_options,
    topic_option,
)
from rocketfsck.cli.output import Format, plain_values, refuse_inside, to_json
from rocketfsck.cli.params import (
    StoreOptions,
    catalog_option,
    format_option,
    properties_of,
    store_options,
    table_format_option,
)
from rocketfsck.cli.paramtypes import ByteSize, StorePath
from rocketfsck.cli.settings import common_options
from rocketfsck.cli.show.text import byte_size, count_of, visible
from rocketfsck.cli.storepath import resolved
from rocketfsck.cli.timing import timing_of
from rocketfsck.errors import EXIT_CLEAN, EXIT_OPERATIONAL, EXIT_PROBLEMS, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketfsck.pipeline.export.model import ExportOptions, ExportResult

VIEWS = ("messages", "damage", "consumequeue", "index", "regions", "findings", "files")


@click.command(cls=Command)
@click.argument("paths", nargs=-1, required=True, type=StorePath(), metavar="STORE…")
@into_option(required=True, remote=True)
@click.option("--replace", "replace_existing", is_flag=True, help="Replace an existing directory.")
@click.option(
    "--append",
    is_flag=True,
    help="Append what is new to the Delta or Iceberg table there; make the table if there is none.",
)
@click.option(
    "--view", type=click.Choice(VIEWS), default="messages", show_default=True, help="View to export."
)
@table_format_option
@click.option(
    "--partition-by",
    metavar="COLUMNS",
    help="Directories by these columns of text, or `date` (UTC); default: topic,date "
    "for messages, topic for consumequeue. none: no directories.",
)
@broker_name_option
@topic_option
@queue_option
@tag_option
@key_option
@time_options
@physical_offset_option
@click.option("--columns", metavar="NAMES", help="Only these columns, and those that name the bytes.")
@click.option("--no-bodies", is_flag=True, help="Leave out bodies and the check of their checksums.")
@click.option(
    "--mode",
    type=click.Choice(["PERMISSIVE", "DROPMALFORMED", "FAILFAST"], case_sensitive=False),
    default="PERMISSIVE",
    show_default=True,
    help="Damage: in a separate table, counted and dropped, or an error.",
)
@click.option(
    "--on-unreadable",
    type=click.Choice(["fail", "row"]),
    default="fail",
    show_default=True,
    help="An unreadable or vanished file: an error, or a row of damage.",
)
@click.option(
    "--compression",
    type=click.Choice(["zstd", "snappy", "lz4", "gzip", "none"]),
    default="zstd",
    show_default=True,
    help="Compression of the Parquet files.",
)
@click.option("--memory", type=ByteSize(), help="For rows that a task holds; default 256MiB a task.")
@click.option("--no-merge", is_flag=True, help="Do not merge the small files of a partition.")
@catalog_option
@click.option(
    "--table",
    "table_name",
    metavar="NAMESPACE.NAME",
    help="Table name in Iceberg's catalog; default: rocketmq.VIEW.",
)
@jobs_option
@memory_option("export")
@engine_options
@store_options
@format_option("text", "json")
@timing_of("export")
@common_options
def command(
    paths: tuple[Path, ...],
    into: Path,
    replace_existing: bool,
    append: bool,
    brokers: tuple[str, ...],
    stated: StoreOptions,
    engine: str,
    master: str | None,
    output_format: Format,
    **choices: Any,
) -> int:
    """Write what is in STOREs as Parquet files that every tool reads, as a Delta or an Iceberg table.

    A STORE may also be a directory of stores; --into may be a URL, like s3://bucket/tables. Columns name the
    broker of each row and the place of its bytes.
    export only reads the STOREs. Of several, one that cannot be opened or read, or whose log was cut, is
    named, and the others are exported. Exit status 4 means that a store is damaged, 8 that one is left out.
    """
    from rocketfsck.pipeline.export.append import append_stores
    from rocketfsck.pipeline.export.job import export_stores

    if append and replace_existing:
        raise UsageError("give --append or --replace, not both")
    for path in (*paths, *stated.commitlog_paths):
        refuse_inside(into, [path])
        if resolved(path).is_relative_to(resolved(into)):
            raise UsageError(
                f"{visible(str(path))} is inside {visible(str(into))}, which --replace would delete"
            )
    options = _options(**choices)
    sources, failed = (
        stated.sources_or_errors(paths, brokers) if len(paths) > 1 else (stated.sources(paths, brokers), [])
    )
    missing = {name for name, _ in failed}
    read = [path for path in paths if str(path) not in missing]
    workers = chosen_engine(engine, master, [*read, *stated.commitlog_paths], into=into)
    if append:
        result = append_stores(sources, into, options, engine=workers)
    else:
        result = export_stores(sources, into, options, engine=workers, replace_existing=replace_existing)
    result = replace(result, failed=(*failed, *result.failed))
    for name, error in result.failed:
        click.echo(f"Error: {visible(name)}: {visible(error, keep_backslash=True)}", err=True)
    if output_format == "json":
        click.echo(to_json(export_json(result, options), indent=2))
    else:
        for line in export_lines(result, options):
            click.echo(line)
    code = EXIT_PROBLEMS if result.has_problems else EXIT_CLEAN
    return code | (EXIT_OPERATIONAL if result.failed else EXIT_CLEAN)


def _options(
    view: str,
    table_format: Any,
    partition_by: str | None,
    columns: str | None,
    physical_offsets: tuple[int, int] | None,
    begin: int | None,
    end: int | None,
    mode: str,
    compression: str,
    no_bodies: bool,
    no_merge: bool,
    memory: int | None,
    properties: tuple[str, ...],
    table_name: str | None,
    **conditions: Any,
) -> ExportOptions:
    from rocketfsck.pipeline.export.model import MEMORY_SIZE, ExportOptions
    from rocketfsck.pipeline.views.model import WantedRows

    low, high = physical_offsets or (None, None)
    wanted = WantedRows(
        columns=None if columns is None else _names(columns),
        begin_timestamp=begin,
        end_timestamp=end,
        begin_offset=low,
        end_offset=high,
        mode=mode.upper(),  # type: ignore[arg-type]
        **conditions,
    )
    partition = None if partition_by is None else () if partition_by == "none" else _names(partition_by)
    return ExportOptions(
        view=view,
        table_format=table_format,
        wanted=wanted,
        partition=partition,
        compression=compression,
        bodies=not no_bodies,
        memory_size=memory or MEMORY_SIZE,
        merge=not no_merge,
        properties=properties_of(properties),
        table=table_name or "",
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def export_json(result: ExportResult, options: ExportOptions) -> dict[str, Any]:
    """The result as one object; the files are in the manifest."""
    return {
        "schema_version": 1,
        "kind": "rocketfsck.export",
        **plain_values({"into": result.path, "manifest": _manifest_of(result, options)}),
        "view": options.view,
        "format": options.table_format,
        "row_count": result.row_count,
        "file_count": len(result.files),
        "size": result.size,
        "damage_count": result.damage_count if result.damage_told else None,
        "damaged_byte_count": result.damaged_byte_count if result.damage_told else None,
        "corrupt_count": result.corrupt_count,
        "crowded_count": sum(file.row_count for file in result.crowded),
        "task_count": result.task_count,
        "appended": result.appended,
        "mended": result.mended,
        "gaps": [asdict(gap) for gap in result.gaps],
        "leftovers": list(result.leftovers),
        "active_runs": list(result.active_runs),
        "failed": [{"broker": broker, "error": error} for broker, error in result.failed],
    }


def _manifest_of(result: ExportResult, options: ExportOptions) -> str:
    from rocketfsck.pipeline.export.model import MANIFEST

    own = result.run and options.table_format != "parquet"
    return "/".join((result.path, *([result.run] if own else []), MANIFEST))


def export_lines(result: ExportResult, options: ExportOptions) -> Iterator[str]:
    """The result for people."""
    from rocketfsck.pipeline.export.model import ASIDE, CROWDED

    partitions = len({file.cell for file in result.files})
    verb = "Appended" if result.appended else "Exported"
    yield (
        f"{verb} {count_of(result.row_count, 'row')} of the view {options.view} to "
        f"{count_of(len(result.files), 'file')} in {count_of(partitions, 'partition')}"
    )
    yield f"  {options.table_format}: {visible(result.path)}"
    dropped = options.wanted.mode == "DROPMALFORMED"
    if result.damage_count:
        if options.view == "messages":
            size = byte_size(result.damaged_byte_count)
            what = f"{count_of(result.damage_count, 'range')} of the commit log, {size}"
        else:
            what = count_of(result.damage_count, "row")
        listed = f"listed in {_folder_of(result, ASIDE)}" if result.aside else "not listed: nothing is new"
        where = listed if options.view == "messages" else "marked in _corrupt_record"
        yield f"  damage: {what}, {'dropped' if dropped else where}"
    if result.corrupt_count:
        where = "dropped" if dropped else "exported, and marked in _corrupt_record"
        yield f"  wrong checksums: {count_of(result.corrupt_count, 'message')}, {where}"
    if result.crowded:
        rows = sum(file.row_count for file in result.crowded)
        yield f"  too many partitions: {count_of(rows, 'row')} in {_folder_of(result, CROWDED)} instead"
    for gap in result.gaps:
        yield (
            f"  gap: {visible(gap.broker)} deleted offsets {gap.start} to {gap.end} before they were appended"
        )
    for name in result.leftovers:
        yield f"  removed {visible(name)}, which a killed run left"
    for name in result.active_runs:
        yield f"  left {visible(name)} as it is: the run that writes there may be alive"
    if result.mended:
        yield "  mended: filters on columns of text found nothing in this table of a former version"
    if not result.damage_told:
        yield "  not checked for damage: damage has no topic, queue, key or time to select by"


def _folder_of(result: ExportResult, name: str) -> str:
    """A directory of this run, below the table's."""
    return f"{result.run}/{name}" if result.run else name
