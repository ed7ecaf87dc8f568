"""Regular deviations: what most places that were asked have alike is a feature of a broker not known here.

    findings of a rule, places asked  --most-->  one finding of what is not known; the others are none
    strays beside files, all alike    --most-->  the same

Damage is not regular: it hits some places, and these in different ways. ADR 0011.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from rocketfsck.formats.dialect import ALL_VERSIONS
from rocketfsck.rulenames import RuleName
from rocketfsck.store.model import Store, StrayReason
from rocketfsck.verify.account.gather import Gatherer
from rocketfsck.verify.finding import Facts, Finding, Scalar, Where
from rocketfsck.verify.log.unknownframes import unknown_frames
from rocketfsck.verify.stopping import Sift
from rocketfsck.verify.tasks.task import Collector, TaskResult, is_aggregate
from rocketfsck.verify.unknown import AREAS, LEAST_COUNT, SHARE

LEAST_FILES = 3
FILE_SHARE = 0.75
NEWEST = str(ALL_VERSIONS[-1])

Places = Literal["record", "unit", "entry", "index file", "commit log file"]
FILES: frozenset[Places] = frozenset({"index file", "commit log file"})
"""Places of which a store has few. The last one is not full: some rules do not ask it."""


@dataclass(frozen=True, slots=True)
class Watched:
    """`rules` that compare one value at each of many `places`; `areas` are those whose bytes the value is in,
    or that a repair would write by it."""

    rules: tuple[RuleName, ...]
    places: Places
    areas: str


_LOG = "commitlog"
_QUEUES = "consumequeue batchconsumequeue consumequeue_ext"
_INDEX = "index"

WATCHED: tuple[Watched, ...] = (
    Watched((RuleName.RECORD_BODY_CRC,), "record", _LOG),
    Watched((RuleName.RECORD_PROPERTY_CRC,), "record", _LOG),
    Watched((RuleName.RECORD_SYS_FLAG,), "record", f"{_LOG} {_QUEUES} {_INDEX}"),
    Watched((RuleName.RECORD_HOST_PORT,), "record", _LOG),
    Watched((RuleName.RECORD_NEGATIVE_FIELD,), "record", f"{_LOG} {_QUEUES} {_INDEX}"),
    Watched((RuleName.RECORD_TOPIC,), "record", f"{_LOG} {_QUEUES} {_INDEX}"),
    Watched((RuleName.RECORD_PROPERTIES_NUL,), "record", f"{_LOG} {_QUEUES} {_INDEX}"),
    Watched((RuleName.RECORD_INNER_BATCH,), "record", f"{_LOG} {_QUEUES}"),
    Watched((RuleName.RECORD_INNER_BATCH_FLAG,), "record", f"{_LOG} {_QUEUES}"),
    Watched((RuleName.RECORD_COMPRESSED_BODY,), "record", _LOG),
    Watched((RuleName.RECORD_PREPARED_OFFSET,), "record", _LOG),
    Watched((RuleName.RECORD_COMMIT_FLAG,), "record", _LOG),
    Watched((RuleName.RECORD_RECONSUME_TIMES,), "record", _LOG),
    Watched((RuleName.RECORD_BORN_TIMESTAMP,), "record", _LOG),
    Watched((RuleName.BLANK_SIZE,), "commit log file", _LOG),
    Watched((RuleName.UNIT_SIZE,), "unit", _QUEUES),
    Watched((RuleName.UNIT_TAGS_CODE,), "unit", _QUEUES),
    Watched((RuleName.UNIT_INVALID,), "unit", _QUEUES),
    Watched((RuleName.BATCH_UNIT_BASE,), "unit", _QUEUES),
    Watched((RuleName.BATCH_UNIT_RESERVED,), "unit", _QUEUES),
    Watched((RuleName.BATCH_UNIT_CONTENT,), "unit", _QUEUES),
    Watched((RuleName.EXT_UNIT_CONTENT,), "unit", _QUEUES),
    Watched((RuleName.INDEX_ENTRY_HASH,), "entry", _INDEX),
    Watched((RuleName.INDEX_ENTRY_TIME_NEGATIVE,), "entry", _INDEX),
    Watched((RuleName.ENTRY_KEY,), "entry", _INDEX),
    Watched((RuleName.ENTRY_TIME,), "entry", _INDEX),
    Watched((RuleName.INDEX_FIRST_TIME_WRONG,), "index file", _INDEX),
    Watched((RuleName.INDEX_SLOT_COUNT, RuleName.INDEX_SLOT_COUNT_KIND), "index file", _INDEX),
    Watched((RuleName.INDEX_HEADER_RANGE,), "index file", _INDEX),
    Watched((RuleName.INDEX_ENTRY_ZERO,), "index file", _INDEX),
)
"""The rules that compare a value at many places."""


@dataclass(frozen=True, slots=True)
class FilesAlike:
    """Files of one area that belong to no known broker and follow one `pattern`: nearly every file has one
    beside it (`*.crc`), or nearly every directory has one in it (`*/meta`). `names` are relative to the root.
    """

    area: str
    pattern: str
    names: frozenset[str]


_STRAY_RULES = frozenset(
    {
        RuleName.FOREIGN_FILE,
        RuleName.FOREIGN_FILE_HARMLESS,
        RuleName.INDEX_FOREIGN_FILE,
        RuleName.QUEUE_ID_NAME,
    }
)


def settle_regular(
    store: Store,
    sift: Sift,
    results: Sequence[TaskResult | None],
    logs: Sequence[TaskResult | None],
    gatherer: Gatherer,
) -> None:
    """Take regular deviations out of the findings and out of the account; one finding for each kind instead.

    `results` are those of all tasks, which say how many places each rule was asked of; `logs` those of the
    commit log files.
    """
    kept = sift.kept
    sift.take(_unknown_frames(store, kept, logs, gatherer))
    sift.take(_files_alike(store, kept))
    sift.take(_deviations(kept, _asked(store, results), gatherer))


_OF_FRAMES = frozenset(
    {
        RuleName.LOG_BOUNDARY_LOST,
        RuleName.LOG_TORN_TAIL,
        RuleName.LOG_NO_RECORDS,
        RuleName.UNIT_OF_DAMAGED_RECORD,
        RuleName.ENTRY_OF_DAMAGED_RECORD,
    }
)
_BY_RECORDS = frozenset(
    {
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
)
"""What is measured by the known records: where they end, and which queue offsets they have."""


def _unknown_frames(
    store: Store, kept: Collector, logs: Sequence[TaskResult | None], gatherer: Gatherer
) -> Iterator[Finding]:
    """Records of an unknown magic that were taken for damage; what follows from that is none either."""
    frames = unknown_frames(store, logs) if kept.counts.keys() & _OF_FRAMES else None
    if frames is None:
        return
    kept.take_out(
        lambda finding: (
            finding.rule in _BY_RECORDS
            or (
                finding.rule in _OF_FRAMES
                and (
                    is_aggregate(finding)
                    or finding.where.physical_offset is None
                    or frames.holds(finding.where.physical_offset)
                )
            )
        )
    )
    for rule in (RuleName.UNIT_OF_DAMAGED_RECORD, RuleName.CHECKPOINT_AHEAD):
        gatherer.regular(rule)
    first = frames.spans[0][0]
    yield Finding(
        RuleName.RECORD_MAGIC_UNKNOWN,
        Where(file=frames.file, physical_offset=first),
        {
            "record_count": frames.record_count,
            "byte_count": frames.byte_count,
            "magic": f"{frames.magic & 0xFFFFFFFF:#010x}",
            AREAS: f"{_LOG} {_QUEUES} {_INDEX} checkpoint",
            "newest_version": NEWEST,
        },
    )


def _files_alike(store: Store, kept: Collector) -> Iterator[Finding]:
    for alike in files_alike(store):
        kept.take_out(partial(_is_one_of, alike.names))
        facts: Facts = {
            "file_count": len(alike.names),
            "pattern": alike.pattern,
            "newest_version": NEWEST,
        }
        yield Finding(RuleName.FILES_ALIKE, Where(file=alike.area), facts)


def _is_one_of(names: Collection[str], finding: Finding) -> bool:
    return finding.rule in _STRAY_RULES and finding.where.file in names


def _deviations(kept: Collector, asked: Mapping[str, int], gatherer: Gatherer) -> Iterator[Finding]:
    counts = kept.counts
    for watched in WATCHED:
        rules = watched.rules
        count = sum(counts.get(rule, 0) for rule in rules)
        if not count:
            continue
        count -= sum(
            finding.count for finding in kept.findings if finding.rule in rules and _is_by_setting(finding)
        )
        if watched.places in FILES:
            count = _file_count(finding for finding in kept.findings if finding.rule in rules)
        if not is_regular(watched.places, count, asked.get(rules[0]) or asked.get(watched.places, 0)):
            continue
        first = next(finding for finding in kept.findings if _is_of(rules, finding))
        kept.take_out(partial(_is_of, rules))
        for rule in rules:
            gatherer.regular(rule)
        facts: Facts = {
            "rules": " ".join(rules),
            "deviating_count": count,
            AREAS: watched.areas,
            "newest_version": NEWEST,
        }
        yield Finding(RuleName.REGULAR_DEVIATION, first.where, facts)


def _file_count(findings: Iterable[Finding]) -> int:
    """How many files deviate alike: in the same field, where there are several."""
    files: dict[Scalar, set[str]] = {}
    for finding in findings:
        files.setdefault(finding.found.get("field"), set()).add(finding.where.file)
    return max(map(len, files.values()), default=0)


def _is_of(rules: Collection[str], finding: Finding) -> bool:
    return finding.rule in rules and not _is_by_setting(finding)


def _is_by_setting(finding: Finding) -> bool:
    """Whether a value was compared with a setting that somebody gave, like the delay of a level: who gives a
    wrong one finds every place to differ."""
    return "level" in finding.found


def is_regular(places: Places, count: int, asked_count: int) -> bool:
    """Whether `count` of `asked_count` places are too many to be damage."""
    if places in FILES:
        return count >= LEAST_FILES and count >= FILE_SHARE * (asked_count - 1)
    return count >= LEAST_COUNT and count >= SHARE * asked_count


def _asked(store: Store, results: Iterable[TaskResult | None]) -> Counter[str]:
    """How many places there are of each kind, and for single rules, how many were asked."""
    asked: Counter[str] = Counter({"index file": len(store.indexes)})
    asked["commit log file"] = len(store.commitlog.files)
    for result in results:
        if result is not None:
            asked["record"] += result.checked.record_count
            asked["unit"] += result.checked.unit_count
            asked["entry"] += result.checked.entry_count
            asked.update(result.asked)
    return asked


def files_alike(store: Store) -> Iterator[FilesAlike]:
    """Patterns of files that nearly every file, or nearly every directory, of an area has, but that are no
    copies of files."""
    strays = [stray for stray in store.strays if stray.reason in _ALIKE]
    if len(strays) < LEAST_FILES:
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
        if len(names) >= LEAST_FILES and len(names) >= SHARE * count:
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
