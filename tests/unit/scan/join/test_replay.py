"""Replaying an index file's puts: sound files are sound, every planted damage is found, and both
implementations say the same."""

from __future__ import annotations

import itertools
import random
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketfsck.common.budget import within
from rocketfsck.formats.dtypes import ENTRY_DTYPE, Bytes
from rocketfsck.scan.join.replay import EntryFlag, IndexReplay
from rocketfsck.store import open_store

from tests.conftest import STORE_NAMES, Directory


def put(slot_count: int, hashes: list[int]) -> tuple[Bytes, list[int]]:
    """Entries as the broker would put them, and the slots after it."""
    heads = [0] * slot_count
    data = bytearray()
    offsets = [100 + 7 * (index // 3) for index in range(len(hashes))]
    for index, (value, offset) in enumerate(zip(hashes, offsets, strict=True)):
        slot = value % slot_count
        data += struct.pack(">iqii", value, offset, 9 * index // 10, heads[slot])
        heads[slot] = index + 1
    return np.frombuffer(data, np.uint8), heads


def replayed(entries: Bytes, slot_count: int, pieces: int, compiled: bool) -> IndexReplay:
    with within(compiled=compiled):
        replay = IndexReplay(slot_count, limit=50)
    count = entries.size // 20
    step = -(-count // pieces) or 1
    for low in range(0, count, step):
        replay.put(entries[20 * low : 20 * (low + step)], low + 1)
    return replay


def both(entries: Bytes, slot_count: int) -> IndexReplay:
    """Replays both ways, in one piece and in several, asserts that all say the same, gives the compiled."""
    last = replayed(entries, slot_count, 1, True)
    for compiled in (False, True):
        for pieces in (1, 7):
            other = replayed(entries, slot_count, pieces, compiled)
            for name in ("flags", "least_offset", "most_offset", "wrong_count"):
                assert getattr(other, name) == getattr(last, name), name
            np.testing.assert_array_equal(other.heads, last.heads)
            ours, theirs = last.wrong_links(), other.wrong_links()
            assert ours.further_count == theirs.further_count
            for name in ("entry", "previous", "expected", "slot"):
                np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), name)
    return last


@pytest.mark.parametrize("slot_count", [1, 2, 7, 64, 1000, 4_999_999])
def test_sound_entries_are_sound(slot_count: int) -> None:
    rng = random.Random(slot_count)
    hashes = [rng.choice((0, 2**31 - 1, rng.randrange(1 << 31))) for _ in range(1500)]
    entries, heads = put(slot_count, hashes)
    replay = both(entries, slot_count)
    assert replay.flags == 0
    assert replay.wrong_count == 0
    assert (replay.least_offset, replay.most_offset) == (100, 100 + 7 * 499)
    assert replay.heads.tolist() == heads
    slots = np.array(heads, ">i4").view(np.uint8)
    assert replay.first_wrong_slot(slots, 0) == -1
    slots[-1] ^= 1
    assert replay.first_wrong_slot(slots, 0) == slot_count - 1


@pytest.mark.parametrize("seed", range(12))
def test_mutants_are_seen_alike(seed: int) -> None:
    rng = random.Random(seed)
    slot_count = rng.choice((1, 3, 50, 5000))
    entries, _ = put(slot_count, [rng.randrange(1 << 31) for _ in range(1200)])
    entries = entries.copy()
    for _ in range(rng.choice((1, 3, 200))):
        entries[rng.randrange(entries.size)] = rng.choice((0, 1, 127, 128, 255))
    both(entries, slot_count)


DAMAGES = {
    "self link": ("previous", 700, EntryFlag(0)),
    "out of range": ("previous", 1 << 30, EntryFlag(0)),
    "negative link": ("previous", -5, EntryFlag(0)),
    "negative hash": ("hash", -7, EntryFlag.NEGATIVE_HASH),
    "another hash": ("hash", 4, EntryFlag(0)),
    "negative time": ("time", -1, EntryFlag.NEGATIVE_TIME),
    "falling offset": ("offset", 3, EntryFlag.FALLING_OFFSET),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_planted_damage_is_found(name: str) -> None:
    field, value, flag = DAMAGES[name]
    rng = random.Random(1)
    entries, _ = put(50, [rng.randrange(1 << 31) for _ in range(1200)])
    data = np.frombuffer(
        entries.tobytes(), [("hash", ">i4"), ("offset", ">i8"), ("time", ">i4"), ("previous", ">i4")]
    ).copy()
    data[field][699] = value
    replay = both(data.view(np.uint8), 50)
    assert replay.flags == flag
    links = replay.wrong_links()
    if field == "previous":
        assert (links.entry.tolist(), links.previous.tolist()) == ([700], [value])
    else:
        assert (replay.wrong_count > 0) == (field == "hash")


@pytest.mark.parametrize("name", STORE_NAMES)
def test_files_that_brokers_wrote(name: str, store_dir: Directory) -> None:
    paths = sorted((store_dir(name) / "index").glob("*"))
    for path in paths:
        data = np.fromfile(path, np.uint8)
        count = max(int(data[36:40].view(">i4")[0]), 1) - 1
        slot_count = _slot_count(path)
        entries = data[40 + 4 * slot_count + 20 :][: 20 * count]
        replay = both(entries, slot_count)
        assert replay.wrong_count == 0
        assert replay.flags == 0
        assert replay.first_wrong_slot(data[40 : 40 + 4 * slot_count], 0) == -1


def _slot_count(path: Path) -> int:
    return open_store(path.parent.parent).geometry.slot_count


@pytest.mark.parametrize("place", [0, 1, 15, 16, 255, 256, 257, 600])
@pytest.mark.parametrize("field", ["keyHash", "prevIndex", "slot"])
def test_every_entry_counts(place: int, field: str) -> None:
    """In whole blocks of the kernel and behind them, by one bit."""
    entries, heads = put(50, [7 * number % 211 for number in range(601)])
    entries = entries.copy()
    slots = np.array(heads, ">i4")
    if field == "slot":
        slots[place % 50] ^= 1
    else:
        entries.view(ENTRY_DTYPE)[field][place] ^= 1
    replay = both(entries, 50)
    wrong_slot = replay.first_wrong_slot(slots.view(np.uint8), 0)
    assert replay.wrong_count or wrong_slot >= 0
    assert (wrong_slot == place % 50) == (field == "slot")


@pytest.mark.parametrize(
    "offsets",
    [
        [5, -(1 << 63), (1 << 63) - 1, 0],
        [-7, (1 << 63) - 1],
        [-(1 << 63), 3],
        [3, 3],
        [4, 3],
        [(1 << 63) - 1, -(1 << 63)],
        [-1, 0],
        [-2, -1],
    ],
)
def test_strange_offsets_are_told_exactly(offsets: list[int]) -> None:
    entries = put(2, [0] * len(offsets))[0].copy()
    entries.view(ENTRY_DTYPE)["phyOffset"] = offsets
    replay = both(entries, 2)
    assert (replay.least_offset, replay.most_offset) == (min(offsets), max(offsets))
    falls = any(two < one for one, two in itertools.pairwise([-1, *offsets]))
    assert replay.flags == (EntryFlag.FALLING_OFFSET if falls else EntryFlag(0))


@settings(max_examples=200, deadline=None)
@given(
    st.integers(2, 4), st.lists(st.integers(0, 8), min_size=2, max_size=40), st.randoms(use_true_random=False)
)
def test_no_other_order_of_the_same_links_is_sound(
    slot_count: int, hashes: list[int], rng: random.Random
) -> None:
    """Links and heads of a sound file at other places: each number as often as it should be."""
    entries, found = put(slot_count, hashes)
    fields, heads = entries.copy().view(ENTRY_DTYPE), np.array(found, ">i4")
    links = [*fields["prevIndex"].tolist(), *heads.tolist()]
    mixed = rng.sample(links, len(links))
    fields["prevIndex"], heads[:] = mixed[: len(fields)], mixed[len(fields) :]
    replay = both(fields.view(np.uint8), slot_count)
    sound = not replay.wrong_count and replay.first_wrong_slot(heads.view(np.uint8), 0) < 0
    assert sound == (mixed == links)


def test_wrong_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="0 slots"):
        IndexReplay(0)
    replay = IndexReplay(4)
    with pytest.raises(ValueError, match="19 bytes of entries from 1 on"):
        replay.put(np.zeros(19, np.uint8), 1)
    with pytest.raises(ValueError, match="20 bytes of slots from 0 on"):
        replay.first_wrong_slot(np.zeros(20, np.uint8), 0)
