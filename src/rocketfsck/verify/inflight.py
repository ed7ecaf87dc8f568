"""What a running broker writes while a check runs is not damage, though its parts are not there at once.

    the store is opened: its files are listed ---- they are read one after the other ---- what is found
    a broker:  record -> unit -> index entry, in files that the list may lack; checkpoints

So what is wrong with a record that the broker stored after the store was opened, or less than LAG_MS before,
is left to the next check. What a small file says beyond an end counts if the end is the same now. Findings
about anything else stay, and so do notes. Reference 2.13, 5.1.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError
from rocketfsck.formats.timer import TIMER_TOPIC
from rocketfsck.reader.index import IndexReader
from rocketfsck.reader.records import LogReader
from rocketfsck.reader.units import UnitReader
from rocketfsck.store.model import Store
from rocketfsck.store.opening import reopen_store
from rocketfsck.verify.finding import Finding, Severity
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.tasks.task import is_aggregate

LAG_MS = 10_000
"""Milliseconds that a broker may take from a record to its unit and its index entries."""
AHEAD_MS = 3_600_000
"""Milliseconds that the clock of a master may be ahead; a later time is not a reason to wait."""
_BY_RECORD = frozenset({"CL", "CQ", "IX", "XR"})
"""Families of rules about records, and about what points to them."""


class InFlight:
    """Tells findings that last from those of the moment, for one check of a store of a running broker."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._since = store.opened_timestamp - LAG_MS
        self._passed: Counter[tuple[str, str]] = Counter()
        self._left: Counter[tuple[str, str]] = Counter()

    def lasting(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """The findings that last, in their order. A count of further ones goes where all before it went."""
        for finding in findings:
            key = (finding.rule, finding.where.file)
            if is_aggregate(finding):
                passes = self._passed[key] or not self._left[key]
            else:
                passes = RULES[finding.rule].severity <= Severity.INFO or not self._is_of_the_moment(finding)
                (self._passed if passes else self._left)[key] += 1
            if passes:
                yield finding

    def _is_of_the_moment(self, finding: Finding) -> bool:
        try:
            look = _LOOKS.get(finding.rule)
            if look is not None:
                return look(self, finding)
            offset = _offset_of(finding)
            return offset is not None and self._is_young(offset)
        except StoreError:
            return False

    def _is_young(self, offset: int) -> bool:
        """Whether the record at a physical offset was being stored while the check ran."""
        listed = offset < (self._store.commitlog.end_offset or 0)
        with LogReader((self._store if listed else self._now).commitlog) as log:
            head = log.head(offset)
        return head is not None and self._is_of_now(head.store_timestamp)

    def _is_of_now(self, timestamp: int) -> bool:
        return self._since <= timestamp <= time.time() * 1000 + AHEAD_MS

    @cached_property
    def _now(self) -> Store:
        """The store with the files that it has now."""
        return reopen_store(self._store)

    def _has_unit(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether a queue has a unit at a queue offset now."""
        for queue in self._now.queues:
            if (queue.topic, queue.queue_id, queue.kind) == (topic, queue_id, "file"):
                with UnitReader(queue) as reader:
                    unit = reader.unit(offset)
                return unit is not None and unit.size > 0
        return False

    def _first_record(self, _: Finding) -> bool:
        start = self._store.commitlog.start_offset
        return start is not None and self._is_young(start)

    def _counted_now(self, finding: Finding) -> bool:
        """Whether the header counts the entries now, or will soon: a broker writes it last."""
        number = finding.where.entry or 0
        for file in self._store.indexes:
            if file.relative == finding.where.file:
                with IndexReader(file, self._store.geometry) as reader:
                    entry = reader.entry(number)
                    counted = reader.index_count > number
                return counted or (entry is not None and self._is_young(entry.physical_offset))
        return False

    def _reached_now(self, finding: Finding) -> bool:
        """Whether the log continued after its end, beyond which something leads, and is as long by now."""
        facts = {**finding.expected, **finding.found}
        end = facts.get("log_end_offset", finding.expected.get("end_offset"))
        value = facts.get("value", finding.found.get("end_offset"))
        log = self._now.commitlog
        if not isinstance(end, int) or not isinstance(value, int) or value > (log.end_offset or 0):
            return False
        starts = [file.start_offset for file in log.files if (file.start_offset or 0) > end]
        return any(offset is not None and self._is_young(offset) for offset in (end, *starts[:1]))

    def _later_time(self, finding: Finding) -> bool:
        value = finding.found.get("value")
        return isinstance(value, int) and self._is_of_now(value)

    def _timer_read_now(self, finding: Finding) -> bool:
        value = finding.found.get("value")
        return isinstance(value, int) and self._has_unit(TIMER_TOPIC, 0, value - 1)


_LOOKS: Mapping[str, Callable[[InFlight, Finding], bool]] = {
    RuleName.INDEX_GONE: InFlight._first_record,
    RuleName.INDEX_ENTRY_BEHIND_COUNT: InFlight._counted_now,
    RuleName.CHECKPOINT_ZERO: InFlight._first_record,
    RuleName.CHECKPOINT_AHEAD: InFlight._later_time,
    RuleName.CONFIRM_OFFSET_AHEAD: InFlight._reached_now,
    RuleName.LOGICS_OFFSET_AHEAD: InFlight._reached_now,
    RuleName.MASTER_FLUSHED_AHEAD: InFlight._reached_now,
    RuleName.INDEX_AHEAD_OF_LOG: InFlight._reached_now,
    RuleName.TIMER_CHECK_RANGE: InFlight._timer_read_now,
}
"""Rules whose place does not belong to a record, and how each is looked at again."""


def _offset_of(finding: Finding) -> int | None:
    """The physical offset of the record that a finding is about, or of the first one."""
    if RULES[finding.rule].family not in _BY_RECORD:
        return None
    found = finding.found.get("first_physical_offset")
    return found if isinstance(found, int) else finding.where.physical_offset
