"""Single entries of index files, and the chains that their links make."""

from __future__ import annotations

import os
from itertools import accumulate, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.errors import StoreError
from rocketfsck.formats.indexfile import (
    ENTRY,
    Entry,
    IndexHeader,
    encode_header,
    entry_pos,
    index_file_size,
    slot_pos,
)
from rocketfsck.reader.index import IndexReader, read_header, readable_headers, walk_chain
from rocketfsck.store.circumstances import Geometry
from rocketfsck.store.model import IndexFile
from rocketfsck.store.reading import FileReader

SLOTS, ENTRIES = 3, 6


def index_file(
    path: Path, links: dict[int, int], *, newest: int, size: int | None = None, entry_count: int = ENTRIES
) -> IndexFile:
    """An index file with one chain, that of slot 1: each entry with its prevIndex, and what the slot says."""
    data = bytearray(index_file_size(SLOTS, entry_count))
    data[:40] = encode_header(IndexHeader(1, 2, 3, 4, 5, len(links) + 1))
    data[slot_pos(1) : slot_pos(2)] = newest.to_bytes(4, "big", signed=True)
    for number, previous in links.items():
        pos = entry_pos(number, SLOTS)
        values = {"keyHash": 1, "phyOffset": 100 * number, "timeDiff": 0, "prevIndex": previous}
        data[pos : pos + ENTRY.size] = ENTRY.build(values)
    path.write_bytes(data[:size])
    return IndexFile(os.fspath(path), path.name, path.stat().st_size, 0, 0)


def test_slots_that_a_file_has_no_room_for(tmp_path: Path) -> None:
    """Blocks go as far as the file; a slot that is cut off is none of it."""
    file = index_file(tmp_path / "index", {}, newest=7)
    with IndexReader(file, Geometry(slot_count=(1 << 31) - 1, entry_count=ENTRIES)) as reader:
        held = (file.size - 40) // 4
        assert (reader.held_slot_count, reader.last_entry) == (held, 0)
        ((first, data),) = reader.slot_blocks()
        assert (first, len(data)) == (0, 4 * held)
        assert reader.slots(1, 1).tolist() == [7]
    short = index_file(tmp_path / "short", {}, newest=7, size=47)
    with IndexReader(short, Geometry(slot_count=SLOTS, entry_count=ENTRIES)) as reader:
        assert (reader.held_slot_count, [len(data) for _, data in reader.slot_blocks()]) == (1, [4])
    with IndexReader(index_file(tmp_path / "none", {}, newest=7, size=9), Geometry()) as reader:
        assert (reader.held_slot_count, list(reader.slot_blocks())) == (0, [])


@pytest.mark.parametrize(
    ("links", "newest", "numbers"),
    [
        ({1: 0, 2: 1, 3: 2}, 3, [3, 2, 1]),
        ({1: 3, 2: 1, 3: 2}, 3, [3, 2, 1]),  # a circle
        ({1: 1}, 1, [1]),  # leads to itself
        ({1: 2, 2: 9}, 1, [1, 2]),  # to no entry in use
        ({1: -1}, 1, [1]),
        ({1: 0}, 0, []),
        ({1: 0}, -5, []),
        ({1: 0}, 2, []),
    ],
)
def test_a_walk_ends_wherever_links_lead(
    tmp_path: Path, links: dict[int, int], newest: int, numbers: list[int]
) -> None:
    file = index_file(tmp_path / "1", links, newest=newest)
    with IndexReader(file, Geometry(slot_count=SLOTS, entry_count=ENTRIES)) as reader:
        assert reader.newest(1) == newest
        walk = list(walk_chain(newest, len(links), reader.entry))
    assert [entry.number for entry in walk] == numbers
    assert [entry.previous for entry in walk] == [links[number] for number in numbers]


@pytest.mark.parametrize(
    ("links", "newest", "size", "said"),
    [
        ({1: 0, 2: 1}, 2, None, [2, 1]),
        ({1: 0, 2: 1}, 0, None, []),
        ({1: 0, 2: 1}, 7, None, ["the slot names entry 7, but the file has entries 1 to 2"]),
        ({1: 2, 2: 1}, 2, None, [2, 1, "entry 1 leads to 2, which is not an earlier entry"]),
        ({1: 0, 2: 1}, 2, entry_pos(2, SLOTS) + 19, ["the file ends before entry 2"]),
        ({1: 0, 2: 1}, 2, slot_pos(1) + 3, ["the file ends before slot 1"]),
    ],
)
def test_a_chain_says_why_it_is_broken(
    tmp_path: Path, links: dict[int, int], newest: int, size: int | None, said: list[int | str]
) -> None:
    file = index_file(tmp_path / "1", links, newest=newest, size=size)
    with IndexReader(file, Geometry(slot_count=SLOTS, entry_count=ENTRIES)) as reader:
        found = [item.number if isinstance(item, Entry) else item for item in reader.chain(1)]
    assert found == said


def test_entries_that_the_geometry_does_not_have_are_none(tmp_path: Path) -> None:
    file = index_file(tmp_path / "1", {1: 0}, newest=1)
    with IndexReader(file, Geometry(slot_count=SLOTS, entry_count=1)) as reader:
        assert reader.entry(1) is None
        assert reader.entry(-1) is None
        assert reader.entry(0) == Entry(0, 0, 0, 0, 0)


def test_headers_are_those_that_can_be_read(tmp_path: Path) -> None:
    good = index_file(tmp_path / "1", {1: 0}, newest=1)
    short = index_file(tmp_path / "2", {1: 0}, newest=1, size=39)
    gone = IndexFile(os.fspath(tmp_path / "3"), "3", 100, 0, 0)
    header = read_header(good.location)
    assert header == IndexHeader(1, 2, 3, 4, 5, 2)
    assert read_header(short.location) is None
    assert readable_headers([gone, short, good]) == [(good, header)]
    with IndexReader(short, Geometry(slot_count=SLOTS, entry_count=ENTRIES)) as reader:
        assert (reader.has_header, reader.header, reader.index_count) == (False, IndexHeader(), 1)


def plain_chain(reader: IndexReader) -> list[Entry | str]:
    """What `chain` says of slot 1, entry by entry."""
    newest, last = reader.newest(1) or 0, reader.index_count - 1
    found: list[Entry | str] = [*walk_chain(newest, last, reader.entry)]
    for at, entry in enumerate(found):
        assert isinstance(entry, Entry)
        if not 0 <= entry.previous < entry.number:
            said = f"entry {entry.number} leads to {entry.previous}, which is not an earlier entry"
            return [*found[: at + 1], said]
    end = found[-1] if found else None
    if isinstance(end, Entry) and end.previous:
        found.append(f"the file ends before entry {end.previous}")
    return found


@given(
    st.lists(st.integers(1, 12), max_size=60),
    st.one_of(st.none(), st.tuples(st.integers(0, 59), st.integers(-3, 400))),
    st.integers(0, 8000),
)
def test_a_chain_is_the_same_in_blocks(steps: list[int], odd: tuple[int, int] | None, cut: int) -> None:
    numbers = list(accumulate(steps, initial=0))
    links = dict.fromkeys(range(1, numbers[-1] + 1), 0)
    links |= {high: low for low, high in pairwise(numbers)}
    if odd is not None and odd[0] < len(steps):
        links[numbers[odd[0] + 1]] = odd[1]  # a circle, or out of all bounds
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr("rocketfsck.reader.index.SPAN_COUNT", 16)
        patched.setattr("rocketfsck.reader.index.NEAR_COUNT", 6)
        patched.setattr("rocketfsck.reader.index.FEW_COUNT", 3)
        entry_count = len(links) + 1
        size = max(index_file_size(SLOTS, entry_count) - cut, slot_pos(SLOTS)) if cut < 300 else None
        file = index_file(Path(folder) / "1", links, newest=numbers[-1], size=size, entry_count=entry_count)
        with IndexReader(file, Geometry(slot_count=SLOTS, entry_count=entry_count)) as reader:
            said = list(reader.chain(1))
            plain = plain_chain(reader)
            if not plain and numbers[-1]:  # the file ends before the newest entry
                plain = [f"the file ends before entry {numbers[-1]}"]
            assert said == plain


def test_a_bad_place_takes_no_entry_above_it_from_a_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = {number: number - 1 for number in range(1, 101)}
    file = index_file(tmp_path / "1", links, newest=100, entry_count=101)
    bad = entry_pos(50, SLOTS)
    read = FileReader.read_upto

    def failing(reader: FileReader, pos: int, size: int) -> bytes:
        if pos <= bad < pos + size:
            raise StoreError("cannot be read", path=reader.path, offset=bad)
        return read(reader, pos, size)

    monkeypatch.setattr(FileReader, "read_upto", failing)
    monkeypatch.setattr("rocketfsck.reader.index.FEW_COUNT", 3)
    numbers = []
    geometry = Geometry(slot_count=SLOTS, entry_count=101)
    with pytest.raises(StoreError, match="cannot be read"), IndexReader(file, geometry) as reader:
        for item in reader.chain(1):
            assert isinstance(item, Entry)
            numbers.append(item.number)
    assert numbers == list(range(100, 50, -1))
