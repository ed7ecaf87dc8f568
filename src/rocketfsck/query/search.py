"""Messages by an expression over their fields and bodies. The language: `query.expression`."""

from __future__ import annotations

from collections.abc import Iterator

from rocketfsck.query.answers import Found
from rocketfsck.query.evaluate import Expression
from rocketfsck.query.scanning import Progress, scan_log
from rocketfsck.query.view import StoreView
from rocketfsck.scan.messages import MAX_BODY_SIZE, Message
from rocketfsck.store.model import Store


def find_by_expression(
    store: Store,
    expression: Expression | str,
    *,
    max_count: int | None = None,
    start_offset: int = 0,
    end_offset: int | None = None,
    max_body_size: int = MAX_BODY_SIZE,
    view: StoreView | None = None,
    progress: Progress | None = None,
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
                progress=progress,
            )
        return
    left = max_count
    if left == 0:
        return
    for offset, message in scan_log(
        view.log,
        wanted,
        start_offset=start_offset,
        end_offset=end_offset,
        max_body_size=max_body_size if wanted.needs_body else 0,
        progress=progress,
    ):
        if not wanted.matches(message, offset):
            continue
        whole = message
        if not wanted.needs_body:
            found = view.log.message_at(offset, max_body_size=max_body_size)
            whole = found if isinstance(found, Message) else message
        yield view.found(whole, offset, "scan")
        if left is not None:
            left -= 1
            if left == 0:
                return
