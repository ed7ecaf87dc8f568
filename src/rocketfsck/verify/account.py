"""Makes the account of the messages while the last steps of a check put records, units and entries together.

    findings that join the log with its queues  --seen-->  Gatherer  --account-->  MessageAccount

Takes whole findings before any of them is left out of a list, and counts by queue; what it keeps is bounded.
Reference 3.8, 9.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar, get_args

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats import dtypes, properties, timer
from rocketfsck.scan.spans import merge_spans, subtract_spans
from rocketfsck.verify import finding as verify_finding

RUN_LIMIT = 20_000
"""Ranges of lost messages that are kept; further ones are counted."""
SPAN_LIMIT = 50_000
"""Ranges of records without a unit that are kept of one queue, for the looks at holes."""
WORST_GROUPS = 20
"""Groups that an account names."""
FATES: tuple[verify_finding.Fate, ...] = get_args(verify_finding.Fate)

Item = TypeVar("Item")
Name = tuple[str, int]
Span = tuple[int, int]


class Kind(NamedTuple):
    """What becomes of messages, why, and how that is known."""

    fate: verify_finding.Fate
    why: verify_finding.Why
    sure: verify_finding.Sure


SERVED = Kind("served", "unit leads to it", "certain")
NEITHER = Kind("lost", "no unit, no record", "certain")
FOREIGN = Kind("lost", "file of another store", "certain")
KINDS: Mapping[str, Kind] = {
    RuleName.RECORD_WITHOUT_UNIT: Kind("unreachable", "no unit", "certain"),
    RuleName.QUEUE_MISSING: Kind("unreachable", "no queue", "certain"),
    RuleName.UNIT_IN_MISNAMED_FILE: Kind("unreachable", "misnamed file", "certain"),
    RuleName.QUEUE_DELETED: Kind("removed", "topic deleted", "certain"),
    RuleName.UNIT_BEYOND_LOG: Kind("lost", "beyond the log", "certain"),
    RuleName.UNIT_IN_MISSING_SEGMENT: Kind("lost", "missing file", "certain"),
    RuleName.UNIT_OF_DAMAGED_RECORD: Kind("lost", "damaged bytes", "certain"),
    RuleName.UNIT_GHOST: Kind("lost", "unit of another record", "perhaps"),
    RuleName.UNIT_OF_FILLER: Kind("replaced", "filler record", "certain"),
}
"""What findings of these rules say of messages."""
_LOST_WITH_FILES = frozenset({KINDS[RuleName.UNIT_BEYOND_LOG], KINDS[RuleName.UNIT_IN_MISSING_SEGMENT]})
DAMAGED: Mapping[str, Kind] = {
    RuleName.RECORD_BODY_CRC: Kind("damaged", "body", "certain"),
    RuleName.RECORD_PROPERTY_CRC: Kind("damaged", "properties", "certain"),
    RuleName.RECORD_PROPERTIES_NUL: Kind("damaged", "properties", "certain"),
}
"""What findings say of messages that a consumer gets all the same."""
NOTICED: Mapping[str, str] = {
    RuleName.CONSUMER_OFFSET_AHEAD: "",
    RuleName.CONSUMER_OFFSET_OF_LOST_UNITS: "",
    RuleName.CONSUMER_OFFSETS_OLDER: "",
    RuleName.CONSUMER_OFFSETS_GONE: "",
    RuleName.DELAY_OFFSET_GONE: timer.DELIVERY,
    RuleName.DELAY_OFFSET_LATE: timer.DELIVERY,
    RuleName.DATABASE_CONFIG: "",
}
"""Rules whose findings say what consumer groups notice, and the group where a finding names none."""


class Gatherer:
    """Takes what the join of log, queues and index finds; gives the account."""

    def __init__(self) -> None:
        self._counts: Counter[Kind] = Counter()
        self._lost: list[verify_finding.LostRun] = []
        self._unlisted_count = 0
        self._missed: dict[Name, list[Span]] = {}
        self._merged: dict[Name, tuple[dtypes.Longs, dtypes.Longs]] = {}
        self._lost_ends: dict[Name, int] = {}
        self._committed: dict[Name, Span] = {}
        self._is_checkpoint_ahead = False
        self._groups: dict[str, tuple[int, int]] = {}
        self._misplaced: tuple[Span, ...] = ()
        self._foreign: tuple[Span, ...] = ()
        self._copied: tuple[Span, ...] = ()
        self._regular: set[str] = set()
        self._gone: set[Name] = set()

    def regular(self, rule: str) -> None:
        """Leave out what findings of a rule say of messages: such findings are not damage."""
        self._regular.add(rule)

    def seen(self, findings: Iterable[Item]) -> Iterator[Item]:
        """The findings as they come, those of records first; what each says of messages is taken."""
        for finding in findings:
            if not isinstance(finding, verify_finding.Finding):
                yield finding
                continue
            if finding.rule == RuleName.QUEUE_DELETED:
                self._gone.add((finding.where.topic or "", finding.where.queue_id or 0))
            kind = KINDS.get(finding.rule)
            if kind is not None:
                self._see(finding, kind)
            elif finding.rule == RuleName.CHECKPOINT_AHEAD:
                self._is_checkpoint_ahead = True
            elif finding.rule == RuleName.CONSUMER_OFFSET_OF_LOST_UNITS:
                self._commit(finding)
            if finding.rule in NOTICED:
                self._notice(finding)
            yield finding

    def misplaced(self, spans: Iterable[Span]) -> None:
        """Take the physical offsets, by their names, of files of the log that belong elsewhere.

        Units lead to where their records belong: the same messages are found twice, by records and by units.
        """
        self._misplaced = tuple(spans)

    def copied(self, spans: Iterable[Span]) -> None:
        """Take the physical offsets of files of the log that are copies of others: their own content is
        gone."""
        self._copied = tuple(spans)

    def foreign(self, spans: Iterable[Span]) -> None:
        """Take the physical offsets of files of the log that are another store's: the messages of units that
        lead there are lost."""
        self._foreign = tuple(spans)

    def served(self, unit_count: int) -> None:
        """Take units of queues that have records as their own, which met these records."""
        self._counts[SERVED] += unit_count

    def served_others(self, topic: str, queue_id: int, start: int, end: int, *, is_copy: bool) -> None:
        """Take units that met a record of their queue in a file of the log with a wrong name, or in a copy of
        another file: it is not the record that they were written for."""
        name = (topic, queue_id)
        spans = subtract_spans(start, end, *self._missed_in(name))
        if is_copy:
            self._lose_runs(name, spans, KINDS[RuleName.UNIT_GHOST])
        else:
            self._counts[KINDS[RuleName.UNIT_IN_MISNAMED_FILE]] += sum(high - low for low, high in spans)

    def damaged(self, counts: Mapping[str, int], findings: Iterable[verify_finding.Finding] = ()) -> None:
        """Take the exact numbers of findings, by rule, of one commit log file; of the `findings`, those about
        records of deleted queues do not count: consumers get none of these."""
        deleted: Counter[str] = Counter()
        for finding in findings:
            if finding.rule in DAMAGED and self._is_gone(finding):
                deleted[finding.rule] += finding.count
        found: dict[Kind, int] = {}
        for rule, kind in DAMAGED.items():
            if rule not in self._regular:  # properties that a CRC belongs to break two rules at once
                found[kind] = max(found.get(kind, 0), counts.get(rule, 0) - deleted[rule])
        self._counts.update(found)

    def holes(self, topic: str, queue_id: int, spans: Iterable[Span], units: Iterable[Span]) -> None:
        """Take the queue offsets of a queue that met no record (`spans`), of which `units` have a unit.

        A place without a unit between others had a message once: one that the log has and the queue lacks is
        out of reach, any other is lost.
        """
        name = (topic, queue_id)
        known = _merged([*units, *self._missed.get(name, ())])
        for span in spans:
            self._lose_runs(name, subtract_spans(*span, *known), NEITHER)

    def gaps(self, topic: str, queue_id: int, starts: dtypes.Longs, ends: dtypes.Longs) -> None:
        """Take the queue offsets `starts:ends` that records of a queue have of which no unit is left."""
        starts, ends = self._merged[topic, queue_id] = merge_spans(starts, ends)
        self._lose_runs((topic, queue_id), zip(ends[:-1].tolist(), starts[1:].tolist(), strict=True), NEITHER)

    def without_log(self, topic: str, queue_id: int, start: int, end: int, copy_count: int = 0) -> None:
        """Take the units of a queue where the log has no files; other queues have counted `copy_count`."""
        kind = KINDS[RuleName.UNIT_IN_MISSING_SEGMENT]
        self._lose_runs((topic, queue_id), [(start, end)], kind, copy_count=copy_count)

    def before_log(self, topic: str, queue_id: int, start: int, end: int, places: Span) -> None:
        """Take the units of a queue that lead to files in front of the log, which no broker deleted: to
        physical offsets from the first of `places` to the last."""
        kind = KINDS[RuleName.UNIT_IN_MISSING_SEGMENT]._replace(sure="at least")
        self._lose_runs((topic, queue_id), [(start, end)], kind, *places)

    def indexed(self, offset_count: int, first: int, last: int) -> None:
        """Take the physical offsets beyond the log's end that index entries name, from `first` to `last`.

        Not every message has an entry, and those that units know of are counted already.
        """
        known = sum(run.message_count for run in self._lost if (run.last_physical_offset or -1) >= first)
        more = offset_count - known
        # A single one may be damaged itself, others may belong to messages removed with their topics.
        removes = any(kind.fate == "removed" for kind in self._counts)
        sure: verify_finding.Sure = "at least" if offset_count > 1 and not removes else "perhaps"
        self._lose(verify_finding.LostRun("", 0, 0, 0, more, "index entry", sure, first, last))

    def account(self, *, is_complete: bool, bodies_checked: bool) -> verify_finding.MessageAccount:
        """The account of what was taken."""
        for rule in self._regular & KINDS.keys():
            kind = KINDS[rule]
            self._counts.pop(kind, None)
            self._lost = [run for run in self._lost if run.why != kind.why]
            is_complete = False
        for name, (start, end) in sorted(self._committed.items()):
            kind = Kind("lost", "committed offset", "perhaps")
            known = max(start, self._lost_ends.get(name, 0), self._missed_end(name))
            self._lose_runs(name, [(known, end)], kind)
        explained = any(kind.fate == "lost" or kind.why == "misnamed file" for kind in self._counts)
        if self._is_checkpoint_ahead and not explained and RuleName.CHECKPOINT_AHEAD not in self._regular:
            self._lose(verify_finding.LostRun("", 0, 0, 0, 1, "checkpoint", "perhaps"))
        self._counts[SERVED] -= sum(self._counts[kind] for kind in {*DAMAGED.values()})
        tallies = [
            verify_finding.FateCount(*self._known(kind), count)
            for kind, count in self._counts.items()
            if count > 0
        ]
        tallies.sort(key=lambda tally: (FATES.index(tally.fate), -tally.message_count, tally.why))
        lost = sorted(self._lost, key=lambda run: (run.topic, run.queue_id, run.start_queue_offset))
        return verify_finding.MessageAccount(
            tuple(tallies), tuple(lost), self._unlisted_count, is_complete, bodies_checked, self._effects()
        )

    def _notice(self, finding: verify_finding.Finding) -> None:
        """Take what a finding says that a group gets again, or skips."""
        group = str(finding.found.get("group", NOTICED[finding.rule]))
        again, skipped = self._groups.get(group, (0, 0))
        more = [finding.found.get(name, 0) for name in ("again_count", "skipped_count")]
        counts = [count if isinstance(count, int) else 0 for count in more]
        self._groups[group] = (again + counts[0], skipped + counts[1])

    def _effects(self) -> verify_finding.GroupEffects:
        """What all groups notice, the worst first."""
        effects = [
            verify_finding.GroupEffect(group, *counts)
            for group, counts in self._groups.items()
            if any(counts)
        ]
        effects.sort(key=lambda item: (-item.again_count - item.skipped_count, item.group))
        return verify_finding.GroupEffects(
            len(effects),
            sum(item.again_count for item in effects),
            sum(item.skipped_count for item in effects),
            tuple(effects[:WORST_GROUPS]),
        )

    def _known(self, kind: Kind) -> Kind:
        """How surely a count is known in the end: where queues are gone, other units do not tell of all that
        was lost with the log's files."""
        if kind not in _LOST_WITH_FILES or not self._counts[KINDS[RuleName.QUEUE_MISSING]]:
            return kind
        return kind._replace(sure="at least")

    def _see(self, finding: verify_finding.Finding, kind: Kind) -> None:
        where, last = finding.where, finding.found.get("last_queue_offset")
        name = (where.topic or "", where.queue_id or 0)
        start = where.queue_offset
        span = (start, last + 1) if isinstance(start, int) and isinstance(last, int) else None
        if kind.fate == "lost":
            if span is not None:
                first, end = (finding.found.get(f"{which}_physical_offset") for which in ("first", "last"))
                if isinstance(first, int) and _is_within(first, self._foreign):
                    kind = FOREIGN
                elif isinstance(first, int) and _is_within(first, self._copied):
                    kind = KINDS[RuleName.UNIT_IN_MISSING_SEGMENT]
                # a message of the log whose place the unit takes is out of reach, not lost
                lost, copies = (
                    subtract_spans(*span, *self._missed_in(name)),
                    finding.found.get("copy_count", 0),
                )
                self._lose_runs(name, lost, kind, first, end, copies if isinstance(copies, int) else 0)
            return
        if kind.fate == "replaced" and name[0].startswith(properties.LMQ_PREFIX):
            return  # the record's own queue has the message, too
        count = finding.found.get("unit_count", finding.found.get("record_count"))
        if finding.rule == RuleName.UNIT_IN_MISNAMED_FILE and span is not None:
            count = sum(high - low for low, high in subtract_spans(*span, *self._missed_in(name)))
        elif finding.rule == RuleName.RECORD_WITHOUT_UNIT and self._is_misplaced(where):
            kind = KINDS[RuleName.UNIT_IN_MISNAMED_FILE]
            if where.file.startswith(
                verify_finding.TREES["batch"]
            ):  # its units are not counted by queue offsets: they tell alone
                return
        count = count if isinstance(count, int) else 0
        self._counts[kind] += count
        if kind.fate == "unreachable" and name[0].startswith(properties.LMQ_PREFIX):
            self._counts[SERVED] -= count  # a message has one fate, also if one of its queues serves it
        if span is not None and kind.fate == "unreachable":
            missed = self._missed.setdefault(name, [])
            if len(missed) < SPAN_LIMIT:
                missed.append(span)

    def keep(self, names: Iterable[Name]) -> None:
        """Take the queues that are there: a deleted one among them was made again."""
        self._gone.difference_update(names)

    def _is_gone(self, finding: verify_finding.Finding) -> bool:
        return (finding.where.topic, finding.where.queue_id) in self._gone

    def _is_misplaced(self, where: verify_finding.Where) -> bool:
        offset = where.physical_offset
        return offset is not None and _is_within(offset, self._misplaced)

    def _missed_in(self, name: Name) -> tuple[dtypes.Longs, dtypes.Longs]:
        """The queue offsets of a queue's records without a unit, once all are known."""
        if name not in self._merged:
            self._merged[name] = _merged(self._missed.get(name, ()))
        return self._merged[name]

    def _missed_end(self, name: Name) -> int:
        """The queue offset behind a queue's last record without a unit; 0 where there is none."""
        return int(self._missed_in(name)[1].max(initial=0))

    def _commit(self, finding: verify_finding.Finding) -> None:
        end, known = finding.found.get("offset"), finding.expected.get("max_offset")
        if isinstance(end, int) and isinstance(known, int):
            name = (finding.where.topic or "", finding.where.queue_id or 0)
            self._committed[name] = (known, max(end, self._committed.get(name, (0, 0))[1]))

    def _lose_runs(
        self,
        name: Name,
        spans: Iterable[Span],
        kind: Kind,
        first: verify_finding.Scalar = None,
        last: verify_finding.Scalar = None,
        copy_count: int = 0,
    ) -> None:
        """Take queue offsets whose messages are lost; other queues have counted `copy_count` of them."""
        place = (first if isinstance(first, int) else None, last if isinstance(last, int) else None)
        for low, high in spans:
            copies = min(copy_count, high - low)
            copy_count -= copies
            self._lose(
                verify_finding.LostRun(*name, low, high, high - low - copies, kind.why, kind.sure, *place)
            )
            self._lost_ends[name] = max(self._lost_ends.get(name, 0), high)

    def _lose(self, run: verify_finding.LostRun) -> None:
        if run.message_count <= 0:
            return
        self._counts[Kind("lost", run.why, run.sure)] += run.message_count
        if len(self._lost) < RUN_LIMIT:
            self._lost.append(run)
        else:
            self._unlisted_count += run.message_count


def _is_within(offset: int, spans: Iterable[Span]) -> bool:
    return any(start <= offset < end for start, end in spans)


def _merged(spans: Iterable[Span]) -> tuple[dtypes.Longs, dtypes.Longs]:
    """Spans as starts and ends, merged and in order."""
    columns = np.array(list(spans), np.int64).reshape(-1, 2)
    return merge_spans(columns[:, 0], columns[:, 1])
