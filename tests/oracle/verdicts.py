"""What a verdict says of a start against what consumers got: the truth, the comparison, the confusion.

served before (damaged, not started), served after  ->  Truth
state of the verdict, Truth                         ->  Fit
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rocketfsck.formats.record import Record
from rocketfsck.query.start.verdict import StartVerdict
from rocketfsck.verify.finding import MessageAccount

from tests.oracle.broker import Queue, QueueName

_UNITS = {"consumequeue": struct.Struct(">qiq"), "batchconsumequeue": struct.Struct(">qiqqqhii")}
"""Units by area: physical offset and size come first in each."""

Message = tuple[QueueName, tuple[int, int, str]]
"""A queue and what it serves: physical offset, size in bytes, SHA-256. Not at which offset: asked for a
message that is missing, the store code gives the next one that it has."""

Happened = Literal["refused", "takes", "harmless"]
Fit = Literal["right", "rosier", "darker", "unsaid"]


@dataclass(frozen=True, slots=True)
class Truth:
    """A start on a damaged store. `before` is what consumers could get of it, `after` what they got, `sound`
    what they got of the store before the damage; `after` is None where the broker did not start.
    `destroyed` are the hashes of sound records that the log's files, whatever their names, had before the
    start and have not after it."""

    sound: frozenset[Message]
    before: frozenset[Message]
    after: frozenset[Message] | None
    destroyed: frozenset[str] = frozenset()
    present: frozenset[str] = frozenset()
    reissued_count: int = 0
    log_start: int = 0

    @property
    def gone(self) -> frozenset[Message]:
        """Messages of the sound store whose records are nowhere before the start, but for those in front of
        the log's first file: they cannot be told from expired ones."""
        return frozenset(
            message
            for message in self.sound
            if message[1][2] not in self.present and message[1][0] >= self.log_start
        )

    @property
    def gone_count(self) -> int:
        """Messages that are gone, each once, in however many queues it was."""
        return len({message[1] for message in self.gone})

    @property
    def hidden(self) -> frozenset[Message]:
        """Messages whose records are there and that no consumer could get before the start."""
        return frozenset(message for message in self.sound - self.before if message[1][2] in self.present)

    @property
    def missing(self) -> frozenset[Message]:
        """Messages whose records were there before the start, and that consumers do not get after it."""
        left = self.sound - (self.after or frozenset())
        return frozenset(message for message in left if message[1][2] in self.present)

    @property
    def happened(self) -> Happened:
        if self.after is None:
            return "refused"
        return "takes" if self.before - self.after or self.destroyed else "harmless"

    @property
    def taken_count(self) -> int:
        """Messages that the start took, each once, in however many queues it was; 0 where there was none."""
        return 0 if self.after is None else len({message[1] for message in self.before - self.after})

    @property
    def reached_count(self) -> int:
        """Messages of the sound store that consumers get after the start."""
        return 0 if self.after is None else len(self.sound & self.after)


FITS: Mapping[tuple[bool | None, Happened], Fit] = {
    (True, "harmless"): "right",
    (True, "takes"): "rosier",
    (True, "refused"): "rosier",
    (False, "harmless"): "darker",
    (False, "takes"): "right",
    (False, "refused"): "right",
    (None, "harmless"): "unsaid",
    (None, "takes"): "unsaid",
    (None, "refused"): "unsaid",
}
"""By `may_start` of the verdict on this one version, and by what happened."""

COMPARED: Mapping[str, tuple[Callable[[StartVerdict], int], Callable[[Truth], int]]] = {
    "taken": (lambda start: start.taken_count - start.astray_count, lambda truth: truth.taken_count),
    "reissued": (lambda start: start.reissued_count, lambda truth: truth.reissued_count),
}
"""Numbers of the verdict on a start and how the truth has them: one row for each number that is compared."""

Range = tuple[int, int | None]
"""From a least number to a greatest one; None where only the least is known."""


def _gone(account: MessageAccount) -> Range:
    """Messages that are lost or damaged; what is perhaps lost may be there. "At least" may be more, and so
    may what only the index tells of: it does not have all messages."""
    certain = account.lost_count + account.damaged_count
    open_end = any(tally.sure == "at least" or tally.why == "index entry" for tally in account.tallies)
    return certain, None if open_end else certain + account.perhaps_lost_count


def _hidden(account: MessageAccount) -> Range:
    return account.unreachable_count, account.unreachable_count


ACCOUNTED: Mapping[str, tuple[Callable[[MessageAccount], Range], Callable[[Truth], int]]] = {
    "gone": (_gone, lambda truth: truth.gone_count),
    "out of reach": (_hidden, lambda truth: len(truth.hidden)),
}
"""The same of the account of the messages, as they are before a start."""


def given_again(ends: Mapping[QueueName, int], queues: Mapping[QueueName, Queue]) -> int:
    """Queue offsets in front of the ends of queues, as the records of a log have them, that a started broker
    gives out again."""
    return sum(max(end - (queues[name].max_offset if name in queues else 0), 0) for name, end in ends.items())


def fit_of(may_start: bool | None, truth: Truth, *, takes_more: bool = False) -> Fit:
    """How the first line fits. `takes_more`: the start takes something that is no message (keys of the index,
    numbers of a queue), which the truth does not see, so that a stop is not too dark."""
    fit = FITS[may_start, truth.happened]
    return "right" if fit == "darker" and takes_more else fit


def differences(start: StartVerdict, truth: Truth) -> list[str]:
    """The numbers that are said otherwise than they were counted; none of a start that was not covered."""
    if not start.covered:
        return []
    if start.loads != (truth.after is not None):
        return [f"loads: said {start.loads}, was {truth.after is not None}"]
    if truth.after is None:
        return []
    pairs = [(name, said(start), counted(truth)) for name, (said, counted) in COMPARED.items()]
    return [f"{name}: said {said}, was {counted}" for name, said, counted in pairs if said != counted]


def account_differences(account: MessageAccount, truth: Truth) -> list[str]:
    """The same of the account of the messages."""
    pairs = [(name, said(account), counted(truth)) for name, (said, counted) in ACCOUNTED.items()]
    return [
        f"{name}: said {least} to {most}, was {counted}"
        for name, (least, most), counted in pairs
        if not least <= counted <= (counted if most is None else most)
    ]


@dataclass(frozen=True, slots=True)
class Evidence:
    """A damaged store before its start: `before` are the messages that consumers could get of it, `present`
    the hashes of the sound records whose bytes a file of its log has, whatever its name."""

    before: frozenset[Message]
    present: frozenset[str]
    log_start: int


def evidence_of(
    store: Path, records: Mapping[str, Record], served: Collection[Message], log_file_size: int
) -> Evidence:
    """What a store has of the sound `records`, by their hashes, and of what consumers were `served`."""
    before = reachable(store, log_file_size, records) & frozenset(served)
    present = records_in(store, log_file_size, records)
    starts = [int(path.name) for path in _files(store, "commitlog") if path.name.isdigit()]
    starts += [records[name].physical_offset for name in present]
    return Evidence(before, present, min(starts, default=0))


def reachable(store: Path, log_file_size: int, known: Collection[str]) -> frozenset[Message]:
    """Messages that a consumer could get of the files as they are, by units and names of files alone.

    `known` has the SHA-256 of the sound records: bytes that are no such record are no message.
    """
    files = {int(path.name): path.read_bytes() for path in _files(store, "commitlog") if path.name.isdigit()}
    found: set[Message] = set()
    for area, unit in _UNITS.items():
        for path in (store / area).glob("*/*/*"):
            if not (path.is_file() and path.name.isdigit()):
                continue
            name = path.parent.parent.name, int(path.parent.name)
            data = path.read_bytes()
            for number in range(len(data) // unit.size):
                offset, size, *_ = unit.unpack_from(data, number * unit.size)
                base = offset // log_file_size * log_file_size
                record = files.get(base, b"")[offset - base : offset - base + max(size, 0)]
                sha256 = hashlib.sha256(record).hexdigest()
                if record and len(record) == size and sha256 in known:
                    found.add((name, (offset, size, sha256)))
    return frozenset(found)


def records_in(store: Path, log_file_size: int, records: Mapping[str, Record]) -> frozenset[str]:
    """Hashes of those of the sound records whose bytes a file of the log has, whatever its name."""
    found: set[str] = set()
    for path in _files(store, "commitlog"):
        data = path.read_bytes()
        for sha256, record in records.items():
            pos = record.physical_offset % log_file_size
            if hashlib.sha256(data[pos : pos + record.total_size]).hexdigest() == sha256:
                found.add(sha256)
    return frozenset(found)


def _files(store: Path, area: str) -> list[Path]:
    folder = store / area
    return [path for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []


def confusion(rows: Iterable[tuple[str, Happened]]) -> str:
    """The table of confusion: what was said by what happened, with counts."""
    counts = Counter(rows)
    happened: tuple[Happened, ...] = ("harmless", "takes", "refused")
    lines = [f"{'said':10}" + "".join(f"{name:>10}" for name in happened)]
    lines += [
        f"{state:10}" + "".join(f"{counts[state, name]:>10}" for name in happened)
        for state in sorted({state for state, _ in counts})
    ]
    return "\n".join(lines)
