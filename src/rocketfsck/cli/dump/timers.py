"""Timer files: the wheel's slots, the log's units, the progress file. Reference 1.8."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rocketfsck.cli.dump.fixed import rest_items, struct_items, unit_items
from rocketfsck.cli.dump.item import (
    DumpFilter,
    DumpSource,
    Item,
    Spec,
    TextColumn,
    layout_columns,
    layout_spans,
)
from rocketfsck.cli.output import Column
from rocketfsck.cli.show.text import timestamp
from rocketfsck.formats.magic import MAGIC_BLANK
from rocketfsck.formats.timer import (
    MAGIC_DEFAULT,
    MAGIC_DELETE,
    MAGIC_ROLL,
    SLOTS_TOTAL,
    TIMER_CHECK,
    TIMER_LOG_FILLER,
    TIMER_LOG_UNIT,
    TIMER_LOG_UNIT_SIZE,
    TIMER_WHEEL_SLOT,
    TIMER_WHEEL_SLOT_SIZE,
    is_valid_timer_magic,
)

_BITS = ((MAGIC_DEFAULT, "default"), (MAGIC_ROLL, "roll"), (MAGIC_DELETE, "delete"))


def _magic_text(magic: int) -> str:
    if not is_valid_timer_magic(magic):
        return f"magic {magic} is not that of a timer"
    return ", ".join(name for bit, name in _BITS if magic & bit)


def wheel_items(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
    """The slots in use; all others are runs of zeros."""

    def describe(pos: int, values: dict[str, Any]) -> tuple[str, dict[str, Any], str] | None:
        number = pos // TIMER_WHEEL_SLOT_SIZE
        if wanted.slot is not None and number != wanted.slot:
            return None
        surplus = " (after the wheel's last slot)" if number >= 2 * SLOTS_TOTAL else ""
        return "slot", {"slot": number, **values}, _magic_text(values["magic"]) + surplus

    yield from unit_items(source, TIMER_WHEEL_SLOT, describe, zeros=not wanted.any, what="slot")


def log_items(source: DumpSource, wanted: DumpFilter) -> Iterator[Item]:
    """The units one after the other; where one ends the file's, what comes after it."""
    pos = source.first_pos
    while source.size - pos >= TIMER_LOG_FILLER.size:
        filler = TIMER_LOG_FILLER.parse(source.read(pos, TIMER_LOG_FILLER.size))
        if filler["magic"] == MAGIC_BLANK:
            if not wanted.any:
                yield _filler(pos, filler)
            pos += TIMER_LOG_FILLER.size
            break
        if source.size - pos < TIMER_LOG_UNIT_SIZE:
            break
        values = TIMER_LOG_UNIT.parse(source.read(pos, TIMER_LOG_UNIT_SIZE))
        if values["size"] != TIMER_LOG_UNIT_SIZE:
            break
        item = _unit(source, wanted, pos, values)
        if item is not None:
            yield item
        pos += TIMER_LOG_UNIT_SIZE
    if not wanted.any:
        yield from rest_items(source, pos)


def _filler(pos: int, filler: dict[str, Any]) -> Item:
    return Item(
        "filler",
        pos,
        pos + TIMER_LOG_FILLER.size,
        filler,
        f"end of the file's units, {filler['size']} bytes left",
        lambda: layout_spans(TIMER_LOG_FILLER, pos, filler),
    )


def _unit(source: DumpSource, wanted: DumpFilter, pos: int, values: dict[str, Any]) -> Item | None:
    deliver = values["currWriteTime"] + values["delayedTime"]
    if not wanted.has_time(deliver) or not wanted.has_offset(values["offsetPy"]):
        return None
    shown = {"timerLogOffset": source.start_offset + pos, **values, "deliverTime": deliver}
    return Item(
        "unit",
        pos,
        pos + TIMER_LOG_UNIT_SIZE,
        shown,
        _magic_text(values["magic"]),
        lambda: layout_spans(TIMER_LOG_UNIT, pos, values, texts={"magic": _magic_text(values["magic"])}),
    )


def check_items(source: DumpSource, _wanted: DumpFilter) -> Iterator[Item]:
    """`config/timercheck`."""
    yield from struct_items(source, TIMER_CHECK, "timercheck")


SPECS = {
    "timerwheel": Spec(
        (Column("slot", "int"), *layout_columns(TIMER_WHEEL_SLOT), Column("count", "int")),
        (
            TextColumn("slot", "slot", 8),
            TextColumn("slotTime", "slotTime", 14),
            TextColumn("firstPos", "firstPos", 14),
            TextColumn("lastPos", "lastPos", 14),
            TextColumn("num", "num", 8),
        ),
        ("slot",),
        wheel_items,
    ),
    "timerlog": Spec(
        (Column("timerLogOffset", "int"), *layout_columns(TIMER_LOG_UNIT), Column("deliverTime", "int")),
        (
            TextColumn("timerLogOffset", "timerLogOffset", 14),
            TextColumn("prevPos", "prevPos", 14),
            TextColumn("deliverTime", "deliverTime", 24, render=timestamp),
            TextColumn("offsetPy", "offsetPy", 14),
            TextColumn("sizePy", "sizePy", 8),
        ),
        ("begin", "end", "physical_offsets"),
        log_items,
    ),
    "timercheck": Spec(layout_columns(TIMER_CHECK), (), (), check_items),
}
