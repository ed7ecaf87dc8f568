"""The ImHex patterns read what construct's layouts read: vectors, broker-written files, damaged copies."""

from __future__ import annotations

import json
import random
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rocketfsck.errors import FormatError
from rocketfsck.formats import consumequeue, dledger, indexfile, magic, record, smallfiles, tiered, timer
from rocketfsck.formats.layout import Layout, registry

from specs import build, imhex
from tests.conftest import DATA, Directory
from tests.unit.specs.hexpat import RESERVED, PatternError, Placed, Units, evaluate

LAYOUTS = registry()
TEXTS = imhex.patterns(LAYOUTS)
VECTORS = build.SPECS / "vectors"
MAGICS = (magic.MAGIC_V1, magic.MAGIC_V2)


def run(name: str, data: bytes, **edited: int) -> dict[str, Any]:
    """The members of the one variable that a pattern places."""
    (placed,) = evaluate(TEXTS[f"rocketmq_{name}.hexpat"], data, **edited).values()
    assert isinstance(placed.value, dict)
    return placed.value


def as_construct(found: Placed, layout: Layout, data: bytes) -> dict[str, Any]:
    """A struct's values as the layout has them: a host as its bytes, an absent text as none."""
    members = found.value
    assert set(members) <= {field.name for field in layout.fields}
    return {
        field.name: data[members[field.name].start : members[field.name].end]
        if field.kind == "bytes" and field.name in members
        else members[field.name].value
        if field.name in members
        else b""
        for field in layout.fields
    }


def assert_same(found: Placed, layout: str, data: bytes, pos: int) -> None:
    """The struct lies at `pos`, and its fields are those that construct reads there."""
    assert found.start == pos
    assert as_construct(found, LAYOUTS[layout], data) == LAYOUTS[layout].parse(data, pos)


def assert_units(found: Placed, layout: str, data: bytes, start: int, count: int) -> None:
    """An array of a fixed layout; of a long one its first and last, and those that are not zero."""
    units, size = found.value, LAYOUTS[layout].size
    assert isinstance(units, Units)
    assert (found.start, found.end, units.count) == (start, start + count * size, count)
    whole = np.frombuffer(data, "u1", count * size, start).reshape(count, size)
    chosen = {0, count - 1, *np.flatnonzero(whole.any(axis=1))[:300].tolist()}
    for number in chosen:
        assert_same(units.unit(number), layout, data, start + number * size)


def walked(data: bytes) -> tuple[list[int], int]:
    """The starts of a log's record frames, and where they end, as a broker finds them."""
    pos, starts = 0, []
    while len(data) - pos >= magic.MIN_RECORD_SIZE:
        size, code = record.read_frame(data, pos)
        if code not in MAGICS or not magic.MIN_RECORD_SIZE <= size <= len(data) - pos:
            break
        starts.append(pos)
        pos += size
    return starts, pos


def assert_log(data: bytes) -> tuple[int, int]:
    """A log's frames; how many hold a record, and how many are malformed."""
    found = run("commitlog", data, walkBytes=1 << 40)
    starts, end = walked(data)
    frames = found["frames"].value
    assert [frame.start for frame in frames] == starts
    malformed = 0
    for frame, after in zip(frames, [*starts, end][1:], strict=True):
        assert frame.end == after
        try:
            record.decode_record(data[frame.start : after])
        except FormatError:
            malformed += 1
            assert set(frame.value) == {"malformed"}
            continue
        assert_same(frame.value["record"], "record", data, frame.start)
    code = record.read_frame(data, end)[1] if len(data) - end >= 8 else 0
    assert ("blank" in found) == (code == magic.MAGIC_BLANK)
    if "blank" in found:
        assert_same(found["blank"], "blank", data, end)
    return len(frames) - malformed, malformed


def files(root: Path, folder: str) -> Iterator[tuple[Path, bytes]]:
    for path in sorted((root / folder).rglob("*")):
        if path.is_file():
            yield path, path.read_bytes()


def test_every_layout_is_in_a_pattern() -> None:
    assert imhex.declared() == set(LAYOUTS) - {"record_header"}  # the record up to its body


def test_every_file_format_of_kaitai_has_a_pattern() -> None:
    parts = {
        "rocketmq_record", "rocketmq_blank",  # in the commit log
        "rocketmq_properties", "rocketmq_message_id", "rocketmq_marker",  # texts
        "rocketmq_rocksdb_consumequeue", "rocketmq_rocksdb_rows",  # a pattern for each value
    }  # fmt: skip
    assert {path.stem for path in (build.SPECS / "ksy").glob("*.ksy")} - parts <= set(imhex.PATTERNS)


def test_a_page_names_every_pattern() -> None:
    text = (build.SPECS / "README.md").read_text("utf-8")
    for name in TEXTS:
        assert f"{imhex.FOLDER}/{name}" in text


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_names_and_sections(name: str) -> None:
    links = build.section_links((build.SPECS / "README.md").read_text("utf-8"))
    pattern = imhex.PATTERNS[name.removesuffix(".hexpat")]
    assert set(pattern.section.split(", ")) <= set(links)
    assert TEXTS[name].isascii()
    for layout in pattern.layouts:
        assert not RESERVED & {field.name for field in LAYOUTS[layout].fields}
        for field in LAYOUTS[layout].fields:
            assert f" {field.name}" in imhex.struct(LAYOUTS[layout])


def test_stale_patterns_are_named(tmp_path: Path) -> None:
    for path in build.SPECS.glob("*.md"):
        (tmp_path / path.name).write_text(path.read_text("utf-8"), "utf-8")
    folder = tmp_path / imhex.FOLDER
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / name).write_text(text, "utf-8")
    assert build.stale(tmp_path) == []
    (folder / "rocketmq_checkpoint.hexpat").write_text("s64 x @ 0x00;\n", "utf-8")
    (folder / "rocketmq_gone.hexpat").write_text("", "utf-8")
    assert [path.name for path in build.stale(tmp_path)] == [
        "rocketmq_checkpoint.hexpat",
        "rocketmq_gone.hexpat",
    ]


def vectors() -> list[Any]:
    documents = [json.loads(path.read_text("utf-8")) for path in sorted(VECTORS.glob("*.json"))]
    return [
        pytest.param(document["layout"], bytes.fromhex(row["hex"]), id=f"{document['layout']}-{row['name']}")
        for document in documents
        if "layout" in document
        for row in document["vectors"]
    ]


@pytest.mark.parametrize(("layout", "data"), vectors())
def test_vectors(layout: str, data: bytes) -> None:
    """The struct of every layout alone, placed over the bytes of its vectors."""
    hosts = imhex.pattern_text(imhex.PATTERNS["rocketmq_commitlog"], LAYOUTS).partition("// Commitlog")[0]
    text = hosts + imhex.struct(LAYOUTS[layout]) + f"{imhex.type_name(layout)} value @ 0x00;\n"
    found = evaluate(text, data)["value"]
    assert_same(found, layout, data, 0)
    assert found.end == len(LAYOUTS[layout].build(LAYOUTS[layout].parse(data)))


@pytest.mark.parametrize(
    "name", ["4.4.0-legacybatch-propedge", "4.9.8-ipv6", "5.0.0-innerbatch", "5.3.3-propcrc"]
)
def test_commit_logs(store_dir: Directory, name: str) -> None:
    counts = [assert_log(data) for _, data in files(store_dir(name), "commitlog")]
    assert sum(whole for whole, _ in counts) > 20
    assert sum(malformed for _, malformed in counts) == 0


def test_damaged_commit_logs(store_dir: Directory) -> None:
    """Lengths that do not fit make a frame malformed, never an error of the whole pattern."""
    (_, data), *_ = files(store_dir("4.9.8-ipv6"), "commitlog")
    part = data[: walked(data)[0][12] + 50]
    starts = walked(part)[0]
    choose = random.Random("hexpat")
    whole = malformed = 0
    for _ in range(60):
        changed = bytearray(part)
        for _ in range(choose.randrange(1, 4)):
            pos = choose.choice(starts) + choose.choice((0, 4, 36, 39, 84, 96, 108, choose.randrange(200)))
            changed[pos : pos + 4] = choose.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", bytes(4)))
        counts = assert_log(bytes(changed[: len(part)]))
        whole, malformed = whole + counts[0], malformed + counts[1]
    assert whole > 100
    assert malformed > 10
    for size in range(0, 200, 7):
        assert_log(part[:size])


def test_a_walk_ends_where_it_is_told(store_dir: Directory) -> None:
    (_, data), *_ = files(store_dir("4.9.8-basic"), "commitlog")
    starts = walked(data)[0]
    found = run("commitlog", data, walkFrom=starts[3], walkBytes=starts[6] - starts[3])
    assert [frame.start for frame in found["frames"].value] == starts[3:6]


@pytest.mark.parametrize("name", ["4.4.0-collisions", "4.9.8-delay", "5.1.3-basic"])
def test_queues_checkpoint_and_index(store_dir: Directory, manifest: Any, name: str) -> None:
    root = store_dir(name)
    for _, data in [*files(root, "consumequeue")][:6]:
        count = len(data) // consumequeue.UNIT_SIZE
        assert_units(run("consumequeue", data)["units"], "consumequeue_unit", data, 0, count)
    page = (root / "checkpoint").read_bytes()
    assert_same(evaluate(TEXTS["rocketmq_checkpoint.hexpat"], page)["value"], "checkpoint", page, 0)
    slots = manifest(name)["geometry"]["maxHashSlotNum"]
    for _, data in files(root, "index"):
        found = run("indexfile", data, slotCount=slots)
        assert_same(found["header"], "index_header", data, 0)
        assert_units(found["slots"], "index_slot", data, indexfile.INDEX_HEADER_SIZE, slots)
        start = indexfile.entry_pos(0, slots)
        count = (len(data) - start) // indexfile.ENTRY_SIZE
        assert_units(found["entries"], "index_entry", data, start, count)
    assert set(run("indexfile", data)) == {"header"}, "five million slots do not fit"


def test_extension_files(store_dir: Directory) -> None:
    total = 0
    for _, data in files(store_dir("4.9.8-cqext"), "consumequeue_ext"):
        units = run("consumequeue_ext", data)["units"].value
        pos = 0
        for unit in units:
            assert_same(unit, "consumequeue_ext_unit", data, pos)
            pos = unit.end
        assert data[pos : pos + 2] == bytes(2)
        total += len(units)
        marked = run("consumequeue_ext", data[:pos] + consumequeue.EXT_END_MARK)
        assert (marked["endMark"].start, marked["endMark"].value) == (pos, -1)
    assert total > 0


def test_batch_items(store_dir: Directory) -> None:
    bodies = [
        data[frame.value["record"].value["body"].start : frame.value["record"].value["body"].end]
        for _, data in files(store_dir("5.0.0-innerbatch"), "commitlog")
        for frame in run("commitlog", data)["frames"].value
        if frame.value["record"].value["sysFlag"].value & 0x80
    ]
    assert bodies
    for body in bodies:
        items = run("batch_items", body)["items"].value
        assert len(items) == len(record.decode_items(body))
        for item, pos in zip(items, [0, *(item.end for item in items)], strict=False):
            assert_same(item, "inner_item", body, pos)
        assert items[-1].end == len(body)
        assert len(run("batch_items", body[:-1])["items"].value) == len(items) - 1


def test_batch_queues(real_dir: Directory) -> None:
    folders = (("5.5.0-batchcq", "batchconsumequeue"), ("5.5.0-compaction", "compaction/compactionCq"))
    for name, folder in folders:
        found = [data for _, data in files(real_dir(name), folder)]
        assert found
        for data in found:
            count = len(data) // consumequeue.BATCH_UNIT_SIZE
            units = run("batchconsumequeue", data)["units"]
            assert_units(units, "batch_consumequeue_unit", data, 0, count)


def test_compacted_logs(real_dir: Directory) -> None:
    found = [assert_log(data) for _, data in files(real_dir("5.5.0-compaction"), "compaction/compactionLog")]
    assert sum(whole for whole, _ in found) > 10


@pytest.mark.parametrize("name", ["5.5.0-dledger", "4.9.7-dledger-mixed"])
def test_dledger(real_dir: Directory, name: str) -> None:
    (root,) = (path for path in real_dir(name).glob("dledger-*") if path.is_dir())
    records = 0
    for _, data in files(root, "data"):
        found = run("dledger", data, walkBytes=1 << 40)
        pos = 0
        for frame in found["frames"].value:
            entry = frame.value["entry"].value
            assert_same(entry["header"], "dledger_entry", data, pos)
            body = pos + dledger.ENTRY_HEADER_SIZE
            pos = body + entry["header"].value["bodyLen"].value
            assert frame.end == pos
            if entry["header"].value["magic"].value == dledger.MAGIC_NORMAL:
                assert_same(entry["record"], "record", data, body)
                records += 1
        if "blank" in found:
            assert_same(found["blank"], "dledger_blank", data, pos)
        else:
            assert not any(data[pos : pos + 48])
    for _, data in files(root, "index"):
        count = len(data) // dledger.INDEX_UNIT_SIZE
        assert_units(run("dledger_index", data)["units"], "dledger_index", data, 0, count)
    assert records > 50


def test_damaged_dledger_entries(real_dir: Directory) -> None:
    (root,) = (path for path in real_dir("5.5.0-dledger").glob("dledger-*") if path.is_dir())
    (_, data), *_ = files(root, "data")
    first, second = (frame for frame in run("dledger", data)["frames"].value[:2])
    size = LAYOUTS["dledger_entry"].offset("bodyLen")
    changed = bytearray(data[: second.end])
    changed[first.start + size : first.start + size + 4] = b"\x7f\xff\xff\xff"
    changed[second.start + 48 : second.start + 52] = bytes(4)
    frames = run("dledger", bytes(changed))["frames"].value
    assert set(frames[0].value) == {"malformed"}
    assert set(frames[1].value["entry"].value) == {"header", "body"}
    ended = data[: first.end] + LAYOUTS["dledger_blank"].build({"magic": -1, "size": 8})
    assert_same(run("dledger", ended)["blank"], "dledger_blank", ended, first.end)


def test_timers(real_dir: Directory) -> None:
    root = real_dir("5.5.0-timer")
    wheel = (root / "timerwheel").read_bytes()
    count = len(wheel) // timer.TIMER_WHEEL_SLOT_SIZE
    assert_units(run("timerwheel", wheel)["units"], "timer_wheel_slot", wheel, 0, count)
    page = (root / "config/timercheck").read_bytes()
    assert_same(evaluate(TEXTS["rocketmq_timercheck.hexpat"], page)["value"], "timer_check", page, 0)
    ((_, log),) = files(root, "timerlog")
    units = run("timerlog", log)["units"]
    assert units.value.count > 3
    assert_units(units, "timer_log_unit", log, 0, units.value.count)
    assert not any(log[units.end : units.end + 52])
    filler = LAYOUTS["timer_log_filler"].build({"size": 30, "prevPos": 0, "magic": magic.MAGIC_BLANK})
    ended = log[: units.end] + filler + bytes(14)
    found = run("timerlog", ended)
    assert found["units"].value.count == units.value.count
    assert_same(found["filler"], "timer_log_filler", ended, units.end)
    assert set(run("timerlog", filler)) == {"filler"}


def test_tiered_logs(tmp_path: Path) -> None:
    with tarfile.open(DATA / "tiered" / "5.2.0-codas.tar.xz") as archive:
        archive.extractall(tmp_path, filter="tar")
    codas = records = 0
    for path, data in files(tmp_path, "."):
        if path.parent.name == "COMMIT_LOG":
            found = run("tiered_log", data)
            frames = found["frames"].value
            for frame in frames:
                assert_same(frame.value["record"], "record", data, frame.start)
            records += len(frames)
            end = frames[-1].end if frames else 0
            assert ("coda" in found) == (end < len(data))
            if "coda" in found:
                codas += 1
                assert_same(found["coda"], "tiered_coda", data, end)
        elif path.parent.name == "CONSUME_QUEUE":
            units = run("consumequeue", data)["units"]
            assert_units(units, "consumequeue_unit", data, 0, len(data) // consumequeue.UNIT_SIZE)
    assert codas > 0
    assert records > 20


def test_tiered_index_segments(real_dir: Directory) -> None:
    segments = [
        data for path, data in files(real_dir("5.5.0-tiered"), "tiered") if path.parent.name == "INDEX"
    ]
    assert segments
    for data in segments:
        header = tiered.TIERED_INDEX_HEADER.parse(data)
        items = header["indexCount"] * tiered.TIERED_COMPACTED_ITEM.size
        slots = (len(data) - tiered.TIERED_INDEX_HEADER.size - items) // tiered.TIERED_COMPACTED_SLOT.size
        found = run("tiered_index", data, slotCount=slots)
        assert_same(found["header"], "tiered_index_header", data, 0)
        at = tiered.TIERED_INDEX_HEADER.size
        assert_units(found["compactedSlots"], "tiered_compacted_slot", data, at, slots)
        at = found["compactedSlots"].end
        assert_units(found["compactedItems"], "tiered_compacted_item", data, at, header["indexCount"])
        assert set(run("tiered_index", data)) == {"header"}


def test_tiered_index_that_is_written() -> None:
    numbers = iter(range(1, 1000))
    values = {"magicCode": tiered.TIERED_INDEX_MAGIC_BEGIN} | dict.fromkeys(
        ("beginTimestamp", "endTimestamp", "slotCount", "indexCount"), 2
    )
    data = tiered.TIERED_INDEX_HEADER.build(values)
    for layout, count in ((tiered.TIERED_INDEX_SLOT, 3), (tiered.TIERED_INDEX_ITEM, 5)):
        for _ in range(count):
            data += layout.build({field.name: next(numbers) for field in layout.fields})
    found = run("tiered_index", data, slotCount=3)
    at = tiered.TIERED_INDEX_HEADER.size
    assert_units(found["slots"], "tiered_index_slot", data, at, 3)
    assert_units(found["items"], "tiered_index_item", data, found["slots"].end, 5)


def test_epochs() -> None:
    entries = [smallfiles.EpochEntry(1, 0), smallfiles.EpochEntry(2, 4096), smallfiles.EpochEntry(9, 1 << 40)]
    data = smallfiles.encode_epochs(entries)
    found = run("epoch", data)
    texts = [line.value["text"].value.decode() for line in found["entries"].value]
    assert texts == [f"{entry.epoch}-{entry.start_offset}" for entry in entries]
    assert int(found["count"].value["text"].value) == 3
    assert int(found["crc"].value["text"].value) == smallfiles.decode_epochs(data).crc
    assert set(run("epoch", b"3")) == {"count", "entries"}
    assert run("epoch", data[:-1])["entries"].value[-1].value["text"].value == texts[-1].encode()


def test_the_evaluator_follows_the_language() -> None:
    with pytest.raises(PatternError, match="reach beyond"):
        evaluate("u8 x[5] @ 0x00;", b"abcd")
    with pytest.raises(PatternError, match="reach beyond"):
        evaluate("fn f() { return $ > 4 && std::mem::read_unsigned(4, 1, std::mem::Endian::Big) == 0; };"
                 "struct S { if (f()) { u8 x; } }; S s @ 0x00;", b"abcd")  # fmt: skip
    for bad in ("u8 x @ 0x00", "u9 x @ 0x00;", "u8 size%;", "fn f() { }; u8 x[f()] @ 0x00;", "#pragma once\n",
                "u8 in @ 0x00;", "u8 x[y] @ 0x00;", "struct S { u8 a; u8 a; }; S s @ 0x00;"):  # fmt: skip
        with pytest.raises(PatternError):
            evaluate(bad, b"abcd")
    below = "struct S { s32 a; if (a > 0) { u8 b; } }; S s @ 0x00;"
    assert evaluate(below, b"\xff\xff\xff\xff.")["s"].plain() == {"a": -1}
    assert evaluate(below, b"\x00\x00\x00\x01.")["s"].plain() == {"a": 1, "b": 46}
