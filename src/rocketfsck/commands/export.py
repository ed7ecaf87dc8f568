"""Writes what is in stores as Parquet files, as a Delta or an Iceberg table."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rocketfsck.commands import shared
from rocketfsck.common.options import STORE, Argument, Option
from rocketfsck.common.wording import visible
from rocketfsck.errors import EXIT_CLEAN, EXIT_OPERATIONAL, EXIT_PROBLEMS, UsageError

if TYPE_CHECKING:
    from rocketfsck.pipeline.export.model import ExportOptions, ExportResult
    from rocketfsck.pipeline.views.model import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportCommand:
    """What of which stores is written, in which form, and where."""

    paths: Annotated[tuple[Path, ...], Argument(metavar="STORE…", kind=STORE)]
    into: shared.IntoRemote
    replace_existing: Annotated[bool, Option("Replace an existing directory.", names=("--replace",))] = False
    append: Annotated[
        bool,
        Option("Append what is new to the Delta or Iceberg table there; make the table if there is none."),
    ] = False
    view: Annotated[
        Literal[
            "messages",
            "damage",
            "consumequeue",
            "index",
            "regions",
            "findings",
            "files",
            "offsets",
            "topics",
            "subscriptions",
            "lost",
            "starts",
        ],
        Option("View to export.", shows_default=True),
    ] = "messages"
    table_format: shared.TableFormat = "parquet"
    partition_by: Annotated[
        str | None,
        Option(
            "Directories by these columns of text, or `date` (UTC); default: topic,date "
            "for messages, topic for consumequeue. none: no directories.",
            metavar="COLUMNS",
        ),
    ] = None
    brokers: shared.BrokerNames = ()
    messages: shared.WantedMessages = field(default_factory=shared.WantedMessages)
    physical_offsets: shared.PhysicalOffsets = None
    columns: Annotated[
        str | None, Option("Only these columns, and those that name the bytes.", metavar="NAMES")
    ] = None
    no_bodies: Annotated[bool, Option("Leave out bodies and the check of their checksums.")] = False
    mode: Annotated[
        Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST"],
        Option(
            "Damage: in a separate table, counted and dropped, or an error.",
            any_case=True,
            shows_default=True,
        ),
    ] = "PERMISSIVE"
    on_unreadable: Annotated[
        Literal["fail", "row"],
        Option("An unreadable or vanished file: an error, or a row of damage.", shows_default=True),
    ] = "fail"
    compression: Annotated[
        Literal["zstd", "snappy", "lz4", "gzip", "none"],
        Option("Compression of the Parquet files.", shows_default=True),
    ] = "zstd"
    memory: Annotated[
        int | None, Option("For the rows that this process holds; default 256MiB.", kind="size")
    ] = None
    properties: shared.CatalogProperties = ()
    table_name: Annotated[
        str | None,
        Option(
            "Table name in Iceberg's catalog; default: rocketmq.VIEW.",
            names=("--table",),
            metavar="NAMESPACE.NAME",
        ),
    ] = None
    workers: shared.Workers = field(default_factory=shared.Workers)
    stated: shared.StoreOptions = field(default_factory=shared.StoreOptions)

    def options(self) -> ExportOptions:
        """The options of the job. Raises UsageError for those that contradict."""
        from rocketfsck.pipeline.export.model import MEMORY_SIZE, ExportOptions
        from rocketfsck.pipeline.views.model import WantedRows

        low, high = self.physical_offsets or (None, None)
        mode: Mode = self.mode
        wanted = WantedRows(
            topic=self.messages.topic,
            queue_id=self.messages.queue_id,
            tag=self.messages.tag,
            key=self.messages.key,
            columns=None if self.columns is None else _names(self.columns),
            begin_timestamp=self.messages.times.begin,
            end_timestamp=self.messages.times.end,
            begin_offset=low,
            end_offset=high,
            mode=mode,
            on_unreadable=self.on_unreadable,
        )
        by = self.partition_by
        return ExportOptions(
            view=self.view,
            table_format=self.table_format,
            wanted=wanted,
            partition=None if by is None else () if by == "none" else _names(by),
            compression=self.compression,
            bodies=not self.no_bodies,
            memory_size=self.memory or MEMORY_SIZE,
            properties=shared.properties_of(self.properties),
            table=self.table_name or "",
        )


@dataclass(frozen=True, slots=True)
class ExportAnswer:
    """What was exported, with the stores that were left out, and the options of the job."""

    result: ExportResult
    options: ExportOptions

    @property
    def exit_code(self) -> int:
        code = EXIT_PROBLEMS if self.result.has_problems else EXIT_CLEAN
        return code | (EXIT_OPERATIONAL if self.result.failed else EXIT_CLEAN)


def export(command: ExportCommand) -> ExportAnswer:
    """Export. Of several stores, one that cannot be read is named. Raises UsageError, StoreError."""
    from rocketfsck.pipeline.export.job import export_stores

    into, paths, stated = command.into, command.paths, command.stated
    if command.append and command.replace_existing:
        raise UsageError("give --append or --replace, not both")
    for path in (*paths, *stated.commitlog_paths):
        shared.refuse_inside(into, [path])
        if shared.resolved(path).is_relative_to(shared.resolved(into)):
            raise UsageError(
                f"{visible(str(path))} is inside {visible(str(into))}, which --replace would delete"
            )
    options = command.options()
    found = shared.StoresWanted(paths).find()
    sources = stated.sources(found.places, command.brokers, all_there=not found.is_many)
    read = [place for place in found.places if place.exists()] if found.is_many else paths
    engine = command.workers.start([*read, *stated.commitlog_paths], into=into, typed=paths)
    result = export_stores(
        sources,
        into,
        options,
        engine=engine,
        replace_existing=command.replace_existing,
        append=command.append,
    )
    return ExportAnswer(result, options)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
