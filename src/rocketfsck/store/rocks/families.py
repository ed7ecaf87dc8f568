"""Which database of a store has which families, and what is in them. Reference 3.9, 11.3 to 11.7.

consumequeue/, consumequeue_rocksdb/   default: units; offset: bounds
rocksdbstore/                          default: index; timer; trans
kvStore/                               popState
config/topics/, …, config/metadata/    first form of the configs
config/rdb/                            second form
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rocketfsck.formats.rocksconfig import VERSION_FAMILIES
from rocketfsck.store.elsewhere import QUEUE_DATABASES
from rocketfsck.store.model import Other, OtherKind, Store

# Rows that are not what their family has: the first of each family, and how many.


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


DEFAULT = "default"
CONFIG_V2 = "config/rdb"


class Content(StrEnum):
    """What the rows of a family are."""

    UNITS = "units"
    BOUNDS = "bounds"
    INDEX = "index"
    TIMER = "timer"
    TRANS = "trans"
    POP = "pop"
    TOPICS = "topics"
    GROUPS = "groups"
    FORBIDDEN = "forbidden"
    OFFSETS = "offsets"
    VERSION = "version"
    CONFIG = "config"
    UNKNOWN = "unknown"


_CONTENTS: Mapping[str, Mapping[str, Content]] = {
    **{name: {DEFAULT: Content.UNITS, "offset": Content.BOUNDS} for name in QUEUE_DATABASES},
    "rocksdbstore": {DEFAULT: Content.INDEX, "timer": Content.TIMER, "trans": Content.TRANS},
    "kvStore": {"popState": Content.POP},
    "config/topics": {DEFAULT: Content.TOPICS},
    "config/subscriptionGroups": {DEFAULT: Content.GROUPS, "forbidden": Content.FORBIDDEN},
    "config/consumerOffsets": {DEFAULT: Content.OFFSETS},
    "config/metadata": {
        "topic": Content.TOPICS,
        "subscriptionGroup": Content.GROUPS,
        "forbidden": Content.FORBIDDEN,
        "consumerOffset": Content.OFFSETS,
    },
    CONFIG_V2: {DEFAULT: Content.CONFIG},
}


def content_of(database: str, family: str) -> Content:
    """What the rows of a family of the database with that path below the root are."""
    known = _CONTENTS.get(database, {}).get(family)
    if known is None and database.startswith("config/") and family in VERSION_FAMILIES:
        return Content.VERSION
    return known or Content.UNKNOWN


def contents_of(database: str) -> frozenset[Content]:
    """All that the families of a database at that path may hold."""
    return frozenset(_CONTENTS.get(database, {"": Content.UNKNOWN}).values())


def is_known(database: str) -> bool:
    """Whether brokers have a database at that path below the root whose rows are read here."""
    return database in _CONTENTS


def databases_of(store: Store) -> Iterator[Other]:
    """The databases of a store that have files."""
    return (other for other in store.others if other.kind is OtherKind.ROCKSDB and other.files)
