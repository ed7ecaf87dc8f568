"""What repairs write by, and how each value is known: from the bytes, because it was given, or not at all.

    file and index sizes     what the bytes prove (`Geometry.proven`); a silent broker.conf gives the default
    delay levels             the units of SCHEDULE_TOPIC_XXXX that are there
    queue kinds              topics.json, or the queues that are there
    missing files            only the user knows that they are lost
    displaced records        only the user knows that nobody wants to salvage them
    time zone                the names of the index files that are there, against their first records
    version                  the traits that the repair depends on, in all versions that the bytes allow

A reader gives None where what is written does not depend on the value. The law asks here; ADR 0010.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rocketfsck.common.documents import printable
from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.formats.dialect import dialect_of
from rocketfsck.formats.timer import DEFAULT_DELAY_LEVELS_TEXT, DEFAULT_PRECISION_MS, SCHEDULE_TOPIC
from rocketfsck.reader.timers import PRECISION_SETTING, known_precision
from rocketfsck.reader.units import Kind, UnitReader, kinds_of, read_data_blocks
from rocketfsck.repair.advice import displaced_in
from rocketfsck.repair.plan.arguments import DatabaseToBuild, Name, QueuesToBuild, WheelPrecision
from rocketfsck.repair.plan.model import Action, Assumption, How
from rocketfsck.store.circumstances import GEOMETRY_DEFAULTS
from rocketfsck.store.geometry import SETTINGS, rounded
from rocketfsck.store.model import Store
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.store.configfiles import is_system_topic, load_configs
from rocketfsck.verify.watched import area_of

VERSION = "version"


class Known(Protocol):
    """What readers look at: a `PlanScene`, or a store alone."""

    @property
    def store(self) -> Store: ...

    @property
    def findings(self) -> tuple[Finding, ...]: ...


@dataclass(frozen=True, slots=True)
class StoreAlone:
    """A store of which no check has been made."""

    store: Store
    findings: tuple[Finding, ...] = ()


Reader = Callable[[Known, Action], Assumption | None]


@dataclass(frozen=True, slots=True)
class Basis:
    """A value that repairs write by.

    `what` says what it is. `keys` are its names in broker.conf, the usual one first, `default` what a broker
    takes without one of them; () where no broker.conf tells.
    """

    name: str
    what: str
    read: Reader
    keys: tuple[str, ...] = ()
    default: str = ""

    def normal(self, text: str) -> str:
        """The value that a broker makes of the text of a setting; the text itself where it makes none."""
        return rounded(self.name, text) if self.name in SETTINGS else " ".join(text.split())


def queues_of(action: Action) -> set[Name] | None:
    """The queues that an action builds; None for all. Empty for an action that builds none."""
    if not isinstance(action.arguments, QueuesToBuild):
        return set()
    return None if action.arguments.queues is None else set(action.arguments.queues)


def known_size(store: Store, name: str) -> Assumption:
    """A field of the geometry, and how it is known."""
    geometry = store.geometry
    source, note = geometry.source(name), geometry.notes.get(name, "")
    key = SETTINGS[name].names[0]
    how: How = "assumed"
    evidence = note or "no file shows the value: the default"
    if source == "given":
        how = "assumed" if name in geometry.contradicted else "given"
        evidence = note or ("named by the user" if _is_named(store, name) else f"broker.conf sets {key}")
    elif source == "inferred":
        how = "bytes" if name in geometry.proven else "assumed"
    elif store.settings.path is not None and not note:
        how, evidence = "given", f"broker.conf does not set {key}: the default"
    return Assumption(name, getattr(geometry, name), how, evidence)


def _is_named(store: Store, name: str) -> bool:
    """Whether the user named a size by itself (`named_settings`)."""
    return SETTINGS[name].names[0] in dict(store.stated.settings)


def usual_sizes(store: Store) -> tuple[str, ...]:
    """The sizes that may be assumed to be RocketMQ's defaults: all, where none that the files show is another
    one, else none. Then it is a broker whose settings somebody changed."""
    geometry = store.geometry
    usual = all(getattr(geometry, name) == default for name, default in GEOMETRY_DEFAULTS.items())
    return tuple(GEOMETRY_DEFAULTS) if usual and not geometry.contradicted else ()


_AREA_OF_SIZE = {
    "commitlog_file_size": "commitlog",
    "consumequeue_file_size": "consumequeue",
    "batch_file_size": "batchconsumequeue",
    "ext_file_size": "consumequeue_ext",
    "slot_count": "index",
    "entry_count": "index",
}


def _size(name: str) -> Reader:
    """Reads a size that matters to files of its own area, or of queues that an action builds."""

    def read(scene: Known, action: Action) -> Assumption | None:
        area = "commitlog" if action.target.startswith("/") else area_of(action.target)
        if isinstance(action.arguments, QueuesToBuild):
            matters = name in _sizes_of_queues(scene.store, queues_of(action))
        else:
            matters = area == _AREA_OF_SIZE[name]
        return known_size(scene.store, name) if matters else None

    return read


def _sizes_of_queues(store: Store, names: set[Name] | None) -> set[str]:
    """The sizes that the files of these queues have. A queue that is not there is one of plain units, unless
    its topic has queues of batches."""
    batch = {queue.topic for queue in store.queues if queue.kind == "batch"}
    present = {(queue.topic, queue.queue_id) for queue in store.queues}
    topics = {topic for topic, _ in (present if names is None else names)}
    found = {"batch_file_size"} if topics & batch else set()
    if names is None or topics - batch:
        found.add("consumequeue_file_size")
    if store.ext_queues:
        found.add("ext_file_size")
    return found


def _delay_levels(scene: Known, action: Action) -> Assumption | None:
    """The levels matter to units of the schedule topic: they hold the time of delivery."""
    store, names = scene.store, queues_of(action)
    if isinstance(action.arguments, DatabaseToBuild):
        return _levels_of_rows(scene, action.arguments)
    if names is None:
        names = {(queue.topic, queue.queue_id) for queue in store.queues}
        names |= {(finding.where.topic or "", finding.where.queue_id or 0) for finding in scene.findings}
    built = {name for name in names if name[0] == SCHEDULE_TOPIC}
    if not built:
        return None
    stated = action.arguments.delay_levels if isinstance(action.arguments, QueuesToBuild) else None
    levels = store.delay_levels if stated is None else stated
    if store.delay_levels_source == "given":
        return Assumption("delay_levels", levels, "given", "set by the user or by broker.conf")
    silent = {name for name in built if not _has_units(store, name)}
    if not silent:
        return Assumption("delay_levels", levels, "bytes", f"the units of {SCHEDULE_TOPIC} agree on them")
    if store.settings.path is not None:
        return Assumption("delay_levels", levels, "given", "broker.conf does not set messageDelayLevel")
    numbers = ", ".join(str(queue_id + 1) for _, queue_id in sorted(silent))
    return Assumption("delay_levels", levels, "assumed", f"no unit of level {numbers} shows the delay")


def _levels_of_rows(scene: Known, arguments: DatabaseToBuild) -> Assumption | None:
    """The levels matter to rows of the schedule topic: they hold the time of delivery."""
    store = scene.store
    if not arguments.delayed:
        return None
    if store.delay_levels_source == "given":
        return Assumption("delay_levels", store.delay_levels, "given", "set by the user or by broker.conf")
    if store.settings.path is not None:
        text = "broker.conf does not set messageDelayLevel"
        return Assumption("delay_levels", store.delay_levels, "given", text)
    return Assumption("delay_levels", store.delay_levels, "assumed", "no row shows the delays")


def _removed_topics(_scene: Known, action: Action) -> Assumption | None:
    """Which topics were deleted: their records are in the log all the same."""
    if not isinstance(action.arguments, DatabaseToBuild) or action.arguments.source == "database":
        return None
    if action.arguments.source == "topics":
        return Assumption("removed_topics", "as the topics of the broker", "bytes", "the topics can be read")
    text = "neither the database nor the topics of the broker can be read: deleted topics come back"
    return Assumption("removed_topics", "none", "assumed", text)


def _queue_ends(scene: Known, action: Action) -> Assumption | None:
    """Where queues continue all of whose records expired."""
    if not isinstance(action.arguments, DatabaseToBuild) or action.arguments.source == "database":
        return None
    if not scene.store.commitlog.start_offset:
        return Assumption("queue_ends", "as the log shows", "bytes", "no record of the log has expired")
    text = (
        "the ends of queues cannot be read: a queue without a record continues where groups have read up to"
    )
    return Assumption("queue_ends", "as groups have read", "assumed", text)


def _has_units(store: Store, name: Name) -> bool:
    for queue in store.queues:
        if (queue.topic, queue.queue_id) == name and queue.files:
            with UnitReader(queue) as reader:
                for _, _, units in read_data_blocks(reader):
                    if units is not None and (kinds_of(units) == Kind.UNIT).any():
                        return True
    return False


def _queue_kinds(scene: Known, action: Action) -> Assumption | None:
    """Which topics have queues of batches: the attribute is in topics.json, and the queues show it."""
    store, names = scene.store, queues_of(action)
    if not any(dialect_of(version).batch_queues for version in store.dialect_evidence.possible):
        return None
    present = {queue.topic for queue in store.queues}
    wanted = {finding.where.topic for finding in scene.findings if finding.rule == RuleName.QUEUE_MISSING}
    asked = wanted if names is None else {topic for topic, _ in names}
    topics = load_configs(store).views.get("topics.json")
    open_topics = {topic for topic in asked if topic and topic not in present and not is_system_topic(topic)}
    if topics is not None or not open_topics:
        return None
    text = f"topics.json cannot be read; it gives the kind of queue of {count_of(len(open_topics), 'topic')}"
    return Assumption("queue_kinds", "as the log shows", "assumed", text)


def _missing_files(_scene: Known, _action: Action) -> Assumption:
    """A file that a repair makes up cannot be put back later: only the user knows that it is lost."""
    text = "the file may be on a disk that is not mounted, or in a backup"
    return Assumption("missing_files", "are lost", "assumed", text)


def _displaced_records(scene: Known, action: Action) -> Assumption | None:
    """Records of a file's own messages that a repair of it overwrites: they can be salvaged."""
    file = next((item for item in scene.store.commitlog.files if item.relative == action.target), None)
    if file is None:
        return None
    start, own = file.start_offset or 0, displaced_in(file)
    count = int(np.count_nonzero((own >= start) & (own < start + file.size)))
    if not count:
        return None
    text = f"the file has {count_of(count, 'sound record')} at wrong places: salvage puts them right"
    return Assumption("displaced_records", "are given up", "assumed", text)


def _timer_precision(scene: Known, action: Action) -> Assumption | None:
    """The length of a slot of the timer wheel: as set, or as the slots that are left show it."""
    if not isinstance(action.arguments, WheelPrecision):
        return None
    value, settings = action.arguments.precision_ms, scene.store.settings
    if settings.get(PRECISION_SETTING) is not None:
        return Assumption("timer_precision_ms", value, "given", f"broker.conf sets {PRECISION_SETTING}")
    if known_precision(scene.store) == value:
        return Assumption("timer_precision_ms", value, "bytes", "slots of the wheel agree with their units")
    if settings.path is not None:
        text = f"broker.conf does not set {PRECISION_SETTING}: the default"
        return Assumption("timer_precision_ms", value, "given", text)
    return Assumption("timer_precision_ms", value, "assumed", "no slot shows the value: the default")


def _version(scene: Known, traits: tuple[str, ...]) -> Assumption | None:
    """The version, where one of the traits matters to this store."""
    evidence = scene.store.dialect_evidence
    relevant = [trait for trait in traits if _TRAITS.get(trait, _always)(scene)]
    if not relevant:
        return None
    version = str(evidence.dialect.version)
    if evidence.given:
        return Assumption(VERSION, version, "given", "set by the user")
    versions = evidence.possible or evidence.versions
    unsure = [trait for trait in relevant if len({getattr(dialect_of(item), trait) for item in versions}) > 1]
    if not unsure:
        return Assumption(VERSION, version, "bytes", "all versions that fit the bytes do the same here")
    text = f"{versions[0]} to {versions[-1]} fit the bytes but differ in {', '.join(unsure)}"
    return Assumption(VERSION, version, "assumed", text)


def _always(_scene: Known) -> bool:
    return True


def _has_repeated_offsets(scene: Known) -> bool:
    twice = (RuleName.QUEUE_OFFSET_REPEATED, RuleName.QUEUE_BEGINS_AGAIN)
    return any(finding.rule in twice for finding in scene.findings)


def _lacks_checkpoint_fields(scene: Known) -> bool:
    """A field too many does no harm: a broker that does not know it does not read it."""
    evidence = scene.store.dialect_evidence
    written = set(evidence.dialect.checkpoint_fields)
    return any(set(dialect_of(version).checkpoint_fields) - written for version in evidence.possible)


_TRAITS: Mapping[str, Callable[[Known], bool]] = {
    # what becomes of a record whose place in the queue is taken
    "skips_units_below_current": _has_repeated_offsets,
    "max_physic_offset_is_end": _has_repeated_offsets,
    "checkpoint_fields": _lacks_checkpoint_fields,
}
"""Traits that do not always matter, with what tells whether they do."""


def _basis(name: str, what: str) -> Basis:
    default = str(GEOMETRY_DEFAULTS[name])
    return Basis(name, what, _size(name), SETTINGS[name].names, default)


BASES: Mapping[str, Basis] = {
    basis.name: basis
    for basis in (
        _basis("commitlog_file_size", "the size of commit log files"),
        _basis("consumequeue_file_size", "the size of consume queue files"),
        _basis("batch_file_size", "the size of batch consume queue files"),
        _basis("ext_file_size", "the size of consume queue extension files"),
        _basis("slot_count", "the number of slots of an index file"),
        _basis("entry_count", "the number of entries of an index file"),
        Basis(
            "delay_levels",
            "the delay of each level",
            _delay_levels,
            ("messageDelayLevel",),
            DEFAULT_DELAY_LEVELS_TEXT,
        ),
        Basis(
            "timer_precision_ms",
            "the length of a slot of the timer wheel",
            _timer_precision,
            (PRECISION_SETTING,),
            str(DEFAULT_PRECISION_MS),
        ),
        Basis("missing_files", "that missing commit log files are gone", _missing_files),
        Basis("displaced_records", "that records at wrong places are given up", _displaced_records),
        Basis("queue_kinds", "which topics have queues of batches", _queue_kinds),
        Basis("removed_topics", "which topics the broker deleted", _removed_topics),
        Basis("queue_ends", "where queues without a record continue", _queue_ends),
    )
}
"""Everything that a row of the table of repairs may name in `writes_by`, by name."""


def named_values(assume: Iterable[str]) -> dict[str, Any]:
    """What `NAME=VALUE`s say of a store, as arguments of `open_store`: its settings, and the version.

    The last one of a name counts. A name alone, or one that no plan assumes, says nothing here.
    """
    settings: dict[str, str] = {}
    found: dict[str, Any] = {"settings": settings}
    for text in assume:
        name, equals, value = text.partition("=")
        if not equals:
            continue
        if name == VERSION:
            found["version"] = value.strip()
        for basis in BASES.values():
            if basis.keys and name in (basis.name, *basis.keys):
                settings |= dict.fromkeys(basis.keys, value)
    return found


def meaning_of(name: str) -> str:
    """What a value that a plan assumes is; its name where this version does not know it."""
    return BASES[name].what if name in BASES else printable(name)


def confirming(names: Sequence[str], given: Collection[str] = ()) -> str:
    """The options that confirm values that a plan assumes, by name: a broker.conf where it can tell one.

    `given` are values that a broker.conf gave and that the files contradict.
    """
    options = " ".join(f"--assume {name}" for name in names)
    stated = any(name not in BASES or BASES[name].keys for name in names if name not in given)
    return f"--broker-conf FILE or {options}" if stated else options


def assumptions_of(
    scene: Known, action: Action, writes_by: tuple[str, ...], traits: tuple[str, ...]
) -> tuple[Assumption, ...]:
    """What an action writes by, of what its repair can write by."""
    found = [BASES[name].read(scene, action) for name in writes_by]
    found.append(_version(scene, traits))
    return tuple(item for item in found if item is not None)
