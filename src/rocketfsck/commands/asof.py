"""What a store held, and what consumers could get of it, at a time in the past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from rocketfsck.commands.query import FOUND_CODE, NOT_FOUND_CODE, QueryAnswer, QueryCommand, masked, opened
from rocketfsck.common.options import Argument, Option, PutAfter

if TYPE_CHECKING:
    from rocketfsck.query.asof import StoreThen


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOfQuery(QueryCommand):
    """A store at a time (ms)."""

    query: ClassVar[str] = "as-of"
    timestamp: Annotated[int, PutAfter("path"), Argument(metavar="TIME", kind="time")]
    topic: Annotated[str | None, Option("Only this topic.")] = None


def query_as_of(options: AsOfQuery) -> QueryAnswer[StoreThen]:
    """Find what the store held at a time. Raises UsageError, StoreError."""
    from rocketfsck.query.asof import store_as_of
    from rocketfsck.query.view import StoreView

    with opened(options) as (store, masks), StoreView(store) as view:
        found = store_as_of(view, options.timestamp, topic=options.topic)
        return QueryAnswer(store, masked(masks, found), FOUND_CODE if found.queues else NOT_FOUND_CODE)
