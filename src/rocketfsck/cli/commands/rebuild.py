"""`rocketfsck rebuild`: consume queues, index, checkpoint and databases anew, from the commit log."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketfsck.cli.base import Command, common_options
from rocketfsck.cli.engines import chosen_engine, engine_options
from rocketfsck.cli.output import refuse_inside, to_json
from rocketfsck.cli.params import StorePath, Told, format_option, path_argument, store_options
from rocketfsck.cli.progress import progress
from rocketfsck.cli.show.text import count_of, visible
from rocketfsck.errors import EXIT_CLEAN, EXIT_PROBLEMS, StoreError, UsageError

if TYPE_CHECKING:
    from rocketfsck.query.start.verdict import StartVerdict
    from rocketfsck.repair.build.run import Rebuilt
    from rocketfsck.repair.plan.model import Assumption
    from rocketfsck.store import Store

SCHEMA_VERSION = 1
SHOWN_COUNT = 20


@click.command(cls=Command)
@click.argument("what", type=click.Choice(["index", "consumequeue", "checkpoint", "rocksdbstore", "all"]))
@path_argument("store_path")
@click.option(
    "--into",
    required=True,
    type=StorePath("what is written"),
    help="Where to build: a directory that does not exist yet, outside the store.",
)
@click.option(
    "--topic", "topics", multiple=True, help="Only this topic's queues; may be given several times."
)
@click.option(
    "--queue",
    "queue_ids",
    multiple=True,
    type=int,
    metavar="ID",
    help="Only these queueIds of the topics given.",
)
@click.option(
    "--from-offset",
    type=click.IntRange(0),
    metavar="OFFSET",
    help="Index only records from this physical offset on, behind the index files that end before it.",
)
@click.option(
    "--only-missing-tail",
    is_flag=True,
    help="Go on where the store's own queues and index end; only files to which something is added are made.",
)
@click.option(
    "--time-zone", default="UTC", show_default=True, help="The broker's, in which new index files are named."
)
@click.option("--delay-levels", metavar="LEVELS", help="messageDelayLevel of the broker: '1s 5s 10s …'.")
@click.option("-j", "--jobs", type=click.IntRange(1), help="Threads that read the log; default: one a core.")
@engine_options
@click.option(
    "--scratch",
    type=StorePath("what is written"),
    metavar="DIR",
    help="On Spark: where to put by some 20 bytes a message, and as many a key; default: beside --into.",
)
@click.option("--no-sync", is_flag=True, help="Do not wait until the bytes are on the disk.")
@format_option("text", "json")
@store_options
@common_options
def command(
    what: str,
    store_path: Path,
    into: Path,
    topics: tuple[str, ...],
    queue_ids: tuple[int, ...],
    delay_levels: str | None,
    told: Told,
    output_format: str,
    engine: str,
    master: str | None,
    scratch: Path | None,
    **choices: Any,
) -> int:
    """Build WHAT of the store at STORE_PATH anew, from its commit log, in a new directory.

    The result is, byte for byte, what the broker itself would have written, where the log determines that.
    `all` leaves the index out where a broker.conf says messageIndexEnable=false, and takes rocksdbstore in
    where it says indexRocksDBEnable=true.
    Index files get the names of the store's own that begin with the same record. Filter bit maps of
    consumequeue_ext cannot be rebuilt. The store is only read; nothing of it is replaced.

    Consume queues in RocksDB (storeType=defaultRocksDB) become a database with the rows that the log has, in
    consumequeue/ or consumequeue_rocksdb/, always as a whole; a run that was killed begins anew.

    rocksdbstore is the RocksDB of messages (5.4.0 and later): its index comes from the log, and the rows of
    timers and transactions, which the log does not determine, from the store's own database. Where those
    cannot be read any more, they are left out, with a warning and exit status 4.

    The directory appears when it is whole. Killed on a large log, the same command goes on behind the
    commit log files that are done (as long as the machine was not restarted); what is there so far stands in
    .NAME.rebuilding beside it.

    Memory: at most 300 MiB and 64 MiB for each job, 4 bytes for each hash slot, 200 bytes for each queue.

    With --engine spark workers build index and queues, in the same bytes. All of them must see the store,
    the directory that --into is in, and --scratch, under these paths. Killed, it begins anew.

    What is built by values that neither the bytes nor the options tell is a warning, and `assumptions` in the
    JSON: a broker with other settings may refuse the result.

    Said at the end is what brokers of every version that the store may be of do when they start with the
    result in its place, unless only parts were asked for.

    Exit status 4 says that the log is damaged, has records that could not be given their place, or that a
    broker would refuse to start with the result.
    """
    from rocketfsck.repair.build.run import RebuildOptions, rows_in
    from rocketfsck.store import open_store

    _check_choices(what, topics, queue_ids, choices)
    _check_engine(what, engine, scratch)
    for place in (into, scratch):
        if place is not None:
            refuse_inside(place, [store_path, *told.commitlog_paths])
    store = open_store(store_path, **told.facts, delay_levels=delay_levels)
    for place in (into, scratch):
        if place is not None:
            refuse_inside(place, list(store.commitlog.directories))  # a broker.conf may name some outside
    if not store.commitlog.files:
        raise StoreError("has no commit log files to build from", path=str(store_path))
    options = RebuildOptions(
        queues=what in ("consumequeue", "all"),
        index=what == "index" or (what == "all" and store.settings.flag("messageIndexEnable", True)),
        checkpoint=what in ("checkpoint", "all"),
        message_rows=what == "rocksdbstore"
        or (
            what == "all"
            and store.dialect.message_database
            and store.settings.flag("indexRocksDBEnable", False)
        ),
        wanted=_wanted(topics, queue_ids),
        from_offset=choices["from_offset"],
        only_missing=choices["only_missing_tail"],
        time_zone=choices["time_zone"],
        jobs=choices["jobs"] or 0,
        sync=not choices["no_sync"],
    )
    places = [path.absolute() for path in (into.absolute().parent, scratch) if path is not None]
    if engine != "local" and (options.message_rows or (options.queues and rows_in(store) is not None)):
        raise UsageError("Spark builds no RocksDB: give --engine local")
    chosen = chosen_engine(engine, master, options.jobs, [store_path, *told.commitlog_paths, *places])
    with progress(f"rebuild {what} of {store_path}") as bar:
        if engine == "local":
            from rocketfsck.repair.build.run import rebuild_store

            rebuilt = rebuild_store(store, into, options, progress=bar.update)
        else:
            from rocketfsck.pipeline.rebuild import rebuild_on

            rebuilt = rebuild_on(chosen, store, into, options, scratch=scratch, progress=bar.update)
    from rocketfsck.store.newer import index_note

    whole = not (topics or options.from_offset is not None or options.only_missing)
    starts: tuple[StartVerdict, ...] = ()
    if whole:
        from rocketfsck.repair.apply.startjudge import predict_rebuilt

        starts = predict_rebuilt(
            store, into, queues=options.queues, index=options.index, checkpoint=options.checkpoint
        )
    if store.live.locked:
        print("A broker is at work in the store: what it appends now is not in.", file=sys.stderr)
    newer = index_note(store) if options.index else None
    if newer is not None:
        print(f"warning: {newer}", file=sys.stderr)
    assumed = _assumed(store, rebuilt)
    for item in assumed:
        value, evidence = visible(str(item.value)), visible(item.evidence)
        print(f"warning: {item.name} {value} is assumed: {evidence}", file=sys.stderr)
    if assumed:
        print("warning: --broker-conf FILE lets the broker's settings say what is right", file=sys.stderr)
    if output_format == "json":
        document = _document(rebuilt, store_path, into, str(store.dialect.version))
        said = {
            "starts": [asdict(start) for start in starts],
            "assumptions": [asdict(item) for item in assumed],
        }
        print(to_json({**document, **said}, indent=2))
    else:
        from rocketfsck.cli.show.start import verdict_lines

        _tell(rebuilt, into, str(store.dialect.version))
        for line in verdict_lines(starts):
            print(f"  {line}")
    refused = any(start.covered and not start.loads for start in starts)
    return EXIT_PROBLEMS if refused or _has_problems(rebuilt) else EXIT_CLEAN


def _assumed(store: Store, rebuilt: Rebuilt) -> tuple[Assumption, ...]:
    """What was built by and is not known."""
    from rocketfsck.repair.plan.arguments import QueuesToBuild
    from rocketfsck.repair.plan.law import assumed_by_rebuilding
    from rocketfsck.repair.plan.model import Action
    from rocketfsck.repair.plan.planning import all_repairs

    table = all_repairs()
    rows = []
    if rebuilt.queues is not None and rebuilt.queues.queues and rebuilt.queues.database is None:
        built = QueuesToBuild(tuple((queue.topic, queue.queue_id) for queue in rebuilt.queues.queues))
        rows.append((table["rebuild-queue"], Action("", "consumequeue", "", built)))
    if rebuilt.index is not None and rebuilt.index.files:
        rows.append((table["rebuild-index"], Action("", "index", "")))
    if rebuilt.checkpoint:
        rows.append((table["write-checkpoint"], Action("", "checkpoint", "")))
    return assumed_by_rebuilding(store, rows)


def _has_index_rows(store: Store) -> bool:
    """Whether the settings say that the broker keeps an index in RocksDB."""
    return store.dialect.message_database and store.settings.flag("indexRocksDBEnable", False)


def _check_choices(what: str, topics: tuple[str, ...], queue_ids: tuple[int, ...], choices: Any) -> None:
    if topics and what != "consumequeue":
        raise UsageError("--topic is for consumequeue")
    if queue_ids and not topics:
        raise UsageError("--queue needs --topic")
    if choices["from_offset"] is not None and what != "index":
        raise UsageError("--from-offset is for index")
    if choices["only_missing_tail"] and what in ("checkpoint", "rocksdbstore"):
        raise UsageError("--only-missing-tail is for index and consumequeue")


def _check_engine(what: str, engine: str, scratch: Path | None) -> None:
    if engine == "local" and scratch is not None:
        raise UsageError("--scratch is of Spark: give --engine spark, too")
    if engine != "local" and what == "checkpoint":
        raise UsageError("a checkpoint alone is nothing for Spark: give --engine local")


def _wanted(topics: tuple[str, ...], queue_ids: tuple[int, ...]) -> Any:
    """The queues asked for, None for all."""
    if not topics:
        return None
    from rocketfsck.repair.build.queuestates import WantedQueues

    return WantedQueues(frozenset(topics), frozenset(queue_ids) or None)


def _has_problems(rebuilt: Rebuilt) -> bool:
    queues = rebuilt.queues
    return bool(
        rebuilt.damaged_files
        or (rebuilt.message_rows is not None and rebuilt.message_rows.lost)
        or (queues is not None and queues.refused_count)
        or (queues is not None and any(_oddities(queue) for queue in queues.queues))
    )


def _oddities(queue: Any) -> list[str]:
    """What is odd about a rebuilt queue, in words."""
    found = []
    if queue.duplicate_count:
        found.append(f"{count_of(queue.duplicate_count, 'record')} with a taken queue offset: no unit")
    if queue.misplaced_count:
        found.append(f"{count_of(queue.misplaced_count, 'unit')} not at the record's queue offset")
    if queue.gap_count:
        missing = sum(gap.end - gap.start for gap in queue.gaps)
        found.append(
            f"{count_of(missing, 'record')} missing in the log, from queue offset {queue.gaps[0].start} on: "
            "pre-blank units keep their places"
        )
    return found


def _tell(rebuilt: Rebuilt, into: Path, version: str) -> None:
    parts = []
    queues, index = rebuilt.queues, rebuilt.index
    if queues is not None:
        files = sum(queue.file_count for queue in queues.queues)
        place = count_of(files, "file") if queues.database is None else f"the RocksDB {queues.database}"
        parts.append(
            f"{count_of(len(queues.queues), 'queue')} with {count_of(queues.unit_count, 'unit')} in {place}"
        )
    if index is not None:
        count = count_of(index.entry_count, "entry", "entries")
        parts.append(f"{count_of(len(index.files), 'index file')} with {count}")
    if rebuilt.checkpoint:
        parts.append("the checkpoint")
    rows = rebuilt.message_rows
    if rows is not None:
        copied = sum(rows.kept_counts.values())
        count = count_of(rows.index_row_count, "index row")
        parts.append(
            f"the RocksDB {rows.database} with {count}, and {count_of(copied, 'row')} of the old one"
        )
    again = ", going on from an earlier run" if rebuilt.resumed else ""
    read = f", of {count_of(rebuilt.record_count, 'record')}" if queues or index or rows else ""
    print(f"{visible(str(into))}: {', '.join(parts)}{read}; as {version}{again}")
    for note in [*(queues.notes if queues else ()), *(index.notes if index and not queues else ())]:
        print(f"  {visible(note)}")
    for note in rows.notes if rows is not None else ():
        print(f"warning: {visible(note)}", file=sys.stderr)
    if queues is not None:
        _tell_queues(queues)


def _tell_queues(queues: Any) -> None:
    if queues.without_bit_maps:
        print("  consumequeue_ext has no filter bit maps: the broker filters when it delivers")
    if queues.refused_count:
        count = count_of(queues.refused_count, "record")
        print(f"  {count} without a unit: no file can have their topic or queue offset")
    odd = [(queue, text) for queue in queues.queues for text in _oddities(queue)]
    for queue, text in odd[:SHOWN_COUNT]:
        print(f"  {visible(queue.topic)}/{queue.queue_id}: {text}")
    if len(odd) > SHOWN_COUNT:
        print(f"  … and {len(odd) - SHOWN_COUNT} more; --format json shows all")


def _document(rebuilt: Rebuilt, store_path: Path, into: Path, version: str) -> dict[str, Any]:
    return {
        "kind": "rocketfsck.rebuild",
        "schema_version": SCHEMA_VERSION,
        "store": str(store_path),
        "into": str(into),
        "version": version,
        **asdict(rebuilt),
    }
