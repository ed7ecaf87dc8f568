"""Faults of index files (fault catalogue I1 to I12)."""

from __future__ import annotations

import itertools
import struct
from datetime import timedelta

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats import indexfile, javatext, smallfiles
from rocketfsck.writer.damage.job import Job, at, damage
from rocketfsck.writer.damage.model import CHAINS, ENTRIES_LOST, KEYS_CHANGED, PromisedPlace, rules
from rocketfsck.writer.damage.scenes import IndexScene

_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")

_ONE_FILE = "an index file with entries"
_HEADER_MAY = rules(
    RuleName.ENTRY_TIME,
    RuleName.ENTRIES_EXPIRED,
    RuleName.INDEX_FILE_ORDER,
    RuleName.INDEX_AHEAD_OF_LOG,
    RuleName.INDEX_FILE_DOOMED,
    RuleName.INDEX_FIRST_TIME,
    RuleName.INDEX_FIRST_TIME_WRONG,
)
_SLOTS_CHANGED = CHAINS | KEYS_CHANGED | rules(RuleName.INDEX_SLOT_COUNT, RuleName.INDEX_SLOT_COUNT_KIND)


def _is_free(job: Job, index: IndexScene) -> bool:
    return job.is_free(index.file.relative)


def _chain(job: Job, length: int) -> tuple[IndexScene, int, list[int]]:
    """A sound file, one of its slots, and the entries of that slot's chain, newest first."""
    index = job.index_file(
        f"index chain of {length} entries", lambda item: _is_free(job, item) and item.chains(length)
    )
    slot = job.choose(index.chains(length), "index chain")
    return index, slot, index.chain(slot)


def _entry(job: Job, low: int = 1) -> tuple[IndexScene, int]:
    """A sound file and one of its entries, from `low` on and not the last, whose record is in the log."""
    index = job.index_file("index entry", lambda item: _is_free(job, item) and item.used > low + 1)
    for entry in job.shuffled(range(low, index.used)):
        record = job.record_at(int(index.offsets[entry]))
        if record is not None:
            job.rely(record.file.relative, record.pos, record.end)
            return index, entry
    job.need(False, "index entry that points to a record")
    raise AssertionError


def _set_link(job: Job, index: IndexScene, entry: int, value: int) -> None:
    job.editor.write(index.file.relative, index.link_pos(entry), _INT.pack(value))
    job.note = f"prevIndex of entry {entry} of {index.file.relative} is {value}"


def _set_field(job: Job, index: IndexScene, entry: int, field: str, data: bytes) -> None:
    job.editor.write(index.file.relative, index.pos_of(entry) + indexfile.ENTRY.offset(field), data)
    job.note = f"{field} of entry {entry} of {index.file.relative}"


def _set_slot(job: Job, index: IndexScene, slot: int, value: int) -> None:
    job.editor.write(index.file.relative, indexfile.slot_pos(slot), _INT.pack(value))
    job.note = f"slot {slot} of {index.file.relative} holds {value}"


@damage(
    "I3",
    causes=(RuleName.INDEX_CHAIN_CYCLE, RuleName.INDEX_CHAIN_NOT_DECREASING),
    needs="an index chain of 3 entries",
    may_also=CHAINS,
)
def chain_cycle(job: Job) -> None:
    """A chain leads back to a newer entry."""
    index, slot, chain = _chain(job, 3)
    last = 1 + job.rng.randrange(len(chain) - 1)
    target = chain[job.rng.randrange(last)]
    _set_link(job, index, chain[last], target)
    place = index.entry_place(chain[last], slot=True)
    job.promise(RuleName.INDEX_CHAIN_CYCLE, place)
    job.promise(RuleName.INDEX_CHAIN_NOT_DECREASING, place)
    assert place.slot == slot


@damage("I3", causes=(RuleName.INDEX_CHAIN_SELF_LOOP,), needs="an index chain of 2 entries", may_also=CHAINS)
def self_loop(job: Job) -> None:
    """An entry names itself as the previous one."""
    index, _, chain = _chain(job, 2)
    entry = job.choose(chain, "entry")
    _set_link(job, index, entry, entry)
    job.promise(RuleName.INDEX_CHAIN_SELF_LOOP, index.entry_place(entry, slot=True))


@damage("I3", causes=(RuleName.INDEX_CHAIN_CROSS_LINK,), needs="an index chain of 2 entries", may_also=CHAINS)
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
    job.promise(RuleName.INDEX_CHAIN_CROSS_LINK, index.entry_place(entry, slot=True))


@damage(
    "I3", causes=(RuleName.INDEX_CHAIN_NOT_DECREASING,), needs="an index chain of 2 entries", may_also=CHAINS
)
def not_decreasing(job: Job) -> None:
    """An entry names a later entry as the previous one."""
    index, slot, chain = _chain(job, 2)
    entries = [entry for entry in chain if entry < index.used]
    entry = job.choose(entries, "entry that another follows")
    _set_link(job, index, entry, entry + 1 + job.rng.randrange(index.used - entry))
    job.promise(RuleName.INDEX_CHAIN_NOT_DECREASING, index.entry_place(entry, slot=True))
    assert slot >= 0


@damage(
    "I3", causes=(RuleName.INDEX_CHAIN_OUT_OF_RANGE,), needs="an index chain of 2 entries", may_also=CHAINS
)
def out_of_range(job: Job) -> None:
    """An entry names an entry that does not exist."""
    index, _, chain = _chain(job, 2)
    entry = job.choose(chain, "entry")
    value = job.choose((-1 - job.rng.randrange(1000), javatext.INT32_MAX, index.entry_count + 5), "value")
    _set_link(job, index, entry, value)
    job.promise(RuleName.INDEX_CHAIN_OUT_OF_RANGE, index.entry_place(entry, slot=True))


@damage(
    "I3",
    causes=(RuleName.INDEX_CHAIN_SKIPS, RuleName.INDEX_ENTRY_ORPHAN),
    needs="an index chain of 3 entries",
    may_also=CHAINS,
)
def orphan(job: Job) -> None:
    """A chain skips an entry."""
    index, _, chain = _chain(job, 3)
    number = job.rng.randrange(len(chain) - 2)
    _set_link(job, index, chain[number], chain[number + 2])
    job.promise(RuleName.INDEX_CHAIN_SKIPS, index.entry_place(chain[number], slot=True))
    job.promise(RuleName.INDEX_ENTRY_ORPHAN, index.entry_place(chain[number + 1], slot=True))


@damage(
    "I3",
    causes=(RuleName.INDEX_SLOT_OUT_OF_RANGE, RuleName.INDEX_ENTRY_ORPHAN),
    needs=_ONE_FILE,
    may_also=CHAINS,
)
def slot_out_of_range(job: Job) -> None:
    """A slot holds an impossible entry number."""
    index, slot, chain = _chain(job, 1)
    _set_slot(job, index, slot, job.choose((-1 - job.rng.randrange(1000), javatext.INT32_MAX), "value"))
    job.promise(RuleName.INDEX_SLOT_OUT_OF_RANGE, index.slot_place(slot))
    job.promise(RuleName.INDEX_ENTRY_ORPHAN, index.entry_place(chain[-1], slot=True))


@damage(
    "I3",
    causes=(RuleName.INDEX_SLOT_OUT_OF_RANGE, RuleName.INDEX_ENTRY_ORPHAN),
    needs="an index file that is not full",
    may_also=CHAINS,
)
def slot_behind(job: Job) -> None:
    """A slot holds an entry that was never put."""
    index = job.index_file(
        "index file that is not full",
        lambda item: _is_free(job, item) and item.used + 2 < item.last_entry and item.chains(1),
    )
    slot = job.choose(index.chains(1), "slot")
    chain = index.chain(slot)
    _set_slot(job, index, slot, index.used + 1 + job.rng.randrange(index.last_entry - index.used))
    job.promise(RuleName.INDEX_SLOT_OUT_OF_RANGE, index.slot_place(slot))
    job.promise(RuleName.INDEX_ENTRY_ORPHAN, index.entry_place(chain[-1], slot=True))


@damage("I3", causes=(RuleName.INDEX_SLOT_HEAD,), needs=_ONE_FILE, may_also=CHAINS)
def wrong_slot(job: Job) -> None:
    """A slot holds an entry of another slot."""
    index, slot, _ = _chain(job, 1)
    others = [entry for entry in range(1, index.used + 1) if int(index.slot_of[entry]) != slot]
    _set_slot(job, index, slot, job.choose(others, "entry of another slot"))
    job.promise(RuleName.INDEX_SLOT_HEAD, index.slot_place(slot))


@damage(
    "I3", causes=(RuleName.INDEX_SLOT_HEAD, RuleName.INDEX_ENTRY_ORPHAN), needs=_ONE_FILE, may_also=CHAINS
)
def slot_emptied(job: Job) -> None:
    """A slot lost its chain."""
    index, slot, chain = _chain(job, 1)
    _set_slot(job, index, slot, 0)
    job.promise(RuleName.INDEX_SLOT_HEAD, index.slot_place(slot))
    job.promise(RuleName.INDEX_ENTRY_ORPHAN, index.entry_place(chain[-1], slot=True))


@damage(
    "I3",
    causes=(RuleName.INDEX_SLOT_HEAD, RuleName.INDEX_ENTRY_ORPHAN),
    needs="an index chain of 2 entries",
    may_also=CHAINS,
)
def slot_passes_newer(job: Job) -> None:
    """A slot holds an older entry."""
    index, slot, chain = _chain(job, 2)
    _set_slot(job, index, slot, chain[1])
    job.promise(RuleName.INDEX_SLOT_HEAD, index.slot_place(slot))
    job.promise(RuleName.INDEX_ENTRY_ORPHAN, index.entry_place(chain[0], slot=True))


@damage("I3", causes=(RuleName.INDEX_ENTRY_HASH,), needs=_ONE_FILE, may_also=_SLOTS_CHANGED)
def entry_hash_negative(job: Job) -> None:
    """An entry's hash is negative."""
    index, entry = _entry(job)
    value = int(index.entries["keyHash"][entry])
    _set_field(job, index, entry, "keyHash", _INT.pack(-1 - value))
    job.promise(RuleName.INDEX_ENTRY_HASH, index.entry_place(entry, offset=True))


@damage(
    "I3",
    causes=(RuleName.INDEX_ENTRY_ORDER,),
    needs="entries of two records",
    may_also=KEYS_CHANGED
    | rules(RuleName.ENTRY_TIME, RuleName.INDEX_HEADER_RANGE, RuleName.INDEX_FILE_ORDER),
)
def entry_order(job: Job) -> None:
    """Two neighbouring entries have each other's offsets."""
    index = job.index_file("index file with entries of several records", lambda item: _is_free(job, item))
    pairs = [
        entry
        for entry in range(1, index.used)
        if index.offsets[entry] < index.offsets[entry + 1] and job.record_at(int(index.offsets[entry]))
    ]
    entry = job.choose(pairs, "neighbouring entries of different records")
    first, second = int(index.offsets[entry]), int(index.offsets[entry + 1])
    _set_field(job, index, entry, "phyOffset", _LONG.pack(second))
    _set_field(job, index, entry + 1, "phyOffset", _LONG.pack(first))
    job.promise(RuleName.INDEX_ENTRY_ORDER, at(index.entry_place(entry + 1), physical_offset=first))


def _header(job: Job, what: str, low: int = 1) -> IndexScene:
    return job.index_file(what, lambda item: _is_free(job, item) and item.used > low)


def _set_header(job: Job, index: IndexScene, field: str, value: int) -> PromisedPlace:
    start = indexfile.HEADER.offset(field)
    size = 4 if field in ("hashSlotCount", "indexCount") else 8
    job.editor.write(index.file.relative, start, value.to_bytes(size, "big", signed=True))
    job.note = f"{field} of {index.file.relative} is {value}"
    return PromisedPlace(index.file.relative, start, start + size)


def _geometry_is_stated(job: Job) -> bool:
    """Whether slots and entries are known without this file's own indexCount."""
    sources = {job.store.geometry.source(name) for name in ("slot_count", "entry_count")}
    default = job.store.geometry.index_file_size == indexfile.index_file_size()
    return default or "inferred" not in sources or len(job.store.indexes) > 1


@damage(
    "I6",
    causes=(RuleName.INDEX_ENTRY_BEHIND_COUNT,),
    needs="an index file with 4 entries",
    may_also=ENTRIES_LOST
    | CHAINS
    | rules(RuleName.INDEX_SLOT_COUNT, RuleName.INDEX_SLOT_COUNT_KIND, RuleName.INDEX_HEADER_RANGE),
)
def index_count_low(job: Job) -> None:
    """indexCount is less than the number of entries."""
    job.need(_geometry_is_stated(job), "second index file: alone its indexCount tells the geometry")
    index = _header(job, "index file with several entries", 3)
    lost = 1 + job.rng.randrange(min(index.used - 2, 5))
    _set_header(job, index, "indexCount", index.used + 1 - lost)
    place = index.entry_place(index.used + 1 - lost)
    job.promise(
        RuleName.INDEX_ENTRY_BEHIND_COUNT, at(place, end=(place.start or 0) + indexfile.ENTRY_SIZE * lost)
    )


@damage(
    "I6",
    causes=(RuleName.INDEX_HEADER_COUNT,),
    needs="an index file that is not full",
    may_also=rules(RuleName.INDEX_FILE_DOOMED),
)
def index_count_high(job: Job) -> None:
    """indexCount is more than the number of entries."""
    job.need(_geometry_is_stated(job), "second index file: alone its indexCount tells the geometry")
    index = job.index_file(
        "index file that is not full", lambda item: _is_free(job, item) and item.used + 2 < item.last_entry
    )
    value = index.used + 2 + job.rng.randrange(index.last_entry - index.used)
    job.promise(RuleName.INDEX_HEADER_COUNT, _set_header(job, index, "indexCount", value))


@damage("I6", causes=(RuleName.INDEX_SLOT_COUNT,), needs=_ONE_FILE)
def hash_slot_count(job: Job) -> None:
    """hashSlotCount counts neither puts nor slots."""
    index = _header(job, "index file with entries")
    value = index.used + 1 + job.rng.randrange(1000)
    job.promise(RuleName.INDEX_SLOT_COUNT, _set_header(job, index, "hashSlotCount", value))


@damage("I6", causes=(RuleName.INDEX_HEADER_RANGE,), needs=_ONE_FILE, may_also=_HEADER_MAY)
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
    names = ("beginTimestamp", "endTimestamp", "beginPhyOffset", "endPhyOffset")
    header = index.header
    values = (
        header.begin_timestamp,
        header.end_timestamp,
        header.begin_physical_offset,
        header.end_physical_offset,
    )
    value = dict(zip(names, values, strict=True))[field]
    for record in (first, last):
        if record is not None:
            job.rely(record.file.relative, record.pos, record.end)
    delta = 10_000 + job.rng.randrange(10_000)
    job.promise(
        RuleName.INDEX_HEADER_RANGE,
        _set_header(job, index, field, value - delta if value > delta else value + delta),
    )


@damage("I6", causes=(RuleName.INDEX_ENTRY_ZERO,), needs=_ONE_FILE)
def entry_zero(job: Job) -> None:
    """Entry 0 is not zero.

    Brokers put no entry at 0.
    """
    index = _header(job, "index file with entries")
    _set_field(job, index, 0, "timeDiff", _INT.pack(1 + job.rng.randrange(1 << 20)))
    job.promise(RuleName.INDEX_ENTRY_ZERO, index.entry_place(0))


@damage("I7", causes=(RuleName.ENTRY_TIME,), needs=_ONE_FILE)
def time_diff(job: Job) -> None:
    """An entry's timeDiff is wrong."""
    index, entry = _entry(job, 2)
    seconds = int(index.entries["timeDiff"][entry]) + 3600 + job.rng.randrange(3600)
    _set_field(job, index, entry, "timeDiff", _INT.pack(seconds))
    job.promise(RuleName.ENTRY_TIME, index.entry_place(entry, offset=True))


@damage(
    "I7", causes=(RuleName.INDEX_ENTRY_TIME_NEGATIVE,), needs=_ONE_FILE, may_also=rules(RuleName.ENTRY_TIME)
)
def time_negative(job: Job) -> None:
    """An entry's timeDiff is negative."""
    index, entry = _entry(job)
    _set_field(job, index, entry, "timeDiff", _INT.pack(-1 - job.rng.randrange(1000)))
    job.promise(RuleName.INDEX_ENTRY_TIME_NEGATIVE, index.entry_place(entry, offset=True))


@damage(
    "I12",
    causes=(RuleName.ENTRY_DANGLING,),
    needs=_ONE_FILE,
    may_also=rules(
        RuleName.INDEX_HEADER_RANGE,
        RuleName.INDEX_ENTRY_ORDER,
        RuleName.INDEX_FILE_ORDER,
        RuleName.RECORD_UNINDEXED,
        RuleName.KEY_UNINDEXED,
    ),
)
def entry_elsewhere(job: Job) -> None:
    """An entry points into the middle of a record."""
    index, entry = _entry(job)
    record = job.record_at(int(index.offsets[entry]))
    assert record is not None
    inside = record.physical_offset + 1 + job.rng.randrange(record.total_size - 1)
    _set_field(job, index, entry, "phyOffset", _LONG.pack(inside))
    job.promise(RuleName.ENTRY_DANGLING, index.entry_place(entry, bounded=False))


@damage(
    "I12",
    causes=(RuleName.ENTRY_KEY,),
    needs=_ONE_FILE,
    may_also=rules(RuleName.RECORD_UNINDEXED, RuleName.KEY_UNINDEXED, RuleName.ENTRY_DUPLICATE),
)
def entry_key(job: Job) -> None:
    """An entry has the hash of no key of its record.

    The hash is one of the same slot.
    """
    index, entry = _entry(job)
    value = int(index.entries["keyHash"][entry])
    step = index.slot_count * (1 + job.rng.randrange(100))
    _set_field(
        job,
        index,
        entry,
        "keyHash",
        _INT.pack(value + step if value + step <= javatext.INT32_MAX else value - step),
    )
    job.promise(RuleName.ENTRY_KEY, index.entry_place(entry, offset=True))


@damage(
    "I2",
    causes=(RuleName.ENTRY_BEYOND_LOG,),
    needs=_ONE_FILE,
    may_also=rules(
        RuleName.INDEX_HEADER_RANGE,
        RuleName.INDEX_ENTRY_ORDER,
        RuleName.RECORD_UNINDEXED,
        RuleName.KEY_UNINDEXED,
        RuleName.INDEX_AHEAD_OF_LOG,
    ),
)
def entry_beyond(job: Job) -> None:
    """The last entry points beyond the log."""
    used = [index for index in (job.index(file) for file in job.store.indexes) if index.used]
    job.need(used and used[-1].sound and _is_free(job, used[-1]), "sound newest index file")
    index = used[-1]
    offset = job.log_end + 1 + job.rng.randrange(1000)
    _set_field(job, index, index.used, "phyOffset", _LONG.pack(offset))
    job.promise(RuleName.ENTRY_BEYOND_LOG, index.entry_place(index.used, bounded=False))


@damage("I2", causes=(RuleName.INDEX_AHEAD_OF_LOG, RuleName.INDEX_HEADER_RANGE), needs=_ONE_FILE)
def index_ahead(job: Job) -> None:
    """The newest index file names an end beyond the log."""
    newest = [job.index(file) for file in job.store.indexes]
    used = [index for index in newest if index.used]
    job.need(used and used[-1].sound and _is_free(job, used[-1]), "sound newest index file")
    place = _set_header(job, used[-1], "endPhyOffset", job.log_end + 1 + job.rng.randrange(1 << 20))
    job.promise(RuleName.INDEX_AHEAD_OF_LOG, place)
    job.promise(RuleName.INDEX_HEADER_RANGE, place)


def _key_count(job: Job, offset: int) -> int:
    """Keys of the record at an offset, 0 where there is none."""
    record = job.record_at(offset)
    return 0 if record is None else record.key_count


@damage("I8", causes=(RuleName.ENTRY_DUPLICATE,), needs="an index file that is not full")
def entry_duplicate(job: Job) -> None:
    """The last entry was put twice."""
    index = job.index_file(
        "index file that is not full whose last entry points to a record",
        lambda item: (
            _is_free(job, item)
            and item.used < item.last_entry
            and _key_count(job, int(item.offsets[item.used])) == 1
        ),
    )
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
    place = PromisedPlace(index.file.relative, start, start + 2 * indexfile.ENTRY_SIZE)
    job.promise(RuleName.ENTRY_DUPLICATE, place, touches=True)


@damage(
    "I10",
    causes=(RuleName.INDEX_LENGTH,),
    needs="two index files",
    may_also=ENTRIES_LOST
    | CHAINS
    | rules(
        RuleName.INDEX_HEADER_COUNT,
        RuleName.INDEX_HEADER_RANGE,
        RuleName.INDEX_FILE_ORDER,
        RuleName.INDEX_AHEAD_OF_LOG,
        RuleName.INDEX_FILE_DOOMED,
    ),
)
def index_truncated(job: Job) -> None:
    """An index file was cut within its entries."""
    job.need(len(job.store.indexes) > 1, "second index file")
    whole = [index.whole for index in map(job.index, job.store.indexes)]
    index = job.index_file(
        "index file with entries and others of the same length",
        lambda item: _is_free(job, item) and item.used > 2 and sum(whole) > 1,
    )
    low, high = index.pos_of(2), index.pos_of(index.used)
    size = low + job.rng.randrange(max(high - low, 1))
    job.editor.truncate(index.file.relative, size)
    job.note = f"{index.file.relative} cut to {size:,} bytes"
    full = job.store.geometry.index_file_size
    job.promise(RuleName.INDEX_LENGTH, PromisedPlace(index.file.relative, size, full))


@damage(
    "I9",
    causes=(RuleName.INDEX_FILE_ORDER,),
    needs="two index files",
    may_also=rules(RuleName.INDEX_FILE_DOOMED, RuleName.INDEX_AHEAD_OF_LOG, RuleName.CHECKPOINT_INDEX_TIME),
)
def names_swapped(job: Job) -> None:
    """Two index files have each other's names."""
    files = [file for file in job.store.indexes if file.created is not None]
    pairs = [
        (first, second)
        for first, second in itertools.pairwise(files)
        if job.index(first).sound
        and job.index(second).sound
        and job.index(first).used
        and job.index(second).used
        and int(job.index(first).offsets[1]) < int(job.index(second).offsets[-1])
        and job.is_free(first.relative)
        and job.is_free(second.relative)
    ]
    first, second = job.choose(pairs, "two index files with entries")
    aside = f"{first.relative}.aside"
    job.editor.rename(first.relative, aside)
    job.editor.rename(second.relative, first.relative)
    job.editor.rename(aside, second.relative)
    job.note = f"{first.relative} and {second.relative} have each other's names"
    job.promise(RuleName.INDEX_FILE_ORDER, PromisedPlace(second.relative, 16, 24))


@damage("I9", causes=(RuleName.INDEX_NAME,), needs="an index file", may_also=rules(RuleName.INDEX_EMPTY_MANY))
def strange_name(job: Job) -> None:
    """The name of an index file is not a time.

    The name is a number that no date and time gives.
    """
    job.need(job.store.indexes, "index file")
    last = job.store.indexes[-1]
    name = "index/99999999999999999"
    job.need(not job.editor.exists(name), "place for a further index file")
    job.editor.create(name, size=job.store.geometry.index_file_size, like=last.relative)
    job.note = f"{name} made"
    job.promise(RuleName.INDEX_NAME, PromisedPlace(name, 0, job.store.geometry.index_file_size))


@damage("I4", causes=(RuleName.INDEX_EMPTY_MANY, RuleName.INDEX_EMPTY), needs="an index file")
def empty_files(job: Job) -> None:
    """Three index files are empty.

    A broker made the files and never mapped them.
    """
    job.need(job.store.indexes and job.store.indexes[-1].created is not None, "index file")
    last = job.store.indexes[-1]
    assert last.created is not None
    names = [
        f"index/{smallfiles.index_filename(last.created + timedelta(seconds=number + 1))}"
        for number in range(3)
    ]
    for name in names:
        job.editor.create(name, size=job.store.geometry.index_file_size, like=last.relative)
    job.note = f"{len(names)} empty index files from {names[0]} on"
    job.promise(RuleName.INDEX_EMPTY_MANY, PromisedPlace("index"))
    job.promise(RuleName.INDEX_EMPTY, PromisedPlace(names[0]))


@damage(
    "I1",
    causes=(RuleName.RECORD_UNINDEXED,),
    needs="two index files",
    may_also=ENTRIES_LOST | rules(RuleName.INDEX_FILE_ORDER, RuleName.INDEX_AHEAD_OF_LOG),
)
def index_lost(job: Job) -> None:
    """One of several index files is missing."""
    job.need(len(job.store.indexes) > 1, "second index file")

    def alone(index: IndexScene) -> bool:
        return _is_free(job, index) and _first_lost(job, index) is not None

    index = job.index_file("index file whose records are in the log", alone)
    offset = _first_lost(job, index)
    assert offset is not None
    record = job.record_at(offset)
    assert record is not None
    job.rely(record.file.relative, record.pos, record.end)
    job.editor.remove(index.file.relative)
    job.note = f"{index.file.relative} removed"
    job.promise(
        RuleName.RECORD_UNINDEXED, PromisedPlace(record.file.relative, record.pos, physical_offset=offset)
    )


def _first_lost(job: Job, index: IndexScene) -> int | None:
    """The first record that no other index file names, if it is in the log."""
    others: set[int] = set()
    for file in job.store.indexes:
        if file is not index.file:
            others.update(job.index(file).offsets[1:].tolist())
    own = sorted(set(index.offsets[1:].tolist()) - others)
    return own[0] if own and job.record_at(own[0]) is not None else None


@damage("I1", causes=(RuleName.INDEX_GONE,), needs="an index file", alone=True)
def index_gone(job: Job) -> None:
    """All index files are missing."""
    job.index_file(
        "index file whose records are in the log",
        lambda item: job.record_at(int(item.offsets[item.used])) is not None,
    )
    for file in job.store.indexes:
        job.editor.remove(file.relative)
    job.note = "every index file removed"
    job.promise(RuleName.INDEX_GONE, PromisedPlace("index"))


assert _INT.size == indexfile.SLOT_SIZE
