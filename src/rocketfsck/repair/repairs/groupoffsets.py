"""Committed offsets of consumer groups: taken from the .bak, moved to the ends of queues, or set by the user.

    beyond the end of a queue    that of the .bak where it lies in the queue, else the end of the queue
    set by the user              what was asked for, but nothing beyond the end of a queue

Where a queue ends is looked for when the act is done: other repairs of the plan may cut or rebuild it. The
file that was there is set aside. Light queues are left alone. Fault catalogue K6; reference 1.6.

What consumers have committed, against where their queues will end.

An offset behind a queue's end makes a broker answer that it has moved: the consumer begins again elsewhere,
and the messages that get these offsets next may not reach it. Reference 1.6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.errors import StoreError
from rocketfsck.formats import config, properties, timer
from rocketfsck.query.offsets import GroupOffsets, Standing, group_offsets
from rocketfsck.reader.configs import CONFIG_LIMIT
from rocketfsck.reader.units import UnitReader
from rocketfsck.repair.build.config import read_config
from rocketfsck.repair.plan.arguments import DelayLevels, Name, OffsetChange, OffsetChanges
from rocketfsck.repair.plan.model import Action
from rocketfsck.repair.plan.table import ActScene, PlanScene, Repair, Row
from rocketfsck.repair.repairs.answers import answer, notice, number, one_by_one, whole_file
from rocketfsck.repair.repairs.config import put_file
from rocketfsck.store.model import ConsumeQueue, Store
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.store.configfiles import load_configs
from rocketfsck.verify.store.offsets import OFFSET_DATABASES, OFFSETS, kept_in_databases, positions_of

_SEPARATOR = "@"


def committed_behind(scene: PlanScene, ends: Mapping[Name, int]) -> int:
    """How many committed offsets lie behind the ends that these queues will have (queue offsets)."""
    if not ends:
        return 0
    return sum(offset > ends[name] for name, offset in _committed(scene.store) if name in ends)


def _committed(store: Store) -> Iterator[tuple[Name, int]]:
    """Every offset that a group has committed, with its queue."""
    views = load_configs(store).views
    for file in config.OFFSET_VIEWS:
        for key, offsets in views.get(file, {}).items():
            topic = key.partition(_SEPARATOR)[0]
            for queue_id, offset in offsets.items():
                yield (topic, queue_id), offset


def delay_follows(scene: PlanScene, ends: Mapping[Name, int]) -> Iterator[Action]:
    """The offsets of delay levels whose queues will end before them: a broker brings them back by itself."""
    if any(finding.rule == RuleName.DELAY_OFFSET_RANGE for finding in scene.findings):
        return  # the file is written again for these
    configs = load_configs(scene.store)
    levels = [
        level
        for level, offset in configs.views.get("delayOffset.json", {}).items()
        if offset > ends.get((timer.SCHEDULE_TOPIC, timer.delay_queue_id(level)), offset)
    ]
    if levels:
        name = configs.files["delayOffset.json"]
        yield answer(
            "set-delay-offset",
            name,
            f"move the offsets of {count_of(len(levels), 'delay level')} back into their queues, which end "
            "earlier",
            [],
            arguments=DelayLevels(tuple(sorted(levels))),
            preconditions=whole_file(scene, name),
            notices=[notice("delay-moved", len(levels))],
        )


def new_end(queue: ConsumeQueue, index: int) -> dict[Name, int]:
    """The queue offset at which a queue ends once its units from an index on are gone. Raises StoreError."""
    end = index
    if queue.kind == "batch":
        with UnitReader(queue) as reader:
            end = int(reader.units(index, 1)["msgBaseOffset"][0])
    return {(queue.topic, queue.queue_id): end}


NAME = "set-offsets"
FILE = f"config/{OFFSETS}"
ANSWERED = frozenset({RuleName.CONSUMER_OFFSET_AHEAD, RuleName.CONSUMER_OFFSETS_GONE})
Place = tuple[str, str, int]
"""A group, a topic, a queueId."""


def plan_offsets(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """The offsets of the file that are beyond the ends of queues, or that the user set."""
    found = [finding for finding in one_by_one(findings) if finding.where.file == FILE]
    found += [finding for finding in scene.findings if scene.wished and finding.rule in ANSWERED]
    if found or scene.wished:
        yield from _action(scene, found)


def _action(scene: PlanScene, found: Sequence[Finding]) -> Iterator[Action]:
    """One action for all offsets of the file, whoever asks for it."""
    present = any(file.name == OFFSETS for file in scene.store.configs)
    if kept_in_databases(scene.store, OFFSET_DATABASES) or not (present or scene.wished):
        return
    changes = scene.once(_changes)
    groups = len({change.group for change in changes})
    some = f"set {count_of(len(changes), 'offset')} of {count_of(groups, 'group')}; " if changes else ""
    yield answer(
        NAME,
        FILE,
        f"{some}no offset stays beyond the end of its queue",
        {finding.fingerprint: finding for finding in found}.values(),
        arguments=OffsetChanges(changes),
        preconditions=whole_file(scene, FILE) if present else (),
        notices=[notice("offsets-set", max(len(changes), 1))],
    )


def _changes(scene: PlanScene) -> tuple[OffsetChange, ...]:
    """What the offsets become, as far as it is known when the plan is made."""
    rows = {
        _place(row): row
        for row in group_offsets(scene.store)
        if not row.topic.startswith(properties.LMQ_PREFIX)
    }
    copy = positions_of(scene.store, f"{OFFSETS}.bak") or {}
    wished: dict[Place, int] = {}
    for finding in scene.findings:
        if finding.rule == RuleName.CONSUMER_OFFSET_AHEAD and finding.where.file == FILE:
            where = finding.where
            place = (str(finding.found.get("group")), where.topic or "", where.queue_id or 0)
            row = rows.get(place)
            if row is not None:
                before = copy.get(place, -1)
                wished[place] = before if row.min_offset <= before <= row.max_offset else row.max_offset
    wished |= {(item.group, item.topic, item.queue_id): item.offset for item in scene.wished}
    return tuple(
        OffsetChange(*place, rows[place].offset if place in rows else None, offset)
        for place, offset in sorted(wished.items())
        if place not in rows or rows[place].offset != offset
    )


def _place(row: GroupOffsets) -> Place:
    return row.group, row.topic, row.queue_id


def act_offsets(scene: ActScene, action: Action, arguments: OffsetChanges) -> None:
    """Write the offsets, none of them beyond the end of its queue. The .bak is not touched."""
    store = scene.reopen()
    value = _value(store, action.target)
    table = value.setdefault("offsetTable", {})
    if not isinstance(table, dict):
        raise StoreError("no longer has offsets", path=action.target)
    for change in arguments.changes:
        offsets = table.setdefault(f"{change.topic}@{change.group}", {})
        _put(offsets, change.queue_id, change.offset)
    scratch = scene.tree.exists(action.target)
    text = config.encode_config(value)
    if not scratch or read_config(scene.tree.place(action.target), CONFIG_LIMIT) != value:
        put_file(scene, action.target, text)
    for row in group_offsets(scene.reopen()):
        if row.standing is Standing.AHEAD and not row.topic.startswith(properties.LMQ_PREFIX):
            offsets = table.get(f"{row.topic}@{row.group}")
            if isinstance(offsets, dict):
                _put(offsets, row.queue_id, row.max_offset)
    if config.encode_config(value) != text:
        put_file(scene, action.target, config.encode_config(value))


def _value(store: Store, name: str) -> dict[str, Any]:
    """The content of the file as it is now; an empty one where there is none."""
    for file in store.configs:
        if file.relative == name and file.size:
            value = read_config(str(file.path), CONFIG_LIMIT)
            if not isinstance(value, dict):
                raise StoreError("no longer has offsets", path=name)
            return value
    return {}


def _put(offsets: dict[Any, int], queue_id: int, offset: int) -> None:
    """Set the offset of a queue under the key that the file has for it."""
    key = next((key for key in offsets if str(key) == str(queue_id)), queue_id)
    offsets[key] = offset


def offsets_follow(
    scene: PlanScene, ends: Mapping[tuple[str, int], int], *, always: bool = False
) -> Iterator[Action]:
    """The same action where queues will end, at `ends`, before offsets that groups have committed; `always`:
    where they end is not known before they are built."""
    if always or committed_behind(scene, ends):
        yield from _action(scene, ())


def is_beyond_records(finding: Finding) -> bool:
    """Whether a finding says that a group has passed what its queue gets back: messages are lost."""
    return finding.rule == RuleName.CONSUMER_OFFSET_OF_LOST_UNITS and number(
        finding.found, "offset"
    ) > number(finding.expected, "record_end_offset")


ROWS: tuple[Row, ...] = (
    Repair(
        NAME,
        725,
        "set committed offsets of consumer groups",
        plan_offsets,
        act_offsets,
        OffsetChanges,
        answers=(RuleName.CONSUMER_OFFSETS_GONE,),
        needs=("cut-queue", "rebuild-queue"),
    ),
)
