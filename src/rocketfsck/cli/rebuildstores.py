"""`rebuild` of several stores: the job, and a line for each store."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocketfsck.cli.config.applying import refuse_own_config
from rocketfsck.cli.output import refuse_inside, to_json
from rocketfsck.cli.params import StoreOptions
from rocketfsck.cli.severalstores import StoresWanted, without_paths
from rocketfsck.cli.show.text import count_of, duration, visible
from rocketfsck.common.documents import named, to_document
from rocketfsck.errors import UsageError

if TYPE_CHECKING:
    from rocketfsck.engine import Engine
    from rocketfsck.pipeline.fleet.rebuilt import RebuiltRow, RebuiltStores
    from rocketfsck.repair.build.run import RebuildOptions
    from rocketfsck.repair.build.what import What


def rebuild_many(
    wanted: StoresWanted,
    what: What,
    options: RebuildOptions,
    into: Path,
    engine: Callable[[Sequence[Path]], Engine],
    *,
    stated: StoreOptions,
    delay_levels: str | None,
    output_format: str,
) -> int:
    """Rebuild several stores, print what came of them, and give the exit status.

    Raises UsageError for options that are for one store, and a directory in one of the stores.
    """
    from rocketfsck.pipeline.fleet.rebuilding import rebuild_stores

    if stated.commitlog_paths:
        raise UsageError("--commitlog-path is for the rebuild of one store")
    if options.from_offset is not None:
        raise UsageError("--from-offset is for the rebuild of one store")
    context = click.get_current_context()
    context.params["paths"] = places = wanted.places()
    refuse_own_config(context)
    refuse_inside(into, places)
    found = rebuild_stores(
        places,
        into,
        what,
        options,
        without_paths(engine(places)),
        facts={**stated.facts, "delay_levels": delay_levels},
    )
    for run in found.removed_runs:
        print(f"removed run {run}, which a killed rebuild left", file=sys.stderr)
    for row in found.stores:
        if row.assumed is not None:
            print(f"warning: {visible(row.broker)}: assumed: {visible(row.assumed)}", file=sys.stderr)
    if output_format == "json":
        rows = [to_document(row) for row in found.stores]
        print(to_json({"schema_version": 1, **named(found.head()), "rows": rows}, indent=2))
    else:
        for line in _lines(found):
            print(line)
    return found.exit_code


def _lines(found: RebuiltStores) -> Iterator[str]:
    states = ", ".join(f"{count:,} {state}" for state, count in found.state_counts.items())
    stores = count_of(len(found.stores), "store")
    yield f"Rebuilt {visible(found.what)} of {stores} ({duration(found.seconds)}): {states}."
    yield f"  {visible(found.into)}"
    for row in found.stores:
        yield f"  {row.state:<8} {visible(row.broker)}: {_said(row)}"


def _said(row: RebuiltRow) -> str:
    if row.error is not None:
        return f"{visible(row.root)}: {visible(row.error, keep_backslash=True)}"
    parts = []
    if row.queue_count is not None:
        parts.append(f"{count_of(row.queue_count, 'queue')} with {count_of(row.unit_count or 0, 'unit')}")
    if row.index_file_count is not None:
        entries = count_of(row.entry_count or 0, "entry", "entries")
        parts.append(f"{count_of(row.index_file_count, 'index file')} with {entries}")
    parts.append(f"of {count_of(row.record_count or 0, 'record')}")
    if row.damaged_file_count:
        parts.append(f"damage in {count_of(row.damaged_file_count, 'commit log file')}")
    if row.may_start is False:
        parts.append("a broker does not start with it")
    if row.taken_over_from is not None:
        parts.append("taken over")
    return ", ".join(parts)
