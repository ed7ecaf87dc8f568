"""Timer logs, extension units and damaged chains of index files in masked copies."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from rocketfsck.formats.consumequeue import EXT_UNIT_MIN_SIZE
from rocketfsck.formats.dtypes import ENTRY_DTYPE, SLOT_DTYPE, TIMER_UNIT_DTYPE
from rocketfsck.formats.indexfile import INDEX_HEADER_SIZE, SLOT_SIZE, entry_pos, index_file_size
from rocketfsck.formats.javatext import index_hash, java_hash
from rocketfsck.formats.timer import TIMER_LOG_UNIT_SIZE
from rocketfsck.store.opening import open_store
from rocketfsck.writer.mask.hashes import HashMasks, mask_ext, mask_index, mask_timer_log
from rocketfsck.writer.mask.names import Pseudonyms
from rocketfsck.writer.mask.tree import mask_store, masked_path

from tests.conftest import Directory

SECRET = b"0123456789abcdef"
TOPICS = ["payment", "refund", "order", "a", "T1", "13800138000", "42"]


def _timer_log(hashes: list[int]) -> bytearray:
    units = np.zeros(len(hashes), TIMER_UNIT_DTYPE)
    units["size"], units["hashCodeOfRealTopic"] = TIMER_LOG_UNIT_SIZE, hashes
    return bytearray(units.tobytes())


def _topic_hashes(data: bytearray) -> list[int]:
    hashes: list[int] = np.frombuffer(data, TIMER_UNIT_DTYPE)["hashCodeOfRealTopic"].tolist()
    return hashes


def test_a_timer_log_tells_no_topic() -> None:
    """Of topics that the store has, and of topics that it has lost; RocketMQ's own ones and 0 stay."""
    names, lost = Pseudonyms(SECRET), "secret-topic"
    masks = [names.name(topic) for topic in TOPICS]
    known = [java_hash(topic) for topic in TOPICS]
    own = java_hash("TBW102")
    data = _timer_log([*known, java_hash(lost), known[0], java_hash(lost), 0, own])
    mask_timer_log(data, HashMasks(SECRET), names)
    made = _topic_hashes(data)
    assert made[: len(TOPICS)] == [java_hash(mask) for mask in masks]
    assert made[len(TOPICS) + 1] == made[0], "equal topics stay equal"
    assert made[len(TOPICS)] == made[len(TOPICS) + 2] != java_hash(lost)
    assert made[-2:] == [0, own]
    guesses = {java_hash(word) for word in [*TOPICS, lost, *(f"{number}" for number in range(20_000))]}
    assert not guesses & set(made[:-2])


def test_units_of_another_size_stay() -> None:
    data = _timer_log([java_hash("payment")] * 2)
    data[TIMER_LOG_UNIT_SIZE : TIMER_LOG_UNIT_SIZE + 4] = bytes(4)
    before = bytes(data[TIMER_LOG_UNIT_SIZE:])
    mask_timer_log(data, HashMasks(SECRET), Pseudonyms(SECRET))
    assert bytes(data[TIMER_LOG_UNIT_SIZE:]) == before
    short = bytearray(b"ab")
    mask_timer_log(short, HashMasks(SECRET), Pseudonyms(SECRET))
    assert short == b"ab"


def _ext_unit(code: int, bits: bytes) -> bytes:
    head = (EXT_UNIT_MIN_SIZE + len(bits)).to_bytes(2, "big") + code.to_bytes(8, "big", signed=True)
    return head + (1_700_000_000_000).to_bytes(8, "big") + len(bits).to_bytes(2, "big") + bits


def test_bit_maps_tell_no_group() -> None:
    """A group that one can name has its bits, and where one of them is 0 the message was not for it."""
    bits = [bytes([1, 0, 0, 128]), bytes([0, 255, 0, 0]), bytes(4)]
    lost = _ext_unit(7, b"\x01\x00\x00\x01")
    units = [_ext_unit(java_hash(tag), bit) for tag, bit in zip(TOPICS, bits, strict=False)]
    torn = b"\x00\x01" + lost  # nothing leads to what follows a unit of no size
    data = bytearray(b"".join(units) + torn + bytes(50))
    seen = mask_ext(data, [], HashMasks(SECRET), Pseudonyms(SECRET))
    size = EXT_UNIT_MIN_SIZE + 4
    assert {0, size, 2 * size} <= seen
    for number in range(len(units)):
        unit = data[number * size : (number + 1) * size]
        assert unit[:2] == units[number][:2]
        assert unit[2:10] != units[number][2:10]
        assert unit[10:20] == units[number][10:20]
        assert unit[20:] == bytes(4)
    rest = data[3 * size + 2 : -50]
    assert 0 not in rest, "what is no unit keeps no zero but those at the end"
    assert data.endswith(bytes(50))
    codes = {int.from_bytes(data[place + 2 : place + 10], "big", signed=True) for place in seen}
    assert not codes & {java_hash(tag) for tag in TOPICS}


def test_the_units_of_a_brokers_store_tell_nothing(any_dir: Directory, tmp_path: Path) -> None:
    """Tags in extension units and topics in a timer log, guessed from the very names of the store."""
    store, names = open_store(any_dir("4.9.8-cqext")), Pseudonyms(SECRET)
    mask_store(store, tmp_path / "copy", names)
    guesses = {java_hash(name) for name in names.known()} - {0}
    found = 0
    for file in (file for queue in store.ext_queues for file in queue.files):
        was, made = (
            file.path.read_bytes(),
            (tmp_path / "copy" / masked_path(file.relative, names)).read_bytes(),
        )
        pos = 0
        while (size := int.from_bytes(was[pos : pos + 2], "big", signed=True)) >= EXT_UNIT_MIN_SIZE:
            found += int.from_bytes(was[pos + 2 : pos + 10], "big", signed=True) in guesses
            assert int.from_bytes(made[pos + 2 : pos + 10], "big", signed=True) not in guesses
            assert not any(made[pos + EXT_UNIT_MIN_SIZE : pos + size])
            pos += size
    assert found > 10, "the store itself gives its tags away"


def _index(hashes: list[int], slot_count: int, links: dict[int, int]) -> bytearray:
    """An index file of these hashes, in which some entries have other links."""
    entries = np.zeros(len(hashes) + 1, ENTRY_DTYPE)
    slots = np.zeros(slot_count, SLOT_DTYPE)
    for number, key_hash in enumerate(hashes, 1):
        entries[number] = (key_hash, 1000 * number, 0, slots[key_hash % slot_count])
        slots[key_hash % slot_count] = number
    for number, link in links.items():
        entries["prevIndex"][number] = link
    data = bytearray(index_file_size(slot_count, len(entries)))
    used = int(np.count_nonzero(slots))
    data[32:40] = used.to_bytes(4, "big") + len(entries).to_bytes(4, "big")
    data[INDEX_HEADER_SIZE : INDEX_HEADER_SIZE + SLOT_SIZE * slot_count] = slots.tobytes()
    data[entry_pos(0, slot_count) :] = entries.tobytes()
    return data


def _lost(data: bytearray, slot_count: int) -> tuple[int, int]:
    """How many entries no chain reaches, and how many entries go in circles."""
    slots = np.frombuffer(data, SLOT_DTYPE, slot_count, INDEX_HEADER_SIZE).tolist()
    links = np.frombuffer(data, ENTRY_DTYPE, -1, entry_pos(0, slot_count))["prevIndex"].tolist()
    reached: set[int] = set()
    circling = 0
    for head in slots:
        path: list[int] = []
        while 0 < head < len(links) and head not in path:
            path.append(head)
            head = links[head]
        circling += len(path) - path.index(head) if head in path else 0
        reached |= set(path)
    return len(links) - 1 - len(reached), circling


CUT, CIRCLE, SKIPS = {8: 0}, {8: 12}, {8: 6}


@pytest.mark.parametrize(("links", "lost"), [(CUT, (7, 0)), (CIRCLE, (7, 5)), (SKIPS, (1, 0))])
def test_damage_of_chains_of_one_length_stays(links: dict[int, int], lost: tuple[int, int]) -> None:
    """With one slot all entries are one chain, in the copy, too: what is cut off or circles is the same."""
    data = _index([index_hash("T", f"key{number}") for number in range(12)], 1, links)
    assert _lost(data, 1) == lost
    mask_index(data, slot_count=1, counts_entries=False, masks=HashMasks(SECRET), seed=1)
    assert _lost(data, 1) == lost


@pytest.mark.parametrize("links", [CUT, CIRCLE, SKIPS])
def test_damage_of_chains_follows_from_the_new_ones(links: dict[int, int]) -> None:
    """README.txt: an entry keeps its kind of damage, and what it cuts off are the older ones of its new slot.

    Which entries share a slot is not kept: who has a list of keys could tell by it which of them are there.
    """
    slot_count = 4
    hashes = [slot_count * number * 7919 for number in range(1, 13)]  # one chain
    data = _index(hashes, slot_count, links)
    mask_index(data, slot_count=slot_count, counts_entries=False, masks=HashMasks(SECRET), seed=1)
    entries = np.frombuffer(data, ENTRY_DTYPE, -1, entry_pos(0, slot_count))
    slots = (entries["keyHash"].astype(np.int64) % slot_count).tolist()
    assert len(Counter(slots[1:])) > 1
    mates = [number for number in range(1, 13) if slots[number] == slots[8]]
    older, newer = [number for number in mates if number < 8], [number for number in mates if number > 8]
    made = int(entries["prevIndex"][8])
    if links == CUT:
        assert made == 0
        assert _lost(data, slot_count) == (len(older), 0)
    elif links == CIRCLE:
        assert made == (max(newer) if newer else 12), "without a newer one in its slot the link stays wrong"
        assert _lost(data, slot_count)[0] == len(older)
    else:
        assert made == (older[-2] if len(older) > 1 else 0)
        assert _lost(data, slot_count) == (1 if older else 0, 0)


def test_a_damage_that_has_no_room_is_gone() -> None:
    """README.txt: a link that skips an entry is right in a chain of one entry."""
    slot_count = 997
    hashes = [slot_count * number * 7919 for number in range(1, 13)]
    data = _index(hashes, slot_count, SKIPS)
    assert _lost(data, slot_count) == (1, 0)
    mask_index(data, slot_count=slot_count, counts_entries=False, masks=HashMasks(SECRET), seed=1)
    assert _lost(data, slot_count) == (0, 0)


def test_no_two_pseudonyms_share_a_hash_by_chance() -> None:
    """Of 20,000 texts of four characters a hundred pairs would: IX025 would be in the copy alone."""
    names = Pseudonyms(SECRET)
    masks = {names.name(f"{number:04x}") for number in range(20_000)}
    assert len(masks) == 20_000
    assert len({java_hash(mask) for mask in masks}) == 20_000


def test_short_texts_have_pseudonyms_of_their_own() -> None:
    """More texts of two letters than their hashes: each has its pseudonym, and some share a hash."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    names = Pseudonyms(SECRET)
    texts = [one + two for one in letters for two in letters]
    assert len({names.name(text) for text in texts}) == len(texts)


def test_keys_of_one_hash_have_two() -> None:
    """README.txt: IX025 is not kept, for pseudonyms of two keys share a hash by chance alone."""
    names = Pseudonyms(SECRET)
    for one, two in (("Aa", "BB"), ("order-Aa", "order-BB"), ("AaAaAa", "BBBBBB")):
        assert index_hash("T", one) == index_hash("T", two)
        assert index_hash("T", names.name(one)) != index_hash("T", names.name(two))
