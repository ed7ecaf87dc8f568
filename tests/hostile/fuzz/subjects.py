"""Tiny stores to damage: some that our writer makes, some that real brokers wrote.

A few dozen records each, in files so small that everything rolls over, so that a mutant costs milliseconds.
"""

from __future__ import annotations

import json
import shutil
import tarfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rocketfsck.formats.consumequeue import BATCH_UNIT
from rocketfsck.formats.dledger import DLEDGER_BLANK, DLEDGER_ENTRY, DLEDGER_INDEX
from rocketfsck.formats.javatext import java_hash
from rocketfsck.formats.properties import parse_properties, serialize_properties, tags_code
from rocketfsck.formats.record import Host, InnerItem, decode_record, encode_record
from rocketfsck.formats.smallfiles import EpochEntry, encode_epochs, offset_to_filename
from rocketfsck.formats.timer import TIMER_CHECK, TIMER_LOG_UNIT, TIMER_WHEEL_SLOT, timer_slot_of
from rocketfsck.repair.build.run import RebuildOptions, rebuild_store
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Geometry
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.writer import (
    EndState,
    Event,
    Expiry,
    Kind,
    OutgoingMessage,
    Restart,
    WriteOptions,
    op_message,
    write_store,
)

from tests.property.writer_strategies import broker_conf

DATA = Path(__file__).parents[2] / "data"
START = 1_700_000_000_000
BLANK_MAGIC = bytes.fromhex("cbd43194")
UNCLEAN = ("killed-5.1.4", "killed-4.9.8", "4.9.8-ghosttail")
NOW = START + 86_400_000
SMALL = Geometry(
    commitlog_file_size=2048,
    consumequeue_file_size=200,
    batch_file_size=460,
    ext_file_size=256,
    slot_count=11,
    entry_count=24,
)
BROKER_WRITTEN = (
    "4.4.0-trans",
    "4.9.8-delay",
    "4.9.8-ghosttail",
    "4.9.8-ipv6",
    "4.9.8-lmq",
    "5.0.0-innerbatch",
    "5.3.3-propcrc",
    "5.3.3-trans",
)


@dataclass(frozen=True, slots=True)
class Subject:
    """A sound store and what may be said of it.

    `conf` is a broker.conf with its geometry, `version` the broker that wrote it. `topics` are those of its
    records, `clean` says that a check of it finds nothing above info (a kill leaves something).
    """

    name: str
    path: Path
    conf: Path
    version: str
    topics: tuple[str, ...]
    clean: bool = False


def _messages(count: int, **given: object) -> list[Event]:
    """Plain messages of two topics: with keys, tags, empty bodies, equal keys."""
    found: list[Event] = []
    for number in range(count):
        properties = {"KEYS": f"k{number % 5} x", "TAGS": f"t{number % 3}", "UNIQ_KEY": f"{number:032X}"}
        message = OutgoingMessage(
            ("TopicA", "TopicB", "%RETRY%g")[number % 3],
            b"" if number % 7 == 3 else bytes([65 + number % 26]) * (5 + number * 11 % 60),
            START + 700 * number,
            queue_id=number % 2,
            properties=properties if number % 4 else {},
            flag=number % 3,
            born_timestamp=START + 700 * number - 9,
            reconsume_times=number % 2,
        )
        found.append(replace(message, **given))  # type: ignore[arg-type]
    return found


def _transactions() -> list[Event]:
    found: list[Event] = _messages(8)
    for number, kind in enumerate((Kind.HALF, Kind.PREPARED, Kind.COMMIT, Kind.ROLLBACK, Kind.HALF) * 3):
        message = OutgoingMessage(
            "TopicA",
            b"t%d" % number,
            START + 9_000 + 50 * number,
            properties={"KEYS": f"tk{number}", "UNIQ_KEY": f"T{number:031X}", "PGROUP": "g"},
            kind=kind,
        )
        found.append(message)
    return [*found, op_message([0, 1], START + 20_000, several=True)]


def _delayed() -> list[Event]:
    found: list[Event] = []
    for number, event in enumerate(_messages(18)):
        assert isinstance(event, OutgoingMessage)
        found.append(replace(event, delay_level=(0, 1, 3)[number % 3], topic="TopicA"))
    return found


def _batches() -> list[Event]:
    items = tuple(
        InnerItem(b"i" * (number + 1), serialize_properties([("KEYS", f"b{number}")], True))
        for number in range(3)
    )
    found: list[Event] = []
    for number, event in enumerate(_messages(12)):
        found.append(event)
        time = START + 700 * number + 5
        found.append(
            OutgoingMessage("Batch", b"", time, kind=Kind.INNER_BATCH, items=items[: 1 + number % 3])
        )
        if number % 4 == 0:
            found.append(OutgoingMessage("TopicA", b"", time + 1, kind=Kind.LEGACY_BATCH, items=items))
    return found


def _light_queues() -> list[Event]:
    names = ("%LMQ%one", "%LMQ%two")
    return [
        replace(event, multi_dispatch=names[: number % 3])
        for number, event in enumerate(_messages(20, topic="TopicA"))
        if isinstance(event, OutgoingMessage)
    ]


def _filtered() -> list[Event]:
    return [
        replace(event, filter_bit_map=bytes([number]) * (number % 5))
        for number, event in enumerate(_messages(20))
        if isinstance(event, OutgoingMessage)
    ]


def _wide() -> list[Event]:
    six = Host(bytes(range(16)), 10911)
    long = "%RETRY%" + "g" * 130
    found: list[Event] = []
    for number, event in enumerate(_messages(16)):
        assert isinstance(event, OutgoingMessage)
        found.append(replace(event, born_host=six, topic=long if number % 3 == 0 else event.topic))
    found.append(
        OutgoingMessage("TopicA", zlib.compress(b"z" * 90), START + 60_000, sys_flag=0x1, store_host=six)
    )
    return found


RECIPES: Mapping[str, tuple[str, Callable[[], list[Event]], dict[str, object]]] = {
    "plain-4.4.0": ("4.4.0", lambda: _messages(30), {}),
    "plain-5.3.3": ("5.3.3", lambda: _messages(26), {}),
    "trans-4.9.8": ("4.9.8", _transactions, {}),
    "delay-5.1.4": ("5.1.4", _delayed, {}),
    "batch-5.3.3": ("5.3.3", _batches, {"batch_topics": frozenset({"Batch"})}),
    "lmq-4.9.8": ("4.9.8", _light_queues, {"multi_dispatch": True}),
    "ext-4.9.8": ("4.9.8", _filtered, {"consumequeue_ext": True}),
    "propcrc-5.3.3": ("5.3.3", lambda: _messages(18), {"append_property_crc": True}),
    "wide-5.1.4": ("5.1.4", _wide, {}),
    "killed-5.1.4": ("5.1.4", lambda: _messages(24), {"end_state": EndState.KILLED}),
    "killed-4.9.8": ("4.9.8", lambda: _messages(22), {"end_state": EndState.KILLED}),
    "restarted-5.1.4": ("5.1.4", lambda: [*_messages(12), Restart(killed=False), *_messages(6)], {}),
    "expired-4.9.8": ("4.9.8", lambda: [*_messages(44), Expiry(2)], {}),
    "later-5.0.0": ("5.0.0", lambda: _messages(14), {"start_offset": 4096}),
}  # fmt: skip


def build_subjects(folder: Path) -> dict[str, Subject]:
    """Every subject, made below an existing, empty folder."""
    made = [write_subject(folder, name) for name in RECIPES]
    made += [_with_sides(folder), _with_dledger(folder), _with_tiered(folder)]
    made += [_unpack(folder, name) for name in BROKER_WRITTEN]
    return {subject.name: replace(subject, clean=_is_clean(subject)) for subject in made}


def _is_clean(subject: Subject) -> bool:
    clean = check_store(open_store(subject.path), CheckOptions(now_timestamp=NOW)).exit_code == 0
    assert clean or subject.name in UNCLEAN, subject.name
    return clean


def write_subject(folder: Path, name: str, as_name: str | None = None) -> Subject:
    version, events, options = RECIPES[name]
    own = folder / (as_name or name)
    own.mkdir()
    conf = own / "broker.conf"
    conf.write_text(broker_conf(SMALL) + "\n")
    path = own / "store"
    chosen = WriteOptions(version=version, geometry=SMALL, sync=False, **options)  # type: ignore[arg-type]
    messages = events()
    write_store(path, messages, chosen)
    topics = {message.topic for message in messages if isinstance(message, OutgoingMessage)}
    return Subject(own.name, path, conf, version, tuple(sorted(topics)))


def _unpack(folder: Path, name: str) -> Subject:
    with tarfile.open(DATA / "stores" / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="tar")
    path = folder / name / "store"
    manifest = json.loads((folder / name / "manifest.json").read_text("utf-8"))
    topics = sorted({path.name for path in (path / "consumequeue").glob("*")})
    conf = folder / name / "broker.conf"
    sizes = sorted(path.stat().st_size for path in (path / "commitlog").iterdir())
    conf.write_text(f"mappedFileSizeCommitLog={sizes[0]}\n")
    version = str(manifest.get("version") or name.partition("-")[0])
    return Subject(name, path, conf, version, tuple(topics))


def _with_tiered(folder: Path) -> Subject:
    """Tiered storage of a real broker, with segments that end with a coda."""
    name = "5.2.0-tiered"
    path = folder / name / "store"
    path.mkdir(parents=True)
    with tarfile.open(DATA / "tiered" / "5.2.0-codas.tar.xz") as archive:
        archive.extractall(path, filter="data")
    conf = folder / name / "broker.conf"
    sizes = sorted(file.stat().st_size for file in (path / "commitlog").iterdir())
    conf.write_text(
        f"mappedFileSizeCommitLog={sizes[0]}\nmappedFileSizeConsumeQueue=2000\n"
        "maxHashSlotNum=11\nmaxIndexNum=250\n"
    )
    topics = sorted(entry.name for entry in (path / "consumequeue").iterdir())
    store = open_store(path, version="5.2.0", broker_conf=conf)
    rebuild_store(store, folder / name / "built", RebuildOptions(index=True, checkpoint=True, sync=False))
    for part in ("index", "checkpoint"):
        (folder / name / "built" / part).rename(path / part)
    return Subject(name, path, conf, "5.2.0", tuple(topics))


def _with_sides(folder: Path) -> Subject:
    """A store with all that may be beside log, queues and index: config, epochs, timer, compaction."""
    subject = write_subject(folder, "plain-5.3.3", "sides-5.3.3")
    root = subject.path
    offsets = {"TopicA@group": {"0": 3, "1": 1}, "TopicB@group": {"0": 0}}
    documents: dict[str, object] = {
        "consumerOffset.json": {"offsetTable": offsets},
        "delayOffset.json": {"offsetTable": {}},
        "subscriptionGroup.json": {
            "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": START},
            "subscriptionGroupTable": {"group": {"groupName": "group", "consumeEnable": True, "brokerId": 0}},
        },
        "consumerFilter.json": {"filterDataByTopic": {}},
    }
    for name, document in documents.items():
        (root / "config" / name).write_text(json.dumps(document))
        (root / "config" / f"{name}.bak").write_text(json.dumps(document))
    (root / "epochFileCheckpoint").write_bytes(encode_epochs([EpochEntry(1, 0), EpochEntry(2, 2048)]))
    (root / "brokerIdentity").write_text("clusterName#brokerName#0")
    with (root / "commitlog" / offset_to_filename(0)).open("rb") as log:
        first_size = int.from_bytes(log.read(4), "big")
    due = START + 900  # delivered: no message of the log waits for it
    check = {name.name: 0 for name in TIMER_CHECK.fields}
    check |= {"lastReadTimeMs": START + 60_000, "lastTimerLogFlushPos": 104, "timestamp": START}
    (root / "config" / "timercheck").write_bytes(TIMER_CHECK.build(check).ljust(4096, b"\0"))
    slot = TIMER_WHEEL_SLOT.build(
        {"slotTime": due // 1000, "firstPos": 0, "lastPos": 52, "num": 2, "magic": 0}
    )
    with (root / "timerwheel").open("wb") as wheel:
        wheel.seek(32 * timer_slot_of(due))
        wheel.write(slot)
        wheel.truncate(38_707_200)
    units = b""
    for number in range(2):
        units += TIMER_LOG_UNIT.build({
            "size": 52, "prevPos": -1 if number == 0 else 0, "magic": 1,
            "currWriteTime": START, "delayedTime": 900, "offsetPy": 0, "sizePy": first_size,
            "hashCodeOfRealTopic": java_hash("TopicA"), "reservedValue": 0,
        })  # fmt: skip
    (root / "timerlog").mkdir()
    (root / "timerlog" / offset_to_filename(0)).write_bytes(units.ljust(4096, b"\0"))
    _compact(root)
    return subject


def _compact(root: Path) -> None:
    """A compaction log of the messages of a queue in the first log file, as it is before any compaction."""
    log = (root / "commitlog" / offset_to_filename(0)).read_bytes()
    size, pos, data, units = 4096, 0, b"", b""
    while (length := int.from_bytes(log[pos : pos + 4], "big")) and log[pos + 4 : pos + 8] != BLANK_MAGIC:
        record = replace(decode_record(log, pos), physical_offset=len(data))
        pos += length
        if (record.topic, record.queue_id) == (b"TopicA", 0) and len(data) + length <= size - 8:
            properties = parse_properties(record.properties, "scan") or {}
            units += BATCH_UNIT.build({
                "offset": len(data), "size": length, "tagsCode": tags_code(properties.get("TAGS")),
                "storeTime": record.store_timestamp, "msgBaseOffset": record.queue_offset, "batchSize": 1,
                "compactedOffset": -1, "reserved": 0,
            })  # fmt: skip
            data += encode_record(record)
    data += (size - len(data)).to_bytes(4, "big") + BLANK_MAGIC
    for kind, content, whole in (("compactionLog", data, size), ("compactionCq", units, 46 * 20)):
        folder = root / "compaction" / kind / "TopicA" / "0"
        folder.mkdir(parents=True)
        (folder / offset_to_filename(0)).write_bytes(content.ljust(whole, b"\0"))
    (root / "compaction" / "position-checkpoint").write_text('{"queueOffsetMap":{"TopicA_0":-1}}')


def _with_dledger(folder: Path) -> Subject:
    """The records of a plain store in DLedger's log, behind a head each, with its index."""
    subject = write_subject(folder, "plain-4.4.0", "dledger-4.9.8")
    log = b"".join(path.read_bytes() for path in sorted((subject.path / "commitlog").iterdir()))
    data, index, pos, number = bytearray(), bytearray(), 0, 0
    size = 65536
    while pos < len(log) and int.from_bytes(log[pos : pos + 4], "big"):
        length = int.from_bytes(log[pos : pos + 4], "big")
        if log[pos + 4 : pos + 8] == bytes.fromhex("cbd43194"):
            pos += length
            continue
        record = replace(decode_record(log, pos), physical_offset=len(data) + 48)
        body = encode_record(record)
        place = {"magic": 1, "size": 48 + len(body), "index": number, "term": 1, "pos": len(data)}
        index += DLEDGER_INDEX.build(place)
        head = place | {
            "channel": 0,
            "chainCrc": 0,
            "bodyCrc": 0,
            "bodyLen": len(body),
        }  # as brokers write them
        data += DLEDGER_ENTRY.build(head) + body
        pos, number = pos + length, number + 1
    data += DLEDGER_BLANK.build({"magic": -1, "size": size - len(data)})
    for path in sorted((subject.path / "commitlog").iterdir()):
        path.unlink()
    (subject.path / "commitlog").rmdir()
    for part, content in (("data", data.ljust(size, b"\0")), ("index", index.ljust(3200, b"\0"))):
        (subject.path / "dledger-n0" / part).mkdir(parents=True)
        (subject.path / "dledger-n0" / part / offset_to_filename(0)).write_bytes(content)
    (subject.path / "dledger-n0" / "currterm").write_text("voteLeader=n0\ncurrTerm=1\n")
    state = f"committedIndex={number - 1}\nendIndex={number - 1}\n"
    (subject.path / "dledger-n0" / "checkpoint").write_text(state)
    subject.conf.write_text(
        broker_conf(replace(SMALL, commitlog_file_size=size)) + "\nenableDLegerCommitLog=true\n"
    )
    for part in ("consumequeue", "index"):
        shutil.rmtree(subject.path / part)
    # the first brokers with DLedger are 4.5.0
    store = open_store(subject.path, version="4.7.0", broker_conf=subject.conf)
    rebuild_store(store, subject.path.parent / "built", RebuildOptions(queues=True, index=True, sync=False))
    for part in ("consumequeue", "index"):
        (subject.path.parent / "built" / part).rename(subject.path / part)
    return replace(subject, version="4.7.0")
