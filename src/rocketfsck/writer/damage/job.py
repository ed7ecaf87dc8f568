"""What a fault works with: the store before it, the editor of the copy, seeded choices, promises.

Places that an earlier fault of the same copy changed, or whose findings it promised, are not chosen again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import getdoc
from typing import TypeVar

from rocketfsck.common.documents import UNSAID
from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.magic import is_in_consume_queue
from rocketfsck.store.model import ConsumeQueue, IndexFile, MappedFile, Store
from rocketfsck.writer.damage.editing import Editor
from rocketfsck.writer.damage.model import ANYWHERE, DamageError, Promise, PromisedPlace, Rules, rules
from rocketfsck.writer.damage.scenes import IndexScene, LogRecord, LogScene, QueueScene, SceneUnit

Item = TypeVar("Item")
Taken = tuple[str, int, int | None]
"""A file (or a directory, ending in `/`) and the byte range of it that is spoken for; None: to its end."""

_TRIES = 4000


@dataclass(slots=True)
class Job:
    """One fault under way."""

    store: Store
    editor: Editor
    rng: random.Random
    options: Mapping[str, str]
    taken: list[Taken]
    causes: tuple[RuleName, ...] = ()
    note: str = ""
    unseen: str = ""
    promises: list[Promise] = field(default_factory=list)
    may_also: Rules = field(default_factory=Rules)
    relied: list[Taken] = field(default_factory=list)
    commitlog_paths: tuple[str, ...] = ()
    _logs: dict[str, LogScene] = field(default_factory=dict)
    _queues: dict[tuple[str, str, int], QueueScene] = field(default_factory=dict)
    _indexes: dict[str, IndexScene] = field(default_factory=dict)

    # choices

    def choose(self, items: Sequence[Item], what: str) -> Item:
        """One of the items; DamageError if there is none."""
        if not items:
            raise DamageError(f"the store has no {what}")
        return items[self.rng.randrange(len(items))]

    def shuffled(self, items: Iterable[Item]) -> list[Item]:
        """The items in a seeded order."""
        listed = list(items)
        self.rng.shuffle(listed)
        return listed

    def need(self, condition: object, what: str) -> None:
        """DamageError unless the store has what the fault needs."""
        if not condition:
            raise DamageError(f"the store has no {what}")

    def number(self, name: str, default: int, low: int = 1, high: int = 1 << 40) -> int:
        """A numeric option."""
        text = self.options.get(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
            raise DamageError(f"{name}={text}: needs a number from {low} to {high}")
        return int(text)

    # promises

    def promise(self, place: PromisedPlace = ANYWHERE, *one_of: RuleName, touches: bool = False) -> None:
        """A check must find one of these rules, by default of the fault's causes, at the place."""
        self.promises.append(Promise(one_of or self.causes, place, touches))

    def done(
        self, note: str, place: PromisedPlace = ANYWHERE, *one_of: RuleName, touches: bool = False
    ) -> None:
        """Note what was done; a check must find it at the place, as `promise` says."""
        self.note = note
        self.promise(place, *one_of, touches=touches)

    def also(self, *names: RuleName | Rules) -> None:
        """A check may find these rules, too."""
        self.may_also |= rules(*names)

    def rely(self, file: str, start: int = 0, end: int | None = None) -> None:
        """The promises hold only as long as these bytes stay as they are."""
        self.relied.append((file, start, end))

    def is_free(self, file: str, start: int = 0, end: int | None = None) -> bool:
        """Whether no earlier fault has to do with these bytes (of a file, or of all below a directory)."""
        for name, low, high in self.taken:
            if file.endswith("/") or name.endswith("/"):
                if name.startswith(file) or file.startswith(name):
                    return False
            elif name == file and (high is None or start < high) and (end is None or low < end):
                return False
        return True

    # the commit log

    def log(self, file: MappedFile) -> LogScene:
        """A commit log file's records."""
        if file.relative not in self._logs:
            self._logs[file.relative] = LogScene(self.store, file)
        return self._logs[file.relative]

    @property
    def log_files(self) -> list[MappedFile]:
        return [file for file in self.store.commitlog.files if file.start_offset is not None]

    def last_log(self) -> LogScene:
        """The file that holds the last record."""
        for file in reversed(self.log_files):
            log = self.log(file)
            if len(log):
                return log
        raise DamageError("the store has no record")

    @property
    def log_start(self) -> int:
        return self.log_files[0].start_offset or 0 if self.log_files else 0

    @property
    def log_end(self) -> int:
        """The physical offset after the last record, or after the BLANK that follows it."""
        log = self.last_log()
        return (log.file.start_offset or 0) + log.live_end

    def logs(self) -> Iterator[LogScene]:
        """Every file with records, in a seeded order."""
        for file in self.shuffled(self.log_files):
            log = self.log(file)
            if len(log):
                yield log

    def record(
        self, what: str, wanted: Callable[[LogScene, LogRecord], object] = lambda _log, _record: True
    ) -> LogRecord:
        """A record that is wanted and free; DamageError if there is none."""
        for log in self.logs():
            size = len(log)
            numbers: Iterable[int] = (self.rng.randrange(size) for _ in range(_TRIES))
            if size <= 1 << 16:
                numbers = self.shuffled(range(size))
            for number in numbers:
                record = log.record(number)
                if self.is_free(log.file.relative, record.pos, record.end) and wanted(log, record):
                    return record
        raise DamageError(f"the store has no {what}")

    def remove(self, file: str, place: PromisedPlace | None = None, *one_of: RuleName) -> None:
        """Remove a file; a check must find that at the place, by default at the file."""
        self.editor.remove(file)
        self.done(f"{file} removed", place or PromisedPlace(file), *one_of)

    def cut(self, file: str, size: int, place: PromisedPlace | None = None, *one_of: RuleName) -> None:
        """Cut a file; a check must find that at the place, by default at what is left of the file."""
        self.editor.truncate(file, size)
        self.done(f"{file} cut to {size:,} bytes", place or PromisedPlace(file, 0, size), *one_of)

    def flip_bit(self, file: str, pos: int) -> None:
        """Change one bit of a byte."""
        (byte,) = self.editor.read(file, pos, pos + 1)
        self.editor.write(file, pos, bytes([byte ^ 1 << self.rng.randrange(8)]))

    def record_place(self, record: LogRecord) -> PromisedPlace:
        """Where a finding on this record is."""
        return PromisedPlace(record.file.relative, record.pos, record.end, record.physical_offset)

    # consume queues

    def queue(self, queue: ConsumeQueue) -> QueueScene:
        """A queue's units."""
        key = (queue.kind, queue.topic, queue.queue_id)
        if key not in self._queues:
            self._queues[key] = QueueScene(queue)
        return self._queues[key]

    def queue_of(self, record: LogRecord) -> ConsumeQueue | None:
        """The queue that the record is dispatched to, None where it has none."""
        key = (record.topic, record.queue_id)
        found = [queue for queue in self.store.queues if (queue.topic, queue.queue_id) == key]
        return found[0] if len(found) == 1 else None

    def unit_of(self, record: LogRecord) -> SceneUnit | None:
        """The unit that points to a record, where it is in its place; None if it is not."""
        queue = self.queue_of(record) if is_in_consume_queue(record.sys_flag) else None
        if queue is None:
            return None
        scene = self.queue(queue)
        if not scene.whole:
            return None
        unit = scene.find(record.physical_offset)
        if unit is None or unit.base != record.queue_offset or unit.size != record.total_size:
            return None
        return unit

    def record_at(self, physical_offset: int) -> LogRecord | None:
        """The record that starts at an offset of the log."""
        for file in self.log_files:
            pos = physical_offset - (file.start_offset or 0)
            if 0 <= pos < file.size:
                log = self.log(file)
                number = log.by_pos.get(pos)
                return None if number is None else log.record(number)
        return None

    # index files

    def index(self, file: IndexFile) -> IndexScene:
        """An index file."""
        if file.relative not in self._indexes:
            self._indexes[file.relative] = IndexScene(file, self.store.geometry)
        return self._indexes[file.relative]

    def index_file(
        self, what: str, wanted: Callable[[IndexScene], object] = lambda _index: True
    ) -> IndexScene:
        """A sound, free index file with entries that is wanted; DamageError if there is none."""
        for file in self.shuffled(self.store.indexes):
            index = self.index(file)
            if index.sound and index.used and self.is_free(file.relative) and wanted(index):
                return index
        raise DamageError(f"the store has no {what}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A named fault. `apply` does it to the copy that a `Job` holds.

    `fault_class` is the class of the fault catalogue (None: none). `causes` are the rules that it promises
    (of which one act may promise a part), `needs` what a store must have. `options` are the names that may be
    given with a value, and what they mean. `alone`: nothing else can be done to the same copy.
    """

    name: str
    fault_class: str | None
    summary: str
    needs: str
    causes: tuple[RuleName, ...]
    may_also: Rules = field(default_factory=Rules)
    options: Mapping[str, str] = field(default_factory=dict)
    alone: bool = False
    apply: Callable[[Job], None] = field(metadata=UNSAID)


def damage(
    fault_class: str | None,
    causes: RuleName | tuple[RuleName, ...],
    needs: str,
    *may_also: RuleName | Rules,
    options: Mapping[str, str] | None = None,
    alone: bool = False,
) -> Callable[[Callable[[Job], None]], Damage]:
    """Make the function below a `Damage`: `torn_tail` is the fault "torn-tail".

    The first sentence of its docstring, without the full stop, is the summary. The parameters are the fields
    of `Damage`; after what a store must have come the rules, and sets of them, that a check may find, too.
    """

    def declare(apply: Callable[[Job], None]) -> Damage:
        sentence = (getdoc(apply) or "").partition("\n\n")[0].replace("\n", " ")
        return Damage(
            name=apply.__name__.replace("_", "-"),
            fault_class=fault_class,
            summary=sentence[:1].lower() + sentence[1:].removesuffix("."),
            causes=(causes,) if isinstance(causes, RuleName) else causes,
            needs=needs,
            apply=apply,
            may_also=rules(*may_also),
            options=dict(options or {}),
            alone=alone,
        )

    return declare
