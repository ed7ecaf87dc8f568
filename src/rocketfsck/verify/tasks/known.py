"""What a check knows of files that go on growing, so that a later one need only read what is new.

Each value is about a part that was found sound, without a finding: `verify.since` keeps them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueueKnown:
    """The units of a sound queue: pre-blanks from the index `start` on, then units as far as `end`.

    `first_offset` is the physical offset of the first unit behind the pre-blanks, `last_offset` that of the
    last one and `last_end` where its record ends.
    """

    start: int
    pre_blank_count: int
    end: int
    first_offset: int
    last_offset: int
    last_end: int


@dataclass(frozen=True, slots=True)
class IndexKnown:
    """The entries 1 to `used` of a sound index file, whose last points to `last_offset`.

    `slot_count` slots have entries; `slots_digest` covers all slots as those entries leave them.
    `is_unchanged`: the file's times are the same. A broker may have changed pages that were in memory, but it
    changes the header with each put: with the same number of entries, the slots are not looked at again.
    """

    used: int
    last_offset: int
    slot_count: int
    slots_digest: str
    is_unchanged: bool = False
