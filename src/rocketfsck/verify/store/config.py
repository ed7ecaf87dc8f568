"""Checks of `config/` against the queues and the topics, both ways.

Reference 1.6, 1.8.3, 9.6; fault classes K5, K6, Q8, Q10.

Committed offsets and those of delay levels are compared with what is known of the queues (`offsets`,
and here for delay levels); a queue that was not gone through is not judged.

How far delayed messages were delivered, against the queues of SCHEDULE_TOPIC_XXXX and the log's last time.

A unit of these queues has the time of delivery as its tagsCode, and a level's times rise with its offsets. A
running broker delivers within seconds of that time, and writes delayOffset.json every ten seconds. So what
was due long before the last record of the log was delivered, and an offset before it delivers it again.
Without an offset a broker begins at the first message of the level. Offsets outside of a queue are corrected
when a broker starts. Reference 1.6.3, 2.11, 3.2; fault class K6.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import first_names
from rocketfsck.errors import StoreError
from rocketfsck.formats import timer
from rocketfsck.formats.config import OFFSET_VIEWS, PERM_INHERIT, TopicConfig
from rocketfsck.reader.units import UnitReader
from rocketfsck.store.model import ConsumeQueue, OtherKind, Store, StoreFile
from rocketfsck.store.reading import read_whole
from rocketfsck.verify.finding import TREES, Facts, Finding, Findings, Where, queue_place
from rocketfsck.verify.report import Items, NotChecked
from rocketfsck.verify.store import offsets as store_offsets
from rocketfsck.verify.store.configfiles import Configs, is_system_topic, load_configs
from rocketfsck.verify.tasks.task import Context, Known

DELAYS = "delayOffset.json"
LATEST_MS = 60_000
"""How late a running broker delivers at most, with what it has not yet written to delayOffset.json."""
UNSET_MS, UNSET_KILLED_MS = 2_000, 20_000
"""How long a level of a broker that was stopped, or killed, is in use at most before the file has it."""


def check_delay_offsets(store: Store, configs: Configs, known: Known, *, has_broker: bool) -> Findings:
    """Levels of delayOffset.json against the queues. `has_broker`: a broker keeps the file here if it has
    anything to keep."""
    file = configs.files.get(DELAYS, f"config/{DELAYS}")
    levels = timer.parse_delay_levels(store.delay_levels)
    offsets = configs.views.get(DELAYS, {})
    for level, offset in offsets.items():
        where = Where(
            file, topic=timer.SCHEDULE_TOPIC, queue_id=timer.delay_queue_id(level), queue_offset=offset
        )
        found: Facts = {"level": level, "offset": offset}
        if level not in levels:
            yield Finding(RuleName.DELAY_LEVEL_UNKNOWN, where, found, {"level_count": len(levels)})
            continue
        bounds = store_offsets.bounds_of(timer.SCHEDULE_TOPIC, timer.delay_queue_id(level), known)
        if bounds is None:
            continue
        if offset > bounds.high or offset < 0:
            yield Finding(RuleName.DELAY_OFFSET_RANGE, where, found, {"max_offset": bounds.high})
        elif offset < bounds.low:
            yield Finding(RuleName.DELAYED_EXPIRED, where, found, {"min_offset": bounds.low})
    if has_broker:
        yield from _check_delivered(store, file, offsets, known, levels)


def _check_delivered(
    store: Store, file: str, offsets: Mapping[int, int], known: Known, levels: Mapping[int, int]
) -> Findings:
    """Levels whose offset, or whose lack of one, delivers again what was delivered.

    The last record says until when the broker ran. The newest time may be that of one damaged record.
    """
    last = known.last_store_timestamp
    unset = UNSET_MS if store.abort is None else UNSET_KILLED_MS
    queues = {queue.queue_id: queue for queue in store.queues if queue.topic == timer.SCHEDULE_TOPIC}
    for level in sorted(levels):
        queue_id = timer.delay_queue_id(level)
        queue, bounds = queues.get(queue_id), store_offsets.bounds_of(timer.SCHEDULE_TOPIC, queue_id, known)
        if queue is None or queue.kind != "file" or bounds is None or last is None:
            continue
        begin = max(offsets.get(level, bounds.low), bounds.low)
        lateness = LATEST_MS if level in offsets else unset
        end = first_due_after(queue, begin, bounds.high, last - lateness)
        if end > begin:
            where = Where(file, topic=timer.SCHEDULE_TOPIC, queue_id=queue_id, queue_offset=begin)
            found: Facts = {"level": level, "offset": begin, "again_count": end - begin}
            rule = RuleName.DELAY_OFFSET_LATE if level in offsets else RuleName.DELAY_OFFSET_GONE
            yield Finding(rule, where, found, {"offset": end})


def first_due_after(queue: ConsumeQueue, low: int, high: int, timestamp: int) -> int:
    """The first queue offset in `low:high` whose message is due after a time (ms), `high` without one.

    Raises StoreError for a queue that cannot be read.
    """
    with UnitReader(queue) as reader:
        while low < high:
            middle = (low + high) // 2
            if 0 < int(reader.units(middle, 1)["tagsCode"][0]) <= timestamp:
                low = middle + 1
            else:
                high = middle
    return low


QUEUE_TYPE = "queue.type"
QUEUE_KINDS: Mapping[str, str] = {"SimpleCQ": "file", "BatchCQ": "batch"}
TOPICS = "topics.json"
BESIDE_TOPICS = frozenset(
    f"{name}{end}" for name in ("consumerOffset.json", "subscriptionGroup.json") for end in ("", ".bak")
)
"""Configs that a broker keeps in JSON files exactly if it keeps its topics so."""
TOPIC_DATABASES = frozenset({"config/topics", "config/rdb"})
CLOCK_TOLERANCE_MS = 86_400_000
MAX_TIMER_SIZE = 1 << 20


def check_config(context: Context, known: Known) -> Items:
    """Everything about the files in `config/`."""
    store = context.store
    configs = load_configs(store)
    yield from configs.findings
    topics: Mapping[str, TopicConfig] | None = configs.views.get(TOPICS)
    if topics:
        context.shared.ask(RuleName.TOPIC_NAME_MISSING, len(topics))
        yield from _check_topics(store, topics, configs.files[TOPICS], known)
    else:
        yield from _check_topics_gone(store, None if topics is None else configs.files[TOPICS])
    if topics is not None:
        yield from store_offsets.check_offsets_gone(store, configs, topics, known)
    yield from store_offsets.check_subscriptions_gone(store, configs, topics)
    tables = (table for name in OFFSET_VIEWS for table in configs.views.get(name, {}).values())
    context.shared.ask(RuleName.CONSUMER_OFFSET_NEGATIVE, sum(map(len, tables)))
    yield from store_offsets.check_consumer_offsets(store, configs, topics, known)
    yield from check_delay_offsets(store, configs, known, has_broker=_has_broker(store))
    yield from _check_timer(context, known)


def _has_broker(store: Store) -> bool:
    """Whether a broker, not a store alone, kept its configs here: its timer wheel shows that even where
    config/ is gone."""
    if any(file.name in BESIDE_TOPICS for file in store.configs):
        return True
    return any(other.kind is OtherKind.TIMER_WHEEL for other in store.others)


def _check_topics_gone(store: Store, file: str | None) -> Findings:
    """No topics.json next to queues: gone where a broker must have had one, else it may be elsewhere.

    `file` lists no topic at all, which no broker writes: each has topics of its own, from its first start on.

    Only a broker (not a store alone) writes the files BESIDE_TOPICS and a timer wheel, and it keeps its
    configs in one way: as JSON, or in a database. A topic is written down before its first message is stored,
    so that queues without a file of topics are normal only where the configs are elsewhere, or were never
    copied.
    """
    names = {file.name for file in store.configs}
    if file is None and names & {TOPICS, f"{TOPICS}.bak"}:
        return
    if store_offsets.kept_in_databases(store, TOPIC_DATABASES):
        return
    topics = sorted(
        {queue.topic for queue in store.queues if queue.files and not is_system_topic(queue.topic)}
    )
    if topics:
        sizes = {config.relative: config.size for config in store.configs}
        where = Where(f"config/{TOPICS}") if file is None else Where(file, start=0, end=sizes[file])
        rule = RuleName.TOPICS_GONE if file or _has_broker(store) else RuleName.TOPICS_ELSEWHERE
        yield Finding(rule, where, {"topic_count": len(topics), "topics": first_names(topics)})


def _check_topics(store: Store, topics: Mapping[str, TopicConfig], file: str, known: Known) -> Findings:
    """topics.json against the queue directories, both ways."""
    unlisted: dict[str, int] = {}
    for queue in store.queues:
        config = topics.get(queue.topic)
        if config is None:
            unlisted[queue.topic] = unlisted.get(queue.topic, 0) + 1
            yield from _check_ghost(queue.topic, queue.queue_id, known)
            continue
        queue_count = max(config.read_queue_nums, config.write_queue_nums)
        where = Where(file, topic=queue.topic, queue_id=queue.queue_id)
        if queue.queue_id >= queue_count:
            yield Finding(RuleName.QUEUE_BEYOND_TOPIC, where, {}, {"queue_count": queue_count})
        kind = _kind_of(config)
        if kind is not None and kind[1] != queue.kind and queue.files:
            facts = {"area": TREES[queue.kind], "attribute": kind[0]}
            yield Finding(RuleName.QUEUE_KIND_ATTRIBUTE, where, facts)
    for topic, queue_count in sorted(unlisted.items()):
        if not is_system_topic(topic):
            yield Finding(
                RuleName.QUEUE_WITHOUT_TOPIC, Where(file, topic=topic), {"queue_count": queue_count}
            )
    for topic, config in sorted(topics.items()):
        if config.topic_name is None:
            yield Finding(RuleName.TOPIC_NAME_MISSING, Where(file, topic=topic))
    present = {queue.topic for queue in store.queues}
    yield from _check_foreign(topics, {topic for topic in present if not is_system_topic(topic)}, file)
    absent = sorted(topic for topic in topics if topic not in present and not is_system_topic(topic))
    if absent and not known.queues_elsewhere:
        found: Facts = {"topic_count": len(absent), "topics": first_names(absent)}
        yield Finding(RuleName.TOPIC_WITHOUT_QUEUE, Where(file), found)


def _check_foreign(topics: Mapping[str, TopicConfig], stored: set[str], file: str) -> Findings:
    """Most topics that have queues are not in topics.json, which lists others. A file that lists nothing else
    is normal: a slave's, or that of a broker that found none."""
    user = [topic for topic in stored if not topic.startswith("%")]
    others = {topic for topic, config in topics.items() if _is_of_users(topic, config)} - stored
    if len(others) > 1 and sum(topic not in topics for topic in user) > max(1, len(user) // 2):
        lacking = sorted(stored - topics.keys())
        found: Facts = {"topic_count": len(lacking), "topics": first_names(lacking)}
        yield Finding(RuleName.TOPICS_FOREIGN, Where(file), found, {"topic_count": len(stored)})


def _is_of_users(topic: str, config: TopicConfig) -> bool:
    """Whether somebody made the topic: not a broker for itself, its cluster or the replies of clients."""
    made = is_system_topic(topic) or topic.startswith("%") or topic.endswith("_REPLY_TOPIC")
    return not made and not config.perm & PERM_INHERIT


def _check_ghost(topic: str, queue_id: int, known: Known) -> Findings:
    """A queue of no topic whose units all point to where the commit log is not any more."""
    facts = known.queues.get((topic, queue_id))
    if facts is None or is_system_topic(topic) or not facts.unit_count or facts.min_live_offset is not None:
        return
    found: Facts = {"unit_count": facts.unit_count, "max_physical_end_offset": facts.max_physical_end}
    yield Finding(RuleName.GHOST_QUEUE, queue_place(topic, queue_id, facts.kind), found)


def _kind_of(config: TopicConfig) -> tuple[str, str] | None:
    """The topic's `queue.type` as written, and the kind of queue that it asks for."""
    text = config.attributes.get(QUEUE_TYPE, config.attributes.get(f"+{QUEUE_TYPE}"))
    kind = None if text is None else QUEUE_KINDS.get(text)
    return None if text is None or kind is None else (text, kind)


def _check_timer(context: Context, known: Known) -> Items:
    """`timercheck` against the clock, the timer log and the timer topic's queue."""
    store = context.store
    for other in store.others:
        if other.kind is not OtherKind.TIMER_CHECK:
            continue
        for file in other.files:
            if file.name.endswith(".bak"):
                continue
            try:
                data = read_whole(file.path, MAX_TIMER_SIZE)
            except StoreError as error:
                yield NotChecked(file.relative, str(error), operational=True)
                continue
            if len(data) != timer.TIMER_CHECK_SIZE:
                where = Where(file.relative, 0, len(data))
                yield Finding(
                    RuleName.TIMER_CHECK_LENGTH, where, {"size": len(data)}, {"size": timer.TIMER_CHECK_SIZE}
                )
            yield from _check_timer_fields(context, file, data, known)


def _check_timer_fields(context: Context, file: StoreFile, data: bytes, known: Known) -> Findings:
    values = timer.TIMER_CHECK.parse(data.ljust(timer.TIMER_CHECK.size, b"\0"))
    for name, limit in _timer_limits(context, known).items():
        if values[name] > limit:
            start = timer.TIMER_CHECK.offset(name)
            where = Where(file.relative, start, start + 8)
            yield Finding(
                RuleName.TIMER_CHECK_RANGE, where, {"field": name, "value": values[name]}, {"limit": limit}
            )


def _timer_limits(context: Context, known: Known) -> dict[str, int]:
    """The highest value that a field can have, where that is known."""
    limits = {"lastReadTimeMs": context.now_timestamp + CLOCK_TOLERANCE_MS}
    for other in context.store.others:
        if other.kind is OtherKind.TIMER_LOG and other.mapped_files is not None:
            limits["lastTimerLogFlushPos"] = other.mapped_files.end_offset or 0
    bounds = store_offsets.bounds_of(timer.TIMER_TOPIC, 0, known)
    if bounds is not None:
        limits["lastTimerQueueOffset"] = bounds.high
    return limits
