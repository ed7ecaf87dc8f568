"""Index file arithmetic."""

from __future__ import annotations

import pytest

from rocketfsck.errors import FormatError
from rocketfsck.formats.indexfile import (
    ENTRY,
    ENTRY_SIZE,
    IndexHeader,
    decode_header,
    entry_pos,
    index_file_size,
    time_diff,
)


def test_default_file() -> None:
    assert index_file_size() == 420_000_040
    assert entry_pos(0, 5_000_000) == 20_000_040


def test_empty_file_counts_as_one() -> None:
    for count in (0, 1, -5):
        assert IndexHeader(index_count=count).entry_count == 0
    assert IndexHeader(index_count=3).entry_count == 2
    with pytest.raises(FormatError) as caught:
        decode_header(bytes(39))
    assert caught.value.offset == 36


@pytest.mark.parametrize(
    ("store_timestamp", "begin_timestamp", "seconds"),
    [
        (5000, 0, 0),
        (5000, -1, 0),
        (5999, 1000, 4),
        (500, 1000, 0),
        (1, 999_999, 0),
        ((1 << 31) * 1000 + 1, 1, (1 << 31) - 1),
        (-(1 << 63), 1, (1 << 31) - 1),  # the difference wraps to a huge number
    ],
)
def test_time_diff(store_timestamp: int, begin_timestamp: int, seconds: int) -> None:
    assert time_diff(store_timestamp, begin_timestamp) == seconds


def test_entry_size() -> None:
    assert ENTRY_SIZE == ENTRY.size == 20
