"""The bytes of one file through a few reused buffers, read ahead by a thread.

The walker, who asks for the bytes, reads a buffer itself where the thread has not begun with it.

Every buffer has room in front of what is read into it: the unfinished end of the buffer before is copied
there, so that whoever walks the bytes always sees a whole piece. Memory is bounded by the buffers whatever
the file; a file that shrinks or fails under the reading is a StoreError with its name and the position.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.budget import current
from rocketfsck.store.reading import Closing, FileReader

BUFFER_SIZE = 2 << 20
FIRST_SIZE = 16 << 10
"""Bytes of the first read, here or after a move; each further read is twice as long, up to a whole buffer. A
walk that soon ends, as one behind known records does, reads little in vain."""
BUFFER_COUNT = 6
FRONT_SIZE = (4 << 20) + (128 << 10)
"""Room for the unfinished record of the buffer before: the default limit of a record (reference 2.9)."""

LEAST_FRONT_SIZE = 256
"""More than any header: what a search must see at once."""


class ReadAhead(Closing):
    """A window over a file: `buffer[start:end]` holds the file's bytes from `file_pos + start` on.

    `move_to` puts the window's start at any position, `extend` continues after its end. A context manager:
    leaving it ends the thread.
    """

    def __init__(
        self,
        reader: FileReader,
        *,
        buffer_size: int = BUFFER_SIZE,
        buffer_count: int = BUFFER_COUNT,
        front_size: int = FRONT_SIZE,
        threaded: bool = True,
        start: int = 0,
        end: int | None = None,
    ) -> None:
        """`threaded` says whether a thread may read ahead (in files that are longer than two buffers), where
        the budget has a core for it. Where `start` or `end` are given, only what lies between them is wanted
        of the file, and nothing behind `end` is read."""
        self._reader = reader
        self.size = reader.size if end is None else min(end, reader.size)
        length = self.size - start
        self.buffer_size = max(min(buffer_size, length), 1)
        threaded = threaded and length > 2 * self.buffer_size and current().reads_ahead
        self._read_size = min(FIRST_SIZE, self.buffer_size)
        self.front_size = max(front_size, LEAST_FRONT_SIZE) if length > self._read_size else 0
        count = buffer_count if threaded else 2 if length > self._read_size else 1
        # np.empty: pages that nothing is read into, most of the front room among them, are never touched
        self._buffers = [np.empty(self.front_size + self.buffer_size, np.uint8) for _ in range(count)]
        self._free = list(range(1, count))
        self._at = 0  # number of the buffer that the window is in
        self.buffer: NDArray[np.uint8] = self._buffers[0]
        self.file_pos = -self.front_size
        self._low = self.start = self.end = self.front_size  # what is below `_low` is not the file's
        self._ahead = 1  # buffers that may be under way: a walk that ends at once reads little in vain
        self._next = 0  # position of the first byte not asked for yet
        self._pending: deque[tuple[int, int, Future[None]]] = deque()  # size, buffer
        self._pool = ThreadPoolExecutor(1, "rocketfsck-read") if threaded else None

    def close(self) -> None:
        """End the thread; closing twice does nothing."""
        if self._pool is not None:
            self._forget()
            self._pool.shutdown()
            self._pool = None

    @property
    def window_end(self) -> int:
        """The file position behind the window."""
        return self.file_pos + self.end

    def move_to(self, pos: int) -> None:
        """Make `pos` (at most the file's size) the window's start; what the buffer still has stays in it."""
        if self.file_pos + self._low <= pos <= self.file_pos + self.end:
            self.start = pos - self.file_pos
        else:
            self._forget()
            self._next = pos
            self._read_size = min(FIRST_SIZE, self.buffer_size)
            self.file_pos = pos - self.front_size
            self._low = self.start = self.end = self.front_size

    def extend(self) -> bool:
        """Put more bytes behind the window's end, keeping those in it; False at the end of the file or
        when the window already holds more than fits in front of a buffer (`front_size`)."""
        kept = self.end - self.start
        pos = self.file_pos + self.end
        if pos >= self.size or kept > self.front_size:
            return False
        number, size = self._take(pos)
        target = self._buffers[number]
        low = self.front_size - kept
        if number != self._at:
            target[low : self.front_size] = self.buffer[self.start : self.end]
            self._free.append(self._at)
            self._at = number
        self.buffer = target
        self.file_pos = pos - self.front_size
        self._low = self.start = low
        self.end = self.front_size + size
        self._read_ahead()
        return True

    def _take(self, pos: int) -> tuple[int, int]:
        """The buffer that holds the bytes from `pos` on, and how many they are."""
        if self._pool is None:
            size = self._next_size(pos)
            number = self._free.pop() if self._free else self._at
            self._read(number, pos, size)
            return number, size
        self._read_ahead()
        if self._read_size == self.buffer_size:
            self._ahead *= 2
        size, number, future = self._pending[0]
        try:
            if future.cancel():
                self._read(number, pos, size)
            else:
                future.result()
        except BaseException:
            self._forget()
            self._next = pos
            raise
        self._pending.popleft()
        return number, size

    def _read_ahead(self) -> None:
        """Have the thread read into all free buffers, where there is one."""
        while self._pool is not None and self._free and self._next < self.size:
            if len(self._pending) >= self._ahead:
                return
            number, size = self._free.pop(), self._next_size(self._next)
            future = self._pool.submit(self._read, number, self._next, size)
            self._pending.append((size, number, future))
            self._next += size

    def _next_size(self, pos: int) -> int:
        size = min(self._read_size, self.size - pos)
        self._read_size = min(2 * self._read_size, self.buffer_size)
        return size

    def _read(self, number: int, pos: int, size: int) -> None:
        self._reader.read_into(self._buffers[number][self.front_size :][:size].data, pos)

    def _forget(self) -> None:
        """Free the buffers that were read ahead; a read that is under way ends first."""
        for _, number, future in self._pending:
            if not future.cancel():
                wait([future])
            self._free.append(number)
        self._pending.clear()
