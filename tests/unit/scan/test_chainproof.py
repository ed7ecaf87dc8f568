"""The proof that chains are sound: it holds for what puts make, and for nothing that a replay refuses."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rocketfsck.scan.chainproof import SLOT_LIMIT, ChainProof
from rocketfsck.scan.replay import ENTRY_DTYPE, EntryFlag, IndexReplay

from tests.unit.scan.test_replay import put

Bytes = NDArray[np.uint8]


def _proved(entries: Bytes, slots: Bytes, slot_count: int, step: int = 1 << 20) -> ChainProof:
    proof = ChainProof(slot_count)
    for low in range(0, len(entries) // 20, step):
        proof.put(entries[20 * low : 20 * (low + step)], low + 1)
    for low in range(0, slot_count, step):
        proof.put_slots(slots[4 * low : 4 * (low + step)])
    return proof


def _file(slot_count: int, hashes: list[int]) -> tuple[Bytes, Bytes]:
    entries, heads = put(slot_count, hashes)
    return entries.copy(), np.array(heads, ">i4").view(np.uint8)


@pytest.mark.parametrize("slot_count", [2, 7, 64, 1000, 65_537])
def test_sound_chains_are_proved(slot_count: int) -> None:
    rng = random.Random(slot_count)
    hashes = [rng.choice((0, 2**31 - 1, rng.randrange(1 << 31))) for _ in range(1500)]
    entries, slots = _file(slot_count, hashes)
    for step in (1 << 20, 77):
        proof = _proved(entries, slots, slot_count, step)
        assert proof.holds
        assert proof.used_slot_count == len({value % slot_count for value in hashes})
        assert proof.take_facts() == (EntryFlag(0), 100, 100 + 7 * 499)


def test_terms_of_the_largest_table_stay_in_their_bounds() -> None:
    last = SLOT_LIMIT - 1
    count = 1600
    fields = np.zeros(count, ENTRY_DTYPE)
    fields["hash"] = np.where(np.arange(count) % 2, 2**31 - 1, last)  # the same slot, the last one
    fields["previous"] = np.arange(count)
    heads = np.zeros(SLOT_LIMIT, ">i4")
    heads[last] = count
    entries, slots = fields.view(np.uint8), heads.view(np.uint8)
    for _ in range(3):
        assert _proved(entries, slots, SLOT_LIMIT).holds
    slots[-1] ^= 1
    assert not _proved(entries, slots, SLOT_LIMIT).holds


@pytest.mark.parametrize("place", [0, 1, 15, 16, 17, 255, 256, 511, 600])
@pytest.mark.parametrize("field", ["hash", "previous", "time", "offset"])
def test_every_entry_counts(place: int, field: str) -> None:
    """In whole blocks and behind them, by one bit that leaves the number what it may be."""
    entries, slots = _file(50, [7 * number % 211 for number in range(601)])
    fields = entries.view(ENTRY_DTYPE)
    fields[field][place] ^= 1 if field != "offset" else 1 << 40
    proof = _proved(entries, slots, 50)
    assert proof.holds == (field in ("time", "offset"))
    falls = field == "offset" and place < 600
    assert proof.take_facts()[0] == (EntryFlag.FALLING_OFFSET if falls else EntryFlag(0))


@pytest.mark.parametrize("place", [0, 15, 16, 255, 256, 600])
def test_every_sign_counts(place: int) -> None:
    for field, flag, holds in (
        ("hash", EntryFlag.NEGATIVE_HASH, False),
        ("time", EntryFlag.NEGATIVE_TIME, True),
        ("previous", EntryFlag(0), False),
    ):
        entries, slots = _file(50, [7 * number % 211 for number in range(601)])
        entries.view(ENTRY_DTYPE)[field][place] |= -(1 << 31)
        proof = _proved(entries, slots, 50)
        assert proof.holds == holds
        assert proof.take_facts()[0] == flag


def test_a_proof_needs_all_slots() -> None:
    entries, slots = _file(4, [0, 0, 1])
    proof = ChainProof(4)
    proof.put(entries, 1)
    proof.put_slots(slots[:8])
    assert not proof.holds
    proof.put_slots(slots[8:])
    assert proof.holds


CHANGES = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=4)


@settings(max_examples=300, deadline=None)
@given(st.integers(2, 9), st.lists(st.integers(0, 40), min_size=1, max_size=60), CHANGES, st.integers(1, 40))
def test_a_proof_holds_where_a_replay_finds_nothing(
    slot_count: int, hashes: list[int], changes: list[tuple[int, int]], step: int
) -> None:
    """And nowhere else; the facts of entries are the same, too."""
    entries, slots = _file(slot_count, hashes)
    whole = np.concatenate((slots, entries))
    for place, value in changes:
        whole[place % len(whole)] = value
    slots, entries = whole[: len(slots)], whole[len(slots) :].copy()
    replay = IndexReplay(slot_count)
    replay.put(entries, 1)
    sound = not replay.wrong_count and replay.first_wrong_slot(slots, 0) < 0
    proof = _proved(entries, slots, slot_count, step)
    if sound and replay.flags & EntryFlag.NEGATIVE_HASH:
        assert not proof.holds  # left to the replay
    else:
        assert proof.holds == sound
    assert proof.take_facts() == replay.take_facts()


@settings(max_examples=200, deadline=None)
@given(
    st.integers(2, 4), st.lists(st.integers(0, 8), min_size=2, max_size=40), st.randoms(use_true_random=False)
)
def test_no_other_order_of_the_same_links_is_proved(
    slot_count: int, hashes: list[int], rng: random.Random
) -> None:
    """Links and heads of a sound file at other places: each number as often as it should be."""
    entries, slots = _file(slot_count, hashes)
    fields, heads = entries.view(ENTRY_DTYPE), slots.view(">i4")
    links = [*fields["previous"].tolist(), *heads.tolist()]
    mixed = rng.sample(links, len(links))
    fields["previous"], heads[:] = mixed[: len(fields)], mixed[len(fields) :]
    assert _proved(entries, slots, slot_count).holds == (mixed == links)


def test_strange_offsets_are_told_exactly() -> None:
    for offsets in (
        [5, -(1 << 63), (1 << 63) - 1, 0],
        [-7, (1 << 63) - 1],
        [-(1 << 63), 3],
        [3, 3],
        [4, 3],
        [(1 << 63) - 1, -(1 << 63)],
        [-1, 0],
        [-2, -1],
    ):
        entries, _ = _file(2, [0] * len(offsets))
        entries.view(ENTRY_DTYPE)["offset"] = offsets
        for step in (1, 2, 9):
            replay, proof = IndexReplay(2), ChainProof(2)
            for low in range(0, len(offsets), step):
                for chains in (replay, proof):
                    chains.put(entries[20 * low : 20 * (low + step)], low + 1)
                assert proof.take_facts() == replay.take_facts(), (offsets, step, low)


def test_wrong_sizes_are_refused() -> None:
    for slot_count in (0, 1, SLOT_LIMIT + 1):
        with pytest.raises(ValueError, match=f"{slot_count} slots"):
            ChainProof(slot_count)
    proof = ChainProof(4)
    with pytest.raises(ValueError, match="19 bytes of entries from 1 on"):
        proof.put(np.zeros(19, np.uint8), 1)
    with pytest.raises(ValueError, match="20 bytes of slots from 0 on"):
        proof.put_slots(np.zeros(20, np.uint8))
