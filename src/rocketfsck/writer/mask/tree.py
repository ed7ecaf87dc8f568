"""The masked copy of a store: a new tree with the same files, sizes and times. The store is only read.

    commitlog                    records masked one by one, all else as noise, but for the frames of records
    consumequeue, timer log      tag codes and hashes of topics computed again; directories have pseudonyms
    index                        key hashes computed again, and the chains with them
    times                        as they are, or all of them others by one map (`moved.py`)
    timer wheel                  as it is; with other times its slots are elsewhere
    config                       the texts of the JSON masked
    strays                       their names masked, their length kept, empty
    databases, tiered storage    left out, and said

Nothing here follows a link. Memory is one log file's, and some hundred bytes for each record: its hashes.
A file that is longer than a broker's files are is left out, and said: an archive has no holes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TypeVar

from rocketfsck.errors import StoreError
from rocketfsck.formats import dtypes, indexfile, javatext, timer
from rocketfsck.progress import phase
from rocketfsck.reader.configs import CONFIG_LIMIT
from rocketfsck.reader.timers import PRECISION_SETTING, known_precision
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.log.resync import Region, RegionKind
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import log_options
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.model import MappedFile, OtherKind, Store, StoreFile
from rocketfsck.store.reading import FileReader
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace
from rocketfsck.writer.mask import hashes, moved
from rocketfsck.writer.mask.names import Pseudonyms, Times
from rocketfsck.writer.mask.record import mask_json, mask_record, mask_rest

Blocks = Iterable[tuple[int, bytes | bytearray]]
"""What a file holds, with the position of each piece."""

_PLAIN_OTHERS = frozenset({OtherKind.EPOCH, OtherKind.ABORT_BACKUP})
_TIMED_OTHERS = frozenset({OtherKind.TIMER_WHEEL, OtherKind.TIMER_CHECK})
_JSON_OTHERS = frozenset({OtherKind.BROKER_IDENTITY, OtherKind.COMPACTION_CHECKPOINT})
_CODED_OTHERS = frozenset({OtherKind.TIMER_LOG, OtherKind.COMPACTION_CQ})
_QUEUE_AREAS = ("consumequeue", "batchconsumequeue", "consumequeue_ext")
_FINE = frozenset({RegionKind.RECORDS, RegionKind.ZERO})
_INDEX = "index"
_DEEP_AREAS = ("compaction",)
_BLOCK = 1 << 20
_BLANK_HEAD = 8
LENGTH_LIMIT = (1 << 31) - 1
"""Bytes of the longest file of the log that is copied: a broker maps files, with 32-bit lengths."""
CODED_LIMIT = 1 << 29
"""The same of a file of units or entries, which is in memory as a whole: an index file has 420 MB."""
TIMED_LIMIT = timer.TIMER_WHEEL_SIZE
"""The same of a checkpoint, and of what timers have besides their log: all have one length each."""
_PAGE = 4096
"""What is taken after a file's last byte that is not zero: no structure there is longer."""
_KEPT_SUFFIXES = frozenset({".tmp", ".bak", ".json", ".gz", ".log", ".txt"})


@dataclass(slots=True)
class Masked:
    """What became of a store: the files that were copied, and those that were left out, with the reason."""

    copied_count: int = 0
    left_out: list[tuple[str, str]] = field(default_factory=list)


def copied_size(store: Store) -> int:
    """Bytes of the store's files on disk, holes left out."""
    return sum(file.allocated_size for file in store.all_files())


def mask_store(store: Store, target: Path, names: Pseudonyms) -> Masked:
    """Write the masked copy of a store to `target`, an empty directory or one that is made.

    Raises StoreError for a file of the store that cannot be read, OSError where the copy cannot be written.
    """
    done = Masked()
    root = fileops.open_directory(target)
    strays, masks, stored = stray_names(store), hashes.HashMasks(names.secret), moved.StoreTimes(names.times)
    with phase("masking the commit log", sum(file.size for file in store.commitlog.files)):
        for log in store.commitlog.files:
            if log.in_entries:
                done.left_out.append(("commitlog", "the log of a DLedger group is not masked"))
                continue
            if log.size > LENGTH_LIMIT:
                continue
            _write(log, root / "commitlog" / log.name, _masked_log(store, log, names), names.times)
            was = _hashes(store, log, log.path)
            masks.learn(was, _hashes(store, log, target / "commitlog" / log.name))
            stored.learn(was.offset, was.store_timestamp)
            done.copied_count += 1
    small = (
        _coded_files(store, names, masks, stored),
        ((file, _blocks(file)) for file in _plain_files(store)),
        _timed_files(store, names.times),
        ((file, _masked_config(file, names)) for file in _json_files(store)),
    )
    for file, blocks in chain.from_iterable(small):
        _write(file, root / masked_path(file.relative, names), blocks, names.times)
        done.copied_count += 1
    for other in store.others:
        if other.kind not in _PLAIN_OTHERS | _TIMED_OTHERS | _JSON_OTHERS | _CODED_OTHERS:
            done.left_out.append((str(other.kind), "files of this kind are not masked"))
    for files, limit in _limits(store):
        long = (file for file in files if file.size > limit)
        done.left_out += [(masked_path(file.relative, names), _too_long(limit)) for file in long]
    done.left_out = list(dict.fromkeys(done.left_out))
    for stray in store.strays:
        found = store.root / stray.relative
        shown = masked_path(stray.relative, names, strays)
        if not found.is_file() or found.is_symlink():
            done.left_out.append((shown, "only regular files are copied"))
        elif found.stat().st_size > LENGTH_LIMIT:
            done.left_out.append((shown, _too_long(LENGTH_LIMIT)))
        else:
            place = root / shown
            fileops.make_directories(place.parent)
            fileops.create(place, found.stat().st_size)
            done.copied_count += 1
    return done


def masked_path(relative: str, names: Pseudonyms, strays: frozenset[str] = frozenset()) -> str:
    """The path of a file in the copy: topics and `strays` have pseudonyms, index files new times."""
    if relative.startswith("/"):  # of a commit log path outside of the store
        return f"commitlog/{relative.rpartition('/')[2]}"
    first, *rest = relative.split("/")
    if relative in strays:
        *above, last = relative.split("/")
        stem, dot, suffix = last.rpartition(".")
        kept = dot + suffix if dot + suffix in _KEPT_SUFFIXES else ""
        stem = stem if kept else last
        shaped = os.fsdecode(names.shape(os.fsencode(stem))) + kept
        return masked_path("/".join([*above, "0"]), names)[:-1] + shaped
    if first in _QUEUE_AREAS and rest:
        return "/".join([first, _masked_name(rest[0], names), *rest[1:]])
    if first == _INDEX and rest:
        return "/".join([first, *rest[:-1], names.index_name(rest[-1])])
    if first in _DEEP_AREAS and len(rest) > 1:
        return "/".join([first, rest[0], _masked_name(rest[1], names), *rest[2:]])
    return relative


def stray_names(store: Store) -> frozenset[str]:
    """The paths of what does not belong to the store."""
    return frozenset(stray.relative for stray in store.strays)


def _masked_name(name: str, names: Pseudonyms) -> str:
    return os.fsdecode(names.raw(os.fsencode(name)))


def _hashes(store: Store, file: MappedFile, path: Path) -> hashes.FileHashes:
    """The hashes in a log file of the store, or in its copy, which is at `path`."""
    options = log_options(store, file, read_bodies=False, index_tags=True)
    with FileReader(path) as reader:
        start = file.start_offset or 0
        scanned = scan_log_file(reader, start, options, QueueTable())
        return hashes.file_hashes(scanned, start)


def _coded_files(
    store: Store, names: Pseudonyms, masks: hashes.HashMasks, stored: moved.StoreTimes
) -> Iterator[tuple[StoreFile, Blocks]]:
    """The files that hold hashes, with those of the copy, and its times."""
    times = names.times
    ext_places: dict[tuple[str, int], set[int]] = {}
    for queue in store.queues:
        places = ext_places.setdefault((queue.topic, queue.queue_id), set())
        for file in _short(queue.files, CODED_LIMIT):
            data = _content(file)
            places.update(hashes.mask_units(data, dtypes.unit_dtype(queue.kind), masks).tolist())
            if not times.stay:
                moved.move_units(data, dtypes.unit_dtype(queue.kind), stored)
            yield file, [(0, data)]
    for ext in store.ext_queues:
        for file in _short(ext.files, CODED_LIMIT):
            data, start = _content(file), file.start_offset or 0
            wanted = sorted(ext_places.get((ext.topic, ext.queue_id), set()))
            found = hashes.mask_ext(data, [place - start for place in wanted], masks, names)
            moved.move_ext(data, found, times)
            yield file, [(0, data)]
    end: int | None = None
    for number, index in enumerate(store.indexes):
        if index.size > CODED_LIMIT:
            continue
        data = _content(index, indexfile.slot_pos(store.geometry.slot_count))
        slots, seed = max(store.geometry.slot_count, 1), int.from_bytes(names.secret) + number
        counts = store.dialect.counts_entries_in_hash_slot_count
        hashes.mask_index(data, slot_count=slots, counts_entries=counts, masks=masks, seed=seed)
        end = moved.move_index(data, slots, stored, end)
        yield index, [(0, data)]
    for other in store.others:
        for item in _short(other.files, CODED_LIMIT) if other.kind in _CODED_OTHERS else ():
            data = _content(item)
            if other.kind is OtherKind.TIMER_LOG:
                hashes.mask_timer_log(data, masks, names)
                moved.move_timer_log(data, times)
            else:
                hashes.mask_units(data, dtypes.BATCH_UNIT_DTYPE, masks, in_log=False)
                if not times.stay:
                    moved.move_units(data, dtypes.BATCH_UNIT_DTYPE, stored, in_log=False)
            yield item, [(0, data)]


_File = TypeVar("_File", bound=StoreFile)


def _short(files: Iterable[_File], limit: int) -> Iterator[_File]:
    return (file for file in files if file.size <= limit)


def _too_long(limit: int) -> str:
    return f"the file is longer than {limit:,} bytes"


def _limits(store: Store) -> Iterator[tuple[Iterable[StoreFile], int]]:
    """The files of a store, and how long those are at most that are copied."""
    yield store.commitlog.files, LENGTH_LIMIT
    yield (file for file in (store.abort, store.lock) if file is not None), CONFIG_LIMIT
    yield store.configs, CONFIG_LIMIT
    for queue in store.queues:
        yield queue.files, CODED_LIMIT
    for ext in store.ext_queues:
        yield ext.files, CODED_LIMIT
    yield store.indexes, CODED_LIMIT
    yield (file for file in (store.checkpoint,) if file is not None), TIMED_LIMIT
    for other in store.others:
        if other.kind in _CODED_OTHERS:
            yield other.files, CODED_LIMIT
        elif other.kind in _PLAIN_OTHERS | _JSON_OTHERS:
            yield other.files, CONFIG_LIMIT
        elif other.kind in _TIMED_OTHERS:
            yield other.files, TIMED_LIMIT


def _content(file: StoreFile, least: int = 0) -> bytearray:
    """What a file holds: its first `least` bytes, and all up to its last byte that is not zero. Zeros follow
    as far as a structure may go that ends in zeros; holes are not read. Raises StoreError."""
    with FileReader(file.path) as reader:
        data = bytearray(min(max(reader.used_end() + _PAGE, least), reader.size))
        for pos, chunk in reader.data_chunks(0, len(data)):
            data[pos : pos + len(chunk)] = chunk
    return data


def _timed_files(store: Store, times: Times) -> Iterator[tuple[StoreFile, Blocks]]:
    """The files of times and places alone, with the times of the copy."""
    if store.checkpoint is not None and store.checkpoint.size <= TIMED_LIMIT:
        data = _content(store.checkpoint)
        ends = [(file.start_offset or 0) + file.size for file in store.commitlog.files]
        moved.move_checkpoint(data, times, max(ends, default=0))
        yield store.checkpoint, [(0, data)]
    precision = timer.DEFAULT_PRECISION_MS if times.stay else _precision(store)
    for other in (other for other in store.others if other.kind in _TIMED_OTHERS):
        for file in _short(other.files, TIMED_LIMIT):
            data = _content(file, timer.TIMER_WHEEL_SIZE)
            if times.stay:
                pass
            elif other.kind is OtherKind.TIMER_CHECK:
                moved.move_timer_check(data, times)
            else:
                moved.move_wheel(data, times, precision)
            yield file, [(0, data)]


def _precision(store: Store) -> int:
    """The length of a wheel's slot (ms), as it is set or shows."""
    stated = javatext.parse_int64(store.settings.get(PRECISION_SETTING) or "")
    if stated in timer.PRECISIONS_MS:
        return stated
    with suppress(StoreError):
        return known_precision(store) or timer.DEFAULT_PRECISION_MS
    return timer.DEFAULT_PRECISION_MS


def _plain_files(store: Store) -> Iterator[StoreFile]:
    yield from (file for file in (store.abort, store.lock) if file is not None and file.size <= CONFIG_LIMIT)
    yield from _short(_other_files(store, _PLAIN_OTHERS), CONFIG_LIMIT)


def _json_files(store: Store) -> Iterator[StoreFile]:
    yield from _short(store.configs, CONFIG_LIMIT)
    yield from _short(_other_files(store, _JSON_OTHERS), CONFIG_LIMIT)


def _other_files(store: Store, kinds: frozenset[OtherKind]) -> Iterator[StoreFile]:
    return (file for other in store.others if other.kind in kinds for file in other.files)


def _blocks(file: StoreFile) -> Iterator[tuple[int, bytes]]:
    with FileReader(file.path) as reader:
        yield from reader.data_chunks()


def _masked_config(file: StoreFile, names: Pseudonyms) -> Iterator[tuple[int, bytes]]:
    with FileReader(file.path) as reader:
        data = reader.read_upto(0, reader.used_end())
    text = data.decode("utf-8", "surrogateescape")
    yield 0, mask_json(text, names).encode("utf-8", "surrogateescape")


def _masked_log(store: Store, file: MappedFile, names: Pseudonyms) -> Iterator[tuple[int, bytearray]]:
    """The file with its records masked. What lies between them is noise, but for zeros and frames."""
    options = log_options(store, file, read_bodies=False)
    table = QueueTable()
    data = _content(file)
    with FileReader(file.path) as reader:
        regions: list[Region] = []
        scanned = scan_log_file(reader, file.start_offset or 0, options, table)
        for found in scanned:
            if isinstance(found, RecordBatch):
                _mask_batch(data, found, names)
            else:
                regions.append(found)
    for region in regions:
        if region.kind in _FINE:
            continue
        start = region.start + (_BLANK_HEAD if region.kind is RegionKind.BLANK else 0)
        if start < region.end:
            data[start : region.end] = mask_rest(bytes(data[start : region.end]), names)
    yield 0, data


_COLUMNS = (
    "pos", "total_size", "sys_flag", "body_pos", "body_size",
    "topic_pos", "topic_size", "properties_pos", "properties_size",
)  # fmt: skip


def _mask_batch(data: bytearray, batch: RecordBatch, names: Pseudonyms) -> None:
    for row in zip(*(batch[name].tolist() for name in _COLUMNS), strict=True):
        pos, size, flags, body, body_size, topic, topic_size, properties, properties_size = row
        record = data[pos : pos + size]
        mask_record(
            record,
            sys_flag=flags & 0xFFFFFFFF,
            body=_span(body - pos, body_size, size),
            topic=_span(topic - pos, topic_size, size),
            properties=_span(properties - pos, properties_size, size),
            names=names,
        )
        data[pos : pos + size] = record


def _span(start: int, length: int, size: int) -> tuple[int, int]:
    """A part of a record, within it whatever its fields state."""
    begin = min(max(start, 0), size)
    return begin, min(begin + max(length, 0), size)


def _write(file: StoreFile, place: ConfinedPlace, blocks: Blocks, times: Times) -> None:
    """A new file of these blocks; zeros become holes. The file has the length and time of its original."""
    fileops.make_directories(place.parent)
    with fileops.held(fileops.create_file(place)) as descriptor:
        for pos, data in blocks:
            for at in range(0, len(data), _BLOCK):
                part = data[at : at + _BLOCK]
                if part.strip(b"\0"):
                    fileops.write_all(descriptor, part, pos + at)
    fileops.truncate(place, file.size)
    modified = times.of_file(file.mtime_ns)
    fileops.set_times(place, modified, modified)
