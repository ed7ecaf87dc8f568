"""Repairs of the files in `config/`: from .bak, cut after the value, closed where cut, or made again.

The file that was there is set aside. What no copy has is not made up: a consumerOffset.json of which nothing
is left stays unanswered. Fault catalogue K5, K6; reference 1.6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats import config
from rocketfsck.formats.timer import SCHEDULE_TOPIC, delay_queue_id
from rocketfsck.reader.configs import CONFIG_LIMIT
from rocketfsck.repair.build import config as build_config
from rocketfsck.repair.plan import arguments as plan_arguments
from rocketfsck.repair.plan.model import Action, Loss, Notice
from rocketfsck.repair.plan.table import ActScene, PlanScene, Repair, Row
from rocketfsck.repair.repairs.answers import answer, by_file, notice, number, one_by_one, whole_file
from rocketfsck.store.model import Store
from rocketfsck.store.reading import read_whole
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.queues.file import check_queues
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.store.config import QUEUE_TYPE
from rocketfsck.verify.store.offsets import SUBSCRIPTIONS
from rocketfsck.verify.tasks.task import Context, QueuesTask

_BACKUP = ".bak"
TOPICS_MADE = (
    "list the topics that the log and the queues have; assumed: as many queues as the highest queueId asks "
    "for, read and write permission, no order, the default attributes"
)
"""What is assumed of newly made topics."""
MEMBERS_KEPT = "keep the complete members, and close the JSON text after them"
TOPICS_KEPT = (
    "keep the topics that are whole, and list the others that the log and the queues have; assumed of those: "
    "as many queues as the highest queueId asks for, read and write permission, no order, the default "
    "attributes"
)
GROUPS_MADE = (
    "list the groups that retry topics and committed offsets tell of; assumed: the settings that a broker "
    "gives a new group"
)
"""What is assumed of newly made groups."""
_TOPICS = "config/topics.json"
_SUBSCRIPTIONS = f"config/{SUBSCRIPTIONS}"
_DELAYS = "config/delayOffset.json"
_TYPES: Mapping[str, plan_arguments.QueueType] = {"file": "SimpleCQ", "batch": "BatchCQ"}


def plan_restore(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """The .bak if it is sound; else what is left of the file; else topics out of log and queues, groups out
    of other configs."""
    for finding in one_by_one(findings):
        name = finding.where.file.removesuffix(_BACKUP)
        made = _source(scene, finding, name)
        if made is None:
            continue
        source, data, note = made
        present = (scene.store.root / name).exists()
        yield answer(
            "restore-config",
            name,
            note,
            [item for item in one_by_one(findings) if item.where.file.removesuffix(_BACKUP) == name],
            arguments=plan_arguments.ConfigOrigin(
                source,
                _topics_added(scene.store, source, data) if name == _TOPICS else (),
                tuple(config.valid_prefix(data)[0]["subscriptionGroupTable"]) if source == "groups" else (),
            ),
            preconditions=[
                *(whole_file(scene, name) if present else ()),
                *(whole_file(scene, name + _BACKUP) if source == "backup" else ()),
            ],
            losses=[Loss("byte", _size(scene, name), kept_in="set aside", valid=False)] if present else [],
            write_byte_count=len(data),
            notices=[_noticed(source, finding)],
        )


def _is_restored(scene: PlanScene, name: str) -> bool:
    """Whether another finding lets the file be written again."""
    return any(
        RULES[finding.rule].repair == "restore-config"
        and finding.where.file.removesuffix(_BACKUP) == name
        and _source(scene, finding, name) is not None
        for finding in scene.findings
    )


def _topics_added(
    store: Store, source: plan_arguments.ConfigSource, data: bytes
) -> tuple[plan_arguments.NewTopic, ...]:
    """The topics that a newly made topics.json gets out of log and queues."""
    if source == "backup":
        return ()
    closed = (
        build_config.close_text(read_whole(store.root / _TOPICS, CONFIG_LIMIT))
        if source == "beginning"
        else None
    )
    kept = {} if closed is None else config.member_of(config.valid_prefix(closed)[0], "topicConfigTable")
    made = config.member_of(config.valid_prefix(data)[0], "topicConfigTable")
    return tuple(
        plan_arguments.NewTopic(
            name,
            topic.write_queue_nums,
            "BatchCQ" if topic.attributes.get(QUEUE_TYPE) == "BatchCQ" else "SimpleCQ",
        )
        for name, topic in sorted(config.topic_configs(config.valid_prefix(data)[0]).items())
        if kept.get(name) != made.get(name)
    )


def _noticed(source: plan_arguments.ConfigSource, finding: Finding) -> Notice | None:
    """What a restored file makes noticed: nothing where brokers would load the same .bak by themselves."""
    if source != "backup":
        return notice("settings-made-up", 1)
    return (
        None
        if finding.rule in (RuleName.CONFIG_FALLS_BACK, RuleName.CONFIG_MISSING)
        else notice("settings-older", 1)
    )


def _size(scene: PlanScene, name: str) -> int:
    return next((file.size for file in scene.store.configs if file.relative == name), 0)


def _source(
    scene: PlanScene, finding: Finding, name: str
) -> tuple[plan_arguments.ConfigSource, bytes, str] | None:
    """Where a new file can come from, its bytes, and what to say."""
    store = scene.store
    backup = _backup_of(store, name)
    if finding.rule == RuleName.CONSUMER_OFFSETS_GONE:
        if backup is None or not any(config.consumer_offsets(config.valid_prefix(backup)[0]).values()):
            return None
        return "backup", backup, "write the offsets of its .bak, which the broker would not load"
    if finding.rule == RuleName.TOPICS_GONE and backup is not None:
        if config.topic_configs(config.valid_prefix(backup)[0]):
            return "backup", backup, "write the topics of its .bak, which the broker would not load"
        backup = None
    if backup is not None:
        return "backup", backup, "write the content of its .bak, which the broker would load"
    if finding.rule == RuleName.CONFIG_BACKUP_NEWER:
        return None
    try:
        if finding.rule == RuleName.CONFIG_LOST:
            closed = _beginning(store, name)
            if closed is not None:
                return "beginning", closed, TOPICS_KEPT if name == _TOPICS else MEMBERS_KEPT
        if name == _TOPICS:
            topics = build_config.build_topics(store)
            if topics is not None:
                return "log", topics, TOPICS_MADE
        if name == _SUBSCRIPTIONS and finding.rule == RuleName.SUBSCRIPTIONS_GONE:
            groups = build_config.build_subscriptions(store)
            if groups is not None:
                return "groups", groups, GROUPS_MADE
    except StoreError:
        return None
    return None


def _beginning(store: Store, name: str) -> bytes | None:
    """What is left of a file that was cut, if brokers load it; topics.json with the other topics that there
    are. Raises StoreError."""
    closed = build_config.close_text(read_whole(store.root / name, CONFIG_LIMIT))
    if closed is None or not _fits(name, closed):
        return None
    return build_config.complete_topics(store, closed) if name == _TOPICS else closed


def _backup_of(store: Store, name: str) -> bytes | None:
    """The bytes of a .bak that is sound and of the right shape."""
    path = store.root / f"{name}{_BACKUP}"
    value = build_config.read_config(str(path), CONFIG_LIMIT)
    if value is None or not build_config.has_shape(name, value):
        return None
    return read_whole(path, CONFIG_LIMIT)


def _fits(name: str, data: bytes) -> bool:
    try:
        return build_config.has_shape(name, config.valid_prefix(data)[0])
    except FormatError:
        return False


def act_restore(scene: ActScene, action: Action, arguments: plan_arguments.ConfigOrigin) -> None:
    """Set the file aside and write the new one."""
    store = scene.reopen()
    name, source = action.target, arguments.source
    data: bytes | None
    if source == "backup":
        data = _backup_of(store, name)
    elif source == "beginning":
        data = _beginning(store, name)
    elif source == "groups":
        data = build_config.build_subscriptions(store)
    else:
        data = build_config.build_topics(store)
    if data is None:
        raise StoreError("no longer has content to rebuild it from", path=name)
    put_file(scene, name, data)


def put_file(scene: ActScene, name: str, data: bytes) -> None:
    """Let a file have this content; the one that was there is set aside."""
    if scene.tree.exists(name):
        scene.tree.set_aside(name)
    scene.tree.create(name, len(data))
    scene.tree.write(name, 0, data)


def plan_cut(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """What is behind the value goes, unless the whole file is written again."""
    for finding in one_by_one(findings):
        if _is_restored(scene, finding.where.file):
            continue
        size = finding.where.start or 0
        yield answer(
            "cut-config",
            finding.where.file,
            f"cut the file to its JSON value ({count_of(size, 'byte')})",
            [finding],
            arguments=plan_arguments.NewSize(size),
            preconditions=whole_file(scene, finding.where.file),
            losses=[Loss("byte", number(finding.found, "extra_byte_count"), valid=False)],
        )


def act_cut(scene: ActScene, action: Action, arguments: plan_arguments.NewSize) -> None:
    """Cut the file."""
    scene.tree.resize(action.target, arguments.size)


def plan_delay(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Offsets of delay levels are brought into their queues, as a broker does that loads them."""
    for name, mine in by_file(one_by_one(findings)).items():
        yield answer(
            "set-delay-offset",
            name,
            f"move the offsets of {count_of(len(mine), 'delay level')} into their queues",
            mine,
            arguments=plan_arguments.DelayLevels(
                tuple(number(finding.found, "level") for finding in mine), tuple(_level_offsets(scene, mine))
            ),
            preconditions=whole_file(scene, name) if (scene.store.root / name).exists() else (),
            notices=[notice("delay-moved", len(mine))],
        )


def _level_offsets(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[plan_arguments.LevelOffset]:
    """Where levels go on that lost their offsets: where the .bak says, if that is not before what was due."""
    copy: Mapping[int, int] = {}
    with suppress(FormatError):
        copy = config.delay_offsets(
            build_config.read_config(str(scene.store.root / f"{_DELAYS}{_BACKUP}"), CONFIG_LIMIT) or {}
        )
    for finding in findings:
        if finding.rule in (RuleName.DELAY_OFFSET_GONE, RuleName.DELAY_OFFSET_LATE):
            level = number(finding.found, "level")
            yield plan_arguments.LevelOffset(
                level, max(copy.get(level, 0), number(finding.expected, "offset"))
            )


def act_delay(scene: ActScene, action: Action, arguments: plan_arguments.DelayLevels) -> None:
    """Clamp the offsets to what the queues hold now. The .bak is not touched."""
    store = scene.reopen()
    name = action.target
    value = build_config.read_config(str(store.root / name), CONFIG_LIMIT)
    if value is None and arguments.offsets:
        value = {}  # nothing else is left
    table = value.setdefault("offsetTable", {}) if isinstance(value, dict) else None
    if not isinstance(table, dict):
        raise StoreError("no longer has offsets", path=name)
    for item in arguments.offsets:
        table[next((key for key in table if str(key) == str(item.level)), item.level)] = item.offset
    for level in arguments.levels:
        low, high = _bounds(store, delay_queue_id(level))
        for key in list(table):
            if str(key) == str(level):
                table[key] = min(max(int(table[key]), low), high)
    put_file(scene, name, config.encode_config(value))


def plan_queue_type(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """topics.json follows the queues: which of them hold a topic's messages is not a matter of settings."""
    kinds: dict[str, set[str]] = {}
    for queue in scene.store.queues:
        kinds.setdefault(queue.topic, set()).add(queue.kind)
    found = [
        finding for finding in one_by_one(findings) if len(kinds.get(finding.where.topic or "", ())) == 1
    ]
    for name, mine in by_file(found).items():
        topics = sorted({finding.where.topic or "" for finding in mine})
        yield answer(
            "set-queue-type",
            name,
            f"set queue.type of {count_of(len(topics), 'topic')} to the kind of the queues",
            mine,
            arguments=plan_arguments.TopicTypes(
                tuple(plan_arguments.TopicType(topic, _TYPES[next(iter(kinds[topic]))]) for topic in topics)
            ),
            preconditions=whole_file(scene, name),
            notices=[notice("queue-kind-set", len(topics))],
        )


def act_queue_type(scene: ActScene, action: Action, arguments: plan_arguments.TopicTypes) -> None:
    """Write the attributes."""
    value, topics = _listed(scene, action, [item.topic for item in arguments.topics])
    for item, topic in zip(arguments.topics, topics, strict=True):
        attributes = topic.get("attributes")
        kept = dict(attributes) if isinstance(attributes, dict) else {}
        name = QUEUE_TYPE if QUEUE_TYPE in kept else f"+{QUEUE_TYPE}"
        topic["attributes"] = {**kept, name: item.queue_type}
    put_file(scene, action.target, config.encode_config(value))


def _listed(
    scene: ActScene, action: Action, names: Sequence[str]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The content of a file of topics, and the topics of these names in it. Raises StoreError without one."""
    value = build_config.read_config(scene.tree.place(action.target), CONFIG_LIMIT)
    table = value.get("topicConfigTable") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(table, dict):
        raise StoreError("no longer has topics", path=action.target)
    for name in names:
        if not isinstance(table.get(name), dict):
            raise StoreError(f"no longer has the topic {name}", path=action.target)
    return value, [table[name] for name in names]


def plan_names(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Topics get the name that they are listed under, unless the whole file is written again."""
    for name, mine in by_file(one_by_one(findings)).items():
        if _is_restored(scene, name):
            continue
        topics = tuple(sorted({finding.where.topic or "" for finding in mine}))
        yield answer(
            "name-topics",
            name,
            f"give {count_of(len(topics), 'topic')} the name that {name} lists them under",
            mine,
            arguments=plan_arguments.TopicNames(topics),
            preconditions=whole_file(scene, name),
        )


def act_names(scene: ActScene, action: Action, arguments: plan_arguments.TopicNames) -> None:
    """Write the names."""
    value, topics = _listed(scene, action, arguments.topics)
    for name, topic in zip(arguments.topics, topics, strict=True):
        topic["topicName"] = name
    put_file(scene, action.target, config.encode_config(value))


def _bounds(store: Store, queue_id: int) -> tuple[int, int]:
    """Queue offsets of the first live unit of a delay queue and after its last; (0, 0) without one."""
    for index, queue in enumerate(store.queues):
        if (queue.topic, queue.queue_id) == (SCHEDULE_TOPIC, queue_id):
            facts = check_queues(QueuesTask(Context(store, "cross", 0), index, index + 1)).facts[0]
            low, high = facts.min_live_offset, facts.max_offset
            return (high if low is None else low), high
    return 0, 0


ROWS: tuple[Row, ...] = (
    Repair(
        "restore-config", 700, "restore a config file", plan_restore, act_restore, plan_arguments.ConfigOrigin
    ),
    Repair(
        "set-queue-type",
        705,
        "correct the kind of queues in topics.json",
        plan_queue_type,
        act_queue_type,
        plan_arguments.TopicTypes,
    ),
    Repair(
        "name-topics",
        706,
        "give topics in topics.json their names",
        plan_names,
        act_names,
        plan_arguments.TopicNames,
    ),
    Repair(
        "cut-config", 710, "cut a config file after its JSON value", plan_cut, act_cut, plan_arguments.NewSize
    ),
    Repair(
        "set-delay-offset",
        720,
        "move delay offsets into their queues",
        plan_delay,
        act_delay,
        plan_arguments.DelayLevels,
        needs=("cut-queue",),
    ),
)
