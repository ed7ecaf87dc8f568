"""Regions of a file as a strip of few spans: true to scale, and exact in what they count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rocketfsck.page.tables import SpanKind

KINDS: tuple[SpanKind, ...] = (
    "records", "blank", "filler", "zero", "malformed", "damaged", "torn", "stale", "units", "header", "slots",
    "entries", "mixed", "unread",
)  # fmt: skip
NUMBER_OF = {kind: number for number, kind in enumerate(KINDS)}
BAD = frozenset({"malformed", "damaged", "torn"})
"""Kinds of bytes that belong to no sound record, and should."""


class Span(NamedTuple):
    """File positions `start:end`, with what is in them (`page.model.Spans`)."""

    start: int
    end: int
    kind: SpanKind
    record_count: int = 0
    region_count: int = 1
    bad_byte_count: int = 0

    @classmethod
    def of(cls, start: int, end: int, kind: SpanKind, record_count: int = 0) -> Span:
        """A region as a span."""
        return cls(start, end, kind, record_count, 1, end - start if kind in BAD else 0)

    def joined(self, other: Span) -> Span:
        """This span and the one after it as one."""
        return Span(
            self.start,
            other.end,
            self.kind if self.kind == other.kind else "mixed",
            self.record_count + other.record_count,
            self.region_count + other.region_count,
            self.bad_byte_count + other.bad_byte_count,
        )


class Strip:
    """Takes the regions of a file in order and keeps at most about twice `limit` spans of them.

    A region that is longer than a cell, a `limit`-th of the file, stays what it is; neighbours that are
    shorter and begin in one cell become one span. Memory is bounded by `limit`, whatever the file holds.
    """

    def __init__(self, size: int, limit: int) -> None:
        self._cell = max(-(-size // max(limit, 1)), 1)
        self._room = 8 * max(limit, 1)
        self._limit = limit
        self._spans: list[Span] = []

    def add(self, span: Span) -> None:
        """Take the next region."""
        self._spans.append(span)
        if len(self._spans) > self._room:
            self._spans = list(self._joined())

    def spans(self) -> tuple[Span, ...]:
        """The strip: every region for itself where there are few."""
        return tuple(self._spans if len(self._spans) <= self._limit else self._joined())

    def _joined(self) -> Iterator[Span]:
        last: Span | None = None
        for span in self._spans:
            if last is None:
                last = span
            elif self._is_short(last) and self._is_short(span) and self._same_cell(last, span):
                last = last.joined(span)
            else:
                yield last
                last = span
        if last is not None:
            yield last

    def _is_short(self, span: Span) -> bool:
        return span.end - span.start < self._cell

    def _same_cell(self, one: Span, other: Span) -> bool:
        return one.start // self._cell == other.start // self._cell
