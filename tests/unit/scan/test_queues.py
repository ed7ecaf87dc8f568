"""QueueTable: dense, stable numbers, bounded whatever is put in."""

from __future__ import annotations

import pytest

from rocketfsck.scan.queues import NO_ROW, QueueTable, name_hash


def test_rows_are_dense_and_in_order_of_meeting() -> None:
    table = QueueTable()
    names = [(b"TopicTest", 3), (b"TopicTest", 0), (b"", -1), (b"%RETRY%g", 0)]
    assert [table.intern(*name) for name in names] == [0, 1, 2, 3]
    assert [table.intern(*name) for name in reversed(names)] == [3, 2, 1, 0]
    assert table.names == names
    assert len(table) == 4


def test_grows_past_every_first_capacity() -> None:
    table = QueueTable()
    rows = [table.intern(b"topic-%d" % (i % 700), i) for i in range(5000)]
    assert rows == list(range(5000))
    assert table.names[4999] == (b"topic-%d" % (4999 % 700), 4999)
    assert int((table.slots > 0).sum()) == 5000


def test_full_table_turns_names_away_but_keeps_what_it_has() -> None:
    table = QueueTable(max_queues=2, max_name_size=10)
    assert table.intern(b"abc", 0) == 0
    assert table.intern(b"12345678", 0) == NO_ROW
    assert table.intern(b"de", 1) == 1
    assert table.intern(b"f", 2) == NO_ROW
    assert table.intern(b"abc", 0) == 0
    assert table.turned_away_count == 2
    assert len(table) == 2


def found_by_probing(table: QueueTable, name: tuple[bytes, int]) -> int:
    """As compiled code looks a name up."""
    slot = name_hash(*name)
    while row := int(table.slots[slot % len(table.slots)]):
        if table.names[row - 1] == name:
            return row - 1
        slot += 1
    return NO_ROW


@pytest.mark.parametrize("count", [0, 1, 255, 1024, 1500, 5000])
def test_a_table_that_begins_as_another(count: int) -> None:
    other, table = QueueTable(), QueueTable()
    for number in range(5000):
        other.intern(b"topic-%d" % (number % 700), number)
    names = other.names
    table.begin_as(other, names[:count])
    assert table.names == names[:count]
    assert int((table.slots > 0).sum()) == count
    assert [found_by_probing(table, name) for name in names[:count]] == list(range(count))
    assert {found_by_probing(table, name) for name in names[count:]} <= {NO_ROW}
    later = names[::-1]
    rows = [table.intern(*name) for name in later]
    assert sorted(rows) == list(range(5000))
    assert [table.names[row] for row in rows] == later
    assert names == other.names
    assert len(names) == 5000


def test_colliding_names_are_bounded_not_slow() -> None:
    table = QueueTable(max_queues=4096)
    pieces = [b"Aa", b"BB"]  # the same under a hash with factor 31
    names = [b"".join(pieces[number >> bit & 1] for bit in range(10)) for number in range(600)]
    rows = [table.intern(name, 0) for name in names]
    assert rows[:256] == list(range(256))
    assert set(rows[256:]) == {NO_ROW}
