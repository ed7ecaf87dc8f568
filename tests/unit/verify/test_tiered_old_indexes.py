"""Local index files of 5.1.x, `0000` and `1111`, laid out as `TieredIndexFile` of 5.1.4 puts keys."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from rocketfsck.formats.dtypes import TIERED_COMPACTED_ITEM_DTYPE, TIERED_ITEM_DTYPE
from rocketfsck.formats.tiered import (
    TIERED_INDEX_HEADER,
    TIERED_INDEX_MAGIC_BEGIN,
    TIERED_INDEX_MAGIC_END,
    compacted_shape,
)
from rocketfsck.reader.tiered import local_indexes, read_local_header
from rocketfsck.store import open_store
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.tasks.task import Context
from rocketfsck.verify.tiered import indexes
from rocketfsck.verify.tiered.check import check_tiered

from tests.conftest import Directory
from tests.unit.verify.test_tiered_rules import INDEX, NAME, SLOTS, Copy

ROOM = 400
ITEMS = 28 + SLOTS * 8


def old_file(rows: Sequence[tuple[int, ...]], begin: int, end: int, *, full: bool = False) -> bytes:
    """What `putKey` of 5.1.4 makes of (hash, topicId, queueId, offset, size, timeDiff in ms)."""
    slots = [-1] * SLOTS
    items = np.zeros(ROOM, TIERED_ITEM_DTYPE)
    for number, row in enumerate(rows):
        slot = row[0] % SLOTS
        items[number] = (*row, slots[slot])
        slots[slot] = number
    head = TIERED_INDEX_HEADER.build(
        {
            "magicCode": TIERED_INDEX_MAGIC_BEGIN,
            "beginTimestamp": begin,
            "endTimestamp": end,
            "slotCount": 0,
            "indexCount": len(rows),
        }
    )
    tail = struct.pack(">i", TIERED_INDEX_MAGIC_END if full else -1)
    return head + b"".join(struct.pack(">ii", slot, 0) for slot in slots) + items.tobytes() + bytes(12) + tail


def rows_of(copy: Copy) -> tuple[list[tuple[int, ...]], int]:
    """The items of all segments, and the first of their times, with times in ms."""
    found = []
    for file in sorted((copy.root / INDEX).iterdir(), key=lambda path: path.name[8:]):
        data = file.read_bytes()
        header = TIERED_INDEX_HEADER.parse(data)
        items = np.frombuffer(data, TIERED_COMPACTED_ITEM_DTYPE, header["indexCount"], ITEMS)
        found += [(*item[:5], header["beginTimestamp"] + item[5] * 1000) for item in items.tolist()]
    begin = min(row[5] for row in found)
    return [(*row[:5], row[5] - begin) for row in found], begin


@pytest.fixture
def copy(real_dir: Directory, tmp_path: Path) -> Copy:
    found = Copy(real_dir(NAME), tmp_path)
    (found.root / "tiered_index_file").mkdir()
    return found


def put(copy: Copy, name: str, data: bytes) -> str:
    (copy.root / "tiered_index_file" / name).write_bytes(data)
    return f"tiered_index_file/{name}"


def sound(copy: Copy, *, full: bool = False) -> bytes:
    rows, begin = rows_of(copy)
    return old_file(rows, begin, begin + rows[-1][5], full=full)


def test_sound_files(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, begin = rows_of(copy)
    put(copy, "1111", sound(copy, full=True))
    put(copy, "0000", old_file(rows[:9], begin, begin + rows[8][5]))
    put(copy, "2222", b"left over from a compaction")
    assert copy.found() == []
    monkeypatch.setattr(indexes, "BLOCK", 7)
    assert copy.found() == []
    store = open_store(copy.root)
    assert [file.name for file in local_indexes(store)] == ["0000", "1111"]
    checked = check_tiered(Context(store, "full", 0)).checked
    assert checked.entry_count == 376 + len(rows) + 9
    (first, _) = local_indexes(store)
    with FileReader(first.location) as reader:
        shape = read_local_header(store, reader).shape
    assert shape is not None
    assert (shape.slot_count, shape.item_count, shape.first_item, shape.no_item) == (SLOTS, 9, 0, -1)
    assert (shape.items_start, shape.end) == (ITEMS, ITEMS + 9 * 32)


def test_a_file_without_items(copy: Copy) -> None:
    put(copy, "0000", old_file([], -1, -1))
    assert copy.found() == []


@pytest.mark.parametrize(
    ("name", "place", "data", "start"),
    [
        ("0000", 0, struct.pack(">i", TIERED_INDEX_MAGIC_END), 0),
        ("0000", 4, struct.pack(">q", -1), 4),
        ("0000", 12, struct.pack(">q", -1), 12),
        ("0000", -4, struct.pack(">i", 7), -4),
        ("1111", -4, struct.pack(">i", -1), -4),
    ],
)
def test_headers_and_the_code_at_the_end(copy: Copy, name: str, place: int, data: bytes, start: int) -> None:
    content = bytearray(sound(copy, full=name == "1111"))
    at = place % len(content)
    content[at : at + len(data)] = data
    file = put(copy, name, bytes(content))
    found = copy.found("quick")
    assert {(item.rule, item.where.file, item.where.start) for item in found} == {
        ("TS020", file, start % len(content))
    }


def test_a_number_of_slots_that_5_1_never_writes(copy: Copy) -> None:
    content = bytearray(sound(copy))
    content[20:24] = struct.pack(">i", 5)
    put(copy, "0000", bytes(content))
    (finding,) = copy.found("quick")
    assert (finding.rule, finding.where.start) == ("TS020", 20)


@pytest.mark.parametrize(
    ("place", "rule", "number"),
    [(28 + 8 * 5, "TS021", 5), (ITEMS + 32 * 9 + 28, "TS022", 9), (ITEMS + 32 * 9 + 24, "", 9)],
)
def test_slots_and_items(copy: Copy, place: int, rule: str, number: int) -> None:
    content = bytearray(sound(copy))
    content[place : place + 4] = struct.pack(">i", 300)
    put(copy, "0000", bytes(content))
    found = copy.found()
    assert {finding.rule for finding in found} == ({rule} if rule else set())
    assert {finding.where.slot if rule == "TS021" else finding.where.entry for finding in found} <= {number}


def test_an_index_of_more_than_2_gib_is_none() -> None:
    assert compacted_shape(28 + 8 * 10, 1, 0) is not None
    assert compacted_shape(28 + 8 * (1 << 28), 1, 0) is None


def test_a_file_of_another_length(copy: Copy) -> None:
    file = put(copy, "0000", sound(copy)[:-4])
    (finding,) = copy.found("quick")
    assert (finding.rule, finding.where.file) == ("TS020", file)
