"""Two readers that share nothing agree on every structure of every store, and on damaged copies of them.

What is compared and what "reject" means: `structures`.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.formats import rocks
from rocketfsck.formats.smallfiles import EpochEntry, decode_epochs, encode_epochs

from tests.conftest import RESTART_NAMES, STORE_NAMES, Directory
from tests.kaitai.kaitai_readers import KSY, reader
from tests.kaitai.structures import (
    BOUND_KEY,
    CONSTANT,
    EXT,
    FIXED,
    INDEX_KEY,
    ITEMS,
    LAYOUTS,
    LOG,
    OFFSET_ID,
    OFFSET_KEY,
    POP_KEY,
    PROPERTIES,
    RECORD,
    TIMER_KEY,
    TRANS_KEY,
    UNIQUE_ID,
    UNIT_KEY,
    Refusal,
    Structure,
    fixed_structure,
    index_structure,
    outcome,
    units_structure,
)

VECTORS = KSY.parent / "vectors"

CQ = units_structure(LAYOUTS["consumequeue_unit"])
BATCH = units_structure(LAYOUTS["batch_consumequeue_unit"])
CHECKPOINT = fixed_structure(LAYOUTS["checkpoint"])
ALL_STORES = [*STORE_NAMES, *(f"restart/{name}" for name in RESTART_NAMES)]

_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf]")
_EXTREMES = tuple(
    value.to_bytes(size, "big", signed=True)
    for size in (2, 4, 8)
    for value in (0, 1, -1, (1 << (8 * size - 1)) - 1, -(1 << (8 * size - 1)))
)


def assert_agree(structure: Structure, data: bytes) -> Any:
    ours, theirs = outcome(structure.ours, data), outcome(structure.theirs, data)
    assert ours == theirs
    return ours


def mutant(data: bytes, choose: random.Random) -> bytes:
    """A copy with one to three changes: a byte, an extreme number, a cut, bytes put in or taken out."""
    changed = bytearray(data)
    for _ in range(choose.randint(1, 3)):
        pos = choose.randrange(len(changed) + 1)
        match choose.randrange(6):
            case 0 | 1 if pos < len(changed):
                changed[pos] = choose.randrange(256)
            case 2 | 3:
                number = choose.choice(_EXTREMES)
                changed[pos : pos + len(number)] = number
            case 4:
                del changed[pos:]
            case _:
                changed[pos : pos + choose.randrange(3)] = choose.randbytes(choose.randrange(5))
    return bytes(changed)


def files(root: Path, folder: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((root / folder).rglob("*")) if path.is_file()]


def records(root: Path) -> Iterator[bytes]:
    """The bytes of every record that is framed in a store's commit log."""
    for data in files(root, "commitlog"):
        for frame in reader("rocketmq_commitlog")(data).frames:
            if frame.kind.name == "record":
                yield frame.raw_record


@pytest.fixture(scope="session")
def any_store(store_dir: Directory, restart_dir: Directory) -> Directory:
    return lambda name: restart_dir(name[8:]) if name.startswith("restart/") else store_dir(name)


@pytest.fixture
def index_files(
    any_store: Directory, manifest: Any, oracle: Any
) -> Callable[[str], tuple[Structure, list[bytes]]]:
    def index(name: str) -> tuple[Structure, list[bytes]]:
        known = oracle(name[8:]) if name.startswith("restart/") else manifest(name)
        geometry = known["geometry"]
        structure = index_structure(geometry["maxHashSlotNum"], geometry["maxIndexNum"])
        return structure, files(any_store(name), "index")

    return index


@pytest.mark.parametrize("name", ALL_STORES)
def test_commit_log(any_store: Directory, name: str) -> None:
    count = 0
    for data in files(any_store(name), "commitlog"):
        frames = assert_agree(LOG, data)
        for _, found in frames[:-1]:
            if isinstance(found, Refusal):
                assert name == "restart/4.9.8-basic--torn-tail"
                continue
            count += 1
            assert_agree(PROPERTIES, found["properties"])
            if found["sys_flag"] & 0x80:
                assert len(assert_agree(ITEMS, found["body"])) > 0
    assert count > 0


@pytest.mark.parametrize("name", ALL_STORES)
def test_queues_and_checkpoint(any_store: Directory, name: str) -> None:
    root = any_store(name)
    for folder, structure in (("consumequeue", CQ), ("batchconsumequeue", BATCH), ("consumequeue_ext", EXT)):
        for data in files(root, folder):
            assert assert_agree(structure, data)
    assert set(assert_agree(CHECKPOINT, (root / "checkpoint").read_bytes())) >= {"physicMsgTimestamp"}


@pytest.mark.parametrize("name", ALL_STORES)
def test_index_files(index_files: Any, name: str) -> None:
    structure, contents = index_files(name)
    assert contents
    found = [assert_agree(structure, data) for data in contents]
    assert any(isinstance(one, Refusal) for one in found) == (name == "restart/4.9.8-killed--index-truncated")


@pytest.mark.parametrize("name", STORE_NAMES)
def test_message_ids(manifest: Any, name: str) -> None:
    for phase in manifest(name)["phases"]:
        for message in phase["messages"]:
            for text in filter(None, (message.get("offsetMsgId") or "").split(",")):
                assert not isinstance(assert_agree(OFFSET_ID, bytes.fromhex(text)), Refusal)
            if message.get("uniqKey") and re.fullmatch(r"[0-9A-F]{32}|[0-9A-F]{56}", message["uniqKey"]):
                assert not isinstance(assert_agree(UNIQUE_ID, bytes.fromhex(message["uniqKey"])), Refusal)


def check_mutants(structure: Structure, originals: list[bytes], count: int, seed: str) -> tuple[int, int]:
    """Compare on `count` mutants; how many were accepted and how many rejected."""
    choose = random.Random(seed)
    rejected = 0
    for _ in range(count):
        data = mutant(choose.choice(originals), choose)
        rejected += isinstance(assert_agree(structure, data), Refusal)
    return count - rejected, rejected


def mutant_counts(total: int, nightly: int) -> list[Any]:
    return [total, pytest.param(nightly, marks=pytest.mark.nightly)]


MUTATED = ("4.4.0-legacybatch-propedge", "4.9.8-ipv6", "5.0.0-innerbatch", "5.3.3-propcrc", "HEAD-basic")


@pytest.mark.parametrize("count", mutant_counts(400, 6000))
@pytest.mark.parametrize("name", MUTATED)
def test_mutants_of_records(store_dir: Directory, name: str, count: int) -> None:
    originals = list(records(store_dir(name)))
    accepted, rejected = check_mutants(RECORD, originals, count, f"records {name}")
    assert accepted > count // 10
    assert rejected > count // 10


@pytest.mark.parametrize("count", mutant_counts(300, 6000))
def test_mutants_of_batch_items(store_dir: Directory, count: int) -> None:
    bodies = [
        found["body"]
        for data in records(store_dir("5.0.0-innerbatch"))
        if (found := RECORD.theirs(data))["sys_flag"] & 0x80
    ]
    accepted, rejected = check_mutants(ITEMS, bodies, count, "items")
    assert accepted > count // 20
    assert rejected > count // 10


@pytest.mark.parametrize("count", mutant_counts(60, 1500))
@pytest.mark.parametrize("name", ["4.9.8-ghosttail", "5.1.3-basic"])
def test_mutants_of_commit_log_files(store_dir: Directory, name: str, count: int) -> None:
    parts = [
        data[start : start + 6000]
        for data in files(store_dir(name), "commitlog")
        for start in (0, len(data) - 6000)
    ]
    check_mutants(LOG, parts, count, f"log {name}")


@pytest.mark.parametrize("count", mutant_counts(60, 1500))
def test_mutants_of_extension_files(store_dir: Directory, count: int) -> None:
    originals = [data[:600] for data in files(store_dir("4.9.8-cqext"), "consumequeue_ext")]
    originals.append(originals[0][:20] + b"\xff\xff" + bytes(30))
    check_mutants(EXT, originals, count, "ext")


@pytest.mark.parametrize("count", mutant_counts(30, 1000))
def test_mutants_of_index_files(index_files: Any, count: int) -> None:
    structure, originals = index_files("4.4.0-basic")
    accepted, rejected = check_mutants(structure, originals, count, "index")
    assert accepted > 0
    assert rejected > 0


@pytest.mark.parametrize("count", mutant_counts(300, 6000))
def test_mutants_of_properties(store_dir: Directory, count: int) -> None:
    choose = random.Random("properties")
    originals = [
        RECORD.theirs(data)["properties"] for data in records(store_dir("4.4.0-legacybatch-propedge"))
    ]
    originals += [b"K\x01V\x02", b"K\x01V\x01\x02\x01W\x02\x02A\x01B\x01C", b"\x01\x02\x01\x01"]
    for _ in range(count):
        data = mutant(choose.choice(originals), choose)
        for _ in range(choose.randrange(4)):
            pos = choose.randrange(len(data) + 1)
            data = data[:pos] + choose.choice((b"\x01", b"\x02")) + data[pos:]
        if not _ENCODED_SURROGATE.search(data):
            assert not isinstance(assert_agree(PROPERTIES, data), Refusal)


@pytest.mark.parametrize("name", sorted(FIXED))
def test_fixed_structures(name: str) -> None:
    layout = LAYOUTS[name]
    structure = fixed_structure(layout)
    choose = random.Random(name)
    for _ in range(50):
        found = {field.name: choose.choice(_numbers(field.kind, choose)) for field in layout.fields}
        data = layout.build(found | CONSTANT.get(name, {}))
        assert assert_agree(structure, data + choose.randbytes(choose.randrange(3))) == found | CONSTANT.get(
            name, {}
        )
    for size in range(layout.size):
        assert isinstance(assert_agree(structure, data[:size]), Refusal)


def _numbers(kind: str, choose: random.Random) -> tuple[int, ...]:
    bits = int(kind[1:])
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    return least, -1, 0, 1, most, choose.randint(least, most)


def test_every_layout_is_compared() -> None:
    compared = {
        "record", "inner_item", "consumequeue_ext_unit", "index_slot",
        # Parts of others: the record up to its body, and the entry and item below.
        "record_header", "dledger_entry", "tiered_index_item",
    }  # fmt: skip
    assert set(LAYOUTS) == compared | set(FIXED)


def test_dledger_entries(store_dir: Directory) -> None:
    layout = LAYOUTS["dledger_entry"]
    names = [field.name for field in layout.fields]
    pos, data, wanted = 0, b"", []
    for index, body in enumerate(list(records(store_dir("4.9.8-basic")))[:40]):
        numbers = (1, 48 + len(body), index, 3, pos, 0, 7, -5, len(body))
        wanted.append((pos, dict(zip(names, numbers, strict=True)), body))
        data += layout.build(wanted[-1][1]) + body
        pos = len(data)
    data += LAYOUTS["dledger_blank"].build({"magic": -1, "size": 100}) + bytes(92)
    frames = reader("rocketmq_dledger")(data).frames
    found = [
        (
            frame.start_pos,
            {
                name: getattr(
                    frame.entry,
                    {"bodyLen": "body_len", "chainCrc": "chain_crc", "bodyCrc": "body_crc"}.get(name, name),
                )
                for name in names
            },
            frame.entry.body,
        )
        for frame in frames[:-1]
    ]
    assert found == wanted
    assert [layout.parse(data, start) for start, _, _ in wanted] == [header for _, header, _ in wanted]
    assert (frames[-1].kind.name, frames[-1].blank.size, frames[-1].available_size) == ("blank", 100, 100)


def test_tiered_items() -> None:
    layout = LAYOUTS["tiered_index_item"]
    data = random.Random("tiered").randbytes(layout.size)
    found = reader("rocketmq_tiered_index", "Item")(data)
    assert layout.parse(data) == LAYOUTS["tiered_compacted_item"].parse(data) | {"prevItem": found.prev_item}
    assert (found.fields.hash, found.fields.time_diff) == (
        layout.parse(data)["hash"],
        layout.parse(data)["timeDiff"],
    )


def _keys(family: str) -> list[bytes]:
    rows = json.loads((VECTORS / "rocksdb_rows.json").read_text("utf-8"))[family]
    return [bytes.fromhex(row["hex"]) for row in rows]


@pytest.mark.parametrize("count", mutant_counts(150, 3000))
@pytest.mark.parametrize(
    ("structure", "originals"),
    [
        pytest.param(INDEX_KEY, [*_keys("index"), bytes(8) + b"@t@K@a@b@id@" + bytes(8)], id="index"),
        pytest.param(TIMER_KEY, _keys("timer"), id="timer"),
        pytest.param(TRANS_KEY, _keys("trans"), id="trans"),
        pytest.param(POP_KEY, _keys("pop"), id="pop"),
    ],
)
def test_keys_of_messages_in_rocksdb(structure: Structure, originals: list[bytes], count: int) -> None:
    """Also with an "@" more or fewer, on which everything hangs."""
    choose = random.Random("message keys")
    assert not any(isinstance(assert_agree(structure, data), Refusal) for data in originals)
    accepted, rejected = check_mutants(structure, originals, count, "message keys")
    assert accepted > 0
    assert rejected > 0
    for _ in range(count):
        changed = bytearray(choose.choice(originals))
        marks = [pos for pos, byte in enumerate(changed) if byte == 0x40]
        if marks and choose.randrange(2):
            del changed[choose.choice(marks)]
        else:
            changed.insert(choose.randrange(len(changed) + 1), 0x40)
        assert_agree(structure, bytes(changed))


@pytest.mark.parametrize("count", mutant_counts(150, 3000))
def test_rocksdb_keys(count: int) -> None:
    units = [
        rocks.encode_unit_key(rocks.UnitKey(topic, 3, 1 << 40)) for topic in (b"TopicTest", b"", b"a\x01b")
    ]
    bounds = [rocks.encode_bound_key(rocks.BoundKey(b"TopicTest", 3, is_max)) for is_max in (True, False)]
    offsets = [
        rocks.encode_config_key(rocks.OffsetKey(table, b"group", b"TopicTest", 7))
        for table in rocks.OFFSET_TABLES
    ]
    for structure, originals in ((UNIT_KEY, units), (BOUND_KEY, bounds), (OFFSET_KEY, offsets)):
        assert not any(isinstance(assert_agree(structure, data), Refusal) for data in originals)
        accepted, rejected = check_mutants(structure, originals, count, "keys")
        assert accepted > 0
        assert rejected > 0


def test_timer_log() -> None:
    layout = LAYOUTS["timer_log_unit"]
    units = [
        {
            "size": 52,
            "prevPos": 52 * number - 52 if number else -1,
            "magic": 1 + 2 * (number % 2),
            "currWriteTime": 1700000000000 + number,
            "delayedTime": 5000,
            "offsetPy": 200 * number,
            "sizePy": 200,
            "hashCodeOfRealTopic": -7,
            "reservedValue": 0,
        }
        for number in range(5)
    ]
    data = b"".join(map(layout.build, units))
    data += LAYOUTS["timer_log_filler"].build({"size": 30, "prevPos": 0, "magic": -875286124}) + bytes(14)
    frames = reader("rocketmq_timerlog")(data).frames
    assert [frame.start_pos for frame in frames] == [52 * number for number in range(6)]
    assert [(frame.unit.prev_pos, frame.unit.is_magic_valid) for frame in frames[:-1]] == [
        (unit["prevPos"], True) for unit in units
    ]
    assert (frames[-1].kind.name, frames[-1].blank.size, frames[-1].available_size) == ("blank", 30, 30)


def test_epoch_file() -> None:
    entries = [EpochEntry(1, 0), EpochEntry(2, 4096), EpochEntry(9, 1 << 40)]
    data = encode_epochs(entries)
    found = reader("rocketmq_epoch")(data)
    assert (found.num_entries, found.crc) == (3, decode_epochs(data).crc)
    assert [EpochEntry(entry.epoch, entry.start_offset) for entry in found.entries] == entries
    assert found.num_entries == len(decode_epochs(data).entries)


def test_markers(store_dir: Directory) -> None:
    assert reader("rocketmq_marker")((store_dir("5.3.3-killed") / "lock").read_bytes()).is_lock
    assert reader("rocketmq_marker")((store_dir("5.3.3-killed") / "abort").read_bytes()).pid_text.isdigit()
    assert not reader("rocketmq_marker")(b"").is_lock
