"""Blocks of remote files in memory: what many small readings, and a long one, need of a slow file system.

A reading of a few bytes fetches a small block, a long one, or one that continues where the last ended, a
large one, and orders the next few ahead. All readers of a process share the blocks, which are bounded
together whatever the files; two threads that want the same block wait for one request.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

SMALL_SIZE = 256 << 10
LARGE_SIZE = 4 << 20
WHOLE_SIZE = 1 << 20
"""A file of up to this size is one block."""

CACHE_SIZE = 128 << 20
OVERHEAD_SIZE = 1 << 10
"""What a block costs besides its bytes, about: the blocks of small files are many."""

AHEAD_COUNT = 3
THREAD_COUNT = 8

Key = tuple[Hashable, int, int]  # version of a file, first byte, size


class BlockSource(Protocol):
    """A version of a file that can be fetched in ranges, from several threads at once."""

    @property
    def key(self) -> Hashable:
        """What tells this version of this file from all others."""

    @property
    def size(self) -> int:
        """The file's length in bytes."""

    def fetch(self, start: int, end: int) -> bytes:
        """Exactly the bytes `start:end`. Raises StoreError."""


class Blocks:
    """A bounded cache of blocks, least recently used first out. Safe to share between threads."""

    def __init__(self, limit: int = CACHE_SIZE) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._blocks: OrderedDict[Key, Future[bytes]] = OrderedDict()
        self._held = 0
        self._pool: ThreadPoolExecutor | None = None

    @property
    def held_size(self) -> int:
        """Bytes in the blocks that are there."""
        return self._held

    def read_into(self, source: BlockSource, target: memoryview, pos: int, *, continues: bool) -> None:
        """Fill `target` with the source's bytes from `pos` on, all of which it has. Raises StoreError.

        `continues` says that the reading before ended at `pos`.
        """
        done = 0
        long = continues or len(target) > SMALL_SIZE
        while done < len(target):
            at = pos + done
            start, block = self._block(source, at, long)
            count = min(start + len(block) - at, len(target) - done)
            target[done : done + count] = memoryview(block)[at - start : at - start + count]
            done += count

    def _block(self, source: BlockSource, at: int, long: bool) -> tuple[int, bytes]:
        """The block with the byte at `at`, and where it starts."""
        large = (source.key, at - at % LARGE_SIZE, LARGE_SIZE)
        small = (source.key, at - at % SMALL_SIZE, SMALL_SIZE)
        with self._lock:
            key = next((key for key in (large, small) if key in self._blocks), None)
            if key is None:
                key = large if long or source.size <= WHOLE_SIZE else small
            future = self._blocks.get(key)
            mine = future is None
            if future is None:
                future = self._blocks[key] = Future()
            self._blocks.move_to_end(key)
            ahead = self._order_ahead(source, key) if long and key is large else []
        for waiting, order in ahead:
            self._start(source, waiting, order)
        if mine:
            self._fill(source, key, future)
        return key[1], future.result()

    def _order_ahead(self, source: BlockSource, key: Key) -> list[tuple[Key, Future[bytes]]]:
        ordered = []
        for number in range(1, AHEAD_COUNT + 1):
            start = key[1] + number * LARGE_SIZE
            ahead = (key[0], start, LARGE_SIZE)
            if start < source.size and ahead not in self._blocks:
                future = self._blocks[ahead] = Future()
                ordered.append((ahead, future))
        return ordered

    def _start(self, source: BlockSource, key: Key, future: Future[bytes]) -> None:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(THREAD_COUNT, thread_name_prefix="rocketfsck-remote")
        try:
            self._pool.submit(self._fill, source, key, future)
        except RuntimeError:  # the interpreter ends: no more threads
            self._fill(source, key, future)

    def _fill(self, source: BlockSource, key: Key, future: Future[bytes]) -> None:
        """Fetch a block. What fails is forgotten, so that who asks again fetches again."""
        start = key[1]
        try:
            data = source.fetch(start, min(start + key[2], source.size))
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits for it
            with self._lock:
                self._blocks.pop(key, None)
            future.set_exception(error)
            return
        future.set_result(data)
        with self._lock:
            self._held += len(data) + OVERHEAD_SIZE
            self._make_room()

    def _make_room(self) -> None:
        dropped = []
        for key, future in self._blocks.items():
            if self._held <= self._limit:
                break
            if future.done():
                dropped.append(key)
                self._held -= len(future.result()) + OVERHEAD_SIZE
        for key in dropped:
            del self._blocks[key]


_shared = Blocks()


def shared_blocks() -> Blocks:
    """The blocks of this process."""
    return _shared


def _forget() -> None:
    global _shared
    _shared = Blocks()


os.register_at_fork(after_in_child=_forget)
