"""The rules that compare one value at each of many places, and what makes a deviation regular. ADR 0011.

    row := rules, kind of place, areas[, words]

A row is about values. No row has a reference to another file: all of them deviate where that file is lost or
has another name. Engine: `verify.regular`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from rocketfsck.common.rulenames import RuleName
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.rules.catalog import UNKNOWN_RULES

# Which areas of a store hold something regular that this version of the tool does not know. ADR 0011.
#
#     area := "commitlog" | "consumequeue" | "batchconsumequeue" | "consumequeue_ext" | "index" | "checkpoint"
#           | "config" | ...                               the first part of a name below the store's root
#
# A finding of `catalog.UNKNOWN_RULES` names the areas itself (`found["areas"]`, spaces between them) where
# they are others than that of its file.

LEAST_COUNT, SHARE = 8, 0.9
"""Fewer places that deviate alike, or a smaller share of those that were asked, may be damaged ones."""
AREAS = "areas"
"""Name of the fact with the areas that a finding is about, where its file does not tell."""


def area_of(file: str) -> str:
    """The area of a file or directory of a store by its name below the root; "" is the store as a whole."""
    return file.strip("/").split("/", 1)[0]


def areas_of(finding: Finding) -> tuple[str, ...]:
    """The areas that a finding is about."""
    named = finding.found.get(AREAS)
    if isinstance(named, str):
        return tuple(named.split())
    return (area_of(finding.where.file),)


def doubtful_areas(findings: Iterable[Finding]) -> frozenset[str]:
    """The areas with bytes of which two reads differ: nobody knows what is in them."""
    return frozenset(
        area for finding in findings if finding.rule == RuleName.READS_DIFFER for area in areas_of(finding)
    )


def unknown_areas(findings: Iterable[Finding]) -> Mapping[str, tuple[Finding, ...]]:
    """The areas that hold something this version does not know, each with the findings that say so."""
    found: dict[str, tuple[Finding, ...]] = {}
    for finding in findings:
        if finding.rule in UNKNOWN_RULES:
            for area in areas_of(finding):
                found[area] = (*found.get(area, ()), finding)
    return found


LEAST_FILES = 3
FILE_SHARE = 0.75

Places = Literal["record", "unit", "entry", "index file", "commit log file", "asked"]
"""`asked`: what the checks of the driver counted with `Shared.ask`, for the first rule of a row."""
FILES: frozenset[Places] = frozenset({"index file", "commit log file"})
"""Places of which a store has few. The last one is not full: some rules do not ask it."""


@dataclass(frozen=True, slots=True)
class Watched:
    """`rules` that compare one value at each of many `places`; `areas` are those whose bytes the value is in,
    or that a repair would write by it, "" for the areas of the files that deviate.

    A rule that judges more than values says in a fact what deviates: each of `words` stands for a value.
    """

    rules: tuple[RuleName, ...]
    places: Places
    areas: str
    words: tuple[str, ...] = ()


LOG = "commitlog"
QUEUES = "consumequeue batchconsumequeue consumequeue_ext"
INDEX = "index"
_TIMERS = "timerlog timerwheel"
_VALUES = "but the record has"
_CONSTANTS = ("batchSize is", "compactedOffset is", "reserved is")

WATCHED: tuple[Watched, ...] = (
    Watched((RuleName.RECORD_BODY_CRC,), "record", LOG),
    Watched((RuleName.RECORD_PROPERTY_CRC,), "record", LOG),
    Watched((RuleName.RECORD_SYS_FLAG,), "record", f"{LOG} {QUEUES} {INDEX}"),
    Watched((RuleName.RECORD_HOST_PORT,), "record", LOG),
    Watched((RuleName.RECORD_NEGATIVE_FIELD,), "record", f"{LOG} {QUEUES} {INDEX}"),
    Watched((RuleName.RECORD_TOPIC,), "record", f"{LOG} {QUEUES} {INDEX}"),
    Watched((RuleName.RECORD_PROPERTIES_NUL,), "record", f"{LOG} {QUEUES} {INDEX}"),
    Watched((RuleName.RECORD_INNER_BATCH,), "record", f"{LOG} {QUEUES}"),
    Watched((RuleName.RECORD_INNER_BATCH_FLAG,), "record", f"{LOG} {QUEUES}"),
    Watched((RuleName.RECORD_COMPRESSED_BODY,), "record", LOG),
    Watched((RuleName.RECORD_PREPARED_OFFSET,), "record", LOG),
    Watched((RuleName.RECORD_COMMIT_FLAG,), "record", LOG),
    Watched((RuleName.RECORD_RECONSUME_TIMES,), "record", LOG),
    Watched((RuleName.RECORD_BORN_TIMESTAMP,), "record", LOG),
    Watched((RuleName.RECORD_STORE_TIMESTAMP,), "record", LOG),
    Watched((RuleName.BLANK_SIZE,), "commit log file", LOG),
    Watched((RuleName.UNIT_SIZE,), "unit", QUEUES),
    Watched((RuleName.UNIT_TAGS_CODE,), "unit", QUEUES),
    Watched((RuleName.UNIT_INVALID,), "unit", QUEUES),
    Watched((RuleName.BATCH_UNIT_BASE,), "unit", QUEUES),
    Watched((RuleName.BATCH_UNIT_RESERVED,), "unit", QUEUES),
    Watched((RuleName.BATCH_UNIT_CONTENT,), "unit", QUEUES),
    Watched((RuleName.EXT_UNIT_CONTENT,), "unit", QUEUES),
    Watched((RuleName.INDEX_ENTRY_HASH,), "entry", INDEX),
    Watched((RuleName.INDEX_ENTRY_TIME_NEGATIVE,), "entry", INDEX),
    Watched((RuleName.ENTRY_KEY,), "entry", INDEX),
    Watched((RuleName.ENTRY_TIME,), "entry", INDEX),
    Watched((RuleName.INDEX_FIRST_TIME_WRONG,), "index file", INDEX),
    Watched((RuleName.INDEX_SLOT_COUNT, RuleName.INDEX_SLOT_COUNT_KIND), "index file", INDEX),
    Watched((RuleName.INDEX_HEADER_RANGE,), "index file", INDEX),
    Watched((RuleName.INDEX_ENTRY_ZERO,), "index file", INDEX),
    Watched((RuleName.TIMER_SLOT_NUMBER,), "asked", _TIMERS),
    Watched((RuleName.TIMER_UNIT_LINK,), "asked", _TIMERS),
    Watched((RuleName.TIMER_UNIT_CONTENT,), "asked", _TIMERS),
    Watched((RuleName.DLEDGER_UNUSED_FIELD,), "asked", ""),
    Watched((RuleName.COMPACTION_BODY_CRC,), "asked", ""),
    Watched((RuleName.COMPACTION_UNIT,), "asked", "", (_VALUES, *_CONSTANTS)),
    Watched((RuleName.TIERED_BODY_CRC,), "asked", ""),
    Watched((RuleName.TIERED_UNIT,), "asked", "", (_VALUES,)),
    Watched((RuleName.ROW_DIFFERS,), "asked", "", (RuleName.UNIT_SIZE.slug, RuleName.UNIT_TAGS_CODE.slug)),
    Watched((RuleName.ROW_TIME,), "asked", ""),
    Watched((RuleName.POP_ROW,), "asked", ""),
    Watched((RuleName.CONSUMER_OFFSET_NEGATIVE,), "asked", "config"),
    Watched((RuleName.TOPIC_NAME_MISSING,), "asked", "config"),
)
"""The rules that compare a value at many places."""


def is_regular(places: Places, count: int, asked_count: int) -> bool:
    """Whether `count` of `asked_count` places are too many to be damage."""
    if places in FILES:
        return count >= LEAST_FILES and count >= FILE_SHARE * (asked_count - 1)
    return count >= LEAST_COUNT and count >= SHARE * asked_count
