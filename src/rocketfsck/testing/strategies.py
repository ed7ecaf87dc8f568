"""Hypothesis strategies: versions, geometries, messages, whole stores, damage.

    @given(stores(version="5.3.3"))
    def test_my_reader(planned):
        with TemporaryDirectory() as folder:
            planned.write(f"{folder}/store")            # byte for byte as a 5.3.3 broker would
            assert my_reader(f"{folder}/store") == [message.body for message in planned.messages]

Sizes are small, so that files roll; everything drawn is what a broker of the version would take. Examples
shrink: to fewer messages, shorter texts, older versions.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from rocketfsck.formats import consumequeue, magic, record
from rocketfsck.formats.dialect import ALL_VERSION_NAMES, WRITTEN_NAME, Dialect, dialect_for, parse_version
from rocketfsck.formats.properties import TRAN_MSG, serialize_properties
from rocketfsck.store.circumstances import Geometry
from rocketfsck.testing.conformance import PlannedStore
from rocketfsck.writer import EndState, Expiry, Kind, OutgoingMessage, Restart, WriteOptions
from rocketfsck.writer.damage import DAMAGES, DamageReport, damage_store

START_TIMESTAMP = 1_700_000_000_000
BATCH_TOPIC = "BatchTopic"
LIGHT_QUEUES = ("%LMQ%one", "%LMQ%two", "%LMQ%drei")
CLOCK_STEPS = (0, 1, 40, 999, 1500, 61_000)
"""Milliseconds between two messages."""

_NAMES = ("KEYS", "TAGS", "UNIQ_KEY", "WAIT", "CLUSTER", "MSG_REGION", "属性", "a", "b")
_TEXT = st.text("abcXYZ019 -_.中é😀", min_size=1, max_size=10)
_QUEUE_IDS = st.integers(0, 3)
_GROUPS = st.sampled_from(("billing", "audit"))


def versions(minimum: str | None = None) -> st.SearchStrategy[str]:
    """Names of broker versions: all of them, or those that have `minimum` among their ancestors."""
    names = [
        name
        for name in ALL_VERSION_NAMES
        if minimum is None or parse_version(name).descends_from(parse_version(minimum))
    ]
    return st.sampled_from(names)


def dialects(minimum: str | None = None) -> st.SearchStrategy[Dialect]:
    """The traits of broker versions, as `versions`."""
    return versions(minimum).map(dialect_for)


def geometries(*, largest: int = 8192) -> st.SearchStrategy[Geometry]:
    """Sizes so small that everything rolls; commit log files have up to `largest` bytes."""
    return st.builds(
        Geometry,
        commitlog_file_size=st.integers(2048, max(largest, 2048)),
        consumequeue_file_size=st.integers(2, 12).map(lambda count: consumequeue.UNIT_SIZE * count),
        batch_file_size=st.integers(2, 8).map(lambda count: consumequeue.BATCH_UNIT_SIZE * count),
        ext_file_size=st.integers(64, 300),
        slot_count=st.integers(1, 12),
        entry_count=st.integers(2, 40),
    )


def topics(version: str = WRITTEN_NAME) -> st.SearchStrategy[str]:
    """Names of topics that a broker makes directories of."""
    usual = st.sampled_from(("TopicTest", "Orders", "主题", "%RETRY%group", "%DLQ%group"))
    made = st.text("abcXYZ019%_-|", min_size=1, max_size=40).filter(lambda name: not name.startswith("%LMQ%"))
    if not dialect_for(version).v2_allowed:
        return usual | made
    return usual | made | st.integers(120, 240).map(lambda size: "%RETRY%" + "g" * size)


def properties() -> st.SearchStrategy[dict[str, str]]:
    """Properties of a message: keys, tags, a unique key, the user's own."""
    return st.dictionaries(st.sampled_from(_NAMES), _TEXT | st.integers(0, 30).map("k{}".format), max_size=6)


def bodies(largest: int = 200) -> st.SearchStrategy[bytes]:
    """Bodies of up to so many bytes."""
    return st.binary(max_size=largest)


def hosts(version: str = WRITTEN_NAME) -> st.SearchStrategy[record.Host]:
    """Addresses with ports; IPv6 where the version stores it."""
    sizes = (4, 16) if dialect_for(version).ipv6_hosts else (4,)
    addresses = st.sampled_from(sizes).flatmap(lambda size: st.binary(min_size=size, max_size=size))
    return st.builds(record.Host, addresses, st.integers(1, 65535))


@st.composite
def write_options(draw: st.DrawFn, version: str | None = None, *, killed: bool = False) -> WriteOptions:
    """Settings that fit together, of one version or any; with `killed` also brokers that died."""
    name = draw(versions()) if version is None else version
    dialect = dialect_for(name)
    geometry = draw(geometries())
    return WriteOptions(
        version=name,
        geometry=geometry,
        end_state=draw(st.sampled_from(EndState)) if killed else EndState.CLEAN,
        time_zone=draw(st.sampled_from(("UTC", "Asia/Shanghai", "America/New_York"))),
        start_offset=draw(st.integers(0, 3)) * geometry.commitlog_file_size,
        batch_topics=frozenset({BATCH_TOPIC}) if dialect.batch_queues else frozenset(),
        consumequeue_ext=dialect.consumequeue_ext and draw(st.booleans()),
        multi_dispatch=dialect.multi_dispatch and draw(st.booleans()),
        append_property_crc=dialect.property_crc and draw(st.booleans()),
        sync=False,
    )


@st.composite
def messages(
    draw: st.DrawFn, options: WriteOptions | None = None, store_timestamp: int = START_TIMESTAMP
) -> OutgoingMessage:
    """One message, of any kind, that a broker with these options takes."""
    options = WriteOptions() if options is None else options
    kind = draw(st.sampled_from(_kinds(options)))
    is_batch = kind in (Kind.LEGACY_BATCH, Kind.INNER_BATCH)
    topic = BATCH_TOPIC if kind is Kind.INNER_BATCH else draw(topics(_topic_version(options, kind)))
    message = OutgoingMessage(
        topic,
        b"" if is_batch else draw(bodies()),
        store_timestamp,
        queue_id=draw(_QUEUE_IDS),
        properties=draw(properties()) | transaction_properties(kind),
        kind=kind,
        flag=draw(st.integers(-(1 << 31), (1 << 31) - 1)),
        sys_flag=0 if is_batch else draw(st.sampled_from((0, magic.MULTI_TAGS))),
        born_timestamp=store_timestamp - draw(st.integers(0, 500)),
        born_host=draw(hosts(options.version)),
        store_host=draw(hosts(options.version)),
        reconsume_times=draw(st.integers(0, 3)),
        items=draw(_items()) if is_batch else (),
        filter_bit_map=draw(st.binary(max_size=8)) if options.consumequeue_ext else b"",
    )
    return message if is_batch else _embellished(draw, message, options)


def transaction_properties(kind: Kind) -> dict[str, str]:
    """What every producer of transactions adds to the properties of its messages."""
    in_transaction = kind in (Kind.PREPARED, Kind.COMMIT, Kind.ROLLBACK)
    return {TRAN_MSG: "true"} if in_transaction else {}


def _kinds(options: WriteOptions) -> list[Kind]:
    dialect = options.dialect
    kinds = [Kind.NORMAL] * 4 + [Kind.PREPARED, Kind.COMMIT, Kind.ROLLBACK]
    kinds += [Kind.HALF] if dialect.half_topic else []
    kinds += [Kind.LEGACY_BATCH] if dialect.legacy_batch else []
    return kinds + ([Kind.INNER_BATCH] if BATCH_TOPIC in options.batch_topics else [])


def _topic_version(options: WriteOptions, kind: Kind) -> str:
    """A batch is taken apart into records that have a short topic length in every version."""
    return "4.0.0" if kind in (Kind.LEGACY_BATCH, Kind.HALF) else options.version


def _embellished(draw: st.DrawFn, message: OutgoingMessage, options: WriteOptions) -> OutgoingMessage:
    """Compressed, delayed, or dispatched to light queues, some of the time."""
    if draw(st.integers(0, 4)) == 0:
        message = replace(
            message, body=zlib.compress(message.body), sys_flag=message.sys_flag | magic.COMPRESSED
        )
    if message.kind is not Kind.NORMAL or message.topic.startswith(("%RETRY%", "rmq_sys_")):
        return message
    extra = draw(st.sampled_from(("", "", "delay", "dispatch" if options.multi_dispatch else "")))
    if extra == "delay":
        return replace(message, delay_level=draw(st.integers(1, 18)))
    if extra == "dispatch":
        names = draw(st.lists(st.sampled_from(LIGHT_QUEUES), unique=True, min_size=1))
        return replace(message, multi_dispatch=tuple(names))
    return message


def _items() -> st.SearchStrategy[tuple[record.InnerItem, ...]]:
    listed = properties().map(lambda pairs: serialize_properties(pairs, trailing_separator=True))
    item = st.builds(record.InnerItem, bodies(120), listed, flag=st.integers(0, 9))
    return st.lists(item, min_size=1, max_size=4).map(tuple)


@st.composite
def stores(
    draw: st.DrawFn,
    version: str | None = None,
    *,
    killed: bool = False,
    events: bool = False,
    config: bool = False,
    min_size: int = 0,
    max_size: int = 30,
) -> PlannedStore:
    """A whole store: settings of one version or any, and up to `max_size` messages.

    With `killed` its broker may have died; with `events` it also cleans up and starts again in between. With
    `config` groups have offsets in its queues, and delivery of delayed messages has begun.
    """
    options = draw(write_options(version, killed=killed))
    found: list[OutgoingMessage | Expiry | Restart] = []
    timestamp = START_TIMESTAMP
    for _ in range(draw(st.integers(min_size, max_size))):
        timestamp += draw(st.sampled_from(CLOCK_STEPS))
        found.append(draw(messages(options, timestamp)))
        what = draw(st.integers(0, 20)) if events else 0
        if what == 20:
            found.append(Restart(killed=killed and draw(st.booleans())))
        elif what == 19:
            found.append(Expiry(draw(st.integers(0, 2)), draw(st.booleans())))
    planned = PlannedStore(options, tuple(found))
    if not config:
        return planned
    return replace(planned, options=replace(options, config=draw(_configs(planned))))


@st.composite
def _configs(draw: st.DrawFn, planned: PlannedStore) -> dict[str, Any]:
    """Offsets of groups that have consumed nothing yet, as any group may, whatever its queue holds.

    A group that has a retry topic has an offset: without any, a check says that offsets are gone. What was
    due by the end is delivered, as by a broker that ran until then.
    """
    consumed: dict[str, dict[int, int]] = {}
    for message in planned.messages:
        if message.topic.startswith("%RETRY%") or draw(st.booleans()):
            consumed.setdefault(f"{message.topic}@{draw(_GROUPS)}", {})[message.queue_id] = 0
    delivered: dict[int, int] = {}
    last = max((message.store_timestamp or 0 for message in planned.messages), default=0)
    for message in planned.messages:
        if level := message.delay_level:
            due = (message.store_timestamp or 0) + planned.options.delay_levels.get(level, 0)
            delivered[level] = delivered.get(level, 0) + (due <= last)
    return {"consumerOffset.json": {"offsetTable": consumed}, "delayOffset.json": {"offsetTable": delivered}}


@dataclass(frozen=True)
class PlannedDamage:
    """Faults to be done to a copy of a store, and the seed of their places."""

    faults: tuple[str, ...]
    seed: int

    def apply(
        self,
        source: Path | str,
        target: Path | str,
        *,
        version: str | None = None,
        broker_conf: Path | None = None,
    ) -> DamageReport:
        """Copy and damage; DamageError where the store has no place for a fault (`hypothesis.reject`)."""
        return damage_store(source, target, self.faults, self.seed, version=version, broker_conf=broker_conf)


def damages(names: Sequence[str] = (), *, max_count: int = 1) -> st.SearchStrategy[PlannedDamage]:
    """Damage with one to `max_count` of the faults named, or of all."""
    chosen = st.sampled_from(tuple(names) or tuple(DAMAGES))
    listed = st.lists(chosen, min_size=1, max_size=max_count, unique=True).map(tuple)
    together = listed.filter(lambda faults: len(faults) == 1 or not any(DAMAGES[f].alone for f in faults))
    return st.builds(PlannedDamage, together, st.integers(0, 1 << 32))
