"""Stores to write, made up by Hypothesis: every version, small geometries, all kinds of messages."""

from __future__ import annotations

import zlib
from dataclasses import replace

from hypothesis import strategies as st

from rocketfsck.formats.dialect import ALL_VERSION_NAMES, dialect_for
from rocketfsck.formats.properties import serialize_properties
from rocketfsck.formats.record import Host, InnerItem
from rocketfsck.store.circumstances import Geometry
from rocketfsck.testing.strategies import transaction_properties
from rocketfsck.writer import (
    EndState,
    Event,
    Expiry,
    Kind,
    OutgoingMessage,
    Restart,
    WriteOptions,
    op_message,
)

START_TIME = 1_700_000_000_000
BATCH_TOPIC = "Batch"
TOPICS = ("TopicTest", "Orders", "主题", "%RETRY%group", "%DLQ%group")
LONG_TOPIC = "%RETRY%" + "g" * 130
LIGHT_QUEUES = ("%LMQ%one", "%LMQ%two", "%LMQ%设备")
NAMES = ("KEYS", "TAGS", "UNIQ_KEY", "WAIT", "PGROUP", "CLUSTER", "属性", "a", "b", "MSG_REGION")

_word = st.text("abcXYZ019 -_中é😀", min_size=1, max_size=8)
_value = _word | st.integers(0, 30).map("k{}".format) | st.just("polygenelubricants")
_pairs = st.lists(st.tuples(st.sampled_from(NAMES), _value), unique_by=lambda pair: pair[0], max_size=6)
_body = st.binary(max_size=120)


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    """Sizes so small that everything rolls; consume queue files have at least two units."""
    return Geometry(
        commitlog_file_size=draw(st.integers(2048, 8192)),
        consumequeue_file_size=20 * draw(st.integers(2, 12)),
        batch_file_size=46 * draw(st.integers(2, 8)),
        ext_file_size=draw(st.integers(64, 300)),
        slot_count=draw(st.integers(1, 12)),
        entry_count=draw(st.integers(2, 40)),
    )


@st.composite
def write_options(draw: st.DrawFn) -> WriteOptions:
    """Options that fit together, of any version."""
    version = draw(st.sampled_from(ALL_VERSION_NAMES))
    dialect, geometry = dialect_for(version), draw(geometries())
    start = draw(st.integers(0, 3)) * geometry.commitlog_file_size
    starts = st.dictionaries(
        st.tuples(st.sampled_from(TOPICS), st.integers(0, 2)), st.integers(0, 40), max_size=3
    )
    return WriteOptions(
        version=version,
        geometry=geometry,
        end_state=draw(st.sampled_from(EndState)),
        time_zone=draw(st.sampled_from(("UTC", "Asia/Shanghai", "America/New_York"))),
        start_offset=start,
        queue_start_offsets=draw(starts) if start else {},
        batch_topics=frozenset({BATCH_TOPIC}) if dialect.batch_queues else frozenset(),
        consumequeue_ext=dialect.consumequeue_ext and draw(st.booleans()),
        multi_dispatch=dialect.multi_dispatch and draw(st.booleans()),
        append_property_crc=dialect.property_crc and draw(st.booleans()),
        message_index=draw(st.sampled_from((True, True, True, False))),
        sync_flush=draw(st.booleans()),
        sync=False,
    )


def broker_conf(geometry: Geometry, *, message_index: bool = True) -> str:
    """The settings that state this geometry, and whether messages are indexed."""
    return "\n".join((
        f"mappedFileSizeCommitLog={geometry.commitlog_file_size}",
        f"mappedFileSizeConsumeQueue={geometry.consumequeue_file_size}",
        f"mapperFileSizeBatchConsumeQueue={geometry.batch_file_size}",
        f"mappedFileSizeConsumeQueueExt={geometry.ext_file_size}",
        f"maxHashSlotNum={geometry.slot_count}",
        f"maxIndexNum={geometry.entry_count}",
        f"messageIndexEnable={str(message_index).lower()}",
    ))  # fmt: skip


def _host(ipv6: bool) -> st.SearchStrategy[Host]:
    sizes = st.sampled_from((4, 16)) if ipv6 else st.just(4)
    return st.builds(
        Host, sizes.flatmap(lambda size: st.binary(min_size=size, max_size=size)), st.just(10911)
    )


@st.composite
def messages(draw: st.DrawFn, options: WriteOptions, timestamp: int) -> OutgoingMessage:
    """One message that a broker with these options takes."""
    dialect = options.dialect
    kinds = [Kind.NORMAL] * 4 + [Kind.PREPARED, Kind.COMMIT, Kind.ROLLBACK]
    kinds += [Kind.HALF] if dialect.half_topic else []
    kinds += [Kind.LEGACY_BATCH] if dialect.legacy_batch else []
    kinds += [Kind.INNER_BATCH] if options.batch_topics else []
    kind = draw(st.sampled_from(kinds))
    topics = TOPICS if kind is Kind.LEGACY_BATCH else (*TOPICS, *sorted(options.batch_topics))
    if dialect.v2_allowed and kind in (Kind.NORMAL, Kind.COMMIT):
        topics = (*topics, LONG_TOPIC)
    topic = BATCH_TOPIC if kind is Kind.INNER_BATCH else draw(st.sampled_from(topics))
    if topic == BATCH_TOPIC and kind is Kind.HALF:
        kind = Kind.NORMAL
    pairs = [*draw(_pairs), *transaction_properties(kind).items()]
    form = draw(st.sampled_from(("map", "pairs", "bytes")))
    is_batch = kind in (Kind.LEGACY_BATCH, Kind.INNER_BATCH)
    message = OutgoingMessage(
        topic,
        b"" if is_batch else draw(_body),
        timestamp,
        queue_id=draw(st.integers(0, 2)),
        properties=(
            dict(pairs)
            if form == "map"
            else tuple(pairs)
            if form == "pairs"
            else serialize_properties(pairs, draw(st.booleans()))
        ),
        kind=kind,
        flag=draw(st.integers(-(1 << 31), (1 << 31) - 1)),
        sys_flag=2 * draw(st.integers(0, 1)) if not is_batch else 0,
        born_timestamp=timestamp - draw(st.integers(0, 500)),
        born_host=draw(_host(dialect.ipv6_hosts)),
        store_host=draw(_host(dialect.ipv6_hosts)),
        reconsume_times=draw(st.integers(0, 3)),
        items=_items(draw) if is_batch else (),
        filter_bit_map=draw(st.binary(max_size=8)),
    )
    if not is_batch and draw(st.integers(0, 4)) == 0:
        compressed = draw(st.sampled_from((0x1, 0x301)))  # both zlib
        flags = message.sys_flag | compressed
        message = replace(message, body=zlib.compress(message.body), sys_flag=flags)
    if kind is Kind.NORMAL and topic in TOPICS and not topic.startswith("%RETRY%"):
        extra = draw(st.sampled_from(("", "", "delay", "dispatch" if options.multi_dispatch else "")))
        if extra == "delay":
            message = replace(message, delay_level=draw(st.integers(1, 25)))
        if extra == "dispatch":
            names = st.lists(st.sampled_from(LIGHT_QUEUES), unique=True, min_size=1)
            message = replace(message, multi_dispatch=tuple(draw(names)))
    return message


def _items(draw: st.DrawFn) -> tuple[InnerItem, ...]:
    item = st.builds(
        InnerItem,
        _body,
        _pairs.map(lambda pairs: serialize_properties(pairs, trailing_separator=True)),
        flag=st.integers(0, 9),
    )
    return tuple(draw(st.lists(item, min_size=1, max_size=4)))


@st.composite
def stores(draw: st.DrawFn, *, events: bool = True, max_size: int = 30) -> tuple[WriteOptions, list[Event]]:
    """Options and what is put; with `events` the broker also cleans up and starts again in between."""
    options = draw(write_options())
    found: list[Event] = []
    timestamp = START_TIME
    for _ in range(draw(st.integers(0, max_size))):
        # Clocks step back now and then.
        timestamp += draw(st.sampled_from((0, 1, 40, 999, 1500, 61_000, -700)))
        found.append(draw(messages(options, timestamp)))
        what = draw(st.integers(0, 30)) if events else 0
        if what == 30:
            found.append(Restart(killed=draw(st.booleans())))
        elif what == 29:
            found.append(Expiry(draw(st.integers(0, 2)), draw(st.booleans())))
        elif what == 28 and options.dialect.half_topic:
            found.append(op_message([draw(st.integers(0, 99))], timestamp))
    return options, found
