"""`check` of several stores: which are meant, and where the tables go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocketfsck.cli.config.applying import refuse_own_config
from rocketfsck.cli.output import CHECK_FORMS, open_rows, refuse_inside
from rocketfsck.cli.pages.writing import write_page
from rocketfsck.cli.params import Decorated, Destination, StoreOptions, properties_of
from rocketfsck.cli.paramtypes import InputPath, StorePath
from rocketfsck.cli.show.fit import text_columns
from rocketfsck.common.privacy import limit_to
from rocketfsck.engine.passes import Passes, measured
from rocketfsck.errors import UsageError

if TYPE_CHECKING:
    from rocketfsck.engine import Engine
    from rocketfsck.pipeline.fleet.results import FleetReport
    from rocketfsck.pipeline.fleet.tables import RunTables
    from rocketfsck.verify.options import CheckOptions
    from rocketfsck.verify.policy import Policy


def stores_from_option(verb: str) -> Callable[[Decorated], Decorated]:
    """`--stores-from`."""
    return click.option(
        "--stores-from",
        type=InputPath(dir_okay=False),
        metavar="FILE",
        help=f"{verb} the stores that this file lists, too, one path on each line; -: standard input.",
    )


def stores_options(function: Decorated) -> Decorated:
    """`--stores-from` and `--tables`."""
    tables = click.option(
        "--tables",
        type=StorePath(written=True, file_okay=False),
        metavar="DIR",
        help="Of several stores: add what was found to the tables DIR/stores and DIR/findings. "
        "DIR may be a URL.",
    )
    return stores_from_option("Check")(tables(function))


@dataclass(frozen=True, slots=True)
class StoresWanted:
    """The stores that a command line names, the directory for their tables, and the file for their page.

    `catalog` are properties of Iceberg's catalog.
    """

    paths: tuple[Path, ...]
    stores_from: Path | None
    tables: Path | None
    page: Path | None = None
    table_format: str = "parquet"
    catalog: tuple[str, ...] = ()

    @property
    def is_many(self) -> bool:
        """Whether a table is wanted, of however many stores. Raises UsageError where none is named."""
        from rocketfsck.pipeline.fleet.places import is_pattern

        self._demand_tables()
        if self.stores_from is not None or len(self.paths) > 1 or any(map(is_pattern, self.paths)):
            return True
        if not self.paths:
            raise click.UsageError("Missing argument 'PATH…'.", click.get_current_context())
        if self.tables is not None:
            raise UsageError("--tables is for several stores")
        return False

    def _demand_tables(self) -> None:
        if self.tables is None and self.table_format != "parquet":
            raise UsageError("--table-format is for --tables")
        if self.catalog and self.table_format != "iceberg":
            raise UsageError("--catalog is for --table-format iceberg")

    @property
    def only(self) -> Path:
        """The one store, where one is named."""
        return self.paths[0]

    def named(self) -> tuple[Path | str, ...]:
        """All paths and patterns, those of the list, too. Raises as `read_list` does."""
        from rocketfsck.pipeline.fleet.places import read_list

        return (*self.paths, *(() if self.stores_from is None else read_list(self.stores_from)))

    def places(self) -> tuple[Path, ...]:
        """All stores, patterns expanded. Raises UsageError and StoreError as `find_places` does."""
        from rocketfsck.pipeline.fleet.places import find_places

        return find_places(self.named())


def check_many(
    wanted: StoresWanted,
    options: CheckOptions,
    engine: Callable[[Sequence[Path]], Engine],
    *,
    stated: StoreOptions,
    delay_levels: str | None,
    policy: Policy,
    as_broker: str | None,
    answer: Destination,
    shown: tuple[bool, bool],
    passes: Passes | None,
) -> int:
    """Check several stores, write what came of them, and give the exit status.

    `engine` makes the engine that the options name; `shown` is whether every store and whether only the head
    is wanted as text. Raises UsageError for options that are for one store.
    """
    from rocketfsck.pipeline.fleet.run import FINDING_LIMIT, check_stores

    if stated.commitlog_paths:
        raise UsageError("--commitlog-path is for the check of one store")
    if answer.form in CHECK_FORMS:
        raise UsageError(f"--format {answer.form} is for the check of one store")
    context = click.get_current_context()
    context.params["paths"] = places = wanted.places()
    for place in places:
        limit_to(place)
    refuse_own_config(context)
    for written in (wanted.tables, options.since, wanted.page):
        if written is not None:
            refuse_inside(written, places)
    tables = _run_tables(wanted)
    with measured(passes, "stores"):
        report = check_stores(
            places,
            options,
            without_paths(engine(wanted.paths)),
            finding_limit=0 if tables is None and wanted.page is None else FINDING_LIMIT,
            facts={**stated.facts, "delay_levels": delay_levels},
            policy=policy,
            version=as_broker,
        )
    if tables is not None:
        _append(report, tables)
    if wanted.page is not None:
        from rocketfsck.page.fleet import fleet_page

        rows = [row.as_row() for row in report.stores]
        write_page(fleet_page(rows, report.finding_rows()), wanted.page, places)
    with answer.open(places) as stream:
        if answer.form == "text":
            from rocketfsck.cli.show.severalstores import stores_lines

            palette = answer.palette(stream)
            lines = stores_lines(report, palette, text_columns(), everything=shown[0], quiet=shown[1])
            stream.writelines(f"{line}\n" for line in lines)
        else:
            from rocketfsck.pipeline.fleet.model import STORE_COLUMNS

            with open_rows(stream, answer.form, STORE_COLUMNS, report.head()) as writer:
                for row in report.stores:
                    writer.write(row.as_row())
    return report.exit_code


def without_paths(engine: Engine) -> Engine:
    """The engine, which need not look for the stores first: a store that a worker cannot see has a row."""
    from rocketfsck.engine import LocalEngine

    return engine if isinstance(engine, LocalEngine) else replace(engine, paths=())  # type: ignore[type-var]


def _run_tables(wanted: StoresWanted) -> RunTables | None:
    """The tables that the run is added to, if there are to be any. Raises as `RunTables.demand` does."""
    from rocketfsck.pipeline.fleet.tables import RunTables

    if wanted.tables is None:
        return None
    tables = RunTables(wanted.tables, wanted.table_format, properties_of(wanted.catalog))
    tables.demand()
    return tables


def _append(report: FleetReport, tables: RunTables) -> None:
    """Add a run to its tables, and name what killed runs left there."""
    met = tables.append(report)
    for name in met.removed:
        click.echo(f"removed run {name}, which a killed check left", err=True)
    for name in met.half:
        click.echo(f"run {name} has findings, but is not in the table of stores", err=True)
    for name in met.active:
        click.echo(f"left run {name} as it is: the check that appends it may be alive", err=True)
