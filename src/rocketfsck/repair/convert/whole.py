"""A whole store made into one of another kind: a plain one of DLedger's, one with files of other sizes.

    dledger-<selfId>/data    entries, each a header of 48 bytes and a record
    commitlog                or what a mixed store has from before DLedger
      ->  commitlog          the records alone, in the same order, one after the other

Each record is at another physical offset. What names physical offsets follows: the records' own fields
(`salvage.build`), consume queues, index and checkpoint, which are built again, and the units of the timer
log. Queue offsets stay, and so does all that names them: consumer offsets, delay offsets, half messages and
their ends, compaction. A queue without a record gets pre-blank units, so that its next message has the queue
offset that it would have had.

The new store is proved before it appears: its records are those of the old one, byte for byte but for the
fields that name physical offsets, its queues begin and end where the records say, and a check finds nothing.
Reference 1.8.2, 1.9, 2.7, 2.14, 3.3.

Stores of a master and its slaves made ready for controller mode.

A broker in controller mode counts epochs, each from the physical offset on at which a master began
(`epochFileCheckpoint`). A store from before has none, and its master begins the first where its log ends:
what is before belongs to no epoch. A slave whose log ends there asks for offsets of no epoch, and the master
never sends it any; a slave with another history is not recognised, and keeps what only it has. An empty slave
copies everything.

The same epoch before all others in all of them, from offset 0 on, says what a comparison of their bytes has
shown: that they have one history. `AutoSwitchHAService#changeToMaster`, `AutoSwitchHAClient#doTruncate`,
`AutoSwitchHAConnection`. Reference 1.7.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.errors import FormatError, StoreError, UsageError
from rocketfsck.formats import consumequeue, dtypes, smallfiles
from rocketfsck.progress import moved_to, part, phase
from rocketfsck.query.nodes import node_side
from rocketfsck.query.start.verdict import StartVerdict
from rocketfsck.reader.configs import read_epochs
from rocketfsck.reader.timers import TimerBlock, timer_units
from rocketfsck.reader.units import StreamReader
from rocketfsck.repair.build.config import build_subscriptions
from rocketfsck.repair.build.queues import QueueBuilder, batch_topics_of
from rocketfsck.repair.carve.carve import COLUMNS, CarvedRecords, SourceFile, crcs_of
from rocketfsck.repair.compare.compare import describe_side
from rocketfsck.repair.compare.groups import groups_of
from rocketfsck.repair.convert import chosen, model
from rocketfsck.repair.salvage import build
from rocketfsck.repair.salvage.choose import Placement, fits_file, is_fence, moves_of, place_packed
from rocketfsck.repair.salvage.ledger import account_queues
from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.options import log_options
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.elsewhere import QUEUE_DATABASES
from rocketfsck.store.model import Other, OtherKind, Store
from rocketfsck.store.reading import FileReader
from rocketfsck.store.rocks.families import MESSAGE_DATABASE
from rocketfsck.store.rocks.lifting import lifted
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.report import Report
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.store.offsets import SUBSCRIPTIONS
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import place_at
from rocketfsck.writer.disk.publish import demand_free, new_directory

EPOCH_FILE = "epochFileCheckpoint"
FIRST_EPOCH = smallfiles.EpochEntry(0, 0)
"""Before every epoch that a controller gives: those begin with 1."""

DIFFERENT = frozenset({"parted", "damaged"})


def convert_to_controller(
    stores: Sequence[Store], names: Sequence[str], into: Path, *, sync: bool = True
) -> model.ControllerFiles:
    """Write the epoch files that these stores of one group need to join a controller, into a new directory.

    The file of a single store is there, those of several in a directory of the store's name each. Raises
    UsageError for a store of DLedger's, stores whose epochs reach back to the beginning already, of different
    groups or histories; StoreError for one that is in use, and for what cannot be read or written.
    """
    for store in stores:
        _refuse(store)
    if len(stores) > 1:
        group = next(groups_of(stores), None)
        if group is None or len(group.members) < len(stores):
            raise UsageError("the stores are not of one group: their logs have no bytes in common")
        nodes = group.members
        for node in nodes:
            if node.relation in DIFFERENT:
                raise UsageError(
                    f"{node.path} is {node.relation}: from physical offset {node.parting_offset} on its log "
                    f"differs from that of {nodes[0].path}; leave it out, and let it begin empty"
                )
        places = [(node.path, node.end_offset, node.lacking_count) for node in nodes]
    else:
        places = [(stores[0].root, describe_side(stores[0]).end_offset, 0)]
    known = {store.root: _epochs(store) for store in stores}
    if all(epochs and not epochs[0].start_offset for epochs in known.values()):
        raise UsageError(f"{stores[0].root}: the epochs reach back to the beginning of the log already")
    files = {path: _joined(known[path], end) for path, end, _ in places}
    folders = dict(zip((store.root for store in stores), names, strict=True)) if len(stores) > 1 else {}
    with new_directory(into, sync=sync) as building:
        for path, entries in files.items():
            target = place_at(building / folders.get(path, "") / EPOCH_FILE)
            fileops.make_directories(target.parent)
            fileops.write_new(target, smallfiles.encode_epochs(entries))
    joining = (
        model.JoiningStore(path, end, lacking, into / folders.get(path, "") / EPOCH_FILE, len(files[path]))
        for path, end, lacking in places
    )
    return model.ControllerFiles(into, FIRST_EPOCH.epoch, FIRST_EPOCH.start_offset, tuple(joining))


def _joined(epochs: Sequence[smallfiles.EpochEntry], end: int) -> tuple[smallfiles.EpochEntry, ...]:
    """The epochs with the first before them, without those after the end of the log."""
    if epochs and not epochs[0].start_offset:
        return tuple(epochs)
    return (FIRST_EPOCH, *(entry for entry in epochs if entry.start_offset <= end))


def _epochs(store: Store) -> tuple[smallfiles.EpochEntry, ...]:
    try:
        return read_epochs(store)
    except FormatError as error:
        raise StoreError(f"cannot be used: {error}", path=str(store.root / EPOCH_FILE)) from error


def _refuse(store: Store) -> None:
    if any(file.in_entries for file in store.commitlog.files):
        text = "the commit log is DLedger's; make it plain first, with `rocketfsck convert plain`"
        raise UsageError(f"{store.root}: {text}")
    if not store.commitlog.files:
        raise UsageError(f"{store.root}: has no commit log; an empty store joins as it is")
    if store.live.locked:
        raise StoreError("a broker is running in it: stop it first", path=str(store.root))


COPIED = frozenset({
    OtherKind.TIMER_WHEEL, OtherKind.TIMER_LOG, OtherKind.TIMER_CHECK,
    OtherKind.COMPACTION_LOG, OtherKind.COMPACTION_CQ, OtherKind.COMPACTION_CHECKPOINT,
})  # fmt: skip
"""Parts besides the log that name no physical offset, or whose names follow the records."""

NOT_TAKEN: Mapping[OtherKind, str] = {
    OtherKind.TIERED_LOG: "tiered storage is not copied",
    OtherKind.EPOCH: "epochs count another log",
    OtherKind.BROKER_IDENTITY: "a controller gives it again",
}
"""Parts that are not taken along, but for DLedger's own, and why."""


_MAX_FILE_SIZE = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """What is wanted: `what`, a name of CONVERSIONS. `file_size` and `queue_file_size` (bytes) are those of
    the files of the commit log and of the consume queues, None: as before. `sync` makes the store durable
    before it appears."""

    what: str
    version: str | None = None
    broker_conf: Path | None = None
    delay_levels: str | None = None
    file_size: int | None = None
    queue_file_size: int | None = None
    sync: bool = True

    def settings(self) -> dict[str, str]:
        """What is new, as a broker's settings. Raises UsageError for those that no broker can have."""
        sizes = {
            "mappedFileSizeCommitLog": self.file_size,
            "mappedFileSizeConsumeQueue": self.queue_file_size,
        }
        for name, size in sizes.items():
            if size is not None and size > _MAX_FILE_SIZE:
                raise UsageError(f"{name} is at most {count_of(_MAX_FILE_SIZE, 'byte')}, not {size}")
        if (self.queue_file_size or 0) % consumequeue.UNIT_SIZE:
            raise UsageError(f"files of a consume queue hold whole units of {consumequeue.UNIT_SIZE} bytes")
        new_sizes = {name: str(size) for name, size in sizes.items() if size is not None}
        return {**model.CONVERSIONS[self.what].settings, **new_sizes}


def convert_store(store: Store, into: Path, options: ConvertOptions) -> model.ConvertedStore:
    """Write all messages of a store to a new store of another kind, and prove it.

    Raises UsageError for a store that cannot be made into one of that kind, for sizes that no broker has, and
    for a record too long for a file; StoreError for a store that is damaged or in use, for what cannot be
    read or written, and if the proof fails: nothing is left then of the new store.
    """
    reason = model.CONVERSIONS[options.what].refusal(store)
    if reason is not None:
        raise UsageError(f"{store.root}: {reason}")
    settings = options.settings()
    model.refuse_running(store)
    demand_free(into)
    model.refuse_rows(store)
    model.refuse_forbidden(store)
    with lifted(store) as lifting:
        for error in lifting.failed.values():
            raise error
        model.refuse_damaged(store, lambda finding: RULES[finding.rule].severity is Severity.ERROR)
        return _converted(store, lifting.store, into, options, settings)


def _converted(
    store: Store, whole: Store, into: Path, options: ConvertOptions, settings: dict[str, str]
) -> model.ConvertedStore:
    """`whole` is the store with the queues and configs of its databases."""
    sources, found = log_records(whole)
    found = found.take(np.flatnonzero(~is_fence(found)))
    all_count = len(found)
    found = found.take(np.flatnonzero(chosen.served_rows(whole, found)))
    if not len(found):
        raise UsageError(f"{store.root}: the commit log holds no record")
    placement = placed(found, options.file_size or store.geometry.commitlog_file_size)
    version = str(store.dialect.version)
    made = build.NewStore(
        sources, found, placement, version, whole, options.version, options.broker_conf, options.delay_levels,
        forgets_halves=True, settings=settings,
    )  # fmt: skip
    bounds = chosen.queue_bounds(account_queues(found, placement.rows)) | chosen.light_bounds(whole, found)
    batch_topics = batch_topics_of(whole)
    left = tuple(chosen.queues_left_out(whole, lambda *_: True, bounds))
    empty = {
        (queue.topic, queue.queue_id): (queue.next_queue_offset, queue.next_queue_offset)
        for queue in left
        if queue.topic not in batch_topics
    }
    timers = 0

    def carry(building: Path) -> None:
        nonlocal timers
        timers = carry_parts(store, building, made)
        _put_empty(building, made, empty)
        put_groups(building, made)

    starts = write_proved(into, made, bounds | empty, carry, sync=options.sync)
    node = node_side(store)
    agreed = None if node is None else node.committed_index
    return model.ConvertedStore(
        into=into,
        version=version,
        record_count=len(found),
        record_byte_count=int(found["total_size"].sum()),
        former_count=all_count - len(found),
        queue_count=len(bounds),
        empty_queue_count=len(empty),
        start_offset=placement.start_offset,
        end_offset=placement.end_offset(found),
        commitlog_file_size=placement.file_size,
        consumequeue_file_size=options.queue_file_size or store.geometry.consumequeue_file_size,
        timer_unit_count=timers,
        unagreed_count=max((node.last_index or 0) - agreed, 0) if node and agreed is not None else 0,
        parts_left_out=(*_left_out(store), *_batch_left_out(left, batch_topics)),
        starts=starts,
    )


def _put_empty(building: Path, made: build.NewStore, queues: chosen.QueueBounds) -> None:
    """Write queues of pre-blank units, as a broker does before the first unit of a queue that begins late."""
    builder = QueueBuilder(build.open_made(building, made), building, None, frozenset())
    for (topic, queue_id), (_, end) in queues.items():
        per_file = builder.plain.area.file_units
        start = (end - 1) // per_file * per_file
        builder.plain.fill(
            builder.states.number(topic, queue_id), start, end, consumequeue.PRE_BLANK_UNIT, None
        )


def put_groups(building: Path, made: build.NewStore) -> None:
    """Write subscriptionGroup.json where groups have offsets, but the old store has no settings of groups."""
    content = build_subscriptions(build.open_made(building, made))
    if content is not None:
        fileops.write_new(place_at(building / "config" / SUBSCRIPTIONS), content)


def placed(found: CarvedRecords, file_size: int) -> Placement:
    """Where the records are in the new log. Raises UsageError for one that is too long for a file."""
    rows = fits_file(found, file_size)
    if len(rows) < len(found):
        raise UsageError(f"a record is too long for commit log files of {count_of(file_size, 'byte')}")
    return place_packed(found, rows, file_size)


def write_proved(
    into: Path, made: build.NewStore, bounds: chosen.QueueBounds, carry: Callable[[Path], None], *, sync: bool
) -> tuple[StartVerdict, ...]:
    """Write a new store and prove it; what brokers will do with it. Raises StoreError."""
    assert made.origin is not None
    with new_directory(into, sync=sync) as building:
        report, starts = build.fill_store(building, made, carry)
        written = build.open_made(building, made)
        chosen.prove_bounds(written, bounds)
        _prove_sound(report, made.origin)
        prove_same(made, written)
    return starts


_LEFT_OUT = frozenset({RuleName.COMPACTION_MISSING})
"""An extract has no compacted logs, and says so: their topics have their messages in the commit log."""


def _prove_sound(report: Report, store: Store) -> None:
    """Raise StoreError if this check of what was made of `store` has findings above info, but for what is
    left out on purpose."""
    problems = [
        rule
        for rule, count in report.counts.items()
        if count and model.is_problem(rule) and rule not in _LEFT_OUT
    ]
    if problems:
        raise StoreError(f"the result has findings: {', '.join(problems)}", path=str(store.root))


def log_records(
    store: Store, wanted: Callable[[str, int], bool] | None = None
) -> tuple[list[SourceFile], CarvedRecords]:
    """The files of a store's log, and the live records in them: as columns, in the order of the log.

    Each is at the physical offset where it stands. With `wanted`, a test of topic and queueId, only records
    of such queues are kept. Raises StoreError when bytes cannot be read, or the queues are too many to test.
    """
    table, chunks = QueueTable(), []
    sources: list[SourceFile] = []
    flags: dtypes.Flags = np.empty(0, np.bool_)
    with phase("reading the commit log", store.commitlog.size):
        for file in store.commitlog.files:
            number, base = len(sources), file.start_offset or 0
            sources.append(SourceFile(file.path, file.size, file.start_offset))
            options = log_options(store, file, read_bodies=False)
            with FileReader(file.path) as reader, part(file.size):
                scan = LiveScan()
                for batch in scan.batches(reader, base, options, table):
                    rows: Any = slice(batch.record_count)
                    if wanted is not None:
                        queues = batch["queue_index"][: batch.record_count]
                        if (queues < 0).any():
                            raise StoreError("names too many queues", path=str(file.path))
                        new = [wanted(os.fsdecode(topic), at) for topic, at in table.names[len(flags) :]]
                        flags = np.append(flags, np.array(new, np.bool_))
                        rows = np.flatnonzero(flags[queues])
                    chunks.append(_rows(batch, rows, number, base))
                    moved_to(scan.end_pos)
    columns = {
        name: np.concatenate([*(chunk[name] for chunk in chunks), np.empty(0, kind)]).astype(kind, copy=False)
        for name, kind in COLUMNS.items()
    }
    return sources, CarvedRecords(columns, table)


def _rows(batch: Any, rows: Any, source: int, base: int) -> dict[str, NDArray[Any]]:
    pos = batch["pos"][rows]
    known = {"source": np.full(len(pos), source, np.int32), "crc": np.zeros(len(pos), np.uint32)}
    known["physical_offset"] = pos + np.int64(base)
    return {name: known[name] if name in known else batch[name][rows].copy() for name in COLUMNS}


def prove_same(made: build.NewStore, written: Store) -> None:
    """Raise StoreError unless a store has the records of another, but for the fields that name places."""
    sources, found = log_records(written)
    rows = np.flatnonzero(~is_fence(found))
    before, after = made.placement.rows, rows
    text = "the result does not have the same records: nothing was written; please report this"
    if len(before) != len(after):
        raise StoreError(text, path=str(written.root))
    with phase("comparing the records"):
        old = record_sums(made.sources, made.found, before)
        different = np.flatnonzero(old != record_sums(sources, found, after))
    if len(different):
        at = int(made.found["physical_offset"][before[different[0]]])
        raise StoreError(text, path=str(written.root), offset=at)


def record_sums(
    sources: Sequence[SourceFile], found: CarvedRecords, rows: dtypes.Longs
) -> NDArray[np.uint32]:
    """The CRC-32 of each record without the fields that name its place, or another's. Raises StoreError."""
    sizes = found["total_size"][rows].astype(np.int64)
    offsets = np.cumsum(sizes) - sizes
    sums = [np.empty(0, np.uint32)]
    for start, stop in build.record_runs(found, rows, offsets, 1 << 62):
        some = rows[start:stop]
        with FileReader(sources[int(found["source"][some[0]])].path) as reader:
            buffer, at = build.records_together(reader, found["pos"][some], found["total_size"][some])
        build.without_places(buffer, found, some, at)
        sums.append(crcs_of(buffer, at, sizes[start:stop]))
    return np.concatenate(sums)


def carry_parts(store: Store, building: Path, made: build.NewStore) -> int:
    """Copy what does not follow from the log; how many units of the timer log were led to their records."""
    count = 0
    for other in store.others:
        if other.kind in COPIED or model.is_other_database(other):
            for file in other.files:
                build.copy_file(file.location, building / file.relative)
        if other.kind is OtherKind.TIMER_LOG:
            count += _lead_timers(other, building, made)
    return count


def _lead_timers(log: Other, building: Path, made: build.NewStore) -> int:
    """Write the new physical offsets into the units of a copied timer log; -1 where a record is gone."""
    count, moves = 0, moves_of(made.found, made.placement)
    queue = log.mapped_files
    if queue is None:
        return 0
    files = queue.files
    starts = np.array([file.start_offset or 0 for file in files], np.int64)
    with StreamReader(queue) as stream:
        for block in timer_units(stream):
            if not isinstance(block, TimerBlock):
                continue
            units = block.units.copy()
            units["offsetPy"] = moves.of(block.physical_offset)
            number = int(np.searchsorted(starts, block.pos[0], side="right")) - 1
            place = place_at(building / files[number].relative)
            descriptor = fileops.open_part(place)
            try:
                fileops.write_all(descriptor, units.tobytes(), int(block.pos[0] - starts[number]))
            finally:
                os.close(descriptor)
            count += len(units)
    return count


def _left_out(store: Store) -> Iterator[model.PartLeftOut]:
    parts: dict[str, str] = {}
    for other in store.others:
        if other.kind is OtherKind.ROCKSDB and not model.is_other_database(other):
            parts[other.relative] = database_reason(other.relative)
        elif other.kind in NOT_TAKEN:
            name = other.relative.partition("/")[0] if other.kind is OtherKind.TIERED_LOG else other.relative
            parts[name] = NOT_TAKEN[other.kind]
    return (model.PartLeftOut(name, reason) for name, reason in parts.items())


def _batch_left_out(
    queues: Iterable[model.QueueLeftOut], topics: Container[str]
) -> Iterator[model.PartLeftOut]:
    """Queues without a record that pre-blank units cannot keep: there are none in batch queues."""
    for queue in queues:
        if queue.topic in topics:
            name = f"batchconsumequeue/{queue.topic}/{queue.queue_id}"
            text = f"new messages get queue offsets from 0, not {queue.next_queue_offset}"
            yield model.PartLeftOut(name, f"all records have expired; {text}")


def database_reason(database: str) -> str:
    """Why a database of queues, configs or messages is not in a new store in files."""
    if database in QUEUE_DATABASES:
        return "the queues of the new store are in files: start with storeType=default"
    if database == MESSAGE_DATABASE:
        return "the index of the new store is in files"
    return "topics, groups and offsets of the new store are in files of config/"
