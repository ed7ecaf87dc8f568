"""`rocketfsck convert`: a store of one kind made into another, with every message and its queue offset."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from rocketfsck.cli.adapter import Formats, WritingCommand, command_of
from rocketfsck.cli.output import Destination
from rocketfsck.cli.show.start import verdict_lines
from rocketfsck.cli.show.text import byte_size, count_of, visible
from rocketfsck.commands.convert import ConvertCommand, convert
from rocketfsck.common.documents import to_document
from rocketfsck.common.options import PutAfter

if TYPE_CHECKING:
    from rocketfsck.repair.convert.model import ControllerFiles, ConvertDocument, ConvertedStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertLine(ConvertCommand):
    """A conversion, and where its answer goes."""

    answer: Annotated[Destination, PutAfter("no_sync"), Formats(("text", "json"))]


ADVISORY = ("commitlog_file_size", "consumequeue_file_size", "no_sync")


@command_of(ConvertLine, timing="convert", cls=WritingCommand, advisory=ADVISORY)
def command(line: ConvertLine) -> int:
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


def _lines(made: ConvertDocument) -> Iterator[str]:
    if made.converted is not None:
        yield from _store_lines(made.converted, made.what)
    if made.controller is not None:
        yield from _controller_lines(made.controller)


def _store_lines(made: ConvertedStore, what: str) -> Iterator[str]:
    """A new store, what was proved of it, and what to do."""
    yield (
        f"Converted {count_of(made.record_count, 'record')} of {count_of(made.queue_count, 'queue')}, "
        f"{byte_size(made.record_byte_count)}, {RESULTS[what]}"
    )
    yield (
        f"  physical offsets {made.start_offset} to {made.end_offset}, files of "
        f"{byte_size(made.commitlog_file_size)}; queue offsets are as before"
    )
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
        yield f"  the last {count_of(made.unagreed_count, 'entry', 'entries')} may be on this node alone"
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


def _controller_lines(made: ControllerFiles) -> Iterator[str]:
    """The files, the stores that they are for, and what to do."""
    yield (
        f"Epoch {made.epoch} from physical offset {made.start_offset} on, for "
        f"{count_of(len(made.stores), 'store')}"
    )
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
