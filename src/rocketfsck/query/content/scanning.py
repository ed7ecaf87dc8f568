"""Live records of the log by a scan of columns: only the rows that may match become messages.

Reference 2.1, 6.6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rocketfsck.progress import Phase, phase
from rocketfsck.query.answers import Found
from rocketfsck.query.content.evaluate import Expression
from rocketfsck.query.log import LogView
from rocketfsck.query.view import StoreView
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.views.messages import MAX_BODY_SIZE, Message, read_message
from rocketfsck.store.model import Store
from rocketfsck.store.reading import FileReader


class Wanted(Protocol):
    """Chooses rows of a batch by its columns, and messages by their words (`MessageFilter`, `Expression`)."""

    def rows(self, batch: RecordBatch, table: QueueTable, base_offset: int) -> NDArray[np.intp]: ...

    def accepts(self, message: Message) -> bool: ...


def scan_log(
    log: LogView,
    wanted: Wanted,
    *,
    start_offset: int = 0,
    end_offset: int | None = None,
    matches: Callable[[Message, int], bool] | None = None,
    with_bodies: bool = False,
    check_bodies: bool = False,
    max_body_size: int = MAX_BODY_SIZE,
) -> Iterator[tuple[int, Message]]:
    """Yield (physical offset, message) of the live records that are wanted, in the log's order.

    `start_offset:end_offset` chooses records by where they stand; whole files are read. `matches` is asked of
    a message and its offset instead of `wanted.accepts`; it sees the body if `with_bodies`, and faults of the
    body's CRC if `check_bodies`. Messages that are given have both. Raises StoreError when bytes cannot be
    read.
    """
    with phase("scanning the commit log", log.store.commitlog.size) as at:
        yield from _scan(
            at, log, wanted, start_offset, end_offset, matches, with_bodies, check_bodies, max_body_size
        )


def _scan(
    at: Phase,
    log: LogView,
    wanted: Wanted,
    start_offset: int,
    end_offset: int | None,
    matches: Callable[[Message, int], bool] | None,
    with_bodies: bool,
    check_bodies: bool,
    max_body_size: int,
) -> Iterator[tuple[int, Message]]:
    done = 0
    for number, file in enumerate(log.files):
        base_offset = file.start_offset or 0
        if base_offset + file.size > start_offset and (end_offset is None or base_offset < end_offset):
            scan = LiveScan()
            # A reader of its own: whoever takes the messages may make the log close files in between.
            with FileReader(file.path) as reader:
                options = replace(log.options(number), read_bodies=check_bodies)
                parser, shown_size = options.property_parser, max_body_size if with_bodies else 0
                table = QueueTable()
                for batch in scan.batches(reader, base_offset, options, table):
                    at.at(done + scan.end_pos)
                    for row in wanted.rows(batch, table, base_offset).tolist():
                        offset = base_offset + int(batch["pos"][row])
                        if offset < start_offset or (end_offset is not None and offset >= end_offset):
                            continue
                        message = read_message(reader, batch, row, parser, shown_size)
                        if wanted.accepts(message) if matches is None else matches(message, offset):
                            whole = log.message_at(offset, max_body_size=max_body_size)
                            if isinstance(whole, Message):
                                yield offset, whole
            log.walked(number, scan.end_pos)
        done += file.size
        at.at(done)


# Messages by an expression over their fields and bodies. The language: `query.content.expression`.


def find_by_expression(
    store: Store,
    expression: Expression | str,
    *,
    max_count: int | None = None,
    start_offset: int = 0,
    end_offset: int | None = None,
    max_body_size: int = MAX_BODY_SIZE,
    view: StoreView | None = None,
) -> Iterator[Found]:
    """Yield the live messages that match, in the log's order; `max_count` ends the scan early.

    `start_offset:end_offset` are physical offsets. Bodies above `max_body_size` bytes count as missing.
    Raises ExpressionError for a mistake in the expression, StoreError when bytes cannot be read.
    """
    wanted = Expression(expression) if isinstance(expression, str) else expression
    if view is None:
        with StoreView(store) as own:
            yield from find_by_expression(
                store,
                wanted,
                max_count=max_count,
                start_offset=start_offset,
                end_offset=end_offset,
                max_body_size=max_body_size,
                view=own,
            )
        return
    if max_count == 0:
        return
    found = scan_log(
        view.log,
        wanted,
        start_offset=start_offset,
        end_offset=end_offset,
        matches=wanted.matches,
        with_bodies=wanted.needs_body,
        check_bodies=wanted.needs_faults,
        max_body_size=max_body_size,
    )
    for number, (offset, message) in enumerate(found, 1):
        yield view.found(message, offset, "scan")
        if number == max_count:
            return
