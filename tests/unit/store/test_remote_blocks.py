"""Blocks of remote files: what is fetched for what is read, how much is kept, what many threads get."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rocketfsck.errors import StoreError
from rocketfsck.store.places.blocks import (
    AHEAD_COUNT,
    LARGE_SIZE,
    OVERHEAD_SIZE,
    SMALL_SIZE,
    WHOLE_SIZE,
    Blocks,
)

SIZE = 3 * LARGE_SIZE + 12_345


def byte_at(pos: int) -> int:
    return (pos * 31 + pos // 251) & 0xFF


class Pattern:
    """A file whose bytes follow from their positions, and which remembers what was fetched of it."""

    def __init__(self, size: int = SIZE) -> None:
        self.key = object()
        self.size = size
        self.fetched: list[tuple[int, int]] = []
        self.failing = False

    def fetch(self, start: int, end: int) -> bytes:
        self.fetched.append((start, end))
        if self.failing:
            raise StoreError("fails", path="x", offset=start)
        return bytes(map(byte_at, range(start, start + 64))) + bytes(end - start - 64)


def read(blocks: Blocks, source: Pattern, pos: int, size: int, *, continues: bool = False) -> bytes:
    target = bytearray(size)
    blocks.read_into(source, memoryview(target), pos, continues=continues)
    return bytes(target)


def test_a_few_bytes_fetch_a_small_block_once() -> None:
    blocks, source = Blocks(), Pattern()
    start = 5 * SMALL_SIZE
    assert read(blocks, source, start, 20) == bytes(map(byte_at, range(start, start + 20)))
    assert read(blocks, source, start + 10, 10) == bytes(map(byte_at, range(start + 10, start + 20)))
    assert source.fetched == [(start, start + SMALL_SIZE)]


def test_across_two_small_blocks() -> None:
    blocks, source = Blocks(), Pattern()
    data = read(blocks, source, 2 * SMALL_SIZE - 5, 10)
    assert data == bytes(5) + bytes(map(byte_at, range(2 * SMALL_SIZE, 2 * SMALL_SIZE + 5)))
    assert source.fetched == [(SMALL_SIZE, 2 * SMALL_SIZE), (2 * SMALL_SIZE, 3 * SMALL_SIZE)]


def test_a_small_file_is_one_block() -> None:
    blocks, source = Blocks(), Pattern(WHOLE_SIZE)
    read(blocks, source, WHOLE_SIZE - 100, 50)
    read(blocks, source, 0, 50)
    assert source.fetched == [(0, WHOLE_SIZE)]


def test_reading_on_fetches_ahead() -> None:
    blocks, source = Blocks(), Pattern()
    read(blocks, source, 0, 2 * SMALL_SIZE)
    read(blocks, source, 2 * SMALL_SIZE, 2 * SMALL_SIZE, continues=True)
    for pos in range(0, SIZE, LARGE_SIZE):
        read(blocks, source, pos, min(LARGE_SIZE, SIZE - pos))
    whole = [(pos, min(pos + LARGE_SIZE, SIZE)) for pos in range(0, SIZE, LARGE_SIZE)]
    assert sorted(source.fetched) == whole
    assert AHEAD_COUNT >= 1


def test_memory_is_bounded() -> None:
    limit = 4 * (SMALL_SIZE + OVERHEAD_SIZE)
    blocks, source = Blocks(limit), Pattern()
    for pos in range(0, 40 * SMALL_SIZE, SMALL_SIZE):
        read(blocks, source, pos, 10)
        assert blocks.held_size <= limit
    fetched = len(source.fetched)
    read(blocks, source, 39 * SMALL_SIZE, 10)
    assert len(source.fetched) == fetched
    read(blocks, source, 0, 10)
    assert len(source.fetched) == fetched + 1


def test_what_failed_is_fetched_again() -> None:
    blocks, source = Blocks(), Pattern()
    source.failing = True
    with pytest.raises(StoreError, match="x at byte 0: fails"):
        read(blocks, source, 5, 10)
    source.failing = False
    assert read(blocks, source, 5, 10) == bytes(map(byte_at, range(5, 15)))


def test_threads_share_one_request() -> None:
    blocks = Blocks()
    begun, go_on = threading.Event(), threading.Event()

    class Slow(Pattern):
        def fetch(self, start: int, end: int) -> bytes:
            begun.set()
            assert go_on.wait(30)
            return super().fetch(start, end)

    source = Slow()
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(read, blocks, source, 0, 10)
        assert begun.wait(30)
        others = [pool.submit(read, blocks, source, 0, 10) for _ in range(3)]
        go_on.set()
        assert {future.result() for future in [first, *others]} == {bytes(map(byte_at, range(10)))}
    assert len(source.fetched) == 1
