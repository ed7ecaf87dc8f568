"""From an iterable of messages to a store under its name: all of it, or nothing.

A stop and a start in between damage nothing, so nothing is truncated: a start re-reads the end of the log and
dispatches a part of it again. Consume queues skip what they have; the index skips what lies before its last
record, whose keys it takes a second time. After a kill the index file that was being filled is gone and is
filled again from where the recovery begins: keys of records before that are lost. Reference 4.8, 6.3 to 6.5.

A store and its manifest, from an input or from a seed: all of it under its names, or nothing.

The store and the manifest are built under temporary names next to their places. The manifest gets its name
just before the store does; if anything fails, or is interrupted, nothing is left of either. What a killed
process left of them is removed by the next one (see `publish`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocketfsck.common.outputs import is_special
from rocketfsck.errors import UsageError
from rocketfsck.formats import consumequeue, magic, smallfiles
from rocketfsck.formats.record import Record, decode_record, read_frame
from rocketfsck.progress import phase
from rocketfsck.store.model import Store
from rocketfsck.store.reading import named_errors
from rocketfsck.writer import manifest as writer_manifest
from rocketfsck.writer.commitlog import CommitLog
from rocketfsck.writer.consumequeue import QueueState, dispatch_record
from rocketfsck.writer.disk import publish
from rocketfsck.writer.disk.confined import place_at
from rocketfsck.writer.indexfile import drop_files_after
from rocketfsck.writer.input.rows import MessageSource
from rocketfsck.writer.message.messages import Event, Expiry, MessageError, Restart
from rocketfsck.writer.options import WriteOptions, check_options
from rocketfsck.writer.resume import clone_store, open_for_append, resumed_writer
from rocketfsck.writer.storewriter import StoreWriter, expire, final_checkpoint, finish, new_writer, put

OnPut = Callable[[writer_manifest.PutRecord], None]


def write_store(
    path: Path | str,
    messages: Iterable[Event],
    options: WriteOptions | None = None,
    *,
    overwrite: bool = False,
    append: bool = False,
    on_put: OnPut | None = None,
) -> writer_manifest.WrittenStore:
    """Write a store of these messages at `path`, which must not exist unless `overwrite` is set.

    With `append` the messages go after those of the store at `path`, whose broker stopped in order and
    whose geometry and version the options state: as if the broker had been started and stopped again.
    `on_put` gets every record as it is placed. The store is built next to `path` and appears whole; after
    any error nothing of it is left and what was at `path` is still there. Raises UsageError for
    impossible options or a path that exists, MessageError (a UsageError) with the message's number for one
    that a broker would refuse, StoreError when files cannot be written.
    """
    options = WriteOptions() if options is None else options
    target = Path(path).absolute()
    if overwrite and append:
        raise UsageError("choose one: overwrite the store, or append to it")
    check_options(options)
    with named_errors(target, "cannot write the store"):
        publish.clear_leftovers(target)
    store = _existing(target, options, overwrite=overwrite, append=append)
    with (
        named_errors(target, "cannot write the store"),
        publish.building_directory(target, replace=overwrite or append, sync=options.sync) as building,
    ):
        if store is None:
            writer = new_writer(building, options)
        else:
            clone_store(store, building)
            writer = resumed_writer(building, store, options)
            restart(writer, Restart())
        put_all(writer, messages, on_put)
        finish(writer)
        if target.is_dir():  # what brokers may do with the store's files they may do with the new ones
            publish.inherit_traits(place_at(building), os.fspath(target), same_content=append)
        return describe(writer, target)


def _existing(target: Path, options: WriteOptions, *, overwrite: bool, append: bool) -> Store | None:
    """The store to append to, None for a new one; UsageError where what is at the path forbids it."""
    if append:
        return open_for_append(target, options)
    if target.exists() or target.is_symlink():
        if not overwrite:
            raise UsageError(f"{target} exists; --overwrite replaces it")
        if target.is_symlink() or not target.is_dir():
            raise UsageError(f"{target} is not a directory")
    return None


def put_all(writer: StoreWriter, messages: Iterable[Event], on_put: OnPut | None) -> None:
    """Put every message, in order; expire and restart where that is asked for."""
    for item in messages:
        if isinstance(item, Expiry):
            expire(writer, item)
        elif isinstance(item, Restart):
            restart(writer, item)
        else:
            tell(put(writer, item), on_put)


def tell(records: Iterable[writer_manifest.PutRecord], on_put: OnPut | None) -> None:
    """Tell every record to whom it may concern."""
    if on_put is not None:
        for record in records:
            on_put(record)


def describe(writer: StoreWriter, target: Path) -> writer_manifest.WrittenStore:
    """The truth about a finished store."""
    return writer_manifest.WrittenStore(
        path=target,
        version=str(writer.options.dialect.version),
        geometry=writer.options.geometry,
        min_offset=writer.log.min_offset,
        max_offset=writer.log.max_offset,
        message_count=writer.message_count,
        record_count=writer.log.record_count,
        queues=tuple(map(_written_queue, writer.queues.states.values())),
        index_files=tuple(writer.index.finished),
        checkpoint=final_checkpoint(writer),
        files=tuple(sorted(_files(writer.root))),
    )


def _written_queue(queue: QueueState) -> writer_manifest.WrittenQueue:
    place, stream = (queue.topic, queue.queue_id, queue.is_batch), queue.stream
    return writer_manifest.WrittenQueue(
        *place, stream.first_start, stream.position, queue.next_offset, queue.max_physic_offset
    )


def _files(root: Path) -> Iterable[tuple[str, int]]:
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder) / name
            yield str(path.relative_to(root)), path.stat().st_size


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
        writer.abort_backup = smallfiles.encode_abort(writer.options.pid) if event.killed else b""
    if begin is not None:
        for record in records_from(writer.log, begin):
            # Newer recoveries take "behind the queues' end" strictly: the record that begins there is left.
            if at_begin or record.physical_offset > begin:
                state.follow(record, dispatch_record(record, writer.queues, writer.index))
    if writer.log.last_record_offset is not None:
        state.confirm_physical_offset = writer.log.last_record_offset
    for queue in writer.queues.states.values():
        if not queue.is_batch and queue.stream.last_start is not None:
            queue.next_offset = queue.stream.position // consumequeue.UNIT_SIZE


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
    stream, dialect = writer.log.stream, writer.options.dialect
    if stream.first_start is None or stream.last_start is None:
        return None
    if given is not None:
        if not stream.first_start <= given <= stream.position or given % stream.file_size:
            raise MessageError(
                f"scan_from {given} is not the start of a file of the log", writer.message_count
            )
        return given
    least = stream.first_start
    if dialect.recovery_file_limit is not None:
        least = max(least, stream.last_start - (dialect.recovery_file_limit - 1) * stream.file_size)
    for start in range(stream.last_start, least, -stream.file_size):
        first = next(records_from(writer.log, start), None)
        if first is None or not first.store_timestamp:
            continue
        place = (first.physical_offset, first.store_timestamp)
        if writer.checkpoint.flushed.covers(*place, dialect.recovery_mark, index_safe=False):
            return start
    return least


def records_from(log: CommitLog, begin: int) -> Iterator[Record]:
    """The records of the log from this offset, which is that of a record or of nothing yet, to its end."""
    stream = log.stream
    position = max(begin, log.min_offset)
    while position < stream.position:
        size, magic_code = read_frame(stream.read_back(position, magic.BLANK_HEADER_SIZE))
        if magic_code != magic.MAGIC_BLANK:
            yield decode_record(stream.read_back(position, size))
        position += size


Sums = Mapping[str, int]
"""CRC-32 of whole files by their paths below the store: of those that it is known of."""

Fill = Callable[[StoreWriter, OnPut | None], Sums]
"""Puts all messages into a new store and tells every record to the second argument, if there is one."""

WRITING = "writing the messages"
PROGRESS_EVERY = 1000
"""Messages between two reports of progress."""


@dataclass(frozen=True, slots=True)
class MadeStore:
    """A store that was made, and the files that were written next to it."""

    store: writer_manifest.WrittenStore
    manifest: Path | None
    messages: Path | None


def make_store(
    path: Path | str,
    fill: Fill,
    options: WriteOptions,
    source: Mapping[str, Any],
    *,
    manifest: writer_manifest.ManifestLevel = writer_manifest.ManifestLevel.BRIEF,
    manifest_path: Path | None = None,
) -> MadeStore:
    """Make a store at `path` of what `fill` puts, and its manifest, which says `source`.

    Nothing may be at any of their places. Raises UsageError for impossible options and places that are
    taken, what `fill` raises, StoreError when files cannot be written; after any error nothing is left.
    """
    target = Path(path).absolute()
    paths = writer_manifest.manifest_paths(target, manifest_path)
    full = manifest is writer_manifest.ManifestLevel.FULL
    report_path = None if manifest is writer_manifest.ManifestLevel.NONE else paths.manifest
    messages_path = paths.messages if full else None
    check_options(options)
    if full and manifest_path is not None and is_special(manifest_path):
        raise UsageError(f"{manifest_path} is not a file, and the list of messages goes next to the manifest")
    for side_path in (report_path, messages_path):
        if side_path is not None:
            publish.clear_side_file(side_path, target)
    for place in (target, report_path, messages_path):
        if place is not None and os.path.lexists(place) and not is_special(place):
            raise UsageError(f"{place} exists, and rocketfsck does not overwrite it")
    side: list[publish.SideFile] = []
    made = False
    try:
        with named_errors(target, "cannot write the store"):
            on_put = None
            if messages_path is not None:
                side.append(publish.SideFile(messages_path, "ascii"))
                on_put = _line_writer(side[0], options)
            if report_path is not None:
                side.append(publish.SideFile(report_path, "ascii"))
            with publish.building_directory(target, replace=False, sync=options.sync) as building:
                writer = new_writer(building, options)
                known = fill(writer, on_put)
                finish(writer)
                written = describe(writer, target)
                if report_path is not None:
                    with_sha256 = manifest is not writer_manifest.ManifestLevel.BRIEF
                    document = writer_manifest.manifest_document(
                        written, options, source, building, known, with_sha256=with_sha256
                    )
                    writer_manifest.write_document(side[-1].stream, document)
                for file in side:
                    file.complete(sync=options.sync)
                for file in side:  # before the store appears: it never is without them
                    file.publish()
            made = True
    finally:
        for file in side:
            file.close()
        for file in side:
            file.end(keep=made)
    return MadeStore(written, report_path, messages_path)


def _line_writer(file: publish.SideFile, options: WriteOptions) -> OnPut:
    dialect = options.dialect

    def write(record: writer_manifest.PutRecord) -> None:
        file.stream.write(writer_manifest.message_line(record, dialect))

    return write


def fill_from(source: MessageSource) -> Fill:
    """Puts the messages of an input; InputError, with the row, for one that a broker would refuse."""

    def fill(writer: StoreWriter, on_put: OnPut | None) -> Sums:
        with phase(WRITING) as at:
            for message in source:
                try:
                    records = put(writer, message)
                except MessageError as error:
                    raise source.refusal(error) from error
                tell(records, on_put)
                if writer.message_count % PROGRESS_EVERY == 0:
                    at.at(writer.log.max_offset - writer.options.start_offset)
        return {}

    return fill
