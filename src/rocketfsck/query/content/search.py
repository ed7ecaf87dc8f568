"""Messages by an expression over their fields and bodies. The language: `query.content.expression`."""

from __future__ import annotations

from collections.abc import Iterator

from rocketfsck.query.answers import Found
from rocketfsck.query.content.evaluate import Expression
from rocketfsck.query.content.scanning import scan_log
from rocketfsck.query.view import StoreView
from rocketfsck.scan.views.messages import MAX_BODY_SIZE
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
