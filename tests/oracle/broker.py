"""The real broker's store code as a function: a store directory and settings in, what it answered out.

The code is that of Maven's org.apache.rocketmq:rocketmq-store, driven by the classes in `java/` next to this
file. One process takes any number of jobs. Stores that are to be killed stay open until the last job is
answered, then the process halts without an orderly end of any of them.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rocketfsck.formats import versions as table
from rocketfsck.store.circumstances import Geometry

from tests.conftest import NIGHTLY
from tests.oracle.jvm import OracleError, answers_of

_LISTED = [line.split() for line in (Path(__file__).parent / "versions").read_text("utf-8").splitlines()]
ASKED = tuple(os.environ.get("ROCKETFSCK_ORACLE_VERSIONS", "").split())
"""Versions that the tests are asked to run on, instead of those listed (`tests.oracle.newest`)."""
for _version in ASKED:
    table.VERSIONS.setdefault(_version, {})  # one without a row is read as the one before


def versions_of(*usual: str) -> tuple[str, ...]:
    """The versions that a test runs on: its own, unless others are asked for."""
    return ASKED or usual


VERSIONS = versions_of(*(name for name, *nightly in sorted(_LISTED, key=len) if NIGHTLY or not nightly))
"""Versions whose code runs; `nightly` ones in the long suite only: the index of 5.4.0 is that of 5.5.0."""
STORES_AT_ONCE = 12
_RUN_SECONDS = 240
_JVM_FLAGS = ("-Xmx384m", "-Djava.net.preferIPv4Stack=true")
_ALWAYS = {
    "haListenPort": 0,
    "diskMaxUsedSpaceRatio": 95,
    "cleanFileForciblyEnable": False,
    "fileReservedTime": 876000,
    "maxMessageSize": 262144,
}
_SIZES = {
    "commitlog_file_size": "mappedFileSizeCommitLog",
    "consumequeue_file_size": "mappedFileSizeConsumeQueue",
    "ext_file_size": "mappedFileSizeConsumeQueueExt",
    "slot_count": "maxHashSlotNum",
    "entry_count": "maxIndexNum",
    "batch_file_size": "mapperFileSizeBatchConsumeQueue",
}
_NAMES_OF_44 = {
    "mappedFileSizeCommitLog": "mapedFileSizeCommitLog",
    "mappedFileSizeConsumeQueue": "mapedFileSizeConsumeQueue",
}

Host = tuple[str, int]
Key = tuple[str, str]
QueueName = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Item:
    """A message of a client's batch."""

    body: bytes
    properties: Mapping[str, str] = field(default_factory=dict)
    flag: int = 0


@dataclass(frozen=True, slots=True)
class Put:
    """A message handed to the store; with `items` it goes in as a client's batch, without a body."""

    topic: str
    body: bytes = b""
    queue_id: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    items: tuple[Item, ...] = ()
    sys_flag: int = 0
    flag: int = 0
    born_timestamp: int = 1_700_000_000_000
    born_host: Host = ("10.1.2.3", 40000)
    store_host: Host = ("10.1.2.4", 10911)
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0


@dataclass(frozen=True, slots=True)
class Ask:
    """What consumers may ask of every queue: pulls of `max_nums` messages from every offset, up to `margin`
    beyond the ends (from `most` offsets, if that is not 0), and the places of `times` (ms)."""

    times: tuple[int, ...]
    max_nums: tuple[int, ...] = (1, 4, 100)
    margin: int = 2
    most: int = 0


@dataclass(frozen=True, slots=True)
class Pulled:
    """`getMessage`: what it gave, or the class of what it threw in `status` alone; and
    `getCommitLogOffsetInQueue`, a class where it threw."""

    offset: int
    max_num: int
    status: str
    offsets: tuple[int, ...]
    next_offset: int
    commit_log_offset: int | str


@dataclass(frozen=True, slots=True)
class Asked:
    """The answers of one queue. `times` has them in the order of the times asked, by boundary ("" for none);
    the class of what was thrown where no offset was given."""

    min_offset: int
    max_offset: int
    pulls: tuple[Pulled, ...]
    times: Mapping[str, tuple[int | str, ...]]


@dataclass(frozen=True, slots=True)
class Job:
    """One store to be loaded, read, perhaps appended to, and stopped or killed.

    `settings` are MessageStoreConfig's own names; they come after what `geometry` says. The store runs on
    for `linger_ms` before its last state is taken. `queues` are read besides those that it lists itself: one
    with its queues in RocksDB lists none that nobody asked for.
    """

    store: Path
    geometry: Geometry
    keys: tuple[Key, ...] = ()
    append: tuple[Put, ...] = ()
    kill: bool = False
    batch_topics: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    linger_ms: int = 0
    ask: Ask | None = None
    queues: tuple[QueueName, ...] = ()


@dataclass(frozen=True, slots=True)
class Served:
    """What the store gave for a queue offset. Without a message `status` says why and the rest is empty.

    `physical_offset` and `size` are where it was read, `fields` what the real decoder made of it, by
    RocketMQ's names; None if it could not decode it.
    """

    queue_offset: int
    status: str
    physical_offset: int = -1
    size: int = -1
    record_sha256: str = ""
    fields: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Queue:
    min_offset: int
    max_offset: int
    messages: tuple[Served, ...]


@dataclass(frozen=True, slots=True)
class ByKey:
    """Physical offsets: `indexed` from IndexService.queryOffset, `served` from queryMessage (-1 for bytes too
    short for a record)."""

    indexed: tuple[int, ...]
    served: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class State:
    min_offset: int
    max_offset: int
    queues: Mapping[QueueName, Queue]
    keys: Mapping[Key, ByKey]


@dataclass(frozen=True, slots=True)
class PutAnswer:
    status: str
    physical_offset: int = -1
    size: int = -1
    queue_offset: int = -1
    store_timestamp: int = -1
    msg_id: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """`before` is the state once dispatch had caught up, `asked` are the answers then, `after` is the state
    after the messages were put."""

    loaded: bool
    refusal: str | None
    before: State | None = None
    put: tuple[PutAnswer, ...] = ()
    after: State | None = None
    asked: Mapping[QueueName, Asked] = field(default_factory=dict)

    @property
    def final(self) -> State:
        """The last state; OracleError if the store was not loaded."""
        state = self.after or self.before
        if state is None:
            raise OracleError(f"not loaded: {self.refusal}")
        return state


def run(
    version: str,
    store: Path,
    geometry: Geometry,
    *,
    keys: Iterable[Key] = (),
    append: Iterable[Put] = (),
    kill: bool = False,
    batch_topics: Iterable[str] = (),
    settings: Mapping[str, Any] | None = None,
) -> Answer:
    """One store through the code of `version`, which alters it. OracleError if there is no answer."""
    job = Job(store, geometry, tuple(keys), tuple(append), kill, tuple(batch_topics), dict(settings or {}))
    return run_jobs(version, [job])[0]


def run_jobs(version: str, jobs: Sequence[Job]) -> list[Answer]:
    """Many stores in one process, some at once; the answers in the order of the jobs."""
    documents = [_job_document(version, job) for job in jobs]
    main = ("rocketfsck.oracle.Oracle", str(STORES_AT_ONCE))
    rows = answers_of(version, "store", main, documents, flags=_JVM_FLAGS, seconds=_RUN_SECONDS)
    return list(map(_answer, rows))


def settings_for(version: str, geometry: Geometry) -> dict[str, Any]:
    """MessageStoreConfig's settings for a geometry, by the names that this version has."""
    names = dict(_SIZES)
    if version.startswith("4."):
        del names["batch_file_size"]
    settings = {setting: getattr(geometry, name) for name, setting in names.items()}
    if version == "4.4.0":
        settings = {_NAMES_OF_44.get(name, name): value for name, value in settings.items()}
    if not version.startswith("4."):
        settings["timerWheelEnable"] = False
    return {**_ALWAYS, **settings}


def _job_document(version: str, job: Job) -> dict[str, Any]:
    ask = {} if job.ask is None else {"ask": ask_document(job.ask)}
    return ask | {
        "store": os.fspath(job.store),
        "settings": {**settings_for(version, job.geometry), **job.settings},
        "batchTopics": list(job.batch_topics),
        "keys": [list(key) for key in job.keys],
        "queues": [list(name) for name in job.queues],
        "append": [_put_document(put) for put in job.append],
        "lingerMs": job.linger_ms,
        "end": "kill" if job.kill else "stop",
    }


def ask_document(ask: Ask) -> dict[str, Any]:
    """What Questions.java takes."""
    return {"times": [*ask.times], "maxNums": [*ask.max_nums], "margin": ask.margin, "most": ask.most}


def _put_document(put: Put) -> dict[str, Any]:
    document: dict[str, Any] = {
        "topic": put.topic,
        "queueId": put.queue_id,
        "properties": dict(put.properties),
        "sysFlag": put.sys_flag,
        "flag": put.flag,
        "bornTimestamp": put.born_timestamp,
        "bornHost": list(put.born_host),
        "storeHost": list(put.store_host),
        "reconsumeTimes": put.reconsume_times,
        "preparedTransactionOffset": put.prepared_transaction_offset,
    }
    if put.items:
        document["batch"] = [
            {"body": _base64(item.body), "flag": item.flag, "properties": dict(item.properties)}
            for item in put.items
        ]
    else:
        document["body"] = _base64(put.body)
    return document


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _answer(row: Mapping[str, Any]) -> Answer:
    if not row["loaded"]:
        return Answer(False, row["refusal"])
    after = row.get("after")
    return Answer(
        True,
        None,
        state_of(row["before"]),
        tuple(_put_answer(put) for put in row.get("put", ())),
        None if after is None else state_of(after),
        asked_of(row.get("asked", ())),
    )


def asked_of(rows: Iterable[list[Any]]) -> dict[QueueName, Asked]:
    """The answers of Questions.java."""
    return {(topic, queue_id): _asked(*answers) for topic, queue_id, *answers in rows}


def _asked(bounds: list[int], pulls: list[list[Any]], times: Mapping[str, list[int | str]]) -> Asked:
    return Asked(
        bounds[0],
        bounds[1],
        tuple(map(_pulled, pulls)),
        {boundary: tuple(answers) for boundary, answers in times.items()},
    )


def _pulled(row: list[Any]) -> Pulled:
    if len(row) == 4:  # it threw
        offset, max_num, status, commit_log_offset = row
        return Pulled(offset, max_num, status, (), -1, commit_log_offset)
    offset, max_num, status, offsets, next_offset, _, _, commit_log_offset = row
    return Pulled(offset, max_num, status, tuple(offsets), next_offset, commit_log_offset)


def _put_answer(row: Mapping[str, Any]) -> PutAnswer:
    if "physicalOffset" not in row:
        return PutAnswer(row["status"])
    return PutAnswer(
        row["status"],
        row["physicalOffset"],
        row["size"],
        row["queueOffset"],
        row["storeTimestamp"],
        row["msgId"],
    )


def state_of(row: Mapping[str, Any]) -> State:
    """The answer of Answers.java."""
    return State(
        row["minOffset"],
        row["maxOffset"],
        {
            (queue["topic"], queue["queueId"]): Queue(
                queue["minOffset"],
                queue["maxOffset"],
                tuple(_served(message) for message in queue["messages"]),
            )
            for queue in row["queues"]
        },
        {
            (answer["topic"], answer["key"]): ByKey(tuple(answer["indexed"]), tuple(answer["served"]))
            for answer in row["keys"]
        },
    )


def _served(row: dict[str, Any]) -> Served:
    if row["status"] != "FOUND":
        return Served(row["queueOffset"], row["status"])
    return Served(
        row.pop("queueOffset"),
        row.pop("status"),
        row.pop("physicalOffset"),
        row.pop("size"),
        row.pop("recordSha256"),
        row if row.pop("decoded") else None,
    )
