"""Which fields of a row a finding is about: those of its bytes, or, where these are the row, by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rocketfsck.verify.finding import Severity

if TYPE_CHECKING:
    from rocketfsck.cli.browse.model.findings import Placed
    from rocketfsck.cli.dump.item import Item
    from rocketfsck.cli.show.hexview import Span

FIELD_OF_FACT = {
    "crc": "body_crc",
    "stated_physical_offset": "physical_offset",
    "sys_flag": "sys_flag",
    "magic_code": "magic_code",
}
"""Facts of findings that are the value of a field, and the field."""
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def wrong_fields(item: Item, spans: Sequence[Span], findings: Iterable[Placed]) -> dict[int, Severity]:
    """The numbers of the fields that findings are about, each with the worst severity."""
    wrong: dict[int, Severity] = {}
    for placed in findings:
        for number in _named(item, spans, placed):
            wrong[number] = max(placed.severity, wrong.get(number, Severity.INFO))
    return wrong


def _named(item: Item, spans: Sequence[Span], placed: Placed) -> Iterator[int]:
    where = placed.finding.where
    is_exact = where.start is not None and where.end is not None
    is_part = placed.start >= item.start and placed.end <= item.end
    is_whole = placed.start <= item.start and placed.end >= item.end
    if is_exact and is_part and not is_whole:
        yield from (n for n, span in enumerate(spans) if placed.start < span.end and span.start < placed.end)
        return
    names = set(_names(placed))
    yield from (n for n, span in enumerate(spans) if span.name in names)


def _names(placed: Placed) -> Iterator[str]:
    found = placed.finding.found
    yield from (field for fact, field in FIELD_OF_FACT.items() if fact in found)
    if "field" in found:
        yield _CAPITAL.sub("_", str(found["field"])).lower()
