"""Filters that Spark would apply, as conditions of a view: exactly, or not at all.

    topic = · queue_id = · store_timestamp < <= > >= = · offset < <= > >= =        and IS NOT NULL of these

A condition that is already there is narrowed. What cannot be said goes back to Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
)

from rocketfsck.pipeline.views.table import VIEWS

if TYPE_CHECKING:
    from rocketfsck.pipeline.views.model import Wanted
    from rocketfsck.pipeline.views.options import Request

_EXACT = {"topic": ("topic", str), "queue_id": ("queue_id", int)}
_RANGES = {
    "store_timestamp": ("begin_timestamp", "end_timestamp"),
    "offset": ("begin_offset", "end_offset"),
}
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


def push(request: Request, filters: Sequence[Filter]) -> tuple[Request, list[Filter]]:
    """The narrower request, and the filters that are left for Spark."""
    wanted, left = request.wanted, []
    conditions = VIEWS[request.view].conditions
    for one in filters:
        narrowed = _narrowed(wanted, one, conditions)
        if narrowed is None:
            left.append(one)
        else:
            wanted = narrowed
    return replace(request, wanted=wanted), left


def _narrowed(wanted: Wanted, one: Filter, conditions: frozenset[str]) -> Wanted | None:
    path: tuple[str, ...] = getattr(one, "attribute", ())
    name = path[0] if len(path) == 1 else ""
    value = getattr(one, "value", None)
    if name in _EXACT and isinstance(one, EqualTo):
        field, kind = _EXACT[name]
        if field not in conditions or type(value) is not kind:
            return None
        there = getattr(wanted, field)
        changes: dict[str, Any] = {field: value}
        return replace(wanted, **changes) if there in (None, value) else None
    if name in _RANGES and type(value) is int:
        begin, end = _RANGES[name]
        bounds = _bounds(one, value)
        if not {begin, end} <= conditions or bounds is None:
            return None
        low, high = bounds
        changes = {}
        if low is not None:
            changes[begin] = low if getattr(wanted, begin) is None else max(low, getattr(wanted, begin))
        if high is not None:
            changes[end] = high if getattr(wanted, end) is None else min(high, getattr(wanted, end))
        return replace(wanted, **changes)
    return None


def _bounds(one: Filter, value: int) -> tuple[int | None, int | None] | None:
    """The half-open range of a comparison; None where it is none, or its end is no number of 64 bits."""
    if not _LEAST <= value < _MOST:
        return None
    if isinstance(one, EqualTo):
        return value, value + 1
    if isinstance(one, GreaterThanOrEqual):
        return value, None
    if isinstance(one, GreaterThan):
        return value + 1, None
    if isinstance(one, LessThan):
        return None, value
    return (None, value + 1) if isinstance(one, LessThanOrEqual) else None
