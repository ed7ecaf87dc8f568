"""Rows that are not what their family has: the first of each family, and how many."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class OddRow:
    """A row that is not what its family has: `reason` says why, `key` is its key."""

    family: str
    key: bytes
    reason: str


@dataclass(slots=True)
class OddRows:
    """The odd rows of a database, by family."""

    first: dict[str, OddRow] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, family: str, key: bytes, reason: str) -> None:
        """Count a row, and keep it if it is the first of its family."""
        self.first.setdefault(family, OddRow(family, key, reason))
        self.counts[family] = self.counts.get(family, 0) + 1
