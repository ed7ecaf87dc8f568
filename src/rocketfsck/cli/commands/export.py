"""`rocketfsck export STORE… --into DIR`: stores as Parquet files, or as a Delta or Iceberg table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketfsck.cli.base import Command, common_options
from rocketfsck.cli.engines import chosen_engine, engine_options
from rocketfsck.cli.output import plain_values, refuse_inside, to_json
from rocketfsck.cli.params import NumberRange, StorePath, Timestamp, Told, store_options
from rocketfsck.cli.progress import progress
from rocketfsck.cli.show.text import byte_size, count_of, visible
from rocketfsck.cli.storepath import resolved
from rocketfsck.cli.writeoptions import ByteSize
from rocketfsck.errors import EXIT_CLEAN, EXIT_PROBLEMS, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketfsck.pipeline.export.model import ExportOptions, ExportResult

VIEWS = ("messages", "consumequeue", "index", "regions", "findings", "files")


@click.command(cls=Command)
@click.argument("paths", nargs=-1, required=True, type=StorePath(), metavar="STORE…")
@click.option(
    "--into",
    required=True,
    type=StorePath("what is written"),
    help="The new directory, which appears when it is whole.",
)
@click.option(
    "--replace", "replace_existing", is_flag=True, help="Take the place of a directory that exists."
)
@click.option(
    "--view", type=click.Choice(VIEWS), default="messages", show_default=True, help="What the rows are."
)
@click.option(
    "--format",
    "table_format",
    type=click.Choice(["parquet", "delta", "iceberg"]),
    default="parquet",
    show_default=True,
    help="parquet: files. delta, iceberg: the same files as a table; needs the extra 'tables'.",
)
@click.option(
    "--partition-by",
    metavar="COLUMNS",
    help="Directories by these columns of text, or `date` (UTC); default: topic,date "
    "for messages, topic for consumequeue. none: no directories.",
)
@click.option("--broker", "brokers", multiple=True, help="The broker's name of each store, in their order.")
@click.option("--topic", help="Only messages of this topic.")
@click.option("--queue", "queue_id", type=int, help="Only messages of this queueId.")
@click.option("--tag", help="Only messages whose TAGS are this.")
@click.option("--key", help="Only messages with this word in KEYS, or this UNIQ_KEY.")
@click.option("--begin", type=Timestamp(), help="Only messages stored at this time or later.")
@click.option("--end", type=Timestamp(), help="Only messages stored before this time.")
@click.option("--offsets", type=NumberRange(), help="Only what stands there in the commit log.")
@click.option("--columns", metavar="NAMES", help="Only these columns, and those that lead back to the bytes.")
@click.option("--no-bodies", is_flag=True, help="Leave bodies out; their checksums are not compared then.")
@click.option(
    "--mode",
    type=click.Choice(["PERMISSIVE", "DROPMALFORMED", "FAILFAST"], case_sensitive=False),
    default="PERMISSIVE",
    show_default=True,
    help="Damage: put beside the table, counted and dropped, or an error.",
)
@click.option(
    "--on-unreadable",
    type=click.Choice(["fail", "row"]),
    default="fail",
    show_default=True,
    help="A file that cannot be read, or vanished: an error, or a row of damage in its place.",
)
@click.option(
    "--compression",
    type=click.Choice(["zstd", "snappy", "lz4", "gzip", "none"]),
    default="zstd",
    show_default=True,
    help="Of the Parquet files.",
)
@click.option("--memory", type=ByteSize(), help="For rows that a task holds; default 256MiB a task.")
@click.option("--no-merge", is_flag=True, help="Leave the small files of a partition as they are.")
@click.option(
    "--catalog",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="A property of Iceberg's catalog, like uri=…; default: an SQLite file in the directory.",
)
@click.option(
    "--table", "table_name", metavar="NAMESPACE.NAME", help="In Iceberg's catalog; default: rocketmq.VIEW."
)
@click.option("-j", "--jobs", type=click.IntRange(1), help="Tasks at once; default: one a core.")
@engine_options
@store_options
@click.option("--json", "as_json", is_flag=True, help="Say what was done as JSON.")
@common_options
def command(
    paths: tuple[Path, ...],
    into: Path,
    replace_existing: bool,
    brokers: tuple[str, ...],
    told: Told,
    jobs: int | None,
    engine: str,
    master: str | None,
    as_json: bool,
    **choices: Any,
) -> int:
    """Write what is in STOREs as Parquet files that every tool reads, as a Delta or an Iceberg table.

    A STORE may be a directory of stores, too; a column says which broker a row is of, and others where its
    bytes are. The STOREs are only read. Exit status 4 says that damage was met.
    """
    from rocketfsck.pipeline.export.job import export_stores

    for path in (*paths, *told.commitlog_paths):
        refuse_inside(into, [path])
        if resolved(path).is_relative_to(resolved(into)):
            raise UsageError(f"{visible(str(path))} is inside {visible(str(into))}, which would be replaced")
    options = _options(**choices)
    sources = told.sources(paths, brokers)
    with progress("export") as bar:
        result = export_stores(
            sources,
            into,
            options,
            engine=chosen_engine(engine, master, jobs or 0, [*paths, *told.commitlog_paths, into.parent]),
            replace_existing=replace_existing,
            progress=bar.update,
        )
    if as_json:
        click.echo(to_json(export_json(result, options), indent=2))
    else:
        for line in export_lines(result, options):
            click.echo(line)
    return EXIT_PROBLEMS if result.has_problems else EXIT_CLEAN


def _options(
    view: str,
    table_format: Any,
    partition_by: str | None,
    columns: str | None,
    offsets: tuple[int, int] | None,
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
    from rocketfsck.pipeline.views.model import Wanted

    low, high = offsets or (None, None)
    wanted = Wanted(
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
        properties=dict(_pair(text) for text in properties),
        table=table_name or "",
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"a property of a catalog is NAME=VALUE, not {text!r}")
    return name, value


def export_json(result: ExportResult, options: ExportOptions) -> dict[str, Any]:
    """The result as one object; the files are in the manifest."""
    from rocketfsck.pipeline.export.model import MANIFEST

    return {
        "schema_version": 1,
        "kind": "rocketfsck.export",
        **plain_values({"into": result.path, "manifest": f"{result.path}/{MANIFEST}"}),
        "view": options.view,
        "format": options.table_format,
        "row_count": result.row_count,
        "file_count": len(result.files),
        "size": result.size,
        "damage_count": result.damage_count if result.damage_told else None,
        "damage_size": result.damage_size if result.damage_told else None,
        "corrupt_count": result.corrupt_count,
        "crowded_count": sum(file.row_count for file in result.crowded),
        "task_count": result.task_count,
    }


def export_lines(result: ExportResult, options: ExportOptions) -> Iterator[str]:
    """The result for people."""
    from rocketfsck.pipeline.export.model import ASIDE, CROWDED

    partitions = len({file.cell for file in result.files})
    yield (
        f"Exported {count_of(result.row_count, 'row')} of the view {options.view} to "
        f"{count_of(len(result.files), 'file')} in {count_of(partitions, 'partition')}"
    )
    yield f"  {options.table_format}: {visible(result.path)}"
    dropped = options.wanted.mode == "DROPMALFORMED"
    if result.damage_count:
        if options.view == "messages":
            what = (
                f"{count_of(result.damage_count, 'range')} of the commit log, {byte_size(result.damage_size)}"
            )
        else:
            what = count_of(result.damage_count, "row")
        where = f"told in {ASIDE}" if options.view == "messages" else "marked in _corrupt_record"
        yield f"  damage: {what}, {'dropped' if dropped else where}"
    if result.corrupt_count:
        where = "dropped" if dropped else "exported, and marked in _corrupt_record"
        yield f"  wrong checksums: {count_of(result.corrupt_count, 'message')}, {where}"
    if result.crowded:
        rows = sum(file.row_count for file in result.crowded)
        yield f"  too many partitions: {count_of(rows, 'row')} in {CROWDED} instead"
    if not result.damage_told:
        yield "  damage was not looked for: it has no topic, queue, key or time by which it could be selected"
