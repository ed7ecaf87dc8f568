"""Findings: what a check yields. Data only; the words are in `verify.rules.catalog`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, get_args

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
