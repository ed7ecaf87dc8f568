"""The bytes of one file through a few reused buffers, read ahead by a thread.

The thread and whoever walks the bytes share the reading: the walker, where it would have to wait, reads the
next buffer itself, so that no core is idle whichever of the two, reading or checking, takes longer.

Every buffer has room in front of what is read into it: the unfinished end of the buffer before is copied
there, so that whoever walks the bytes always sees a whole piece. Memory is bounded by the buffers whatever
the file; a file that shrinks or fails under the reading is a StoreError with its name and the position.
"""

from __future__ import annotations

import threading
from collections import deque
from queue import SimpleQueue
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rocketfsck.scan.crew import taken
from rocketfsck.store.reading import FileReader

BUFFER_SIZE = 2 << 20
BUFFER_COUNT = 6
FRONT_SIZE = (4 << 20) + (128 << 10)
"""Room for the unfinished record of the buffer before: the default limit of a record (reference 2.9)."""

LEAST_FRONT_SIZE = 256
"""More than any header: what a search must see at once."""

Order = tuple[int, int, int, int]  # generation, buffer, position, size
Answer = tuple[int, int, BaseException | None]  # buffer, size, error


class ReadAhead:
    """A window over a file: `buffer[start:end]` holds the file's bytes from `file_pos + start` on.

    `move_to` puts the window's start at any position, `extend` goes on behind its end. A context manager:
    leaving it ends the thread.
    """

    __slots__ = (
        "_answers",
        "_at",
        "_buffers",
        "_free",
        "_generation",
        "_low",
        "_next",
        "_orders",
        "_reader",
        "_ready",
        "_thread",
        "_work",
        "buffer",
        "buffer_size",
        "end",
        "file_pos",
        "front_size",
        "size",
        "start",
    )

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
        """`threaded` says whether a thread reads ahead (in files that are longer than two buffers): right
        where cores are free, not where every core already walks a file of its own. Where `start` or `end` are
        given, only what lies between them is wanted of the file, and nothing behind `end` is read."""
        self._reader = reader
        self.size = reader.size if end is None else min(end, reader.size)
        length = self.size - start
        self.buffer_size = max(min(buffer_size, length), 1)
        threaded = threaded and length > 2 * self.buffer_size
        self.front_size = max(front_size, LEAST_FRONT_SIZE) if length > self.buffer_size else 0
        count = buffer_count if threaded else 2 if length > self.buffer_size else 1
        # np.empty: pages that nothing is read into, most of the front room among them, are never touched
        self._buffers = [np.empty(self.front_size + self.buffer_size, np.uint8) for _ in range(count)]
        self._free = list(range(1, count))
        self._at = 0  # number of the buffer that the window is in
        self.buffer: NDArray[np.uint8] = self._buffers[0]
        self.file_pos = -self.front_size
        self._low = self.start = self.end = self.front_size  # what is below `_low` is not the file's
        self._next = 0  # position of the first byte not asked for yet
        self._generation = 0
        self._orders: deque[Order] = deque()  # not begun yet; taken by both threads
        self._work: SimpleQueue[bool] = SimpleQueue()  # True: look for an order, False: end
        self._answers: SimpleQueue[tuple[Order, BaseException | None]] = SimpleQueue()
        self._ready: dict[int, Answer] = {}  # answers of this generation that were not asked for yet
        self._thread: threading.Thread | None = None
        if threaded:
            self._thread = threading.Thread(target=self._serve, name="rocketfsck-read", daemon=True)
            self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the thread; closing twice does nothing."""
        if self._thread is not None:
            self._orders.clear()
            self._work.put(False)
            self._thread.join()
            self._thread = None

    @property
    def window_end(self) -> int:
        """The file position behind the window."""
        return self.file_pos + self.end

    def move_to(self, pos: int) -> None:
        """Make `pos` (at most the file's size) the window's start; what the buffer still has stays in it."""
        if self.file_pos + self._low <= pos <= self.file_pos + self.end:
            self.start = pos - self.file_pos
        else:
            self._generation += 1
            for number, _, _ in self._ready.values():
                self._free.append(number)
            self._ready.clear()
            self._next = pos
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
        self._order()
        return True

    def _take(self, pos: int) -> tuple[int, int]:
        """The buffer that holds the bytes from `pos` on, and how many they are."""
        if self._thread is None:
            size = min(self.buffer_size, self.size - pos)
            number = self._free.pop() if self._free else self._at
            low = self.front_size
            self._reader.read_into(self._buffers[number][low : low + size].data, pos)
            return number, size
        self._order()
        while pos not in self._ready:
            order = taken(self._orders)
            if order is None:
                self._accept(*self._answers.get())
            else:
                self._accept(order, self._read(order))
                while not self._answers.empty():
                    self._accept(*self._answers.get())
        number, size, error = self._ready.pop(pos)
        if error is not None:
            self._free.append(number)
            raise error
        return number, size

    def _accept(self, order: Order, error: BaseException | None) -> None:
        generation, number, pos, size = order
        if generation == self._generation:
            self._ready[pos] = (number, size, error)
        else:
            self._free.append(number)
            self._order()

    def _order(self) -> None:
        """Order reads into all free buffers."""
        if self._thread is None:
            return
        while self._free and self._next < self.size:
            size = min(self.buffer_size, self.size - self._next)
            self._orders.append((self._generation, self._free.pop(), self._next, size))
            self._work.put(True)
            self._next += size

    def _read(self, order: Order) -> BaseException | None:
        generation, number, pos, size = order
        if generation == self._generation:
            try:
                self._reader.read_into(self._buffers[number][self.front_size :][:size].data, pos)
            except BaseException as error:  # noqa: BLE001 - raised again by the thread that walks
                return error
        return None

    def _serve(self) -> None:
        while self._work.get():
            order = taken(self._orders)
            if order is not None:
                self._answers.put((order, self._read(order)))
