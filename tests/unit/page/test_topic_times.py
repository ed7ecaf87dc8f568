"""Messages by topic and time: exact counts, steps that grow with the span, and what is left out is said."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.page.tables import DEFAULT, TopicTimes
from rocketfsck.page.topictimes import LAST_MS, TopicCells, TopicCounter, topic_times

NAMES = [f"T{number}".encode() for number in range(40)]
NOW = 1_700_000_000_000
MESSAGES = st.lists(
    st.tuples(st.integers(-1, 9), st.integers(0, LAST_MS) | st.integers(NOW, NOW + 100_000)), max_size=80
)


def counted(
    batches: list[list[tuple[int, int]]], bucket_limit: int = 128, topic_limit: int = 32
) -> TopicCells:
    """The cells of batches of (topic, time)."""
    counter = TopicCounter(bucket_limit)
    for batch in batches:
        rows = np.array(batch, np.int64).reshape(-1, 2)
        counter.add(rows[:, 0], rows[:, 1])
    return counter.cells(NAMES, topic_limit)


def rows_of(cells: TopicCells) -> Counter[tuple[bytes | None, int]]:
    found: Counter[tuple[bytes | None, int]] = Counter()
    for topic, at, number in zip(cells.topic, cells.timestamp, cells.count, strict=True):
        found[None if topic < 0 else cells.names[topic], int(at)] += int(number)
    return found


@given(st.lists(MESSAGES, max_size=4), st.sampled_from([2, 5, 128]), st.sampled_from([1, 3, 32]))
def test_cells_are_what_a_plain_count_gives(
    batches: list[list[tuple[int, int]]], bucket_limit: int, topic_limit: int
) -> None:
    cells = counted(batches, bucket_limit, topic_limit)
    messages = [message for batch in batches for message in batch]
    sums = Counter(topic for topic, _ in messages if topic >= 0)
    kept = sorted(sums, key=lambda topic: (-sums[topic], topic))[:topic_limit]
    plain = Counter(
        (NAMES[topic] if topic in kept else None, time // cells.step_ms * cells.step_ms)
        for topic, time in messages
    )
    assert rows_of(cells) == plain
    assert len({at for _, at in plain}) <= bucket_limit
    if cells.step_ms > 1000:
        finer = {time // (cells.step_ms // 2) for _, time in messages}
        assert len(finer) > bucket_limit, "a step is as short as the limit allows"


def test_times_that_are_no_dates_are_counted_apart() -> None:
    cells = counted([[(0, NOW), (0, -1), (1, LAST_MS + 1), (1, NOW)]])
    assert (cells.undated_count, int(cells.count.sum())) == (2, 2)


def test_many_topics_and_times_make_buckets_longer() -> None:
    """A batch in which each message has a topic and a second of its own."""
    counter = TopicCounter(128)
    number = 1 << 18
    for start in (0, number):
        counter.add(np.arange(number, dtype=np.int64), NOW + 1000 * np.arange(start, start + number))
    cells = counter.cells([str(at).encode() for at in range(number)], 2)
    assert int(cells.count.sum()) == 2 * number
    assert len(set(cells.timestamp.tolist())) <= 128
    assert cells.names == (b"0", b"1")


def joined(files: list[TopicCells | None], totals: dict[str, int], limit: int = 2) -> TopicTimes:
    rows = {name: row for row, name in enumerate(sorted(totals))}
    return topic_times(files, totals, rows, replace(DEFAULT, topic_count=limit, topic_bucket_count=4))


def test_the_largest_topics_of_the_log_have_rows() -> None:
    """T2 is the largest in the log, though not in the first file; times of both files get the longer step."""
    first = counted([[(1, NOW)] * 3 + [(2, NOW)] * 2 + [(0, NOW)]])
    second = counted([[(2, NOW + 1000 * at) for at in range(40)]])
    found = joined([first, second, None], {"T0": 1, "T1": 3, "T2": 42})
    sums: Counter[int] = Counter()
    for topic, number in zip(found.rows.topic, found.rows.message_count, strict=True):
        sums[topic] += number
    assert sums == {2: 42, 1: 3, -1: 1}
    assert len(set(found.rows.bucket)) <= 4 and min(found.rows.bucket) == 0
    assert found.first_timestamp == NOW // found.step_ms * found.step_ms
    assert (found.mixed_count, found.undated_count, found.unread_file_count) == (0, 0, 1)


def test_what_a_file_did_not_keep_apart_is_said() -> None:
    """T2 is the largest of the log, but the first file kept only T1 apart."""
    first = counted([[(1, NOW)] * 3 + [(2, NOW)] * 2], topic_limit=1)
    second = counted([[(2, NOW)] * 9])
    found = joined([first, second], {"T1": 3, "T2": 11}, limit=1)
    assert list(zip(found.rows.topic, found.rows.message_count, strict=True)) == [(-1, 5), (1, 9)]
    assert found.mixed_count == 2


def test_a_log_without_messages_has_no_rows() -> None:
    found = joined([TopicCells()], {})
    assert found.rows.topic == () and (found.step_ms, found.first_timestamp) == (1000, None)
