"""Regular deviations: what most places that were asked have alike is a feature of a broker not known here.

    findings of a rule, places asked  --most-->  one finding of what is not known; the others are none
    files beside files, all alike     --most-->  the same

Damage is not regular: it hits some places, and these in different ways. ADR 0011.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from rocketfsck.formats.dialect import ALL_VERSIONS
from rocketfsck.rulenames import RuleName
from rocketfsck.store.model import Store, StrayReason
from rocketfsck.verify.account.gather import Gatherer
from rocketfsck.verify.finding import Facts, Finding, Where
from rocketfsck.verify.log.unknownframes import unknown_frames
from rocketfsck.verify.stopping import Sift
from rocketfsck.verify.tasks.task import Collector, TaskResult, is_aggregate
from rocketfsck.verify.unknown import AREAS

LEAST_COUNT = 8
"""Fewer places that deviate alike may be damaged ones."""
LEAST_FILES = 3
SHARE = 0.9
NEWEST = str(ALL_VERSIONS[-1])

Places = Literal["record", "unit", "entry", "index file", "commit log file"]
FILES: frozenset[Places] = frozenset({"index file", "commit log file"})
"""Places of which a store has few. The last one is not full: some rules do not ask it."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A rule that compares one value at each of many `places`; `areas` are those whose bytes the value is in,
    or that a repair would write by it."""

    places: Places
    areas: str


_LOG = "commitlog"
_QUEUES = "consumequeue batchconsumequeue consumequeue_ext"
_INDEX = "index"

WATCHED: Mapping[str, Watched] = {
    RuleName.RECORD_BODY_CRC: Watched("record", _LOG),
    RuleName.RECORD_PROPERTY_CRC: Watched("record", _LOG),
    RuleName.RECORD_SYS_FLAG: Watched("record", f"{_LOG} {_QUEUES} {_INDEX}"),
    RuleName.RECORD_HOST_PORT: Watched("record", _LOG),
    RuleName.RECORD_NEGATIVE_FIELD: Watched("record", f"{_LOG} {_QUEUES} {_INDEX}"),
    RuleName.RECORD_TOPIC: Watched("record", f"{_LOG} {_QUEUES} {_INDEX}"),
    RuleName.RECORD_PROPERTIES_NUL: Watched("record", f"{_LOG} {_QUEUES} {_INDEX}"),
    RuleName.RECORD_INNER_BATCH: Watched("record", f"{_LOG} {_QUEUES}"),
    RuleName.RECORD_INNER_BATCH_FLAG: Watched("record", f"{_LOG} {_QUEUES}"),
    RuleName.RECORD_COMPRESSED_BODY: Watched("record", _LOG),
    RuleName.RECORD_PREPARED_OFFSET: Watched("record", _LOG),
    RuleName.RECORD_COMMIT_FLAG: Watched("record", _LOG),
    RuleName.RECORD_RECONSUME_TIMES: Watched("record", _LOG),
    RuleName.RECORD_BORN_TIMESTAMP: Watched("record", _LOG),
    RuleName.BLANK_SIZE: Watched("commit log file", _LOG),
    RuleName.UNIT_SIZE: Watched("unit", _QUEUES),
    RuleName.UNIT_TAGS_CODE: Watched("unit", _QUEUES),
    RuleName.UNIT_INVALID: Watched("unit", _QUEUES),
    RuleName.BATCH_UNIT_BASE: Watched("unit", _QUEUES),
    RuleName.BATCH_UNIT_RESERVED: Watched("unit", _QUEUES),
    RuleName.BATCH_UNIT_CONTENT: Watched("unit", _QUEUES),
    RuleName.EXT_UNIT_CONTENT: Watched("unit", _QUEUES),
    RuleName.INDEX_ENTRY_HASH: Watched("entry", _INDEX),
    RuleName.INDEX_ENTRY_TIME_NEGATIVE: Watched("entry", _INDEX),
    RuleName.ENTRY_KEY: Watched("entry", _INDEX),
    RuleName.ENTRY_TIME: Watched("entry", _INDEX),
    RuleName.INDEX_FIRST_TIME_WRONG: Watched("index file", _INDEX),
    RuleName.INDEX_SLOT_COUNT_KIND: Watched("index file", _INDEX),
    RuleName.INDEX_SLOT_COUNT: Watched("index file", _INDEX),
    RuleName.INDEX_HEADER_RANGE: Watched("index file", _INDEX),
    RuleName.INDEX_ENTRY_ZERO: Watched("index file", _INDEX),
}
"""The rules that compare a value at many places."""


@dataclass(frozen=True, slots=True)
class Sidecars:
    """Files named like others with `suffix`, in one area: `names` are theirs, relative to the root."""

    area: str
    suffix: str
    names: frozenset[str]


_STRAY_RULES = frozenset({RuleName.FOREIGN_FILE, RuleName.FOREIGN_FILE_HARMLESS, RuleName.INDEX_FOREIGN_FILE})


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
    sift.take(_sidecars(store, kept))
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


def _sidecars(store: Store, kept: Collector) -> Iterator[Finding]:
    for sidecars in sidecar_files(store):
        kept.take_out(partial(_is_sidecar, sidecars))
        yield Finding(
            RuleName.SIDECAR_FILES,
            Where(file=sidecars.area),
            {"file_count": len(sidecars.names), "suffix": sidecars.suffix, "newest_version": NEWEST},
        )


def _is_sidecar(sidecars: Sidecars, finding: Finding) -> bool:
    return finding.rule in _STRAY_RULES and finding.where.file in sidecars.names


def _deviations(kept: Collector, asked: Mapping[str, int], gatherer: Gatherer) -> Iterator[Finding]:
    for rule, count in kept.counts.items():
        watched = WATCHED.get(rule)
        if watched is None:
            continue
        if not is_regular(watched.places, count, asked.get(rule) or asked.get(watched.places, 0)):
            continue
        first = next(finding for finding in kept.findings if finding.rule == rule)
        kept.take_out(partial(_is_of, rule))
        gatherer.regular(rule)
        facts: Facts = {
            "rule": rule,
            "deviating_count": count,
            AREAS: watched.areas,
            "newest_version": NEWEST,
        }
        yield Finding(RuleName.REGULAR_DEVIATION, first.where, facts)


def _is_of(rule: str, finding: Finding) -> bool:
    return finding.rule == rule


def is_regular(places: Places, count: int, asked_count: int) -> bool:
    """Whether `count` of `asked_count` places are too many to be damage."""
    if places in FILES:
        return count >= LEAST_FILES and count >= SHARE * max(asked_count - 1, 1)
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


def sidecar_files(store: Store) -> Iterator[Sidecars]:
    """Suffixes with which nearly every file of an area has a second one that is no copy of it."""
    sizes: dict[str, dict[str, int]] = {}
    for file in (*store.commitlog.files, *(file for queue in store.queues for file in queue.files)):
        sizes.setdefault(file.relative.partition("/")[0], {})[file.relative] = file.size
    sizes["index"] = {file.relative: file.size for file in store.indexes}
    found: dict[tuple[str, str], set[str]] = {}
    for stray in store.strays:
        area = stray.relative.partition("/")[0]
        own = _own_name(stray.relative, sizes.get(area, {}))
        if own is not None and stray.reason is StrayReason.NAME and stray.size != sizes[area][own]:
            found.setdefault((area, stray.relative[len(own) :]), set()).add(stray.relative)
    for (area, suffix), names in sorted(found.items()):
        if len(names) >= LEAST_FILES and len(names) >= SHARE * len(sizes[area]):
            yield Sidecars(area, suffix, frozenset(names))


def _own_name(relative: str, names: Mapping[str, int]) -> str | None:
    """The file that a stray is named like."""
    end = relative.find(".", relative.rfind("/") + 1)
    return relative[:end] if end > 0 and relative[:end] in names else None
