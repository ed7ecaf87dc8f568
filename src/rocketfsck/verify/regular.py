"""Regular deviations: what most places that were asked have alike is a feature of a broker not known here.

    findings of a rule, places asked  --most-->  one finding of what is not known; the others drop out
    strays next to files, all alike   --most-->  the same

Damage is not regular: it hits some places, and these in different ways. ADR 0011.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.dialect import NEWEST_NAME
from rocketfsck.store.model import Store, StrayReason
from rocketfsck.verify.account import Gatherer
from rocketfsck.verify.finding import Facts, Finding, Scalar, Where
from rocketfsck.verify.log.regions import unknown_frames
from rocketfsck.verify.stopping import Sift
from rocketfsck.verify.tasks.task import Collector, TaskResult, is_aggregate
from rocketfsck.verify.watched import (
    AREAS,
    FILES,
    INDEX,
    LEAST_FILES,
    LOG,
    QUEUES,
    SHARE,
    WATCHED,
    Watched,
    area_of,
    is_regular,
)


@dataclass(frozen=True, slots=True)
class FilesAlike:
    """Files of one area that belong to no known broker and follow one `pattern`: nearly every file has one
    next to it (`*.crc`), or nearly every directory one in it (`*/meta`). `names` are relative to the root.
    """

    area: str
    pattern: str
    names: frozenset[str]


STRAY_RULES = frozenset(
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
    stated: Mapping[str, int],
) -> None:
    """Take regular deviations out of the findings and out of the account; one finding for each kind instead.

    `results` are those of all tasks, which say how many places each rule was asked of; `logs` those of the
    commit log files; `stated` has, by rule, of how many places the checks of the driver asked it.
    """
    kept = sift.kept
    sift.take(_unknown_frames(store, kept, logs, gatherer))
    sift.take(_files_alike(store, kept))
    sift.take(_deviations(kept, _asked(store, results, stated), gatherer))


FRAME_RULES = frozenset(
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
    """Records of an unknown magic that counted as damage; what follows from that is not damage either."""
    frames = unknown_frames(store, logs) if kept.counts.keys() & FRAME_RULES else None
    if frames is None:
        return
    kept.take_out(
        lambda finding: (
            finding.rule in _BY_RECORDS
            or (
                finding.rule in FRAME_RULES
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
            AREAS: f"{LOG} {QUEUES} {INDEX} checkpoint",
            "newest_version": NEWEST_NAME,
        },
    )


def _files_alike(store: Store, kept: Collector) -> Iterator[Finding]:
    for alike in files_alike(store):
        kept.take_out(partial(_is_one_of, alike.names))
        facts: Facts = {
            "file_count": len(alike.names),
            "pattern": alike.pattern,
            "newest_version": NEWEST_NAME,
        }
        yield Finding(RuleName.FILES_ALIKE, Where(file=alike.area), facts)


def _is_one_of(names: Collection[str], finding: Finding) -> bool:
    return finding.rule in STRAY_RULES and finding.where.file in names


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
        chosen = partial(_is_of, watched)
        first = next((finding for finding in kept.findings if chosen(finding)), None)
        if first is None:
            continue
        if watched.places in FILES:
            count = _file_count(finding for finding in kept.findings if finding.rule in rules)
        elif watched.words:
            count = _with_words(watched, kept.findings, count)
        if not is_regular(watched.places, count, asked.get(rules[0]) or asked.get(watched.places, 0)):
            continue
        areas = watched.areas or _areas(filter(chosen, kept.findings))
        kept.take_out(chosen)
        for rule in rules:
            gatherer.regular(rule)
        facts: Facts = {
            "rules": " ".join(rules),
            "deviating_count": count,
            AREAS: areas,
            "newest_version": NEWEST_NAME,
        }
        yield Finding(RuleName.REGULAR_DEVIATION, first.where, facts)


def _areas(findings: Iterable[Finding]) -> str:
    """The areas of the files that deviate. What counts further findings names no file."""
    return " ".join(sorted({area_of(finding.where.file) for finding in findings if finding.where.file}))


def _with_words(watched: Watched, findings: Iterable[Finding], count: int) -> int:
    """How many of `count` findings are about a deviating value. Those that are only counted are like those
    that are named."""
    named = [finding for finding in findings if finding.rule in watched.rules and not is_aggregate(finding)]
    total = sum(finding.count for finding in named)
    about = sum(finding.count for finding in named if _has_words(watched, finding))
    return count * about // total if total else 0


def _has_words(watched: Watched, finding: Finding) -> bool:
    texts = [value for value in finding.found.values() if isinstance(value, str)]
    return any(word in text for word in watched.words for text in texts)


def _file_count(findings: Iterable[Finding]) -> int:
    """How many files deviate alike: in the same field, where there are several."""
    files: dict[Scalar, set[str]] = {}
    for finding in findings:
        files.setdefault(finding.found.get("field"), set()).add(finding.where.file)
    return max(map(len, files.values()), default=0)


def _is_of(watched: Watched, finding: Finding) -> bool:
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
