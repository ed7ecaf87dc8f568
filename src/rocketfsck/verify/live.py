"""The live messages of a store: what a broker serves, without what a truncation left behind the log's end.

Which records are live is the check's own judgement (reference 6.6): both use the same walk.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from rocketfsck.scan.jit import compiled_wanted
from rocketfsck.scan.messages import MAX_BODY_SIZE, Message, MessageFilter, read_messages
from rocketfsck.scan.options import ScanOptions
from rocketfsck.store.model import Store
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.logfile import check_log_file
from rocketfsck.verify.task import Context, LogFileTask


def live_end_offset(store: Store, index: int) -> int:
    """The physical offset behind the last live record of `store.commitlog.files[index]`.

    The file's own start where it has none. Raises StoreError when the file cannot be read.
    """
    context = Context(store, "cross", int(time.time() * 1000))
    summary = check_log_file(LogFileTask(context, index)).summary
    return int(summary.start_offset + summary.live_end)


def live_messages(
    store: Store, wanted: MessageFilter | None = None, *, max_body_size: int = MAX_BODY_SIZE
) -> Iterator[Message]:
    """Every live message of the commit log in its order, or those that match.

    Records behind damage are live, those of a stale tail are not. Reads each file twice, first to find
    where its live records end. Raises StoreError when bytes cannot be read.
    """
    for index, file in enumerate(store.commitlog.files):
        base_offset = file.start_offset or 0
        end_offset = live_end_offset(store, index)
        with FileReader(file.path) as reader:
            options = ScanOptions(
                read_bodies=True,
                property_parser=store.dialect.property_parser,
                file_size=max(store.commitlog.file_size, reader.size),
            )
            for message in read_messages(
                reader,
                base_offset,
                options,
                wanted,
                compiled=compiled_wanted(reader.size),
                max_body_size=max_body_size,
            ):
                if base_offset + message.pos >= end_offset:
                    break
                yield message
