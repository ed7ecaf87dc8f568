"""`rocketfsck rebuild`: builds consume queues, index, checkpoint and databases again, from the commit log."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketfsck.cli.danger import WritingCommand
from rocketfsck.cli.engines import chosen_engine, engine_options
from rocketfsck.cli.memory import memory_option
from rocketfsck.cli.options import (
    delay_levels_option,
    into_option,
    jobs_option,
    no_sync_option,
    time_zone_option,
    work_dir_option,
)
from rocketfsck.cli.output import refuse_inside, to_json
from rocketfsck.cli.params import StoreOptions, format_option, store_options
from rocketfsck.cli.paramtypes import StorePath
from rocketfsck.cli.rebuildstores import rebuild_many
from rocketfsck.cli.settings import common_options
from rocketfsck.cli.severalstores import StoresWanted, stores_from_option
from rocketfsck.cli.show.text import count_of, visible
from rocketfsck.cli.timing import timing_of
from rocketfsck.errors import EXIT_CLEAN, EXIT_PROBLEMS, StoreError, UsageError

if TYPE_CHECKING:
    from rocketfsck.query.start.verdict import StartVerdict
    from rocketfsck.repair.build.run import Rebuilt
    from rocketfsck.repair.build.what import What

SCHEMA_VERSION = 1
SHOWN_COUNT = 20


@click.command(cls=WritingCommand, advisory=("from_offset", "only_missing_tail", "no_sync"))
@click.argument("what", type=click.Choice(["index", "consumequeue", "checkpoint", "rocksdbstore", "all"]))
@click.argument("paths", nargs=-1, type=StorePath(), metavar="STORE…")
@stores_from_option("Rebuild")
@into_option(required=True)
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
    help="Index only records from this physical offset on, after the index files that end before it.",
)
@click.option(
    "--only-missing-tail",
    is_flag=True,
    help="Continue where the store's own queues and index end; write only files that get additions.",
)
@time_zone_option
@delay_levels_option
@jobs_option
@memory_option("rebuild")
@engine_options
@work_dir_option
@no_sync_option
@format_option("text", "json")
@store_options
@timing_of("rebuild")
@common_options
def command(
    what: What,
    paths: tuple[Path, ...],
    stores_from: Path | None,
    into: Path,
    topics: tuple[str, ...],
    queue_ids: tuple[int, ...],
    delay_levels: str | None,
    stated: StoreOptions,
    output_format: str,
    engine: str,
    master: str | None,
    work_dir: Path | None,
    **choices: Any,
) -> int:
    """Rebuild WHAT of STORE from its commit log, in a new directory; of several STOREs, or a pattern in
    quotes, each in a directory of its own, DIR/NAME.

    The result is, byte for byte, what the broker itself would have written, where the log determines that.
    `all` leaves out the index if a broker.conf says messageIndexEnable=false, and includes rocksdbstore if it
    says indexRocksDBEnable=true. A rebuilt index file that begins with the same record as one of the store's
    gets its name. The filter bit maps of consumequeue_ext cannot be rebuilt. rebuild only reads the store and
    replaces nothing in it.

    Consume queues in RocksDB (storeType=defaultRocksDB) become a database with the rows that the log has, in
    consumequeue/ or consumequeue_rocksdb/, always as a whole; after a kill, start this again from the
    beginning.

    rocksdbstore is the RocksDB of messages (5.4.0 and later). The index rows come from the log; the rows of
    timers and transactions, which the log does not determine, come from the store's own database. If these
    are unreadable, the result lacks them, with a warning and exit status 4.

    The directory appears when it is complete. After a kill on a large log, the same command continues after
    the finished commit log files (unless the machine restarted); until then the work is in .NAME.rebuilding
    next to it. Of several stores, the same command takes over the results that are whole and still what it
    would build, removes what the killed run left unfinished, and builds the rest.

    Memory: at most 300 MiB and 64 MiB for each job, 4 bytes for each hash slot, 200 bytes for each queue.

    With --engine spark, workers build index and queues, with the same bytes. All workers must see the store,
    the parent directory of --into, and --work-dir, under these paths. A killed run on Spark starts from the
    beginning.

    If the result depends on values that neither the bytes nor the options show, rebuild warns and lists them
    as `assumptions` in the JSON: a broker with other settings may refuse the result.

    At the end, rebuild predicts the start of brokers with the result in place, for every version that may
    have written the store, unless you rebuild only parts.

    Exit status 4 means that the log is damaged, has records without a place, or that a broker would not start
    with the result.
    """
    from rocketfsck.repair.build.run import RebuildOptions, rows_in
    from rocketfsck.repair.build.what import has_problems, options_for
    from rocketfsck.repair.plan.rebuilt import assumed_of
    from rocketfsck.store import open_store

    _check_choices(what, topics, queue_ids, choices)
    _check_engine(what, engine, work_dir)
    base = RebuildOptions(
        wanted=_wanted(topics, queue_ids),
        from_offset=choices["from_offset"],
        only_missing=choices["only_missing_tail"],
        time_zone=choices["time_zone"],
        sync=not choices["no_sync"],
    )
    wanted = StoresWanted(paths, stores_from, None)
    if wanted.is_many:
        if work_dir is not None:
            raise UsageError("--work-dir is for the rebuild of one store")
        return rebuild_many(
            wanted,
            what,
            base,
            into,
            partial(chosen_engine, engine, master),
            stated=stated,
            delay_levels=delay_levels,
            output_format=output_format,
        )
    store_path = wanted.only
    for place in (into, work_dir):
        if place is not None:
            refuse_inside(place, [store_path, *stated.commitlog_paths])
    store = open_store(store_path, **stated.facts, delay_levels=delay_levels)
    for place in (into, work_dir):
        if place is not None:
            refuse_inside(place, list(store.commitlog.directories))  # a broker.conf may name some outside
    if not store.commitlog.files:
        raise StoreError("has no commit log files to build from", path=str(store_path))
    options = options_for(store, what, base)
    places = [path.absolute() for path in (into.absolute().parent, work_dir) if path is not None]
    if engine != "local" and (options.message_rows or (options.queues and rows_in(store) is not None)):
        raise UsageError("Spark cannot build a RocksDB: give --engine local")
    chosen = chosen_engine(engine, master, [store_path, *stated.commitlog_paths, *places])
    if engine == "local":
        from rocketfsck.repair.build.run import rebuild_store

        rebuilt = rebuild_store(store, into, options)
    else:
        from rocketfsck.pipeline.rebuild import rebuild_on

        rebuilt = rebuild_on(chosen, store, into, options, scratch=work_dir)
    from rocketfsck.store.newer import index_note

    whole = not (topics or options.from_offset is not None or options.only_missing)
    starts: tuple[StartVerdict, ...] = ()
    if whole:
        from rocketfsck.repair.apply.startjudge import predict_rebuilt

        starts = predict_rebuilt(
            store, into, queues=options.queues, index=options.index, checkpoint=options.checkpoint
        )
    if store.live.locked:
        print("A broker is running in the store: the result leaves out what it appends now.", file=sys.stderr)
    newer = index_note(store) if options.index else None
    if newer is not None:
        print(f"warning: {newer}", file=sys.stderr)
    assumed = assumed_of(store, rebuilt)
    for item in assumed:
        value, evidence = visible(str(item.value)), visible(item.evidence)
        print(f"warning: {item.name} {value} is assumed: {evidence}", file=sys.stderr)
    if assumed:
        print(
            "warning: --broker-conf FILE lets the broker's settings say which values are right",
            file=sys.stderr,
        )
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
    return EXIT_PROBLEMS if refused or has_problems(rebuilt) else EXIT_CLEAN


def _check_choices(what: str, topics: tuple[str, ...], queue_ids: tuple[int, ...], choices: Any) -> None:
    if topics and what != "consumequeue":
        raise UsageError("--topic is for consumequeue")
    if queue_ids and not topics:
        raise UsageError("--queue needs --topic")
    if choices["from_offset"] is not None and what != "index":
        raise UsageError("--from-offset is for index")
    if choices["only_missing_tail"] and what in ("checkpoint", "rocksdbstore"):
        raise UsageError("--only-missing-tail is for index and consumequeue")


def _check_engine(what: str, engine: str, work_dir: Path | None) -> None:
    if engine == "local" and work_dir is not None:
        raise UsageError("--work-dir needs --engine spark")
    if engine != "local" and what == "checkpoint":
        raise UsageError("a checkpoint alone needs no Spark: give --engine local")


def _wanted(topics: tuple[str, ...], queue_ids: tuple[int, ...]) -> Any:
    """The queues asked for, None for all."""
    if not topics:
        return None
    from rocketfsck.repair.build.queuestates import WantedQueues

    return WantedQueues(frozenset(topics), frozenset(queue_ids) or None)


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
