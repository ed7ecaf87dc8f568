"""`rocketfsck find STORE TEXT`: all that a text is in a store."""

from __future__ import annotations

from dataclasses import dataclass, field

from rocketfsck.cli.adapter import command_of
from rocketfsck.cli.commands.query import Answered
from rocketfsck.cli.query.found import Shown
from rocketfsck.commands.query import FindQuery, query_find


@dataclass(frozen=True, slots=True, kw_only=True)
class FindLine(FindQuery):
    """What is looked for, and how it is shown."""

    answer: Answered
    shown: Shown = field(default_factory=Shown)


@command_of(FindLine)
def command(line: FindLine) -> int:
    """Find all that TEXT is in STORE, and say what to run next.

    TEXT may be an offset message id, a UNIQ_KEY, a key, tags, an address (with or without a port), a time, a
    topic, a consumer group, a physical offset, TOPIC/QUEUE/OFFSET, a file, or text in a body (unpacked, where
    it is compressed). find reads the whole log once, and ends early after 10,000 messages. Of each kind
    three messages are shown, or as many as --limit says.

    Exit status: 0 found, 4 nothing is TEXT.
    """
    from rocketfsck.cli.query.facts import write_evidence

    return write_evidence(line.shown.request(line, line.answer), query_find(line))
