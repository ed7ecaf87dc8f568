"""Messages by key: through the index files, through the log, or both.

    auto    the index; and the parts of the log that no index file covers, or all of it where the index shows
            that it cannot be trusted
    index   the index alone
    scan    the log alone
    both    both, and what the index hides

A key is a word of KEYS or the UNIQ_KEY; or all of TAGS, which brokers index from 5.4.0 on. For tags `auto`
also looks through the log where an older broker wrote the first or the last entries of an index file.

Unlike a broker's, the answer is complete: no limit unless one is asked for, keys are compared and not only
their hashes, the times are the records' own, and every index file is looked into. Reference 4.3, 4.5, 4.7.

What a query by key asks for, and which messages answer it. Reference 4.3, 4.5.

key      a word of KEYS or the UNIQ_KEY     hash of topic#key
unique   the UNIQ_KEY                       hash of topic#key
tag      all of TAGS                        hash of topic#T#tags, since 5.4.0

How a broker looks into one index file: the file's times, then the chain. Reference 4.7.

The walk compares no numbers along the chain and has no memory of where it was: as the broker's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rocketfsck.errors import StoreError
from rocketfsck.formats import indexfile, javatext, magic
from rocketfsck.query import answers
from rocketfsck.query.content.evaluate import scan_log
from rocketfsck.query.view import StoreView, view_of
from rocketfsck.reader.index import IndexReader
from rocketfsck.scan.options import Stop
from rocketfsck.scan.views.messages import MAX_BODY_SIZE, Message, MessageFilter
from rocketfsck.store.dialect.sampling import lacks_tags
from rocketfsck.store.model import IndexFile, Store


def is_time_matched(header: indexfile.IndexHeader, begin: int, end: int) -> bool:
    """Whether a broker looks into a file of these times."""
    first, last = header.begin_timestamp, header.end_timestamp
    return (begin < first and end > last) or first <= begin <= last or first <= end <= last


def index_step(index: IndexReader, **facts: object) -> answers.IndexStep:
    header = index.header
    times = header.begin_timestamp, header.end_timestamp
    offsets = header.begin_physical_offset, header.end_physical_offset
    places = *times, *offsets, index.index_count
    return answers.IndexStep(index.file.relative, *places, **facts)  # type: ignore[arg-type]


def _unread_step(file: IndexFile, why: str) -> answers.IndexStep:
    return answers.IndexStep(file.relative, 0, 0, 0, 0, 1, skipped=why, broken=True)


def _entry_step(index: IndexReader, entry: indexfile.Entry, verdict: str) -> answers.EntryStep:
    fields = entry.number, entry.key_hash, entry.physical_offset, entry.time_diff, entry.previous
    return answers.EntryStep(*fields, index.header.begin_timestamp + entry.time_diff * 1000, verdict)


def select_offsets(
    index: IndexReader, key_hash: int, out: list[int], limit: int, begin: int, end: int
) -> answers.IndexStep:
    """Walk a chain as `IndexFile#selectPhyOffset` does, which compares no numbers along the chain.

    A chain that runs in a circle holds a broker until `out` is full, or forever: the walk gives up after as
    many steps as the file has entries and says so.
    """
    slot = indexfile.slot_of(key_hash, index.slot_count)
    number = newest = index.newest(slot) or 0  # a broker makes a short file longer with zeros
    count = index.index_count
    steps: list[answers.EntryStep] = []
    ended: str | None = None
    broken = False
    if not 0 < number <= count or count <= 1:
        return index_step(index, slot=slot, newest=newest, ended="the slot is empty")
    while ended is None:
        if len(out) >= limit:
            ended = "the limit of matches is reached"
            break
        if len(steps) > count:
            ended, broken = "the chain is a cycle: a broker would never end", True
            break
        entry = index.entry(number)
        if entry is None:
            ended, broken = f"the file ends before entry {number}", True
            break
        timestamp = index.header.begin_timestamp + entry.time_diff * 1000
        verdict = "match" if entry.key_hash == key_hash else "another hash"
        if entry.time_diff < 0:
            verdict, ended = "negative timeDiff", "a negative timeDiff ends the walk"
        elif entry.key_hash == key_hash and begin <= timestamp <= end:
            out.append(entry.physical_offset)
        elif entry.key_hash == key_hash:
            verdict = "outside the window"
        steps.append(_entry_step(index, entry, verdict))
        if ended is None:
            if entry.previous <= 0 or entry.previous > count or entry.previous == number:
                ended = "the chain ends"
            elif timestamp < begin:
                ended = "older than the window"
        number = entry.previous
    return index_step(index, slot=slot, newest=newest, entries=tuple(steps), ended=ended, broken=broken)


KeyKind = Literal["key", "unique", "tag"]
"""What is asked for: a word of KEYS or the UNIQ_KEY; only the UNIQ_KEY; all of TAGS."""


@dataclass(frozen=True, slots=True)
class KeyQuery:
    """What is asked for. Times are storeTimestamps in ms, half-open. `max_count`: only the newest."""

    topic: str
    key: str
    kind: KeyKind = "key"
    begin_timestamp: int = javatext.INT64_MIN
    end_timestamp: int = javatext.INT64_MAX
    max_count: int | None = None

    def is_of(self, message: Message) -> bool:
        """Whether the message has the key under the topic, whatever its time."""
        if self.kind == "tag":
            has_key = bool(self.key) and message.tags == self.key
        else:
            has_key = message.unique_key == self.key or (self.kind == "key" and self.key in message.keys)
        return message.topic == self.topic and has_key and magic.is_indexed(message.sys_flag)

    @property
    def key_hash(self) -> int:
        """The keyHash of its index entries."""
        return (javatext.tag_index_hash if self.kind == "tag" else javatext.index_hash)(self.topic, self.key)

    @property
    def index_text(self) -> str:
        """The text that is hashed."""
        return f"{self.topic}#{javatext.TAG_KEY_PREFIX if self.kind == 'tag' else ''}{self.key}"

    @property
    def said(self) -> str:
        """The key with its kind, for people."""
        return {"key": "the key", "unique": "the unique key", "tag": "the tags"}[self.kind] + f" {self.key}"

    def wants(self, message: Message) -> bool:
        """Whether the message is an answer."""
        return self.begin_timestamp <= message.store_timestamp < self.end_timestamp and self.is_of(message)


def other_message(message: Message) -> str:
    """What a record is that a hash leads to but that has not the key."""
    return f"another message, of topic {message.topic} with the keys {' '.join(key_words(message)) or '-'}"


def key_words(message: Message) -> list[str]:
    unique = [message.unique_key] if message.unique_key else []
    return unique + message.keys


Via = Literal["auto", "index", "scan", "both"]
VISIT_LIMIT = 1_000_000
"""As many entries of one chain are visited: a longer one says that its file is not an index."""
STEP_LIMIT = 64
"""As many records after the end of an index file are looked at before the log is scanned from there."""
LEAD_LIMIT = 1000
KNOWN_LIMIT = 1 << 16
"""Offsets without an answer that are remembered: many entries of a bad chain lead to the same record."""

OUTSIDE = "the entry points outside the log"
NO_RECORD = "no record begins there"
_WRONG = frozenset({OUTSIDE, NO_RECORD, answers.STALE})
"""What no sound index leads to: others may be missing from it."""


def find_by_key(
    store: Store,
    topic: str,
    key: str,
    *,
    unique: bool = False,
    tag: bool = False,
    via: Via = "auto",
    begin_timestamp: int = javatext.INT64_MIN,
    end_timestamp: int = javatext.INT64_MAX,
    max_count: int | None = None,
    max_body_size: int = MAX_BODY_SIZE,
    view: StoreView | None = None,
) -> answers.Answer:
    """The messages of a topic that have a key, with the way to them (`Answer.trace`).

    `unique` takes the key as UNIQ_KEY only, `tag` as all of TAGS. Timestamps are ms, half-open; `max_count`
    keeps the newest. Bodies above `max_body_size` bytes are None (0: no bodies, where many messages have the
    key). The outcome is UNKNOWN_TOPIC where nothing was found and the store knows no such topic. Raises
    StoreError when the log cannot be read; an index file that cannot is noted in the trace.
    """
    kind: KeyKind = "tag" if tag else "unique" if unique else "key"
    query = KeyQuery(topic, key, kind, begin_timestamp, end_timestamp, max_count)
    with view_of(store, view) as asked:
        return _KeySearch(asked, query, max_body_size).answer(via)


class _KeySearch:
    """One query by key."""

    def __init__(self, view: StoreView, query: KeyQuery, max_body_size: int) -> None:
        self.view = view
        self.query = query
        self.max_body_size = max_body_size
        self.key_hash = query.key_hash
        self.trace = answers.Trace(query.index_text, self.key_hash)
        self.by_index: dict[int, Message] = {}
        self.by_scan: dict[int, Message] = {}
        self.leads: list[answers.Lead] = []
        self.known: dict[int, str] = {}

    def answer(self, via: Via) -> answers.Answer:
        if via != "scan":
            for file in reversed(self.view.store.indexes):
                self._visit(file)
        if via in ("scan", "both"):
            self._scan(0, None, "asked for")
        elif via == "auto":
            self._fill_gaps()
        return self._finish(via)

    def _finish(self, via: Via) -> answers.Answer:
        offsets = sorted(self.by_index.keys() | self.by_scan.keys())
        if self.query.max_count is not None:
            offsets = offsets[max(len(offsets) - self.query.max_count, 0) :]
        found = tuple(self._found(offset) for offset in offsets)
        hidden: tuple[int, ...] = ()
        if via in ("auto", "both"):
            hidden = tuple(sorted(self.by_scan.keys() - self.by_index.keys()))
        outcome, why = answers.Outcome.FOUND, ""
        if not found:
            outcome, why = answers.Outcome.NOT_FOUND, self._why_nothing(via)
            unknown = self.view.why_no_topic(self.query.topic)
            if unknown is not None:
                outcome, why = answers.Outcome.UNKNOWN_TOPIC, unknown
        return answers.Answer(outcome, found, why, hidden, tuple(self.leads), self.trace)

    def _found(self, offset: int) -> answers.Found:
        via = [
            name for name, offsets in (("index", self.by_index), ("scan", self.by_scan)) if offset in offsets
        ]
        message = self.by_index.get(offset) or self.by_scan[offset]
        return self.view.found(message, offset, *via)

    def _why_nothing(self, via: Via) -> str:
        what = f"no message of topic {self.query.topic} has {self.query.said}"
        if (self.query.begin_timestamp, self.query.end_timestamp) != (javatext.INT64_MIN, javatext.INT64_MAX):
            what += " in this time"
        if via == "index":
            return f"{what}, by the index; --via scan reads the log itself"
        return what

    def _visit(self, file: IndexFile) -> None:
        try:
            with IndexReader(file, self.view.store.geometry) as index:
                self.trace.index_steps.append(self._chain(index))
        except StoreError as error:
            self.trace.index_steps.append(_unread_step(file, str(error)))

    def _chain(self, index: IndexReader) -> answers.IndexStep:
        if not index.has_header:
            return _unread_step(index.file, "the file is too short for a header")
        slot = indexfile.slot_of(self.key_hash, index.slot_count)
        steps: list[answers.EntryStep] = []
        ended, broken = "", False
        for item in index.chain(self.key_hash):
            if isinstance(item, str):
                ended, broken = item, True
            elif len(steps) >= VISIT_LIMIT:
                ended, broken = f"the limit of {VISIT_LIMIT:,} entries is reached", True
                break
            else:
                steps.append(_entry_step(index, item, self._judge(index, item)))
        ended = ended or ("the chain ends" if steps else "the slot is empty")
        newest, entries = index.newest(slot), tuple(steps)
        return index_step(index, slot=slot, newest=newest, entries=entries, ended=ended, broken=broken)

    def _judge(self, index: IndexReader, entry: indexfile.Entry) -> str:
        """What an entry leads to, in a few words."""
        if entry.key_hash != self.key_hash:
            return "another hash"
        source = f"{index.file.relative} entry {entry.number}"
        offset = entry.physical_offset
        message = self.known.get(offset) or self._stands_at(offset)
        if isinstance(message, str):
            if len(self.known) < KNOWN_LIMIT:
                self.known[offset] = message
            return self._lead(entry, source, message)
        if not self.query.wants(message):
            return "outside the time asked for"
        twice = offset in self.by_index
        self.by_index[offset] = message
        return "match, a second time" if twice else "match"

    def _stands_at(self, offset: int) -> Message | str:
        """The live message with the key at an offset; else why there is none, in a few words."""
        log = self.view.log
        if 0 <= offset < log.min_offset:
            return "the record has expired"
        message = log.message_at(offset, max_body_size=self.max_body_size)
        if message is None:
            return OUTSIDE
        if isinstance(message, Stop):
            return NO_RECORD
        if not self.query.is_of(message):
            return other_message(message)
        return answers.STALE if self.view.liveness(offset) is False else message

    def _lead(self, entry: indexfile.Entry, source: str, why: str) -> str:
        if len(self.leads) < LEAD_LIMIT:
            self.leads.append(answers.Lead(entry.physical_offset, source, why))
        return why

    def _scan(self, start_offset: int, end_offset: int | None, why: str) -> None:
        query = self.query
        wanted = MessageFilter(
            topic=query.topic,
            key=None if query.kind == "tag" else query.key,
            tag=query.key if query.kind == "tag" else None,
            begin_timestamp=None if query.begin_timestamp == javatext.INT64_MIN else query.begin_timestamp,
            end_timestamp=None if query.end_timestamp == javatext.INT64_MAX else query.end_timestamp,
        )
        count = 0
        for offset, message in scan_log(
            self.view.log,
            wanted,
            start_offset=start_offset,
            end_offset=end_offset,
            max_body_size=self.max_body_size,
        ):
            if query.wants(message):
                self.by_scan[offset] = message
                count += 1
        end = self.view.log.end_offset if end_offset is None else end_offset
        self.trace.scan_steps.append(answers.ScanStep(start_offset, end, why, count))

    def _fill_gaps(self) -> None:
        """Look where the index does not reach."""
        broken = [step for step in self.trace.index_steps if step.broken]
        if broken:
            self._scan(0, None, f"{broken[0].file}: {broken[0].skipped or broken[0].ended}")
            return
        wrong = next((lead for lead in self.leads if lead.why in _WRONG), None)
        if wrong is not None:
            self._scan(0, None, f"{wrong.source}: {wrong.why}")
            return
        behind = self._after_log()
        if behind is not None:
            self._scan(0, None, f"{behind.file} reaches beyond the end of the log, as after a truncation")
            return
        for start, end, why in self._uncovered():
            self._look(start, end, why)
        if self.query.kind == "tag":
            for file in self.view.store.indexes:
                self._scan_untagged(file)

    def _scan_untagged(self, file: IndexFile) -> None:
        """Look through the log where an index file has keys, but no tags: an older broker wrote in it."""
        step = next((step for step in self.trace.index_steps if step.file == file.relative), None)
        if step is None or step.index_count <= 1 or not lacks_tags(self.view.store, file):
            return
        behind = self.view.log.message_at(step.end_offset, max_body_size=0)
        end = step.end_offset + (behind.total_size if isinstance(behind, Message) else 1)
        self._scan(step.begin_offset, end, f"{file.relative} has no entries for the tags of some records")

    def _after_log(self) -> answers.IndexStep | None:
        """The index file whose last put is not a live record: what came later is missing (reference 4.8)."""
        used = [step for step in self.trace.index_steps if step.index_count > 1]
        if not used:
            return None
        last = max(used, key=lambda step: step.end_offset)
        found = self.view.log.record_at(last.end_offset)
        is_live = isinstance(found, Message) and self.view.liveness(last.end_offset) is not False
        return None if is_live else last

    def _uncovered(self) -> Iterator[tuple[int, int | None, str]]:
        """Parts of the log that no index file says to cover: where they begin (a record), where they end."""
        spans = sorted(
            (step.begin_offset, step.end_offset, step.file)
            for step in self.trace.index_steps
            if step.index_count > 1
        )
        floor = max(self.view.log.min_offset, 0)
        reached, after = floor, ""
        for begin, end, file in spans:
            if begin > end:
                yield floor, None, f"{file} ends before it begins"
                return
            if begin > reached:
                yield reached, begin, f"before {file}" if not after else f"between {after} and {file}"
            if end >= reached:
                reached, after = end, file
        yield reached, None, f"after {after}" if after else "the store has no index"

    def _look(self, start: int, end: int | None, why: str) -> None:
        """Records from `start` on, one by one while they are few, else by a scan."""
        log = self.view.log
        offset, count = start, 0
        for _ in range(STEP_LIMIT):
            if end is not None and offset >= end:
                break
            message = log.message_at(offset, max_body_size=self.max_body_size)
            if message == Stop.BLANK:
                place = log.place(offset)
                assert place is not None
                offset += place[0].size - place[1]
            elif message == Stop.ZERO and end is None and self._nothing_follows(offset):
                break
            elif not isinstance(message, Message):
                if message is None and end is None:
                    break
                self._scan(start, end, why)
                return
            else:
                if self.query.wants(message) and offset not in self.by_index:
                    if self.view.liveness(offset) is False:
                        break
                    self.by_scan[offset] = message
                    count += 1
                offset += message.total_size
        else:
            self._scan(start, end, why)
            return
        if offset > start:
            self.trace.scan_steps.append(answers.ScanStep(start, offset, why, count))

    def _nothing_follows(self, offset: int) -> bool:
        """Whether only zeros follow in the log, as far as its holes tell."""
        place = self.view.log.place(offset)
        assert place is not None
        if place[0].start_offset != self.view.log.files[-1].start_offset:
            later = [file for file in self.view.log.files if (file.start_offset or 0) > offset]
            return all(file.allocated_size == 0 for file in later)
        return True
