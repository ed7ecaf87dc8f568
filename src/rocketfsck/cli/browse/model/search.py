"""Searches: what is typed becomes places. Each reads as little as its question allows, and can be stopped.

offset    4711, 0x1267 (physical offset) · @200 (byte of this file) · TOPIC/QUEUE/QUEUE-OFFSET
key       the index, then the log: a word of KEYS or the UNIQ_KEY; "unique" is the UNIQ_KEY alone
time      the first record, or unit of this queue, that was stored at that time or later
text      bytes of this file and the following ones of its kind: text in UTF-8, or 0x and hex digits
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rocketfsck.cli.browse.model.files import FilePlace, FileRow, OpenFile, Question, Shelf
from rocketfsck.cli.browse.model.pages import LogWalk
from rocketfsck.cli.show.text import sentence, visible
from rocketfsck.common.wording import parse_time
from rocketfsck.errors import UsageError
from rocketfsck.progress import go_on, moved_to, part, phase
from rocketfsck.query.keys import find_by_key
from rocketfsck.query.places import find_by_offset, find_by_time
from rocketfsck.query.view import StoreView
from rocketfsck.reader.heads import head_at
from rocketfsck.scan.options import log_options
from rocketfsck.scan.views.messages import MessageFilter, read_messages
from rocketfsck.store.model import MappedFile
from rocketfsck.store.reading import FileReader

# Points in time in one commit log file: the first record stored at a time or later, by binary search.
#
# Between two positions the search looks for the next record that knows its place (`pages`), so that a step
# reads some bytes, whatever the length of the file. Trusts that storeTimestamps rise, as all searches for a
# time do; where a broker's clock went back the answer is one of several.

CLOSE_SIZE = 1 << 16
"""So close, the records are walked one by one."""


def first_time(row: FileRow) -> int | None:
    """The storeTimestamp (ms) of the record that a file begins with; None where none does. StoreError."""
    with FileReader(row.target.path) as reader:
        head = head_at(reader, 0)
    return None if head is None else head.store_timestamp


def first_in_file(shelf: Shelf, row: FileRow, timestamp: int) -> int | None:
    """Where the first record of a file begins that was stored at a time (ms) or later; None for none.

    Raises StoreError when bytes cannot be read, CancelledError where the search was stopped.
    """
    file = shelf.open(row)
    try:
        walk = LogWalk(file.source)
        # a hole at the end is not searched
        low, high = 0, max((end for _, end in file.source.reader.data_extents()), default=0)
        while high - low > CLOSE_SIZE:
            go_on()
            middle = (low + high) // 2
            start = walk.next_start(middle, high)
            time = None if start is None else _time_of(walk, start)
            if start is None or time is None or time >= timestamp:
                high = middle
            else:
                low = start
        for head in walk.heads(low):
            time = None if head.record is None else _time_of(walk, head.start)
            if time is not None and time >= timestamp:
                return head.start
        return None
    finally:
        file.close()


def _time_of(walk: LogWalk, pos: int) -> int | None:
    head = head_at(walk.source.reader, pos)
    return None if head is None else head.store_timestamp


HIT_LIMIT = 1_000
CHUNK_SIZE = 1 << 20
_NUMBER = re.compile(r"@?(0[xX][0-9a-fA-F]{1,16}|\d{1,19})", re.ASCII)
_QUEUE_PLACE = re.compile(r"(.+)[/ ](\d{1,10})[/ ](\d{1,19})", re.ASCII)


def search(
    shelf: Shelf, view: StoreView, question: Question, file: OpenFile | None, pos: int
) -> list[FilePlace]:
    """The places that answer a question, in the log's order; for a text, the next one behind `pos`.

    `file` is the open file that the question is asked in. An empty list: nothing was found. Raises UsageError
    for a question that cannot be understood, CancelledError where it was stopped, StoreError when bytes
    cannot be read.
    """
    if not question.text:
        raise UsageError("nothing to search for")
    if question.kind == "text":
        found = find_text(shelf, file, pos, needle_of(question.text))
        return [] if found is None else [found]
    if question.kind == "offset":
        return [find_offset(shelf, view, file, question.text)]
    if question.kind == "time":
        place = find_time(shelf, view, file, time_of(question.text))
        return [] if place is None else [place]
    return find_key(shelf, view, question)


def needle_of(text: str) -> bytes:
    """The bytes of a text that is searched for. Raises UsageError for 0x without pairs of hex digits."""
    if text.startswith(("0x", "0X")):
        try:
            return bytes.fromhex(text[2:])
        except ValueError as error:
            raise UsageError(f"{visible(text)} is not 0x and pairs of hex digits") from error
    return text.encode("utf-8", "surrogateescape")


def find_text(
    shelf: Shelf, file: OpenFile | None, pos: int, needle: bytes, *, backward: bool = False
) -> FilePlace | None:
    """The nearest place of some bytes behind `pos` (or before it), in this file or the next of its kind."""
    if file is None:
        if not shelf.rows:
            return None
        row, at = shelf.rows[0], -1
    else:
        row, at = file.row, pos
    rows = [row, *shelf.following(row, backward=backward)]
    files = [other for other in rows if other.target.database is None]
    with phase("searching", sum(other.size for other in files)):
        for other in files:
            is_here = other is row
            with part(other.size, f"searching {visible(other.key)}"), FileReader(other.target.path) as reader:
                start = (at if is_here else -1) + 1
                end = at if is_here and backward else reader.size
                found = _last_in(reader, needle, end) if backward else _first_in(reader, needle, start)
            if found is not None:
                return FilePlace(other.key, found)
    return None


def _first_in(reader: FileReader, needle: bytes, start: int) -> int | None:
    before = b""
    reached = start
    for pos, chunk in reader.data_chunks(start):
        data = before + chunk if pos == reached else chunk
        found = data.find(needle)
        if found >= 0:
            return pos + len(chunk) - len(data) + found
        reached = pos + len(chunk)
        before = data[max(len(data) - len(needle) + 1, 0) :] if len(needle) > 1 else b""
        moved_to(reached)
    return None


def _last_in(reader: FileReader, needle: bytes, end: int) -> int | None:
    """The last place of `needle` that begins before `end`."""
    for low, high in reversed(list(reader.data_extents(0, min(end + len(needle) - 1, reader.size)))):
        at = high
        while at > low:
            start = max(at - CHUNK_SIZE, low)
            data = reader.read_upto(start, min(at + len(needle) - 1, high) - start)
            found = data.rfind(needle)
            if found >= 0:
                return start + found
            at = start
            moved_to(reader.size - at)
    return None


def find_offset(shelf: Shelf, view: StoreView, file: OpenFile | None, text: str) -> FilePlace:
    """The place that an offset names. Raises UsageError where no file has it."""
    number = _NUMBER.fullmatch(text.strip())
    if number is not None:
        value = int(number[1], 0) if number[1][:2] in ("0x", "0X") else int(number[1])
        if text.strip().startswith("@"):
            if file is None or not 0 <= value < max(file.source.size, 1):
                raise UsageError(f"this file has no byte {value}")
            return FilePlace(file.row.key, value)
        place = shelf.log_place(value)
        if place is None:
            raise UsageError(f"no file of the commit log has the physical offset {value}")
        return place
    named = _QUEUE_PLACE.fullmatch(text.strip())
    if named is None:
        raise UsageError(f"{visible(text)} is neither an offset, @BYTE, nor TOPIC/QUEUE/QUEUE-OFFSET")
    topic, queue_id, queue_offset = named[1], int(named[2]), int(named[3])
    place = unit_place(shelf, view, topic, queue_id, queue_offset)
    if place is not None:
        return place
    answer = find_by_offset(shelf.store, topic, queue_id, queue_offset, via="index", view=view)
    raise UsageError(sentence(answer.why or "no unit is there"))


def unit_place(
    shelf: Shelf, view: StoreView, topic: str, queue_id: int, queue_offset: int
) -> FilePlace | None:
    """The place of the unit of a queue offset."""
    queue = view.queue(topic, queue_id)
    unit = None if queue is None else queue.any_unit_of(queue_offset)
    if queue is None or unit is None:
        return None
    kind = "consumequeue" if queue.queue.kind == "file" else "batchconsumequeue"
    return shelf.at(kind, unit.index * queue.queue.unit_size, topic, queue_id)


def find_key(shelf: Shelf, view: StoreView, question: Question) -> list[FilePlace]:
    """The records with a key, by the index; where that has none, by a scan of the log."""
    unique = question.kind == "unique"
    topics = [question.topic] if question.topic else list(view.topics)
    offsets: set[int] = set()
    with phase("searching the index", len(topics), "queues") as asked:
        for number, topic in enumerate(topics):
            asked.at(number)
            go_on()
            wanted = (shelf.store, topic, question.text)
            answer = find_by_key(*wanted, unique=unique, via="index", max_body_size=0, view=view)
            offsets.update(found.offset for found in answer.found)
    if not offsets:
        offsets.update(_scanned(shelf, question))
    places = map(shelf.log_place, sorted(offsets)[:HIT_LIMIT])
    return [place for place in places if place is not None]


def _scanned(shelf: Shelf, question: Question) -> Iterator[int]:
    """The physical offsets of the records with a key, at most HIT_LIMIT of them, by a scan of the log."""
    wanted = MessageFilter(topic=question.topic or None, key=question.text)
    count = 0
    files = shelf.store.commitlog.files
    with phase("searching", sum(file.size for file in files)):
        for file in files:
            with part(file.size, f"searching {visible(file.relative)}"):
                for offset in _matches(shelf, file, question, wanted):
                    yield offset
                    count += 1
                    if count >= HIT_LIMIT:
                        return


def _matches(shelf: Shelf, file: MappedFile, question: Question, wanted: MessageFilter) -> Iterator[int]:
    base = file.start_offset or 0
    options = log_options(shelf.store, file, read_bodies=False)
    with FileReader(file.location) as reader:
        for message in read_messages(reader, base, options, wanted, max_body_size=0, live_only=True):
            moved_to(message.pos)
            if question.kind == "key" or message.unique_key == question.text:
                yield base + message.pos


def time_of(text: str) -> int:
    """A point in time in ms: a number, or a date and time, of UTC unless it names a zone. UsageError."""
    try:
        return parse_time(text)
    except ValueError as error:
        raise UsageError(str(error)) from None


def find_time(shelf: Shelf, view: StoreView, file: OpenFile | None, timestamp: int) -> FilePlace | None:
    """The first unit of this queue, or else the first record of the log, stored at a time or later."""
    if file is not None and file.row.target.kind in ("consumequeue", "batchconsumequeue"):
        topic, queue_id = file.row.target.topic or "", file.row.target.queue_id or 0
        answer = find_by_time(shelf.store, topic, queue_id, timestamp, view=view)
        return unit_place(shelf, view, topic, queue_id, answer.lower)
    return _record_at_time(shelf, timestamp)


def _record_at_time(shelf: Shelf, timestamp: int) -> FilePlace | None:
    """By binary search over the records that know their places; trusts that times rise along the log."""
    rows = [row for row in shelf.rows if row.target.kind == "commitlog" and row.target.topic is None]
    low, high = 0, len(rows)
    while low < high:  # the first file that begins at that time or later
        middle = (low + high) // 2
        go_on()
        stored = first_time(rows[middle])
        if stored is not None and stored < timestamp:
            low = middle + 1
        else:
            high = middle
    for row in rows[max(low - 1, 0) : low + 1]:
        pos = first_in_file(shelf, row, timestamp)
        if pos is not None:
            return FilePlace(row.key, pos)
    if any(row.target.kind == "dledger-data" for row in shelf.rows):
        raise UsageError("a DLedger log is not searched by time: open a consume queue, and search there")
    return None
