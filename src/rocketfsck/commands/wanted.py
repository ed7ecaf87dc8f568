"""The options that say which messages are wanted, each declared once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from rocketfsck.common.options import Option

PhysicalOffsets = Annotated[
    tuple[int, int] | None,
    Option("Only items that begin at these physical offsets.", names=("--physical-offset",), kind="range"),
]
Limit = Annotated[int | None, Option("Show at most N.", metavar="N", least=0)]


@dataclass(frozen=True, slots=True)
class WantedTimes:
    """Milliseconds since 1970: of the storeTimestamp; of messages that wait for a timer, when due."""

    begin: Annotated[
        int | None,
        Option(
            "Only from this time on: milliseconds, or a date and time, of UTC unless it names a zone.",
            kind="time",
        ),
    ] = None
    end: Annotated[int | None, Option("Only before this time.", kind="time")] = None


@dataclass(frozen=True, slots=True)
class WantedMessages:
    """What messages have in common; None is any."""

    topic: Annotated[str | None, Option("Only this topic.")] = None
    queue_id: Annotated[int | None, Option("Only this queueId.", names=("--queue",), metavar="ID")] = None
    tag: Annotated[str | None, Option("Only messages whose TAGS are this.")] = None
    key: Annotated[str | None, Option("Only messages with this key, among KEYS or as UNIQ_KEY.")] = None
    times: WantedTimes = field(default_factory=WantedTimes)
