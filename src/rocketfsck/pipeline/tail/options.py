"""The options that a stream has in addition to those of the view `messages` (`views.options`).

Names are case-insensitive.

startingOffset        earliest (default), latest, a physical offset, or JSON: {"broker-a": 1048576}
startingTimestamp     the first record stored at this time (ms, or a date) or later
maxBytesPerTrigger    bytes of log in a batch, or maxRowsPerTrigger: rows
failOnDataLoss        true (default): what is lost ends the query; false: the query continues after it
maxClockStep          how far a broker's clock may step back (ms), 1000 by default
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rocketfsck.errors import UsageError
from rocketfsck.pipeline.tail.place import CLOCK_STEP
from rocketfsck.pipeline.views.options import read_integer, read_size, read_time, read_truth

EARLIEST, LATEST = "earliest", "latest"


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a log is followed. `starting` is `earliest`, `latest`, an offset, or one of these by broker."""

    starting: str | int | dict[str, str | int] = EARLIEST
    starting_timestamp: int | None = None
    max_size: int | None = None
    max_count: int | None = None
    fail_on_data_loss: bool = True
    clock_step: int = CLOCK_STEP


def _starting(name: str, text: str) -> str | int | dict[str, str | int]:
    if not text.lstrip().startswith("{"):
        return _one_starting(name, text)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{name} is not JSON: {error}") from None
    return {broker: _one_starting(name, str(value)) for broker, value in found.items()}


def _one_starting(name: str, text: str) -> str | int:
    word = text.strip().lower()
    if word in (EARLIEST, LATEST):
        return word
    if not word.isascii() or not word.isdigit():
        raise UsageError(f"{name} is earliest, latest or a physical offset, not {text!r}")
    return read_integer(name, word)


_OPTIONS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "startingOffset": ("starting", _starting),
    "startingTimestamp": ("starting_timestamp", read_time),
    "maxBytesPerTrigger": ("max_size", read_size),
    "maxRowsPerTrigger": ("max_count", read_integer),
    "failOnDataLoss": ("fail_on_data_loss", read_truth),
    "maxClockStep": ("clock_step", read_integer),
}
STREAM_OPTIONS = tuple(_OPTIONS)
"""Options that a stream has in addition to those of the view."""


def parse_stream_options(options: Mapping[str, str]) -> StreamOptions:
    """The options of a stream among all that were given; raises UsageError for values that make no sense."""
    given = {name.lower(): text for name, text in options.items()}
    values = {
        field: parse(name, given[name.lower()])
        for name, (field, parse) in _OPTIONS.items()
        if name.lower() in given
    }
    found = StreamOptions(**values)
    if found.starting_timestamp is not None and "starting" in values:
        raise UsageError("choose one: startingOffset or startingTimestamp")
    if found.max_size is not None and found.max_count is not None:
        raise UsageError("choose one: maxBytesPerTrigger or maxRowsPerTrigger")
    for name, value in (("maxBytesPerTrigger", found.max_size), ("maxRowsPerTrigger", found.max_count)):
        if value is not None and value < 1:
            raise UsageError(f"{name} must be at least 1, not {value}")
    if found.clock_step < 0:
        raise UsageError(f"maxClockStep must be a number of milliseconds, not {found.clock_step}")
    return found
