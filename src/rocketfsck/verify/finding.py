"""Findings: what a check yields. Data only; the words are in `verify.rules.catalog`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from rocketfsck.store.model import ConsumeQueue

Scalar = int | str | bool | None
Facts = Mapping[str, Scalar]
"""Named values of a finding: exact integers, text, or None. Bytes are given as hex text."""


SeverityName = Literal["info", "warning", "error"]


class Severity(IntEnum):
    """How bad a finding is. Exit status 4 follows from any finding above INFO."""

    INFO = 0
    WARNING = 1
    ERROR = 2

    @property
    def word(self) -> SeverityName:
        """What it is called in reports."""
        return get_args(SeverityName)[self]  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, order=True)
class Where:
    """The exact place of a finding; what does not apply is None.

    `file` is relative to the store's root with `/` between the parts ("" is the store as a whole; a file of
    a second commitlog path keeps its own full path). `start`/`end` are byte positions in that file,
    half-open. `physical_offset` is the place in the commitlog stream. `slot` and `entry` number an index
    file's hash slot and index entry.
    """

    file: str = ""
    start: int | None = None
    end: int | None = None
    physical_offset: int | None = None
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    slot: int | None = None
    entry: int | None = None


TREES = {"file": "consumequeue", "batch": "batchconsumequeue"}


def queue_directory(topic: str, queue_id: int, kind: str = "file") -> str:
    """The directory of a queue, relative to the store's root."""
    return f"{TREES[kind]}/{topic}/{queue_id}"


def queue_place(topic: str, queue_id: int, kind: str = "file") -> Where:
    """Where a finding on a whole queue is."""
    return Where(file=queue_directory(topic, queue_id, kind), topic=topic, queue_id=queue_id)


def unit_place(queue: ConsumeQueue, index: int, count: int = 1, physical_offset: int | None = None) -> Where:
    """Where units `index:index + count` of a queue are: in the file that holds the first of them."""
    size = queue.unit_size
    pos = index * size
    for file in reversed(queue.files):
        start = file.start_offset
        if start is not None and start <= pos:
            return Where(
                file=file.relative,
                start=pos - start,
                end=min(pos - start + count * size, max(file.size, pos - start)),
                physical_offset=physical_offset,
                topic=queue.topic,
                queue_id=queue.queue_id,
                queue_offset=index,
            )
    whole = queue_place(queue.topic, queue.queue_id, queue.kind)
    return replace(whole, physical_offset=physical_offset, queue_offset=index)


@dataclass(frozen=True, slots=True)
class Finding:
    """One breach of one rule at one place.

    `found` and `expected` hold the values that the rule's template names. `count` is above 1 where one
    finding stands for a run of equal neighbours (then `where` spans the run).
    """

    rule: str
    where: Where
    found: Facts = field(default_factory=dict)
    expected: Facts = field(default_factory=dict)
    count: int = 1

    @property
    def fingerprint(self) -> str:
        """16 hex digits that name this finding in baselines and plans: rule, place and facts, no wording."""
        place = {name: getattr(self.where, name) for name in Where.__slots__}
        text = json.dumps([self.rule, place, dict(self.found), dict(self.expected)], sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
