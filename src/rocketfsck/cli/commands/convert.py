"""`rocketfsck convert`: a store of one kind made into another, with every message and its queue offset.

`rocketfsck extract`: a part of a store as a small store that a broker mounts.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from rocketfsck.cli.adapter import Formats, WritingCommand, command_of
from rocketfsck.cli.output import Destination
from rocketfsck.cli.show.start import verdict_lines
from rocketfsck.cli.show.text import aligned, byte_size, count_of, visible
from rocketfsck.commands.convert import ConvertCommand, ExtractCommand, convert, extract
from rocketfsck.common.documents import to_document
from rocketfsck.common.options import PutAfter

if TYPE_CHECKING:
    from rocketfsck.repair.convert import model

SHOWN = 20
"""Queues that the text lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractLine(ExtractCommand):
    """What is cut out, and where the answer goes."""

    answer: Annotated[Destination, PutAfter("no_sync"), Formats(("text", "json"))]


@command_of(ExtractLine, timing="extract", cls=WritingCommand, advisory=("commitlog_file_size", "no_sync"))
def extract_command(line: ExtractLine) -> int:
    """Cut topics, a queue or a time window out of a store, as a small store that a broker mounts; extract
    only reads the STORE.

    Queue offsets stay, so that consumers, tools and notes find a message where it was; physical offsets and
    offset message ids change. The topics' settings, the groups that consume them and their committed offsets
    come along. RocketMQ's own topics and those of messages to be retried come only if --topic names them. In
    a time window each queue has all messages from the first in the window to the last. Timers, compacted logs
    and tiered storage stay behind; the answer names what does.

    The store must be stopped, and undamaged where it is read. The new store appears after the proof that it
    has the same records and that a check finds nothing. Memory: 100 bytes a record that is wanted.

    Exit status 4 means that a predicted start fails or loses something.
    """
    made = extract(line)
    line.answer.say(lambda: to_document(made), lambda _: _extract_lines(made), (line.path,))
    return made.exit_code


def _extract_lines(made: model.ExtractDocument) -> Iterator[str]:
    cut = f"{count_of(made.record_count, 'record')} of {count_of(len(made.queues), 'queue')}"
    yield f"Cut out {cut}, {byte_size(made.record_byte_count)}; queue offsets are as before"
    yield from aligned(_queue_cells(made), right=(1, 2, 3, 4))
    if len(made.queues) > SHOWN:
        yield f"  and {len(made.queues) - SHOWN:,} more queues (--format json has them all)"
    yield "  the same records, but for physical offsets; a check finds nothing wrong"
    if made.light_queue_count:
        yield f"  {count_of(made.light_queue_count, 'light queue')} with them, queue offsets as before"
    if made.outside_count:
        yield (
            f"  {count_of(made.outside_count, 'record')} between others of a queue, with another "
            "storeTimestamp than asked for"
        )
    if made.moved_count:
        yield f"  {count_of(made.moved_count, 'committed offset')} moved into the queues"
    for queue in made.queues_left_out[:SHOWN]:
        yield (
            f"  without queue {queue.queue_id} of {visible(queue.topic)}, which has none of the messages: "
            f"new messages get queue offsets from 0, not {queue.next_queue_offset}"
        )
    if len(made.queues_left_out) > SHOWN:
        yield f"  without {len(made.queues_left_out) - SHOWN:,} more queues (--format json has them all)"
    for part in made.parts_left_out:
        yield f"  without {visible(part.path)}: {visible(part.reason)}"
    yield f"Written: {visible(str(made.into))}"
    yield from (f"  {line}" for line in verdict_lines(made.starts))
    repeated = max((start.timer_repeated_count for start in made.starts), default=0)
    if repeated:
        yield f"  a broker delivers {count_of(repeated, 'timer message')} again"


def _queue_cells(made: model.ExtractDocument) -> Iterator[tuple[str, ...]]:
    yield "  topic", "queue_id", "min_offset", "max_offset", "messages"
    for queue in made.queues[:SHOWN]:
        numbers = map(str, (queue.queue_id, queue.first_queue_offset, queue.end_queue_offset))
        yield f"  {visible(queue.topic)}", *numbers, f"{queue.taken_count:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertLine(ConvertCommand):
    """A conversion, and where its answer goes."""

    answer: Annotated[Destination, PutAfter("no_sync"), Formats(("text", "json"))]


ADVISORY = ("commitlog_file_size", "consumequeue_file_size", "no_sync")


@command_of(ConvertLine, timing="convert", cls=WritingCommand, advisory=ADVISORY)
def convert_command(line: ConvertLine) -> int:
    """Make a store of another kind, in a new directory; convert only reads the STOREs.

    convert plain writes the messages of a DLedger node to a store with a plain commit log, for a broker
    without enableDLegerCommitLog. Queue offsets, consumer offsets, delayed and timed messages, transactions,
    topics and groups stay as they are; physical offsets and offset message ids change. The new store appears
    after the proof that it has the same records and that a check finds nothing. The node must be undamaged
    and stopped; `check` of all nodes names the one to take. Memory: 100 bytes a record.

    convert geometry writes the messages of a store to files of other sizes, for a broker with another
    mappedFileSizeCommitLog (--commitlog-file-size) or mappedFileSizeConsumeQueue (--consumequeue-file-size):
    a broker does not take files of another size for its own. What stays, what changes and what is proved are
    the same as above.

    convert files writes the messages of a store whose queues, config or index are in RocksDB to a store in
    files, for a broker with storeType=default. RocksDB does not tell the size of queue files: name the
    broker.conf, or --consumequeue-file-size. Timers and prepared messages in RocksDB are refused.

    convert controller writes the epoch file that a master and its slaves need to join a controller: their
    history so far becomes epoch 0. Without that a slave that is behind never gets what the master has. Name
    all stores of the group: convert compares their logs, and refuses a slave with another history. Stores
    that have joined already get epoch 0 before their own epochs.

    Exit status 4 means that a predicted start fails or loses something.
    """
    made = convert(line)
    line.answer.say(lambda: to_document(made), lambda _: _lines(made), line.paths)
    return made.exit_code


def _lines(made: model.ConvertDocument) -> Iterator[str]:
    if made.converted is not None:
        yield from _store_lines(made.converted, made.what)
    if made.controller is not None:
        yield from _controller_lines(made.controller)


def _store_lines(made: model.ConvertedStore, what: str) -> Iterator[str]:
    """A new store, what was proved of it, and what to do."""
    records = f"{count_of(made.record_count, 'record')} of {count_of(made.queue_count, 'queue')}"
    yield f"Converted {records}, {byte_size(made.record_byte_count)}, {RESULTS[what]}"
    size = byte_size(made.commitlog_file_size)
    offsets = f"physical offsets {made.start_offset} to {made.end_offset}"
    yield f"  {offsets}, files of {size}; queue offsets are as before"
    yield "  the same records, but for physical offsets; a check finds nothing wrong"
    if made.empty_queue_count:
        yield (
            f"  {count_of(made.empty_queue_count, 'queue')} without a record: new messages get the queue "
            "offsets that they would have had"
        )
    if made.former_count:
        yield f"  without {count_of(made.former_count, 'record')} of deleted topics"
    if made.timer_unit_count:
        yield f"  {count_of(made.timer_unit_count, 'unit')} of the timer log lead to the new physical offsets"
    for part in made.parts_left_out:
        yield f"  without {visible(part.path)}: {part.reason}"
    if made.unagreed_count:
        yield f"  the last {count_of(made.unagreed_count, 'entry')} may be on this node alone"
    yield f"Written: {visible(str(made.into))}"
    yield from (f"  {line}" for line in verdict_lines(made.starts))
    todo = NEXT[what].format(log=made.commitlog_file_size, queue=made.consumequeue_file_size)
    yield f"Next: {todo} and start with this store; slaves begin empty"


RESULTS = {
    "plain": "to a plain commit log",
    "geometry": "to files of other sizes",
    "files": "to queues, config and index in files",
}
NEXT = {
    "plain": "remove enableDLegerCommitLog from broker.conf",
    "files": "set storeType=default and mappedFileSizeConsumeQueue={queue} in broker.conf, remove "
    "indexRocksDBEnable and configManagerVersion",
    "geometry": "set mappedFileSizeCommitLog={log} and mappedFileSizeConsumeQueue={queue} in broker.conf",
}
"""By what is made: what it is, and what is to be done before the start."""


def _controller_lines(made: model.ControllerFiles) -> Iterator[str]:
    """The files, the stores that they are for, and what to do."""
    stores = count_of(len(made.stores), "store")
    yield f"Epoch {made.epoch} from physical offset {made.start_offset} on, for {stores}"
    for store in made.stores:
        lacks = f", lacks {count_of(store.lacking_count, 'record')}" if store.lacking_count else ""
        yield f"  {visible(str(store.path))}: ends at {store.end_offset}{lacks}"
    for file in dict.fromkeys(store.epoch_file for store in made.stores):
        yield f"Written: {visible(str(file))}"
    yield "Next: with all brokers stopped, copy"
    for store in made.stores:
        yield f"  {visible(shlex.join(['cp', str(store.epoch_file), str(store.path)]))}"
    first = f", and start {visible(str(made.stores[0].path))} first" if len(made.stores) > 1 else ""
    yield f"  then set enableControllerMode=true{first}"
