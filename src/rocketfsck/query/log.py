"""The commit log by physical offset: single records, and where the log begins and ends.

    log := the files in order of name, each with live records, gaps, BLANK and filler, maybe a stale tail

Only what is asked for is read: some bytes a record. Where the live records of a file end is found by a walk
over that file (`scan.log.live`), once and only when it matters. Reference 1.2, 2.1, 2.8.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from rocketfsck.reader.records import HEAD_SIZE, decode_head
from rocketfsck.scan.columns import new_batch
from rocketfsck.scan.log.large import append_large_record, read_large_record
from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.options import ScanOptions, Stop, log_options
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.views.messages import MAX_BODY_SIZE, Message, read_message
from rocketfsck.store.elsewhere import has_log_elsewhere
from rocketfsck.store.model import MappedFile, Store
from rocketfsck.store.openfiles import OpenFiles

KEY_ROOM = 32768
"""More words than the 32767 bytes of a record's properties can hold."""


class LogView(OpenFiles):
    """The commit log of a store. A context manager; holds a few files open."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.commitlog)
        self.store = store
        self._live_ends: dict[int, int] = {}
        self._batch = new_batch(1, KEY_ROOM, KEY_ROOM)

    @cached_property
    def is_partial(self) -> bool:
        """Whether records may be in a DLedger log, too, that is not read here."""
        return has_log_elsewhere(self.store)

    @property
    def min_offset(self) -> int:
        """Physical offset of the first byte of the first file; -1 without files, as a broker says it."""
        return self.starts[0] if self.starts else -1

    @cached_property
    def end_offset(self) -> int:
        """The physical offset after the last live record or BLANK; 0 without any.

        Walks the last file that holds records. Raises StoreError when it cannot be read.
        """
        for number in reversed(range(len(self.files))):
            end = self.live_end(number)
            if end > self.starts[number]:
                return end
        return max(self.min_offset, 0)

    def live_end(self, number: int) -> int:
        """The physical offset after the last live record or BLANK of `files[number]`; its start for none."""
        if number not in self._live_ends:
            scan = LiveScan()
            base_offset = self.starts[number]
            reader = self.reader(number)
            options = log_options(self.store, self.files[number], read_bodies=False)
            for _ in scan.batches(reader, base_offset, options, QueueTable()):
                pass
            self._live_ends[number] = base_offset + scan.end_pos
        return self._live_ends[number]

    def is_live(self, physical_offset: int) -> bool:
        """Whether what is there belongs to this life of the log (walks the file)."""
        number = self.file_at(physical_offset)
        return number is not None and physical_offset < self.live_end(number)

    def is_walked(self, physical_offset: int) -> bool:
        """Whether `is_live` would answer without a walk."""
        return self.file_at(physical_offset) in self._live_ends

    def walked(self, number: int, end_pos: int) -> None:
        """Remember where the live records of `files[number]` end: somebody has walked it."""
        self._live_ends[number] = self.starts[number] + end_pos

    def options(self, number: int) -> ScanOptions:
        """How `files[number]` is scanned for whole messages."""
        return log_options(self.store, self.files[number], read_bodies=True)

    def place(self, physical_offset: int) -> tuple[MappedFile, int] | None:
        """The file that holds an offset, and the position in it; None where no file does."""
        number = self.file_at(physical_offset)
        return None if number is None else (self.files[number], physical_offset - self.starts[number])

    def message_at(
        self, physical_offset: int, *, max_body_size: int = MAX_BODY_SIZE
    ) -> Message | Stop | None:
        """The record that is at an offset, live or not; why there is none; None outside all files.

        The record's own physicalOffset may say something else (`Message.faults`). Raises StoreError when
        bytes cannot be read.
        """
        return self._record(physical_offset, max_body_size, read_bodies=True)

    def record_at(self, physical_offset: int) -> Message | Stop | None:
        """As `message_at`, without the body, of which no byte is read: no CRC is compared (`Message.faults`).

        Takes no longer for a large record than for a small one. Raises StoreError when bytes cannot be read.
        """
        return self._record(physical_offset, 0, read_bodies=False)

    def _record(
        self, physical_offset: int, max_body_size: int, *, read_bodies: bool
    ) -> Message | Stop | None:
        number = self.file_at(physical_offset)
        if number is None:
            return None
        reader, pos = self.reader(number), physical_offset - self.starts[number]
        options = replace(self.options(number), read_bodies=read_bodies)
        record = read_large_record(reader, pos, options.file_size)
        if isinstance(record, Stop):
            return record
        self._batch.begin(0)
        taken = append_large_record(
            reader, record, physical_offset - pos, options.file_size, options, self._batch, QueueTable()
        )
        assert taken  # the batch has room for more keys than a record can hold
        return read_message(reader, self._batch, 0, options.property_parser, max_body_size)

    def read(self, physical_offset: int, size: int) -> bytes | None:
        """`size` bytes from an offset on, None unless one file holds them all."""
        place = self.at(physical_offset) if size >= 0 else None
        if place is None:
            return None
        reader, pos = place
        return reader.read(pos, size) if pos + size <= reader.size else None

    def select(self, physical_offset: int, size: int) -> bool:
        """Whether a running broker would hand out these bytes: in one file, before the end of the log."""
        place = self.place(physical_offset)
        if place is None or size < 0:
            return False
        return place[1] + size <= place[0].size and physical_offset + size <= self.end_offset

    def store_timestamp(self, physical_offset: int, size: int) -> int:
        """The storeTimestamp that a broker reads for a unit, in ms; -1 where it finds none."""
        if physical_offset < self.min_offset or not self.select(physical_offset, size):
            return -1
        head = self.read(physical_offset, HEAD_SIZE)
        return -1 if head is None else decode_head(head).store_timestamp
