"""What a stop and a start do to a store in the making. Reference 4.8, 6.3 to 6.5.

Nothing is damaged here, so that nothing is truncated: a start re-reads the end of the log and dispatches a
part of it again. Consume queues skip what they have; the index skips what lies before its last record, whose
keys it takes a second time. After a kill the index file that was being filled is gone and is filled again
from where the recovery begins: keys of records before that are lost.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketfsck.formats.consumequeue import UNIT_SIZE
from rocketfsck.formats.markers import encode_abort
from rocketfsck.formats.record import (
    BLANK_HEADER_SIZE,
    MAGIC_BLANK,
    Record,
    decode_record,
    read_frame,
)
from rocketfsck.writer.commitlog import CommitLog
from rocketfsck.writer.dispatch import dispatch_record
from rocketfsck.writer.indexfile import drop_files_after
from rocketfsck.writer.message.messages import MessageError, Restart
from rocketfsck.writer.storewriter import StoreWriter


def restart(writer: StoreWriter, event: Restart) -> None:
    """Stop and start the broker: recovery, what it dispatches again, and the numbering from the queues."""
    dialect, state = writer.options.dialect, writer.checkpoint
    writer.log.encode_buffer.clear()
    if event.killed:
        begin, at_begin = _recovery_start(writer, event.scan_from), True
        state.reload(state.flushed)
        drop_files_after(writer.index, state.index_msg_timestamp)
    else:
        begin, at_begin = _dispatch_start(writer), dialect.dispatch_restart != "recovery"
        state.reload(state.in_memory)
    if dialect.abort_has_pid:
        writer.abort_backup = encode_abort(writer.options.pid) if event.killed else b""
    if begin is not None:
        for record in records_from(writer.log, begin):
            # Newer recoveries take "behind the queues' end" strictly: the record that begins there is left.
            if at_begin or record.physical_offset > begin:
                done = dispatch_record(record, writer.queues, writer.index)
                full = done.full_index_files
                state.dispatched(
                    record.store_timestamp,
                    in_queue=done.in_queue,
                    full_index_timestamp=full[-1].end_timestamp if full else None,
                )
    if writer.log.last_record_offset is not None:
        state.confirm_phy_offset = writer.log.last_record_offset
    for queue in writer.queues.states.values():
        if not queue.is_batch and queue.stream.last_start is not None:
            queue.next_offset = queue.stream.position // UNIT_SIZE


def _dispatch_start(writer: StoreWriter) -> int | None:
    """From where records are dispatched after an orderly stop; None: none are."""
    if writer.options.dialect.dispatch_restart == "commitlog end":
        return None
    states = writer.queues.states.values()
    end = max((queue.max_physic_offset for queue in states), default=-1)
    if writer.options.dialect.dispatch_restart == "recovery":
        return end
    return max(end, writer.log.min_offset)


def _recovery_start(writer: StoreWriter, given: int | None) -> int | None:
    """Where the recovery after a kill begins: the last file whose first record the checkpoint covers."""
    stream, minimum = writer.log.stream, writer.checkpoint.flushed.min_timestamp
    if stream.first_start is None or stream.last_start is None:
        return None
    if given is not None:
        if not stream.first_start <= given <= stream.position or given % stream.file_size:
            raise MessageError(f"scan_from {given} is no file of the log", writer.message_count)
        return given
    for start in range(stream.last_start, stream.first_start, -stream.file_size):
        first = next(records_from(writer.log, start), None)
        if first is not None and first.store_timestamp and first.store_timestamp <= minimum:
            return start
    return stream.first_start


def records_from(log: CommitLog, begin: int) -> Iterator[Record]:
    """The records of the log from this offset, which is that of a record or of nothing yet, to its end."""
    stream = log.stream
    position = max(begin, log.min_offset)
    while position < stream.position:
        size, magic_code = read_frame(stream.read_back(position, BLANK_HEADER_SIZE))
        if magic_code != MAGIC_BLANK:
            yield decode_record(stream.read_back(position, size))
        position += size
