"""Regular deviations: what most places that were asked have alike is a feature of a broker not known here.

    findings of a rule, places asked  --most-->  one finding of what is not known; the others drop out
    strays next to files, all alike   --most-->  the same

Damage is not regular: it hits some places, and these in different ways. ADR 0011.

What a running broker writes while a check runs is not damage, though its parts are not there at once.

    the store is opened: its files are listed ---- they are read one after the other ---- what is found
    a broker:  record -> unit -> index entry, in files that the list may lack; checkpoints

So what is wrong with a record that the broker stored after the store was opened, or less than LAG_MS before,
is left to the next check. What a small file says beyond an end counts if the end is the same now. Findings
about anything else stay, and so do notes. Reference 2.13, 5.1.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property, partial

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError
from rocketfsck.formats.dialect import NEWEST_NAME
from rocketfsck.formats.timer import TIMER_TOPIC
from rocketfsck.reader.index import IndexReader
from rocketfsck.reader.records import LogReader
from rocketfsck.reader.units import UnitReader
from rocketfsck.store.model import Store, StrayReason
from rocketfsck.store.opening import reopen_store
from rocketfsck.verify import watched as watch
from rocketfsck.verify.account import Gatherer
from rocketfsck.verify.finding import Facts, Finding, Findings, Scalar, Severity, Where
from rocketfsck.verify.log.regions import unknown_frames
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.stopping import Sift
from rocketfsck.verify.tasks.task import Collector, Results, TaskResult, is_aggregate

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

    def lasting(self, findings: Iterable[Finding]) -> Findings:
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


@dataclass(frozen=True, slots=True)
class FilesAlike:
    """Files of one area that belong to no known broker and follow one `pattern`: nearly every file has one
    next to it (`*.crc`), or nearly every directory one in it (`*/meta`). `names` are relative to the root.
    """

    area: str
    pattern: str
    names: frozenset[str]


STRAY_RULES: Set[RuleName] = {
    RuleName.FOREIGN_FILE,
    RuleName.FOREIGN_FILE_HARMLESS,
    RuleName.INDEX_FOREIGN_FILE,
    RuleName.QUEUE_ID_NAME,
}


def settle_regular(
    store: Store, sift: Sift, results: Results, logs: Results, gatherer: Gatherer, stated: Mapping[str, int]
) -> None:
    """Take regular deviations out of the findings and out of the account; one finding for each kind instead.

    `results` are those of all tasks, which say how many places each rule was asked of; `logs` those of the
    commit log files; `stated` has, by rule, of how many places the checks of the driver asked it.
    """
    kept = sift.kept
    sift.take(_unknown_frames(store, kept, logs, gatherer))
    sift.take(_files_alike(store, kept))
    sift.take(_deviations(kept, _asked(store, results, stated), gatherer))


FRAME_RULES: Set[RuleName] = {
    RuleName.LOG_BOUNDARY_LOST,
    RuleName.LOG_TORN_TAIL,
    RuleName.LOG_NO_RECORDS,
    RuleName.UNIT_OF_DAMAGED_RECORD,
    RuleName.ENTRY_OF_DAMAGED_RECORD,
}
_BY_RECORDS: Set[RuleName] = {
    RuleName.QUEUES_OF_ANOTHER_LOG,
    RuleName.INDEX_AHEAD_OF_LOG,
    RuleName.CHECKPOINT_AHEAD,
    RuleName.CONFIRM_OFFSET,
    RuleName.CONFIRM_OFFSET_AHEAD,
    RuleName.LOGICS_OFFSET,
    RuleName.LOGICS_OFFSET_AHEAD,
    RuleName.MASTER_FLUSHED_AHEAD,
    RuleName.EPOCH_RANGE,
    RuleName.QUEUE_OFFSET_GAP,
}
"""What is measured by the known records: where they end, and which queue offsets they have."""


def _unknown_frames(store: Store, kept: Collector, logs: Results, gatherer: Gatherer) -> Findings:
    """Records of an unknown magic that counted as damage; what follows from that is not damage either."""
    frames = unknown_frames(store, logs) if kept.counts.keys() & FRAME_RULES else None
    if frames is None:
        return

    def is_of_frames(finding: Finding) -> bool:
        offset = finding.where.physical_offset
        is_there = offset is None or is_aggregate(finding) or frames.holds(offset)
        return finding.rule in _BY_RECORDS or (finding.rule in FRAME_RULES and is_there)

    kept.take_out(is_of_frames)
    for rule in (RuleName.UNIT_OF_DAMAGED_RECORD, RuleName.CHECKPOINT_AHEAD):
        gatherer.regular(rule)
    facts: Facts = {
        "record_count": frames.record_count,
        "byte_count": frames.byte_count,
        "magic": f"{frames.magic & 0xFFFFFFFF:#010x}",
        watch.AREAS: f"{watch.LOG} {watch.QUEUES} {watch.INDEX} checkpoint",
        "newest_version": NEWEST_NAME,
    }
    where = Where(frames.file, physical_offset=frames.spans[0][0])
    yield Finding(RuleName.RECORD_MAGIC_UNKNOWN, where, facts)


def _files_alike(store: Store, kept: Collector) -> Findings:
    for alike in files_alike(store):
        kept.take_out(partial(_is_one_of, alike.names))
        facts: Facts = {"file_count": len(alike.names), "pattern": alike.pattern}
        where = Where(alike.area)
        yield Finding(RuleName.FILES_ALIKE, where, {**facts, "newest_version": NEWEST_NAME})


def _is_one_of(names: Collection[str], finding: Finding) -> bool:
    return finding.rule in STRAY_RULES and finding.where.file in names


def _deviations(kept: Collector, asked: Mapping[str, int], gatherer: Gatherer) -> Findings:
    counts = kept.counts
    for watched in watch.WATCHED:
        rules = watched.rules
        count = sum(counts.get(rule, 0) for rule in rules)
        if not count:
            continue
        count -= sum(
            finding.count for finding in kept.findings if finding.rule in rules and _is_by_setting(finding)
        )
        chosen = partial(_is_of, watched)
        first = next((finding for finding in kept.findings if chosen(finding)), None)
        if first is None:
            continue
        if watched.places in watch.FILES:
            count = _file_count(finding for finding in kept.findings if finding.rule in rules)
        elif watched.words:
            count = _with_words(watched, kept.findings, count)
        if not watch.is_regular(watched.places, count, asked.get(rules[0]) or asked.get(watched.places, 0)):
            continue
        areas = watched.areas or _areas(filter(chosen, kept.findings))
        kept.take_out(chosen)
        for rule in rules:
            gatherer.regular(rule)
        facts: Facts = {
            "rules": " ".join(rules),
            "deviating_count": count,
            watch.AREAS: areas,
            "newest_version": NEWEST_NAME,
        }
        yield Finding(RuleName.REGULAR_DEVIATION, first.where, facts)


def _areas(findings: Iterable[Finding]) -> str:
    """The areas of the files that deviate. What counts further findings names no file."""
    return " ".join(sorted({watch.area_of(finding.where.file) for finding in findings if finding.where.file}))


def _with_words(watched: watch.Watched, findings: Iterable[Finding], count: int) -> int:
    """How many of `count` findings are about a deviating value. Those that are only counted are like those
    that are named."""
    named = [finding for finding in findings if finding.rule in watched.rules and not is_aggregate(finding)]
    total = sum(finding.count for finding in named)
    about = sum(finding.count for finding in named if _has_words(watched, finding))
    return count * about // total if total else 0


def _has_words(watched: watch.Watched, finding: Finding) -> bool:
    texts = [value for value in finding.found.values() if isinstance(value, str)]
    return any(word in text for word in watched.words for text in texts)


def _file_count(findings: Iterable[Finding]) -> int:
    """How many files deviate alike: in the same field, where there are several."""
    files: dict[Scalar, set[str]] = {}
    for finding in findings:
        files.setdefault(finding.found.get("field"), set()).add(finding.where.file)
    return max(map(len, files.values()), default=0)


def _is_of(watched: watch.Watched, finding: Finding) -> bool:
    if finding.rule not in watched.rules or _is_by_setting(finding):
        return False
    return not watched.words or is_aggregate(finding) or _has_words(watched, finding)


def _is_by_setting(finding: Finding) -> bool:
    """Whether a value was compared with a setting that somebody gave, like the delay of a level: who gives a
    wrong one finds every place to differ."""
    return "level" in finding.found


def _asked(store: Store, results: Iterable[TaskResult | None], stated: Mapping[str, int]) -> Counter[str]:
    """How many places of each kind there are, and for single rules, how many were asked."""
    asked: Counter[str] = Counter({"index file": len(store.indexes)})
    asked["commit log file"] = len(store.commitlog.files)
    for result in results:
        if result is not None:
            asked["record"] += result.checked.record_count
            asked["unit"] += result.checked.unit_count
            asked["entry"] += result.checked.entry_count
            asked.update(result.asked)
    asked.update(stated)
    return asked


def files_alike(store: Store) -> Iterator[FilesAlike]:
    """Patterns of files that nearly every file, or nearly every directory, of an area has, but that are not
    copies of files."""
    strays = [stray for stray in store.strays if stray.reason in _ALIKE]
    if len(strays) < watch.LEAST_FILES:
        return
    sizes: dict[str, dict[str, int]] = {"index": {file.relative: file.size for file in store.indexes}}
    for file in (*store.commitlog.files, *(file for queue in store.queues for file in queue.files)):
        sizes.setdefault(_area(file.relative), {})[file.relative] = file.size
    places: Counter[tuple[str, int]] = Counter()  # how many directories an area has at each depth
    for directory in {parent for names in sizes.values() for name in names for parent in _parents(name)}:
        places[_area(directory), directory.count("/")] += 1
    found: dict[tuple[str, str, int], set[str]] = {}
    for stray in strays:
        area, name = _area(stray.relative), stray.relative
        own = _own_name(name, sizes.get(area, {}))
        if own is None:
            depth = name.count("/") - 1
            key = (area, f"*/{name.rpartition('/')[2]}", places[area, depth])
        else:
            key = (area, f"*{name[len(own) :]}", len(sizes[area]))
        if own is None or stray.size != sizes[area][own]:
            found.setdefault(key, set()).add(name)
    for (area, pattern, count), names in sorted(found.items()):
        if len(names) >= watch.LEAST_FILES and len(names) >= watch.SHARE * count:
            yield FilesAlike(area, pattern, frozenset(names))


_ALIKE = frozenset({StrayReason.NAME, StrayReason.DIRECTORY, StrayReason.QUEUE_ID})


def _area(relative: str) -> str:
    return relative.partition("/")[0]


def _parents(relative: str) -> Iterator[str]:
    """The directories that a file is in, below the root."""
    parts = relative.split("/")[:-1]
    return ("/".join(parts[: number + 1]) for number in range(len(parts)))


def _own_name(relative: str, names: Mapping[str, int]) -> str | None:
    """The file that a stray is named like."""
    end = relative.find(".", relative.rfind("/") + 1)
    return relative[:end] if end > 0 and relative[:end] in names else None
