"""`rocketfsck rebuild`: builds consume queues, index, checkpoint and databases again, from the commit log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rocketfsck.cli.adapter import Formats, WritingCommand, command_of
from rocketfsck.cli.config import refuse_config_of
from rocketfsck.cli.lang import say_line
from rocketfsck.cli.output import Destination, to_json
from rocketfsck.cli.paramtypes import Jobs, max_memory
from rocketfsck.cli.show.text import count_of, sentence, visible
from rocketfsck.commands.rebuild import RebuildCommand, rebuild, rebuild_fleet
from rocketfsck.common.documents import to_document
from rocketfsck.common.options import PutAfter
from rocketfsck.common.wording import duration

if TYPE_CHECKING:
    from rocketfsck.pipeline.fleet.records import RebuiltRow, RebuiltStores
    from rocketfsck.repair.build.run import Rebuilt

SCHEMA_VERSION = 1
SHOWN_COUNT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildLine(RebuildCommand):
    """A rebuild, and the form of its answer."""

    answer: Annotated[Destination, PutAfter("no_sync"), Formats(("text", "json"), output=None)]
    jobs: Annotated[Jobs, PutAfter("delay_levels")] = None
    max_memory: Annotated[int | None, max_memory("rebuild")] = None


@command_of(
    RebuildLine,
    timing="rebuild",
    cls=WritingCommand,
    advisory=("from_offset", "only_missing_tail", "no_sync"),
)
def rebuild_command(line: RebuildLine) -> int:
    """Rebuild WHAT of STORE from its commit log, in a new directory; of several STOREs, or a pattern in
    quotes, each in a directory of its own, DIR/NAME.

    The result is, byte for byte, what the broker itself would have written, where the log determines that.
    `all` leaves out the index if a broker.conf says messageIndexEnable=false, and includes rocksdbstore if it
    says indexRocksDBEnable=true. A rebuilt index file that begins with the same record as one of the store's
    gets its name. The filter bit maps of consumequeue_ext cannot be rebuilt. rebuild only reads the store and
    replaces nothing in it.

    Consume queues in RocksDB (storeType=defaultRocksDB) become a database with the rows that the log has, in
    consumequeue/ or consumequeue_rocksdb/, always as a whole; after a kill, start this again from the
    beginning. Where a broker writes files and rows (rocksdbCQDoubleWriteEnable), rebuild builds both.

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
    named = line.stores.find()
    if named.is_many:
        return _rebuild_fleet(line, named.places)
    line = replace(line, paths=(named.only,))
    answer = rebuild(line)
    for warning in answer.warnings:
        say_line(warning, err=True)
    version = str(answer.store.dialect.version)
    if line.answer.form == "json":
        said = {
            "starts": [asdict(start) for start in answer.starts],
            "assumptions": [asdict(item) for item in answer.assumptions],
        }
        document = _document(answer.rebuilt, named.only, line.into, version)
        print(to_json({**document, **said}, indent=2))
    else:
        from rocketfsck.cli.show.start import verdict_lines

        _tell(answer.rebuilt, line.into, version)
        for text in verdict_lines(answer.starts):
            say_line(f"  {text}")
    return answer.exit_code


def _rebuild_fleet(line: RebuildLine, places: tuple[Path, ...]) -> int:
    """Rebuild several stores, print what came of them, and give the exit status."""
    refuse_config_of(places)
    found = rebuild_fleet(line, places)
    for run in found.removed_runs:
        say_line(f"removed run {run}, which a killed rebuild left", err=True)
    for row in found.stores:
        if row.assumed is not None:
            say_line(f"warning: {visible(row.broker)}: assumed: {visible(row.assumed)}", err=True)
    if line.answer.form == "json":
        print(to_json(to_document(found), indent=2))
    else:
        for text in _fleet_lines(found):
            say_line(text)
    return found.exit_code


def _fleet_lines(found: RebuiltStores) -> Iterator[str]:
    states = ", ".join(f"{count:,} {state}" for state, count in found.state_counts.items())
    stores = count_of(len(found.stores), "store")
    yield f"Rebuilt {visible(found.what)} of {stores} ({duration(found.seconds)}): {states}."
    yield f"  {visible(found.into)}"
    for row in found.stores:
        yield f"  {row.state:<8} {visible(row.broker)}: {_said(row)}"


def _said(row: RebuiltRow) -> str:
    if row.error is not None:
        return f"{visible(row.root)}: {sentence(row.error)}"
    parts = []
    if row.queue_count is not None:
        parts.append(f"{count_of(row.queue_count, 'queue')} with {count_of(row.unit_count or 0, 'unit')}")
    if row.index_file_count is not None:
        entries = count_of(row.entry_count or 0, "entry")
        parts.append(f"{count_of(row.index_file_count, 'index file')} with {entries}")
    parts.append(f"of {count_of(row.record_count or 0, 'record')}")
    if row.damaged_file_count:
        parts.append(f"damage in {count_of(row.damaged_file_count, 'commit log file')}")
    if row.may_start is False:
        parts.append("a broker does not start with it")
    if row.taken_over_from is not None:
        parts.append("taken over")
    return ", ".join(parts)


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
        places = [count_of(files, "file")] if files or queues.database is None else []
        places += [] if queues.database is None else [f"the RocksDB {queues.database}"]
        units = f"{count_of(len(queues.queues), 'queue')} with {count_of(queues.unit_count, 'unit')}"
        parts.append(f"{units} in {' and '.join(places)}")
    if index is not None:
        count = count_of(index.entry_count, "entry")
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
    say_line(f"{visible(str(into))}: {', '.join(parts)}{read}; as {version}{again}")
    for note in [*(queues.notes if queues else ()), *(index.notes if index and not queues else ())]:
        say_line(f"  {visible(note)}")
    for note in rows.notes if rows is not None else ():
        say_line(f"warning: {visible(note)}", err=True)
    if queues is not None:
        _tell_queues(queues)


def _tell_queues(queues: Any) -> None:
    if queues.without_bit_maps:
        say_line("  consumequeue_ext has no filter bit maps: the broker filters when it delivers")
    if queues.refused_count:
        count = count_of(queues.refused_count, "record")
        say_line(f"  {count} without a unit: no file can have their topic or queue offset")
    odd = [(queue, text) for queue in queues.queues for text in _oddities(queue)]
    for queue, text in odd[:SHOWN_COUNT]:
        say_line(f"  {visible(queue.topic)}/{queue.queue_id}: {text}")
    if len(odd) > SHOWN_COUNT:
        say_line(f"  … and {len(odd) - SHOWN_COUNT} more; --format json shows all")


def _document(rebuilt: Rebuilt, store_path: Path, into: Path, version: str) -> dict[str, Any]:
    return {
        "kind": "rocketfsck.rebuild",
        "schema_version": SCHEMA_VERSION,
        "store": str(store_path),
        "into": str(into),
        "version": version,
        **asdict(rebuilt),
    }
