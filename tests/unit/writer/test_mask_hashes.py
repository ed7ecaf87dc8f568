"""Masked copies hold against guesses: no hash in them tells a name, and damage to hashes and chains stays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rocketfsck.formats.dtypes import ENTRY_DTYPE, UNIT_DTYPE
from rocketfsck.formats.indexfile import entry_pos
from rocketfsck.formats.javatext import index_hash, java_hash
from rocketfsck.store.circumstances import Geometry
from rocketfsck.store.model import Store
from rocketfsck.store.opening import open_store
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.run import check_store
from rocketfsck.writer import OutgoingMessage, WriteOptions, write_store
from rocketfsck.writer.damage.run import damage_store
from rocketfsck.writer.mask.names import HashPermutation, Pseudonyms, permuted_digits
from rocketfsck.writer.mask.tree import mask_store

from tests.conftest import Directory

SECRET = b"0123456789abcdef"
NOW = 1_800_000_000_000
TELEPHONES = [f"1380013{number:04}" for number in range(0, 10000, 50)]
SHORT = ["a", "b", "X1", "q7", "abc", "42"]
WORDS = ["payment", "refund", "order", "invoice"]
TAGS = ["paid", "open", "Aa", "BB"]
GEOMETRY = Geometry(1 << 17, 6000, 4600, 1 << 16, 64, 800)


def _messages() -> Iterator[OutgoingMessage]:
    for number, key in enumerate([*TELEPHONES, *SHORT, *WORDS]):
        properties = {"TAGS": TAGS[number % 4], "KEYS": key}
        yield OutgoingMessage(WORDS[number % 4], b"body", NOW + number * 5, properties=properties)


@pytest.fixture(scope="module")
def guessable(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A store whose names one can list, and its masked copy."""
    place = tmp_path_factory.mktemp("guessable")
    write_store(place / "store", _messages(), WriteOptions(version="5.3.3", geometry=GEOMETRY))
    mask_store(open_store(place / "store"), place / "copy", Pseudonyms(SECRET))
    return place / "store", place / "copy"


def _entries(store: Store) -> np.ndarray[Any, np.dtype[Any]]:
    start = entry_pos(0, store.geometry.slot_count)
    found = [np.frombuffer(file.path.read_bytes(), ENTRY_DTYPE, offset=start) for file in store.indexes]
    entries: np.ndarray[Any, np.dtype[Any]] = np.concatenate(found)
    kept: np.ndarray[Any, np.dtype[Any]] = entries[entries["phyOffset"] + entries["keyHash"] != 0]
    return kept


def _codes(store: Store) -> set[int]:
    units = [np.frombuffer(file.path.read_bytes(), UNIT_DTYPE) for one in store.queues for file in one.files]
    return {code for unit in units for code in unit["tagsCode"][unit["size"] > 0].tolist()}


def _counts(root: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    report = check_store(open_store(root), CheckOptions(level="full", jobs=1, now_timestamp=NOW))
    for finding in report.findings:
        found[finding.rule] += finding.count
    return found


def test_an_attacker_who_lists_names_finds_none(guessable: tuple[Path, Path]) -> None:
    """By hash, by slot and by text: all that the copy has is as by chance."""
    original, copy = map(open_store, guessable)
    guesses = {index_hash(topic, key) for topic in WORDS for key in [*TELEPHONES, *SHORT, *WORDS]}
    assert len(guesses & set(_entries(original)["keyHash"].tolist())) == len(TELEPHONES + SHORT + WORDS)
    assert not guesses & set(_entries(copy)["keyHash"].tolist())
    # nor with the topics that the copy shows
    shown = {queue.topic for queue in copy.queues}
    assert not shown & set(WORDS)
    wide = {index_hash(topic, f"1380013{number:04}") for topic in shown for number in range(10_000)}
    assert len(wide & set(_entries(copy)["keyHash"].tolist())) <= 1
    assert _codes(original) == {java_hash(tag) for tag in TAGS}
    assert not _codes(copy) & {java_hash(word) for word in [*TAGS, *WORDS, *SHORT, *TELEPHONES]}
    for file in filter(Path.is_file, guessable[1].rglob("*")):
        said = file.read_bytes().replace(b'"order":false', b"")  # a member of topics.json, not the topic
        assert not [word for word in [*TELEPHONES, *WORDS] if word.encode() in said], file
        assert not [word for word in WORDS if word in str(file)]


def test_slots_tell_nothing_of_those_of_the_store(guessable: tuple[Path, Path]) -> None:
    original, copy = map(open_store, guessable)
    slots = original.geometry.slot_count
    before, after = (_entries(store)["keyHash"].astype(np.int64) % slots for store in (original, copy))
    assert len(before) == len(after)
    assert (before == after).mean() < 0.1
    # two entries of one slot are seldom in one slot of the copy
    pairs = np.flatnonzero(before[:-1] == before[1:])
    assert (after[pairs] == after[pairs + 1]).sum() <= max(3, len(pairs) // 2)


def test_a_second_archive_has_other_masks(guessable: tuple[Path, Path], tmp_path: Path) -> None:
    mask_store(open_store(guessable[0]), tmp_path / "copy", Pseudonyms())
    one, two = open_store(guessable[1]), open_store(tmp_path / "copy")
    assert not set(_entries(one)["keyHash"].tolist()) & set(_entries(two)["keyHash"].tolist())
    assert not _codes(one) & _codes(two)


def test_the_copy_is_sound(guessable: tuple[Path, Path]) -> None:
    """Tags with one Java hash ("Aa", "BB") have two in the copy, and every unit has its record's."""
    assert _counts(guessable[0]) == _counts(guessable[1])
    assert len(_codes(open_store(guessable[1]))) == len(TAGS)


LENGTHS = {"IX008", "IX013"}
"""Circles and entries cut off: how many there are follows from the lengths of the chains, which are new."""


@pytest.mark.parametrize(
    "fault",
    [
        "chain-cycle", "self-loop", "cross-link", "not-decreasing", "out-of-range", "slot-out-of-range",
        "slot-emptied", "wrong-slot", "entry-hash-negative", "entry-key", "hash-slot-count",
        "index-count-low", "index-truncated",
    ],
)  # fmt: skip
def test_damage_of_an_index_stays(store_dir: Directory, tmp_path: Path, fault: str) -> None:
    damage_store(store_dir("5.3.3-multiseg"), tmp_path / "store", [fault], seed=1)
    mask_store(open_store(tmp_path / "store"), tmp_path / "copy", Pseudonyms(SECRET))
    made, was = _counts(tmp_path / "copy"), _counts(tmp_path / "store")
    assert {rule: made[rule] for rule in made.keys() - LENGTHS} == {
        rule: was[rule] for rule in was.keys() - LENGTHS
    }


def test_wrong_tag_codes_stay_wrong(store_dir: Directory, tmp_path: Path) -> None:
    damage_store(store_dir("4.9.8-basic"), tmp_path / "store", ["wrong-tags"], seed=1)
    mask_store(open_store(tmp_path / "store"), tmp_path / "copy", Pseudonyms(SECRET))
    found = _counts(tmp_path / "store")
    assert found == _counts(tmp_path / "copy")
    assert found != _counts(store_dir("4.9.8-basic"))


@pytest.mark.parametrize("sizes", [(7,), (5, 3), (2, 2, 3, 2)])
def test_rows_of_digits_are_permuted(sizes: tuple[int, ...]) -> None:
    rows = list(np.ndindex(*sizes))
    made = {tuple(permuted_digits(SECRET, row, sizes)) for row in rows}
    assert made == set(rows)
    assert permuted_digits(SECRET, (), ()) == []


def test_hashes_are_permuted() -> None:
    values = np.concatenate((np.arange(-40_000, 40_000), [2**31 - 1, -(2**31)])).astype(np.int64)
    permutation = HashPermutation(SECRET)
    codes, keys = permutation.codes(values), permutation.key_hashes(values)
    for made in (codes, keys):
        assert len(np.unique(made)) == len(values)
        assert (made[values == 0] == 0).all()
        assert np.abs(made).max() < 2**31 + 1
        assert (made == values).sum() <= 2
    assert (np.sign(keys) == np.sign(values)).all()
    assert not (np.sign(codes) == np.sign(values)).all()
