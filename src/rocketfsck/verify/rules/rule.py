"""What a rule is: one row of the table that every finding refers to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import plain_template
from rocketfsck.verify.finding import Severity

Strictness = Literal["strict", "dialect", "heuristic", "config"]
"""`strict` holds in every store; `dialect` depends on the broker version; `heuristic` has legal exceptions;
`config` depends on the broker's configuration."""

Level = Literal["quick", "cross", "full"]
"""`quick`: names, sizes, headers, tails. `cross`: every frame, unit, chain and cross-reference, no bodies.
`full`: every body's CRC and every property too."""

LEVELS: tuple[Level, ...] = ("quick", "cross", "full")

DETAIL_LIMIT = 100
"""Findings kept for one rule in one file; the rest is one finding with their exact count."""

FAMILIES: dict[str, str] = {
    "ST": "store and names",
    "CL": "commit log",
    "CQ": "consume queue",
    "IX": "index",
    "CP": "checkpoint, abort, lock and epoch",
    "CF": "config",
    "KV": "compaction",
    "TM": "timer",
    "XR": "cross-reference",
    "RK": "RocksDB databases",
    "TS": "tiered storage",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One invariant: its identity, how bad a breach is, and what to say about it.

    `template` is one line in the form of `common.wording`: `{name}` is a value of the finding (`found`,
    else a part of `where`), `{expected.name}` an expected one; `meaning` is the same line for readers.
    `repair` names the action that answers a breach, if any does; `reference` the section of the format
    reference; `fault_class` the class of the fault catalogue.
    `unknown`: a finding is nothing wrong, but something regular that this version of the tool does not know.
    Repairs keep their hands off its area (`verify.watched`, ADR 0011).
    """

    id: RuleName
    severity: Severity
    template: str
    why: str
    strictness: Strictness
    level: Level
    reference: str
    repair: str | None = None
    fault_class: str | None = None
    unknown: bool = False

    @property
    def slug(self) -> str:
        """The name as it is printed."""
        return self.id.slug

    @property
    def meaning(self) -> str:
        """The template with the names of its values."""
        return plain_template(self.template)

    @property
    def family(self) -> str:
        """The two letters before the number, one of `FAMILIES`."""
        return self.id[:2]

    def applies_at(self, level: Level) -> bool:
        """Whether a check at this level looks for breaches of this rule."""
        return LEVELS.index(self.level) <= LEVELS.index(level)
