"""Faults of index files (fault catalogue I1 to I12)."""

from __future__ import annotations

import itertools
import struct
from dataclasses import replace
from datetime import timedelta

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats import indexfile, javatext, smallfiles
from rocketfsck.writer.damage.job import Job, damage
from rocketfsck.writer.damage.model import CHAINS, ENTRIES_LOST, KEYS_CHANGED, PromisedPlace, rules
from rocketfsck.writer.damage.scenes import IndexScene, LogRecord

_INT = struct.Struct(">i")

_NOT_FULL = "an index file that is not full"
_CHAIN_OF_3 = "an index chain of 3 entries"
_UNINDEXED = rules(RuleName.RECORD_UNINDEXED, RuleName.KEY_UNINDEXED)
_IN_THE_LOG = "index file whose records are in the log"
_ONE_FILE = "an index file with entries"
_HEADER_MAY = rules(
    RuleName.ENTRY_TIME, RuleName.ENTRIES_EXPIRED, RuleName.INDEX_FILE_ORDER, RuleName.INDEX_AHEAD_OF_LOG,
    RuleName.INDEX_FILE_DOOMED, RuleName.INDEX_FIRST_TIME, RuleName.INDEX_FIRST_TIME_WRONG,
)  # fmt: skip
_SLOTS_CHANGED = rules(CHAINS, KEYS_CHANGED, RuleName.INDEX_SLOT_COUNT, RuleName.INDEX_SLOT_COUNT_KIND)


def _chain(job: Job, length: int) -> tuple[IndexScene, int, list[int]]:
    """A sound file, one of its slots, and the entries of that slot's chain, newest first."""
    index = job.index_file(f"index chain of {length} entries", lambda item: item.chains(length))
    slot = job.choose(index.chains(length), "index chain")
    return index, slot, index.chain(slot)


def _entry(job: Job, low: int = 1) -> tuple[IndexScene, int]:
    """A sound file and one of its entries, from `low` on and not the last, whose record is in the log."""
    index = job.index_file("index entry", lambda item: item.used > low + 1)
    for entry in job.shuffled(range(low, index.used)):
        record = job.record_at(int(index.offsets[entry]))
        if record is not None:
            job.rely(record.file.relative, record.pos, record.end)
            return index, entry
    return job.choose([], "index entry that points to a record")


def _set_link(job: Job, index: IndexScene, entry: int, value: int, *rules: RuleName) -> None:
    """Let an entry name another one as the previous; a check must find one of the rules at it."""
    _set_field(job, index, entry, "prevIndex", value)
    note = f"prevIndex of entry {entry} of {index.file.relative} is {value}"
    job.done(note, index.entry_place(entry, slot=True), *rules)


def _set_field(job: Job, index: IndexScene, entry: int, field: str, value: int) -> None:
    job.editor.set_number(index.file.relative, index.pos_of(entry), indexfile.ENTRY, field, value)
    job.note = f"{field} of entry {entry} of {index.file.relative}"


def _set_slot(job: Job, index: IndexScene, slot: int, value: int, *rules: RuleName) -> None:
    """Let a slot hold another entry; a check must find one of the rules at it."""
    job.editor.write(index.file.relative, indexfile.slot_pos(slot), _INT.pack(value))
    job.done(f"slot {slot} of {index.file.relative} holds {value}", index.slot_place(slot), *rules)


@damage("I3", (RuleName.INDEX_CHAIN_CYCLE, RuleName.INDEX_CHAIN_NOT_DECREASING), _CHAIN_OF_3, CHAINS)
def chain_cycle(job: Job) -> None:
    """A chain leads back to a newer entry."""
    index, _, chain = _chain(job, 3)
    last = 1 + job.rng.randrange(len(chain) - 1)
    target = chain[job.rng.randrange(last)]
    _set_link(job, index, chain[last], target, RuleName.INDEX_CHAIN_CYCLE)
    job.promise(index.entry_place(chain[last], slot=True), RuleName.INDEX_CHAIN_NOT_DECREASING)


@damage("I3", RuleName.INDEX_CHAIN_SELF_LOOP, "an index chain of 2 entries", CHAINS)
def self_loop(job: Job) -> None:
    """An entry names itself as the previous one."""
    index, _, chain = _chain(job, 2)
    entry = job.choose(chain, "entry")
    _set_link(job, index, entry, entry)


@damage("I3", RuleName.INDEX_CHAIN_CROSS_LINK, "an index chain of 2 entries", CHAINS)
def cross_link(job: Job) -> None:
    """A chain leads into the chain of another slot."""
    index, slot, chain = _chain(job, 2)
    pairs = [
        (entry, other)
        for entry in chain
        for other in range(max(entry - 20, 1), entry)
        if int(index.slot_of[other]) != slot
    ]
    entry, other = job.choose(pairs, "older entry of another slot")
    _set_link(job, index, entry, other)


@damage("I3", RuleName.INDEX_CHAIN_NOT_DECREASING, "an index chain of 2 entries", CHAINS)
def not_decreasing(job: Job) -> None:
    """An entry names a later entry as the previous one."""
    index, _, chain = _chain(job, 2)
    entries = [entry for entry in chain if entry < index.used]
    entry = job.choose(entries, "entry that another follows")
    _set_link(job, index, entry, entry + 1 + job.rng.randrange(index.used - entry))


@damage("I3", RuleName.INDEX_CHAIN_OUT_OF_RANGE, "an index chain of 2 entries", CHAINS)
def out_of_range(job: Job) -> None:
    """An entry names an entry that does not exist."""
    index, _, chain = _chain(job, 2)
    entry = job.choose(chain, "entry")
    value = job.choose((-1 - job.rng.randrange(1000), javatext.INT32_MAX, index.entry_count + 5), "value")
    _set_link(job, index, entry, value)


@damage("I3", (RuleName.INDEX_CHAIN_SKIPS, RuleName.INDEX_ENTRY_ORPHAN), _CHAIN_OF_3, CHAINS)
def orphan(job: Job) -> None:
    """A chain skips an entry."""
    index, _, chain = _chain(job, 3)
    number = job.rng.randrange(len(chain) - 2)
    _set_link(job, index, chain[number], chain[number + 2], RuleName.INDEX_CHAIN_SKIPS)
    job.promise(index.entry_place(chain[number + 1], slot=True), RuleName.INDEX_ENTRY_ORPHAN)


@damage("I3", (RuleName.INDEX_SLOT_OUT_OF_RANGE, RuleName.INDEX_ENTRY_ORPHAN), _ONE_FILE, CHAINS)
def slot_out_of_range(job: Job) -> None:
    """A slot holds an impossible entry number."""
    index, slot, chain = _chain(job, 1)
    value = job.choose((-1 - job.rng.randrange(1000), javatext.INT32_MAX), "value")
    _set_slot(job, index, slot, value, RuleName.INDEX_SLOT_OUT_OF_RANGE)
    job.promise(index.entry_place(chain[-1], slot=True), RuleName.INDEX_ENTRY_ORPHAN)


@damage("I3", (RuleName.INDEX_SLOT_OUT_OF_RANGE, RuleName.INDEX_ENTRY_ORPHAN), _NOT_FULL, CHAINS)
def slot_behind(job: Job) -> None:
    """A slot holds an entry that was never put."""
    index = _not_full(job)
    slot = job.choose(index.chains(1), "slot")
    value = index.used + 1 + job.rng.randrange(index.last_entry - index.used)
    _set_slot(job, index, slot, value, RuleName.INDEX_SLOT_OUT_OF_RANGE)
    job.promise(index.entry_place(index.chain(slot)[-1], slot=True), RuleName.INDEX_ENTRY_ORPHAN)


@damage("I3", RuleName.INDEX_SLOT_HEAD, _ONE_FILE, CHAINS)
def wrong_slot(job: Job) -> None:
    """A slot holds an entry of another slot."""
    index, slot, _ = _chain(job, 1)
    others = [entry for entry in range(1, index.used + 1) if int(index.slot_of[entry]) != slot]
    _set_slot(job, index, slot, job.choose(others, "entry of another slot"))


@damage("I3", (RuleName.INDEX_SLOT_HEAD, RuleName.INDEX_ENTRY_ORPHAN), _ONE_FILE, CHAINS)
def slot_emptied(job: Job) -> None:
    """A slot lost its chain."""
    index, slot, chain = _chain(job, 1)
    _set_slot(job, index, slot, 0, RuleName.INDEX_SLOT_HEAD)
    job.promise(index.entry_place(chain[-1], slot=True), RuleName.INDEX_ENTRY_ORPHAN)


@damage("I3", (RuleName.INDEX_SLOT_HEAD, RuleName.INDEX_ENTRY_ORPHAN), "an index chain of 2 entries", CHAINS)
def slot_passes_newer(job: Job) -> None:
    """A slot holds an older entry."""
    index, slot, chain = _chain(job, 2)
    _set_slot(job, index, slot, chain[1], RuleName.INDEX_SLOT_HEAD)
    job.promise(index.entry_place(chain[0], slot=True), RuleName.INDEX_ENTRY_ORPHAN)


@damage("I3", RuleName.INDEX_ENTRY_HASH, _ONE_FILE, _SLOTS_CHANGED)
def entry_hash_negative(job: Job) -> None:
    """An entry's hash is negative."""
    index, entry = _entry(job)
    value = int(index.entries["keyHash"][entry])
    _set_field(job, index, entry, "keyHash", -1 - value)
    job.promise(index.entry_place(entry, offset=True))


@damage(
    "I3", RuleName.INDEX_ENTRY_ORDER, "entries of two records", KEYS_CHANGED, RuleName.ENTRY_TIME,
    RuleName.INDEX_HEADER_RANGE, RuleName.INDEX_FILE_ORDER,
)  # fmt: skip
def entry_order(job: Job) -> None:
    """Two neighbouring entries have each other's offsets."""
    index = job.index_file("index file with entries of several records")
    pairs = [
        entry
        for entry in range(1, index.used)
        if index.offsets[entry] < index.offsets[entry + 1] and job.record_at(int(index.offsets[entry]))
    ]
    entry = job.choose(pairs, "neighbouring entries of different records")
    first, second = int(index.offsets[entry]), int(index.offsets[entry + 1])
    _set_field(job, index, entry, "phyOffset", second)
    _set_field(job, index, entry + 1, "phyOffset", first)
    job.promise(replace(index.entry_place(entry + 1), physical_offset=first))


def _header(job: Job, what: str, low: int = 1) -> IndexScene:
    return job.index_file(what, lambda item: item.used > low)


def _not_full(job: Job) -> IndexScene:
    return job.index_file("index file that is not full", lambda item: item.used + 2 < item.last_entry)


def _set_header(job: Job, index: IndexScene, field: str, value: int) -> PromisedPlace:
    """Write a field of the header; where it is."""
    file = index.file.relative
    job.editor.set_number(file, 0, indexfile.HEADER, field, value)
    job.note = f"{field} of {file} is {value}"
    start = indexfile.HEADER.offset(field)
    return PromisedPlace(file, start, start + (indexfile.HEADER.field(field).size or 0))


def _need_geometry(job: Job) -> None:
    """Slots and entries must be known without this file's own indexCount."""
    sources = {job.store.geometry.source(name) for name in ("slot_count", "entry_count")}
    default = job.store.geometry.index_file_size == indexfile.index_file_size()
    stated = default or "inferred" not in sources or len(job.store.indexes) > 1
    job.need(stated, "second index file: alone its indexCount tells the geometry")


@damage(
    "I6", RuleName.INDEX_ENTRY_BEHIND_COUNT, "an index file with 4 entries", ENTRIES_LOST, CHAINS,
    RuleName.INDEX_SLOT_COUNT, RuleName.INDEX_SLOT_COUNT_KIND, RuleName.INDEX_HEADER_RANGE,
)  # fmt: skip
def index_count_low(job: Job) -> None:
    """indexCount is less than the number of entries."""
    _need_geometry(job)
    index = _header(job, "index file with several entries", 3)
    lost = 1 + job.rng.randrange(min(index.used - 2, 5))
    _set_header(job, index, "indexCount", index.used + 1 - lost)
    place = index.entry_place(index.used + 1 - lost)
    job.promise(replace(place, end=(place.start or 0) + indexfile.ENTRY_SIZE * lost))


@damage("I6", RuleName.INDEX_HEADER_COUNT, _NOT_FULL, RuleName.INDEX_FILE_DOOMED)
def index_count_high(job: Job) -> None:
    """indexCount is more than the number of entries."""
    _need_geometry(job)
    index = _not_full(job)
    value = index.used + 2 + job.rng.randrange(index.last_entry - index.used)
    job.promise(_set_header(job, index, "indexCount", value))


@damage("I6", RuleName.INDEX_SLOT_COUNT, _ONE_FILE)
def hash_slot_count(job: Job) -> None:
    """hashSlotCount counts neither puts nor slots."""
    index = _header(job, "index file with entries")
    value = index.used + 1 + job.rng.randrange(1000)
    job.promise(_set_header(job, index, "hashSlotCount", value))


@damage("I6", RuleName.INDEX_HEADER_RANGE, _ONE_FILE, _HEADER_MAY)
def header_range(job: Job) -> None:
    """A time or offset of the header is wrong.

    The value differs from that of the first or last entry.
    """
    index = _header(job, "index file with entries whose records exist")
    first = job.record_at(int(index.offsets[1]))
    last = job.record_at(int(index.offsets[index.used]))
    fields = ["beginPhyOffset"]
    fields += ["beginTimestamp"] if first is not None else []
    fields += ["endTimestamp"] if last is not None else []
    field = job.choose(fields, "field")
    value = job.editor.number(index.file.relative, 0, indexfile.HEADER, field)
    for record in (first, last):
        if record is not None:
            job.rely(record.file.relative, record.pos, record.end)
    delta = 10_000 + job.rng.randrange(10_000)
    job.promise(_set_header(job, index, field, value - delta if value > delta else value + delta))


@damage("I6", RuleName.INDEX_ENTRY_ZERO, _ONE_FILE)
def entry_zero(job: Job) -> None:
    """Entry 0 is not zero.

    Brokers put no entry at 0.
    """
    index = _header(job, "index file with entries")
    _set_field(job, index, 0, "timeDiff", 1 + job.rng.randrange(1 << 20))
    job.promise(index.entry_place(0))


@damage("I7", RuleName.ENTRY_TIME, _ONE_FILE)
def time_diff(job: Job) -> None:
    """An entry's timeDiff is wrong."""
    index, entry = _entry(job, 2)
    seconds = int(index.entries["timeDiff"][entry]) + 3600 + job.rng.randrange(3600)
    _set_field(job, index, entry, "timeDiff", seconds)
    job.promise(index.entry_place(entry, offset=True))


@damage("I7", RuleName.INDEX_ENTRY_TIME_NEGATIVE, _ONE_FILE, RuleName.ENTRY_TIME)
def time_negative(job: Job) -> None:
    """An entry's timeDiff is negative."""
    index, entry = _entry(job)
    _set_field(job, index, entry, "timeDiff", -1 - job.rng.randrange(1000))
    job.promise(index.entry_place(entry, offset=True))


@damage(
    "I12", RuleName.ENTRY_DANGLING, _ONE_FILE, RuleName.INDEX_HEADER_RANGE, RuleName.INDEX_ENTRY_ORDER,
    RuleName.INDEX_FILE_ORDER, _UNINDEXED,
)  # fmt: skip
def entry_elsewhere(job: Job) -> None:
    """An entry points into the middle of a record."""
    index, entry = _entry(job)
    record = job.record_at(int(index.offsets[entry]))
    assert record is not None
    inside = record.physical_offset + 1 + job.rng.randrange(record.total_size - 1)
    _set_field(job, index, entry, "phyOffset", inside)
    job.promise(index.entry_place(entry, bounded=False))


@damage("I12", RuleName.ENTRY_KEY, _ONE_FILE, _UNINDEXED, RuleName.ENTRY_DUPLICATE)
def entry_key(job: Job) -> None:
    """An entry has the hash of no key of its record.

    The hash is one of the same slot.
    """
    index, entry = _entry(job)
    value = int(index.entries["keyHash"][entry])
    step = index.slot_count * (1 + job.rng.randrange(100))
    step = step if value + step <= javatext.INT32_MAX else -step
    _set_field(job, index, entry, "keyHash", value + step)
    job.promise(index.entry_place(entry, offset=True))


def _newest(job: Job) -> IndexScene:
    """The newest index file with entries."""
    used = [index for index in map(job.index, job.store.indexes) if index.used]
    job.need(used and used[-1].sound and job.is_free(used[-1].file.relative), "sound newest index file")
    return used[-1]


@damage(
    "I2", RuleName.ENTRY_BEYOND_LOG, _ONE_FILE, RuleName.INDEX_HEADER_RANGE, RuleName.INDEX_ENTRY_ORDER,
    _UNINDEXED, RuleName.INDEX_AHEAD_OF_LOG,
)  # fmt: skip
def entry_beyond(job: Job) -> None:
    """The last entry points beyond the log."""
    index = _newest(job)
    offset = job.log_end + 1 + job.rng.randrange(1000)
    _set_field(job, index, index.used, "phyOffset", offset)
    job.promise(index.entry_place(index.used, bounded=False))


@damage("I2", (RuleName.INDEX_AHEAD_OF_LOG, RuleName.INDEX_HEADER_RANGE), _ONE_FILE)
def index_ahead(job: Job) -> None:
    """The newest index file names an end beyond the log."""
    place = _set_header(job, _newest(job), "endPhyOffset", job.log_end + 1 + job.rng.randrange(1 << 20))
    job.promise(place, RuleName.INDEX_AHEAD_OF_LOG)
    job.promise(place, RuleName.INDEX_HEADER_RANGE)


def _key_count(job: Job, offset: int) -> int:
    """Keys of the record at an offset, 0 where there is none."""
    record = job.record_at(offset)
    return 0 if record is None else record.key_count


@damage("I8", RuleName.ENTRY_DUPLICATE, _NOT_FULL)
def entry_duplicate(job: Job) -> None:
    """The last entry was put twice."""

    def fits(item: IndexScene) -> bool:
        return item.used < item.last_entry and _key_count(job, int(item.offsets[item.used])) == 1

    index = job.index_file("index file that is not full whose last entry points to a record", fits)
    number, slot = index.used + 1, int(index.slot_of[index.used])
    values = {name: int(index.entries[name][index.used]) for name in ("keyHash", "phyOffset", "timeDiff")}
    data = indexfile.ENTRY.build({**values, "prevIndex": int(index.slots[slot])})
    job.editor.write(index.file.relative, index.pos_of(number), data)
    job.editor.write(index.file.relative, indexfile.slot_pos(slot), _INT.pack(number))
    _set_header(job, index, "indexCount", number + 1)
    if job.store.dialect.counts_entries_in_hash_slot_count:
        _set_header(job, index, "hashSlotCount", index.header.hash_slot_count + 1)
    start = index.pos_of(number - 1)
    job.note = f"entry {number} of {index.file.relative} repeats the entry before"
    job.promise(PromisedPlace(index.file.relative, start, start + 2 * indexfile.ENTRY_SIZE), touches=True)


@damage(
    "I10", RuleName.INDEX_LENGTH, "two index files", ENTRIES_LOST, CHAINS, RuleName.INDEX_HEADER_COUNT,
    RuleName.INDEX_HEADER_RANGE, RuleName.INDEX_FILE_ORDER, RuleName.INDEX_AHEAD_OF_LOG,
    RuleName.INDEX_FILE_DOOMED,
)  # fmt: skip
def index_truncated(job: Job) -> None:
    """An index file was cut within its entries."""
    job.need(len(job.store.indexes) > 1, "second index file")
    whole = [index.whole for index in map(job.index, job.store.indexes)]
    what = "index file with entries and others of the same length"
    index = job.index_file(what, lambda item: item.used > 2 and sum(whole) > 1)
    low, high = index.pos_of(2), index.pos_of(index.used)
    size = low + job.rng.randrange(max(high - low, 1))
    place = PromisedPlace(index.file.relative, size, job.store.geometry.index_file_size)
    job.cut(index.file.relative, size, place)


@damage(
    "I9", RuleName.INDEX_FILE_ORDER, "two index files", RuleName.INDEX_FILE_DOOMED,
    RuleName.INDEX_AHEAD_OF_LOG, RuleName.CHECKPOINT_INDEX_TIME,
)  # fmt: skip
def names_swapped(job: Job) -> None:
    """Two index files have each other's names."""
    files = [file for file in job.store.indexes if file.created is not None]
    pairs = [
        (first, second)
        for first, second in itertools.pairwise(files)
        if all(job.index(file).sound and job.index(file).used for file in (first, second))
        and int(job.index(first).offsets[1]) < int(job.index(second).offsets[-1])
        and all(map(job.is_free, (first.relative, second.relative)))
    ]
    first, second = job.choose(pairs, "two index files with entries")
    aside = f"{first.relative}.aside"
    job.editor.rename(first.relative, aside)
    job.editor.rename(second.relative, first.relative)
    job.editor.rename(aside, second.relative)
    job.note = f"{first.relative} and {second.relative} have each other's names"
    job.promise(PromisedPlace(second.relative, 16, 24))


@damage("I9", RuleName.INDEX_NAME, "an index file", RuleName.INDEX_EMPTY_MANY)
def strange_name(job: Job) -> None:
    """The name of an index file is not a time.

    The name is a number that no date and time gives.
    """
    job.need(job.store.indexes, "index file")
    last = job.store.indexes[-1]
    name = "index/99999999999999999"
    job.need(not job.editor.exists(name), "place for a further index file")
    job.editor.create(name, size=job.store.geometry.index_file_size, like=last.relative)
    job.done(f"{name} made", PromisedPlace(name, 0, job.store.geometry.index_file_size))


@damage("I4", (RuleName.INDEX_EMPTY_MANY, RuleName.INDEX_EMPTY), "an index file")
def empty_files(job: Job) -> None:
    """Three index files are empty.

    A broker made the files and never mapped them.
    """
    job.need(job.store.indexes and job.store.indexes[-1].created is not None, "index file")
    last = job.store.indexes[-1]
    assert last.created is not None
    times = [last.created + timedelta(seconds=number + 1) for number in range(3)]
    names = [f"index/{smallfiles.index_filename(time)}" for time in times]
    for name in names:
        job.editor.create(name, size=job.store.geometry.index_file_size, like=last.relative)
    job.note = f"{len(names)} empty index files from {names[0]} on"
    job.promise(PromisedPlace("index"), RuleName.INDEX_EMPTY_MANY)
    job.promise(PromisedPlace(names[0]), RuleName.INDEX_EMPTY)


@damage(
    "I1", RuleName.RECORD_UNINDEXED, "two index files", ENTRIES_LOST, RuleName.INDEX_FILE_ORDER,
    RuleName.INDEX_AHEAD_OF_LOG,
)  # fmt: skip
def index_lost(job: Job) -> None:
    """One of several index files is missing."""
    job.need(len(job.store.indexes) > 1, "second index file")

    index = job.index_file(_IN_THE_LOG, lambda item: _first_lost(job, item) is not None)
    record = _first_lost(job, index)
    assert record is not None
    job.rely(record.file.relative, record.pos, record.end)
    place = PromisedPlace(record.file.relative, record.pos, physical_offset=record.physical_offset)
    job.remove(index.file.relative, place)


def _first_lost(job: Job, index: IndexScene) -> LogRecord | None:
    """The first record that no other index file names, if it is in the log."""
    others: set[int] = set()
    for file in job.store.indexes:
        if file is not index.file:
            others.update(job.index(file).offsets[1:].tolist())
    own = set(index.offsets[1:].tolist()) - others
    return job.record_at(min(own)) if own else None


@damage("I1", RuleName.INDEX_GONE, "an index file", alone=True)
def index_gone(job: Job) -> None:
    """All index files are missing."""
    job.index_file(_IN_THE_LOG, lambda item: job.record_at(int(item.offsets[item.used])) is not None)
    for file in job.store.indexes:
        job.editor.remove(file.relative)
    job.done("every index file removed", PromisedPlace("index"))


assert _INT.size == indexfile.SLOT_SIZE
