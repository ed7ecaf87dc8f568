"""Tables of columns, made row by row, and texts that are safe to show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, make_dataclass, replace
from typing import Any, TypeVar, cast, get_type_hints

from rocketfsck.common.documents import printable

T = TypeVar("T")


def columns(kind: type[T], rows: Iterable[Sequence[Any]]) -> T:
    """A dataclass of columns out of rows, whose values are in the order of its members."""
    names = [item.name for item in fields(kind)]  # type: ignore[arg-type]
    turned = list(zip(*rows, strict=True)) or [()] * len(names)
    return kind(**dict(zip(names, turned, strict=True)))


def columns_class(name: str, row: type) -> type:
    """A dataclass of columns for rows that are objects of the dataclass `row`."""
    hints, several = get_type_hints(row), cast(Any, tuple)
    members = [(item.name, several[hints[item.name], ...]) for item in fields(row)]
    return make_dataclass(name, members, frozen=True, slots=True)


def row_count(table: Any) -> int:
    """The number of rows of a dataclass of columns."""
    return len(getattr(table, fields(table)[0].name))


def runs_of(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Rising numbers as half-open ranges."""
    first = last = -1
    for row in rows:
        if row != last:
            if last > first:
                yield first, last
            first = row
        last = row + 1
    if last > first:
        yield first, last


def shown(text: str, limit: int) -> str:
    """A text as the page has it: printable, and not longer than `limit` characters."""
    found = text if text.isprintable() else printable(text)
    return found if len(found) <= limit else f"{found[: limit - 1]}…"


def all_shown(value: T, limit: int = 1 << 20) -> T:
    """A value with every text in it, however deep, as `shown` gives it."""
    found: Any = value
    if isinstance(value, str):
        found = shown(value, limit)
    elif is_dataclass(value) and not isinstance(value, type):
        found = replace(
            value, **{item.name: all_shown(getattr(value, item.name), limit) for item in fields(value)}
        )
    elif isinstance(value, Mapping):
        found = {all_shown(name, limit): all_shown(item, limit) for name, item in value.items()}
    elif isinstance(value, tuple):
        found = tuple(all_shown(item, limit) for item in value)
    return cast(T, found)
