"""The check of many stores as text: how many are in which state, the worst ones, what to run next.

Checked 12 stores below /data (1.2 GiB, level full, 3.1 s): 1 refused, 1 failed, 2 damaged, 8 healthy.

  state    errors  warnings  lost  store
  refused      12         3   129  broker-a
  failed        -         -     -  broker-x
  …
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from rocketfsck.cli.show.replication import group_lines
from rocketfsck.cli.show.text import (
    MARGIN,
    Palette,
    aligned,
    byte_size,
    count_of,
    table_columns,
    timestamp,
    visible,
    width,
    wrapped,
)
from rocketfsck.common.wording import duration
from rocketfsck.pipeline.fleet.model import FleetReport, StoreRow

ROW_LIMIT = 20
"""Stores in the table."""
NEXT_LIMIT = 3
ERROR_LIMIT = 5
_HEAD = ("state", "errors", "warnings", "lost")
_NEW = "new"
_STORE = "store"
_LEAST_NAME = 8
_GAP = 2


SOUND = ("healthy", "unclean")
"""States in which there is nothing to do but to start the broker."""


def _is_sound(row: StoreRow) -> bool:
    """Whether there is nothing to do about a store; at level quick, as far as that level looks."""
    return row.state in SOUND or (row.state == "partial" and bool(row.is_complete))


def stores_lines(
    report: FleetReport, palette: Palette, columns: int, *, everything: bool, quiet: bool
) -> Iterator[str]:
    """The head; unless `quiet`, the stores that are not healthy, or `everything`, and the next commands."""
    base = _base([row.root for row in report.stores])
    yield from wrapped(_summary(report, base), columns)
    if report.oldest_read_timestamp is not None:
        yield from wrapped(_since(report, report.oldest_read_timestamp), columns)
    if report.not_compared is not None:
        yield from wrapped(f"Not compared with earlier runs: {visible(report.not_compared)}", columns)
    elif report.compared_timestamp is not None:
        yield from wrapped(_changes(report, report.compared_timestamp), columns)
    if quiet:
        return
    worst = report.worst_first()
    listed = worst if everything else [row for row in worst if not _is_sound(row)]
    shown = listed if everything else listed[:ROW_LIMIT]
    if shown:
        yield ""
        for number, line in enumerate(
            aligned(_table(shown, base, bool(report.compared)), right=(1, 2, 3, 4))
        ):
            yield f"  {palette.bold(line) if number == 0 else line}"
    hidden = len(listed) - len(shown)
    if hidden:
        yield f"  and {count_of(hidden, 'store')} more: -v shows every store"
    yield from _errors(shown, columns, everything=everything)
    yield from _new(report, base, columns)
    yield from _groups(report, base, columns)
    yield from _next(listed, palette, everything=everything)


def _summary(report: FleetReport, base: str) -> str:
    size = byte_size(sum(row.byte_count or 0 for row in report.stores))
    states = ", ".join(f"{count:,} {state}" for state, count in report.state_counts.items())
    where = f" below {visible(base)}" if base else ""
    stores = count_of(len(report.stores), "store")
    about = f"{size}, level {report.level}, {duration(report.seconds)}"
    return f"Checked {stores}{where} ({about}): {states}."


def _since(report: FleetReport, oldest: int) -> str:
    read, taken = (
        byte_size(sum(getattr(row, name) or 0 for row in report.stores))
        for name in ("read_byte_count", "taken_over_byte_count")
    )
    return (
        f"{read} read, {taken} taken over; the part that was read longest ago was read {timestamp(oldest)}."
    )


def _changes(report: FleetReport, since: int) -> str:
    compared = report.compared
    having = count_of(sum(bool(row.new_finding_count) for row in compared), "store")
    new, gone = (
        sum(getattr(row, name) or 0 for row in compared)
        for name in ("new_finding_count", "gone_finding_count")
    )
    rest = len(report.stores) - len(compared)
    more = f" Not compared: {count_of(rest, 'store')}." if rest else ""
    among = f" in {having}" if new else ""
    return f"New since {timestamp(since)}: {count_of(new, 'problem')}{among}; gone: {gone:,}.{more}"


def _base(roots: Sequence[str]) -> str:
    """The directory that all stores are in; "" for one store, and for stores without one but /."""
    places = [root.split("/") for root in roots]
    levels = zip(*(place[:-1] for place in places), strict=False) if len(places) > 1 else ()
    base = "/".join(level[0] for level in takewhile(lambda level: len(set(level)) == 1, levels))
    return "" if base.rstrip("/").endswith(":") else base


def _below(root: str, base: str) -> str:
    return root[len(base) + 1 :] if base else root


def _name(row: StoreRow, base: str) -> str:
    return visible(_below(row.root, base))


def _table(rows: Sequence[StoreRow], base: str, has_new: bool) -> Iterator[tuple[str, ...]]:
    """The rows, with names as long as there is room for them on a terminal; `has_new`: with what is new."""
    cells = [(*_HEAD, _NEW) if has_new else _HEAD, *(_cells(row, has_new) for row in rows)]
    limit = table_columns()
    before = sum(max(map(len, column)) + _GAP for column in zip(*cells, strict=True))
    for cell, name in zip(cells, [_STORE, *(_name(row, base) for row in rows)], strict=True):
        short = name if limit is None else _end_of(name, max(limit - MARGIN - before, _LEAST_NAME))
        yield (*cell, short)


def _cells(row: StoreRow, has_new: bool) -> tuple[str, ...]:
    numbers = (row.error_count, row.warning_count, row.lost_record_count)
    more = (row.new_finding_count,) if has_new else ()
    return (row.state, *("-" if number is None else f"{number:,}" for number in (*numbers, *more)))


def _end_of(text: str, room: int) -> str:
    """A path, without its begin where it is too long: the end tells stores apart."""
    if width(text) <= room:
        return text
    while width(text) > room - 1:
        text = text[1:]
    return f"…{text}"


def _errors(rows: Sequence[StoreRow], columns: int, *, everything: bool) -> Iterator[str]:
    """Why stores, or files of them, could not be checked."""
    failed = [(row.root, text) for row in rows if (text := row.error or row.not_checked) is not None]
    if not failed:
        return
    yield ""
    yield "Could not be checked"
    for root, why in failed if everything else failed[:ERROR_LIMIT]:
        yield from _item(f"{visible(root)}: {visible(why, keep_backslash=True)}", columns)


def _item(text: str, columns: int) -> Iterator[str]:
    first, *more = wrapped(text, columns - 4)
    yield f"  {first}"
    yield from (f"    {line}" for line in more)


def _new(report: FleetReport, base: str, columns: int) -> Iterator[str]:
    """The first findings that the last run of their store did not have."""
    if not report.new_findings:
        return
    yield ""
    yield "New"
    for item in report.new_findings:
        name = visible(_below(str(item["root"]), base))
        where = visible(str(item["file"] or "the store"))
        said = f"{item['rule']} {item['slug']} in {where}: {visible(item['message'], keep_backslash=True)}"
        yield from _item(f"{name}: {said}", columns)
    hidden = sum(row.new_finding_count or 0 for row in report.stores) - len(report.new_findings)
    if hidden:
        yield f"  and {hidden:,} more, in the table of findings"


def _groups(report: FleetReport, base: str, columns: int) -> Iterator[str]:
    """Groups of nodes among the stores: which to start first."""
    for group in report.node_groups:
        yield ""
        for line in group_lines(group, [_below(str(member.path), base) for member in group.members]):
            yield from wrapped(line.lstrip(), columns, "  " if line.startswith(" ") else "")


def _next(rows: Sequence[StoreRow], palette: Palette, *, everything: bool) -> Iterator[str]:
    """The commands for the worst stores; never broken, because they are to be pasted."""
    commands = [row.next_command for row in rows if row.next_command is not None]
    if not commands:
        return
    yield ""
    yield "Next"
    for command in commands if everything else commands[:NEXT_LIMIT]:
        yield f"  {palette.good(visible(command, keep_backslash=True))}"
