"""Stores that we write for the real code: what is in them, how they are shaped, how their broker ended."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rocketfsck.formats.properties import serialize_properties
from rocketfsck.formats.record import InnerItem, encode_items
from rocketfsck.formats.timer import parse_delay_levels
from rocketfsck.store.circumstances import Geometry
from rocketfsck.writer import (
    EndState,
    Event,
    Expiry,
    PutRecord,
    Restart,
    WriteOptions,
    WrittenStore,
    write_store,
)
from rocketfsck.writer.synth import parse_mix
from rocketfsck.writer.synth.plan import make_plan
from rocketfsck.writer.synth.stories import INNER_TOPIC, Storyteller

from tests.oracle.broker import VERSIONS, Item, Put

DELAY_LEVELS = "1h 2h 6h 12h"
"""None comes due while a test runs: brokers before 5.x deliver from within the store."""

_CLEAN = (EndState.CLEAN,)
_AGE_MS = 3_600_000 // 2
_SMALL = Geometry(65536, 1000, 920, 4096, 64, 500)
_TINY = Geometry(8192, 200, 230, 256, 7, 2000)
_ROUGH = Geometry(20_011, 60, 138, 333, 3, 1111)
"""Sizes that no block or page divides. A file of a queue needs two units: with one the real code recovers
for ever (truncateDirtyLogicFiles never gets behind the only unit of its last file)."""

_SHORT_INDEX = Geometry(65536, 1000, 920, 4096, 4, 20)
"""For stores that nothing is dispatched to in bulk: the real code makes several such index files in one
millisecond, under one name, and loses entries."""


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """A store to be written: `count` messages of a `mix`, with `events` put in before messages by number.

    `options` go to WriteOptions, `settings` are the same for the real code beyond what `settings_of` knows.
    `loses` are the findings of what a broker itself may lose in such a life.
    """

    name: str
    mix: str = "everything,body=log:1:600,rate=10"
    count: int = 250
    geometry: Geometry = _SMALL
    options: Mapping[str, Any] = field(default_factory=dict)
    events: Mapping[int, Event] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    versions: tuple[str, ...] = VERSIONS
    ends: tuple[EndState, ...] = (*_CLEAN, EndState.KILLED)
    loses: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.name


SCENARIOS = (
    Scenario("everything"),
    Scenario("plain", mix="plain,body=log:1:2000,keys=0:5,words=50,rate=10", count=400),
    Scenario("tiny-files", geometry=_TINY, mix="everything,body=log:1:300,edge=0,batch=2,rate=10", count=120),
    Scenario("rough-sizes", geometry=_ROUGH, mix="everything,body=log:1:900,rate=10", count=150),
    Scenario("short-index", geometry=_SHORT_INDEX, count=100, ends=_CLEAN),
    Scenario("one-message", count=1, mix="plain,body=10"),
    Scenario("nothing", count=0),
    Scenario("default-sizes", geometry=Geometry(), count=60, ends=_CLEAN),
    Scenario(
        "hot-queue",
        mix="plain,topics=1,queues=1,body=1:200,keys=3,words=3,tags=0,rate=10",
        options={"sync_flush": True},
        settings={"flushDiskType": "SYNC_FLUSH"},
    ),
    Scenario(
        "ext",
        options={"consumequeue_ext": True},
        settings={"enableConsumeQueueExt": True, "bitMapLengthConsumeQueueExt": 64},
    ),
    Scenario("no-index", options={"message_index": False}, settings={"messageIndexEnable": False}, count=120),
    Scenario("far-on", options={"start_offset": 65536 * 1_000_003}, count=120),
    Scenario(
        "later-queues",
        mix="plain,topics=2,queues=2,body=1:300,rate=10",
        options={
            "start_offset": 65536 * 3,
            "queue_start_offsets": {("Topic0", 0): 1234, ("Topic1", 1): 50, ("Topic1", 0): 7},
        },
    ),
    Scenario(
        "expired", mix="plain,body=log:1:1200,rate=10", count=500, events={400: Expiry(3), 450: Expiry(1)}
    ),
    Scenario(
        "expired-queues", mix="plain,topics=30,body=1:900,rate=10", count=400, events={390: Expiry(2, True)}
    ),
    Scenario("restarted", mix="mixed,body=1:500,rate=10", events={100: Restart(), 200: Restart()}),
    Scenario(
        "killed-before",
        mix="mixed,body=1:500,rate=10",
        events={100: Restart(True), 200: Restart(True)},
        loses=frozenset({"XR020", "XR021"}),  # keys of deleted index files, before where recovery begins
    ),
    Scenario(
        "property-crc",
        options={"append_property_crc": True},
        settings={"enabledAppendPropCRC": True},
        versions=("5.3.3",),
    ),
)


@dataclass(frozen=True, slots=True)
class Written:
    """A store of ours and all that was put into it."""

    scenario: Scenario
    store: WrittenStore
    options: WriteOptions
    records: tuple[PutRecord, ...]


def options_of(
    scenario: Scenario, version: str, end: EndState, delay_levels: str = DELAY_LEVELS
) -> WriteOptions:
    """The writer's options, with everything on that the version has and the mix can use."""
    plain = WriteOptions(version=version)
    everything = "everything" in scenario.mix
    return replace(
        plain,
        geometry=scenario.geometry,
        end_state=end,
        delay_levels=parse_delay_levels(delay_levels),
        batch_topics=frozenset({INNER_TOPIC}) if everything and plain.dialect.batch_queues else frozenset(),
        multi_dispatch=everything and plain.dialect.multi_dispatch,
        sync=False,
        **scenario.options,
    )


def settings_of(scenario: Scenario, options: WriteOptions) -> dict[str, Any]:
    """MessageStoreConfig for a store that was written with these options."""
    settings: dict[str, Any] = {"messageDelayLevel": DELAY_LEVELS, **scenario.settings}
    if options.multi_dispatch:
        settings |= {"enableLmq": True, "enableMultiDispatch": True}
    return settings


def write(
    scenario: Scenario, version: str, end: EndState, path: Path, delay_levels: str = DELAY_LEVELS
) -> Written:
    """Write the store of a scenario at `path`; its last message is some minutes old."""
    options = options_of(scenario, version, end, delay_levels)
    return _written(scenario, options, path, 1, int(time.time() * 1000) - _AGE_MS, append=False)


def append(scenario: Scenario, options: WriteOptions, path: Path, seed: int) -> Written:
    """Append as many messages again to the store at `path`, as of now."""
    return _written(scenario, options, path, seed, int(time.time() * 1000), append=True)


def _written(
    scenario: Scenario, options: WriteOptions, path: Path, seed: int, start_time: int, *, append: bool
) -> Written:
    records: list[PutRecord] = []
    messages = _stated(scenario, options, seed, start_time, records)
    store = write_store(path, messages, options, append=append, on_put=records.append)
    return Written(scenario, store, options, tuple(records))


def _stated(
    scenario: Scenario, options: WriteOptions, seed: int, start_time: int, records: list[PutRecord]
) -> Iterator[Event]:
    """The mix's messages, each told what became of the one before."""
    story = Storyteller(make_plan(seed, parse_mix(scenario.mix), options, start_time), options).tell()
    message = next(story)
    for number in range(scenario.count):
        if number in scenario.events:
            yield scenario.events[number]
        known = len(records)
        yield message
        message = story.send(records[known:])


def appended(options: WriteOptions) -> tuple[Put, ...]:
    """Messages of every kind that this store takes, for the real code to append."""
    puts = [
        Put(f"Topic{number % 3}", b"more" * number, number % 2, {"KEYS": f"more{number} more", "TAGS": "m"})
        for number in range(20)
    ]
    puts += [Put("NewTopic", b"\x00" * 500, number, {"KEYS": f"new{number}"}) for number in range(3)]
    puts.append(Put("NewTopic", items=tuple(Item(b"i", {"KEYS": f"item{n}"}) for n in range(4))))
    dialect = options.dialect
    if dialect.ipv6_hosts:
        puts.append(
            Put("NewTopic", b"six", 1, born_host=("2001:db8::1", 40000), store_host=("2001:db8::2", 10911))
        )
    if dialect.half_topic:
        properties = {"TRAN_MSG": "true", "REAL_TOPIC": "NewTopic", "REAL_QID": "0", "KEYS": "half"}
        puts.append(Put("RMQ_SYS_TRANS_HALF_TOPIC", b"half", 0, properties))
    if options.multi_dispatch:
        properties = {"KEYS": "light", "INNER_MULTI_DISPATCH": "%LMQ%light0,%LMQ%lightnew"}
        puts.append(Put("NewTopic", b"light", 0, properties))
    if options.batch_topics:
        items = [InnerItem(b"inner", serialize_properties({"KEYS": f"in{n}"}, True)) for n in range(3)]
        properties = {"INNER_NUM": "3", "KEYS": "outer"}
        puts.append(Put(INNER_TOPIC, encode_items(items), 0, properties, sys_flag=0xC0))
    return tuple(puts)
