"""How a query got to its answer: the index files looked at, the chains walked, what else was read.

Plain data; `rocketfsck.cli` shows it. Reference 4.7.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class EntryStep:
    """One index entry of a chain: its number, its fields, and what the search made of it.

    `time_diff` is in seconds, `timestamp` what it makes of the file's beginTimestamp, in ms.
    """

    entry: int
    key_hash: int
    physical_offset: int
    time_diff: int
    previous: int
    timestamp: int
    verdict: str


@dataclass(frozen=True, slots=True)
class IndexStep:
    """One index file: its header, the slot and the entries visited, newest first.

    `skipped` says why nothing of it was looked at; `ended` why the chain was left where it was. `broken` is
    true where the chain cannot be trusted to be whole.
    """

    file: str
    begin_timestamp: int
    end_timestamp: int
    begin_offset: int
    end_offset: int
    index_count: int
    slot: int | None = None
    newest: int | None = None
    entries: tuple[EntryStep, ...] = ()
    skipped: str | None = None
    ended: str | None = None
    broken: bool = False


@dataclass(frozen=True, slots=True)
class ScanStep:
    """A part of the commit log that was scanned: physical offsets, and why."""

    start_offset: int
    end_offset: int
    why: str
    record_count: int


@dataclass(slots=True)
class Trace:
    """Collects the steps of one query in the order taken. `notes` are sentences."""

    key: str | None = None
    key_hash: int | None = None
    index_steps: list[IndexStep] = field(default_factory=list)
    scan_steps: list[ScanStep] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def entry_count(self) -> int:
        """Entries visited in all files."""
        return sum(len(step.entries) for step in self.index_steps)
